#pragma once

#include <thread>

#if defined(__linux__)
#include <sched.h>
#endif

namespace reef::inline v0::device {

/// How many cores this process may use: those of its affinity mask.
inline int available_cores() {
#if defined(__linux__)
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
#endif
  const unsigned count = std::thread::hardware_concurrency();
  return count == 0 ? 1 : static_cast<int>(count);
}

}  // namespace reef::inline v0::device
