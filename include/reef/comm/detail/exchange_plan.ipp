#pragma once

#include <reef/comm/detail/exchange_plan.hpp>
#include <reef/core/inline.hpp>

namespace reef {
inline namespace v0 {
namespace comm::detail {

REEF_INLINE std::int64_t ExchangePlan::length(int shard) const {
  const auto at = static_cast<std::size_t>(shard);
  return offsets[at + 1] - offsets[at];
}

REEF_INLINE std::int64_t Pieces::most() const {
  std::int64_t most = 0;
  for (int shard = 0; shard < plan->ranks(); ++shard) most = (std::max)(most, of(shard));
  return most;
}

REEF_INLINE Bytes Pieces::at(int shard, std::int64_t piece) const {
  return static_cast<Bytes>(plan->offsets[static_cast<std::size_t>(shard)] + piece * elements) *
         plan->element;
}

}  // namespace comm::detail
}  // namespace v0
}  // namespace reef
