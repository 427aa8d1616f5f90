#pragma once

#include <cstdint>

#include <reef/core/config.hpp>
#include <reef/device/transform.hpp>

namespace reef {
inline namespace v0 {
namespace run::detail {

/// A kernel that sets to[i] to from[i], or adds from[i] to to[i] if `adds`; results are rounded to the type To.
template <bool adds, class To, class From>
struct FoldKernel {
  To* to;
  const From* from;

  REEF_RULE template <class At>
  REEF_HOST_DEVICE void operator()(const At& at) const {
    auto sum = at.load(from);
    if constexpr (adds) sum = at.load(to) + sum;
    at.store(to, sum);
  }
};

/// Computes to[i] = from[i], or to[i] + from[i] if `adds`, for n elements, on a device queue.
template <class To, class From, class DeviceLane>
void fold_into(DeviceLane& lane, To* to, const From* from, std::int64_t n, bool adds) {
  if (adds) {
    transform_vectors<To>(lane, n, FoldKernel<true, To, From>{to, from});
  } else {
    transform_vectors<To>(lane, n, FoldKernel<false, To, From>{to, from});
  }
}

}  // namespace run::detail
}  // namespace v0
}  // namespace reef
