#pragma once

#include <cstdio>

#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/trainer/detail/one_thread.hpp>

namespace reef {
inline namespace v0 {
namespace detail {

REEF_INLINE OneThread::Entry::Entry(OneThread& all, std::string_view object,
                                    std::string_view call) {
  const std::thread::id own = std::this_thread::get_id();
  std::thread::id found;
  if (all.thread_.compare_exchange_strong(found, own)) {
    all_ = &all;
    return;
  }
  if (found == own) return;
  const OptionError error(
      object, "::", call,
      ": two threads are in calls of one object.\n  why: all ranks make the same calls in the same "
      "order, which threads do not keep.\n  state: this call has done nothing, and the other "
      "thread's goes on.\n"
      "  fix: all calls on one thread, or threads that wait for each other, in the same order on "
      "all ranks.");
  std::fprintf(stderr, "%s\n", error.what());
  std::fflush(stderr);
  throw error;
}

}  // namespace detail
}  // namespace v0
}  // namespace reef
