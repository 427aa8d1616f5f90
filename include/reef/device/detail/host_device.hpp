#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <mutex>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include <reef/core/error.hpp>
#include <reef/core/finite.hpp>
#include <reef/core/policy_tag.hpp>
#include <reef/device/concept.hpp>
#include <reef/device/cores.hpp>
#include <reef/device/detail/thread_pool.hpp>
#include <reef/device/memory.hpp>

namespace reef {
inline namespace v0 {
namespace device {

/// The cores of this machine as a device. It can pretend to be a small accelerator behind a link.
///
///     end of a copy = max(now, link free) + bytes / link_bytes_per_second + link_latency
///
/// | memory | a budget of Options::memory_bytes for all Buffers together; PinnedBuffers are free.  |
/// | link   | one FIFO for to_device and one for to_host: full duplex. A copy moves its bytes,     |
/// |        | then its lane sleeps until the link would have been done. No burnt cores             |
/// | speed  | with Options::slowdown a lane sleeps after its kernels, as if the cores were slower  |
/// | pool   | one per Host, shared by its lanes; a lane's thread works too, so `threads` is all.   |
/// |        | One line on standard error warns of a process bound to fewer cores than that         |
/// | errors | MemoryError from allocate; what a lane's function throws, see Lane                   |
class Host {
public:
  using policy_tag = DeviceTag;
  static constexpr std::string_view name = "host";
  static constexpr bool on_host = true;

  struct Options {
    Bytes memory_bytes = 0;            ///< 0: as much as there is
    double link_bytes_per_second = 0;  ///< 0: no link, copies take what memory takes
    Seconds link_latency = 0;
    double slowdown = 1;  ///< kernels take so many times as long as the cores need
    int threads = 0;      ///< 0: as many as the affinity mask has cores
    /// Fills memory with NaNs when it is allocated, freed, or left by a segment that was swapped out. Tensors
    /// that cross segments are left alone.
    bool poison_freed = false;

    /// Throws OptionError, naming the first option that cannot be.
    void validate() const {
      const auto require_that = [](bool holds, const char* option, auto value, const char* fix) {
        if (holds) return;
        throw OptionError("reef::device::Host: ", option, " is ", value, ".\n  fix: ", fix);
      };
      require_that(threads >= 0 && threads <= max_threads, "threads", threads,
                   "0 for as many as there are cores, or up to 4096.");
      require_that(within(slowdown, 1, 1e6), "slowdown", slowdown,
                   "1 for the cores' own speed, or up to 1e6 for a slower device.");
      require_that(link_bytes_per_second == 0 || within(link_bytes_per_second, 1, 1e18),
                   "link_bytes_per_second", link_bytes_per_second,
                   "0 for no link, or its bytes per second, from 1 to 1e18.");
      require_that(within(link_latency, 0, 1e6), "link_latency", link_latency,
                   "0, or seconds up to 1e6.");
    }
  };

  class Buffer;
  class PinnedBuffer;
  class Event;
  class Lane;

  Host() : Host(Options{}) {}
  /// Throws OptionError, naming the first option that cannot be, or if there are too few threads.
  explicit Host(Options options)
      : options_(checked(options)),
        ledger_("the host device", options.memory_bytes),
        pool_(threads_of(options)) {
    warn_of_binding(options.threads);
  }
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  /// Device memory, aligned to 64 bytes (2 MiB when large), not initialised. MemoryError when the
  /// budget or the machine has no room.
  Buffer allocate(Bytes bytes, std::string_view what);

  /// Memory on the host's side of the link: not part of the budget.
  PinnedBuffer allocate_pinned(Bytes bytes, std::string_view what);

  [[nodiscard]] MemoryReport memory() const { return ledger_.report(); }
  [[nodiscard]] int threads() const { return pool_.threads(); }

  /// The device's memory is not the host's: messages and files need copies over the link.
  [[nodiscard]] bool discrete() const { return discrete(options_); }
  [[nodiscard]] static bool discrete(const Options& options) {
    return options.memory_bytes != 0 || options.link_bytes_per_second > 0 ||
           options.link_latency > 0;
  }
  [[nodiscard]] Options options() const { return options_; }

private:
  struct Free;
  struct FreePinned;
  using Clock = std::chrono::steady_clock;

  static constexpr Bytes huge_page = Bytes{2} << 20;
  static constexpr int max_threads = 4096;

  static Options checked(const Options& options) {
    options.validate();
    return options;
  }

  static void* obtain(Bytes bytes) {
    const Bytes alignment = bytes >= 2 * huge_page ? huge_page : 64;
    void* const data = ::operator new(static_cast<std::size_t>(bytes),
                                      static_cast<std::align_val_t>(alignment), std::nothrow);
#if defined(__linux__)
    if (data != nullptr && alignment == huge_page) {
      madvise(data, static_cast<std::size_t>(bytes / huge_page * huge_page), MADV_HUGEPAGE);
    }
#endif
    return data;
  }

  static void hand_back(void* data, Bytes bytes) noexcept {
    const Bytes alignment = bytes >= 2 * huge_page ? huge_page : 64;
    ::operator delete(data, static_cast<std::align_val_t>(alignment));
  }

  // When the link of this direction would have moved the bytes, and books it for them.
  Clock::time_point book_link(Copy direction, Bytes bytes) {
    const auto time = [](Seconds s) {
      return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(s));
    };
    const std::lock_guard lock(link_mutex_);
    Clock::time_point& free = link_free_[direction == Copy::to_device ? 0 : 1];
    free = (std::max)(Clock::now(), free);
    if (options_.link_bytes_per_second > 0) {
      free += time(static_cast<double>(bytes) / options_.link_bytes_per_second);
    }
    return free + time(options_.link_latency);
  }

  Options options_;
  MemoryLedger ledger_;
  detail::ThreadPool pool_;
  std::mutex link_mutex_;
  Clock::time_point link_free_[2]{};
  std::atomic<int> failed_lanes_{0};
};

}  // namespace device
}  // namespace v0
}  // namespace reef
