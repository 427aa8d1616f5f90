#pragma once

#include <reef/comm/meter.hpp>
#include <reef/core/inline.hpp>

namespace reef {
inline namespace v0 {
namespace comm {

REEF_INLINE Cost Meter::total() const {
  Cost sum;
  for (const Cost& cost : kinds) sum = sum + cost;
  return sum;
}

namespace detail {

REEF_INLINE void LiveMeter::message(Kind kind, Bytes bytes) {
  add(kind, 0, 1);
  add(kind, 1, bytes);
}

REEF_INLINE Meter LiveMeter::read() const {
  Meter meter;
  for (std::size_t kind = 0; kind < kind_count; ++kind) {
    const auto& row = counters_[kind];
    meter.kinds[kind] = {row[0].load(std::memory_order_relaxed),
                         row[1].load(std::memory_order_relaxed),
                         row[2].load(std::memory_order_relaxed)};
  }
  return meter;
}

}  // namespace detail

}  // namespace comm
}  // namespace v0
}  // namespace reef
