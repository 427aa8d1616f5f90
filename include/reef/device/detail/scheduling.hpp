#pragma once

#include <reef/core/language.hpp>

// How the operating system treats the calling thread. Where something is not to be had nothing changes.

namespace reef {
inline namespace v0 {
namespace device::detail {

/// It is woken on time: timers end to 1 us instead of 50.
void wake_on_time();

/// When it wakes on a core that another thread computes on, it goes first: its time slice is the
/// shortest, which Linux from 6.12 on lets go before longer ones. That needs no rights, and lets it have no
/// more than its share; where the process may (root, CAP_SYS_NICE), it is 10 steps of nice above the usual,
/// so that it also goes first when it has just worked and wakes again. Threads that it makes have the usual
/// slice, and no nice value below 0.
void go_first();

}  // namespace device::detail
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/device/detail/scheduling.ipp>
#endif
