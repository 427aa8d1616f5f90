#pragma once

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include <reef/core/thread.hpp>

namespace reef {
inline namespace v0 {
namespace plan::detail {

/// How many threads to use of so many that are asked for, 0 being all cores of this process.
inline int threads_of(int asked) {
  if (asked > 0) return asked;
  return (std::max)(1, static_cast<int>(std::thread::hardware_concurrency()));
}

/// function(0) to function(count - 1), in any order on these threads: what they write must not meet.
/// The first exception is thrown on.
template <class Function>
void in_parallel(int threads, int count, Function function) {
  std::atomic<int> next{0};
  std::exception_ptr error;
  std::mutex guard;
  const auto work = [&] {
    try {
      for (int i = next++; i < count; i = next++) function(i);
    } catch (...) {
      const std::lock_guard lock(guard);
      if (!error) error = std::current_exception();
      next = count;
    }
  };
  std::vector<std::thread> others;
  for (int t = 1; t < (std::min)(threads, count); ++t) {
    try {
      others.push_back(make_thread("reef::plan", work));
    } catch (...) {
      break;  // as many as the system has
    }
  }
  work();
  for (std::thread& other : others) other.join();
  if (error) std::rethrow_exception(error);
}

}  // namespace plan::detail
}  // namespace v0
}  // namespace reef
