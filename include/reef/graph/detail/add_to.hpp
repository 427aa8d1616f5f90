#pragma once

#include <cstdint>

#include <reef/core/tensor_view.hpp>
#include <reef/device/for_each.hpp>

namespace reef {
inline namespace v0 {
namespace graph::detail {

/// target[i] += source[i].
template <real T>
struct AddTo {
  T* target;
  const T* source;
  REEF_HOST_DEVICE void operator()(std::int64_t i) const { target[i] += source[i]; }

  template <class Lane>
  static void run(Lane& lane, void* target, const AnyView& source) {
    const TensorView<const T> from = source.as<const T>();
    for_each_index(lane, from.size(), AddTo{static_cast<T*>(target), from.data()});
  }
};

}  // namespace graph::detail
}  // namespace v0
}  // namespace reef
