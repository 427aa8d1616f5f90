#pragma once

#include <cstdint>
#include <ctime>

#include <reef/comm/detail/clock.hpp>

namespace reef {
inline namespace v0 {
namespace run {
namespace detail {

/// Returns comm::detail::now_ns() of some milliseconds ago at most: a reading that takes a tenth of the time, for what
/// is told in seconds.
inline std::int64_t coarse_now_ns() {
#ifdef CLOCK_MONOTONIC_COARSE
  ::timespec time{};
  if (::clock_gettime(CLOCK_MONOTONIC_COARSE, &time) == 0) {
    return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
  }
#endif
  return comm::detail::now_ns();
}

}  // namespace detail
}  // namespace run
}  // namespace v0
}  // namespace reef
