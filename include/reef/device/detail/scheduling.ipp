#pragma once

#if defined(__linux__)
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <algorithm>
#include <cstdint>

#include <reef/core/inline.hpp>
#include <reef/device/detail/scheduling.hpp>

namespace reef {
inline namespace v0 {
namespace device::detail {

REEF_INLINE void wake_on_time() {
#if defined(__linux__)
  prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL);
#endif
}

REEF_INLINE void go_first() {
#if defined(__linux__) && defined(SYS_sched_setattr)
  struct {  // sched_attr of <linux/sched/types.h>, which does not go with <sched.h>
    std::uint32_t size, policy;
    std::uint64_t flags;
    std::int32_t nice;
    std::uint32_t priority;
    std::uint64_t runtime, deadline, period;  // ns
  } attributes{};
  if (syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0) != 0) return;
  if (attributes.policy != 0) return;  // the user has chosen another one
  constexpr std::uint64_t reset_on_fork = 1;
  attributes.flags |= reset_on_fork;
  attributes.runtime = 100'000;
  const std::int32_t nice = attributes.nice;
  attributes.nice = (std::max)(nice - 10, -20);
  if (syscall(SYS_sched_setattr, 0, &attributes, 0) == 0) return;
  attributes.nice = nice;
  syscall(SYS_sched_setattr, 0, &attributes, 0);
#endif
}

}  // namespace device::detail
}  // namespace v0
}  // namespace reef
