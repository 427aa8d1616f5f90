#pragma once

#include <atomic>
#include <string_view>
#include <thread>

namespace reef {
inline namespace v0 {
namespace detail {

/// Keeps the calls of an object to one thread at a time.
class OneThread {
public:
  /// Throws OptionError where another thread is in such a call, and says so on standard error, as what two threads
  /// throw mostly ends the program before anybody can tell it. A call within a call is of the same thread, and may be.
  class Entry {
  public:
    Entry(OneThread& all, std::string_view object, std::string_view call);
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;
    ~Entry() {
      if (all_ != nullptr) all_->thread_.store(std::thread::id());
    }

  private:
    OneThread* all_ = nullptr;  ///< null within another call
  };

private:
  std::atomic<std::thread::id> thread_{};
};

}  // namespace detail
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/trainer/detail/one_thread.ipp>
#endif
