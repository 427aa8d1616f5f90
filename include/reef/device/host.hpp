#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <utility>

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include <reef/core/error.hpp>
#include <reef/core/finite.hpp>
#include <reef/core/policy_tag.hpp>
#include <reef/device/concept.hpp>
#include <reef/device/cores.hpp>
#include <reef/device/detail/doorbell.hpp>
#include <reef/device/detail/scheduling.hpp>
#include <reef/device/detail/thread_pool.hpp>
#include <reef/device/detail/worker.hpp>
#include <reef/device/memory.hpp>
#include <reef/trace/span.hpp>

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
///
/// \code
/// // given: const std::vector<float>& weights
/// device::Host host({.memory_bytes = 64_MiB, .link_bytes_per_second = 1e9, .threads = 2});
/// const Bytes bytes = weights.size() * sizeof(float);
/// const device::Host::Buffer buffer = host.allocate(bytes, "weights");
/// device::Host::Lane lane(host, "load");
/// lane.submit([&](device::Host::Lane& own) {
///   own.copy(buffer.data(), weights.data(), bytes, device::Copy::to_device);
/// });
/// lane.synchronize();
/// \endcode
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
      require_that(threads >= 0 && threads <= most_threads, "threads", threads,
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
  using Clock = std::chrono::steady_clock;

  static constexpr Bytes huge_page = Bytes{2} << 20;
  static constexpr int most_threads = 4096;

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

/// Device memory that is freed when this goes. Moved from, it is empty.
class Host::Buffer {
public:
  Buffer() = default;

  [[nodiscard]] void* data() const& { return memory_.get(); }
  void data() const&& = delete;
  [[nodiscard]] Bytes bytes() const { return memory_ ? memory_.get_deleter().bytes : 0; }

private:
  friend class Host;

  struct Release {
    Host* device;
    Bytes bytes;
    std::string what;

    void operator()(void* data) const {
      if (device->options_.poison_freed) std::memset(data, 0xFF, static_cast<std::size_t>(bytes));
      hand_back(data, bytes);
      device->ledger_.give_back(bytes, what);
    }
  };

  Buffer(void* data, Release release) : memory_(data, std::move(release)) {}

  std::unique_ptr<void, Release> memory_;
};

/// Host memory that copies are fast from. Here that is any memory.
class Host::PinnedBuffer {
public:
  PinnedBuffer() = default;

  [[nodiscard]] void* data() const& { return memory_.get(); }
  void data() const&& = delete;
  [[nodiscard]] Bytes bytes() const { return memory_ ? memory_.get_deleter().bytes : 0; }

private:
  friend class Host;

  struct Release {
    Bytes bytes;

    void operator()(void* data) const { hand_back(data, bytes); }
  };

  PinnedBuffer(void* data, Bytes bytes) : memory_(data, Release{bytes}) {}

  std::unique_ptr<void, Release> memory_;
};

inline Host::Buffer Host::allocate(Bytes bytes, std::string_view what) {
  if (bytes == 0) return {};
  Buffer::Release release{this, bytes, std::string(what)};
  ledger_.take(bytes, what);
  void* const data = obtain(bytes);
  if (data == nullptr) {
    ledger_.give_back(bytes, what);
    throw ledger_.refused(bytes, what, "the machine's memory is exhausted");
  }
  if (options_.poison_freed) std::memset(data, 0xFF, static_cast<std::size_t>(bytes));
  return {data, std::move(release)};
}

inline Host::PinnedBuffer Host::allocate_pinned(Bytes bytes, std::string_view what) {
  if (bytes == 0) return {};
  void* const data = obtain(bytes);
  if (data == nullptr) {
    throw ledger_.refused(bytes, what, "the machine's memory is exhausted (pinned)");
  }
  return {data, bytes};
}

/// Counts completions. Completion n has happened when epoch() >= n; ready(0) is always true.
///
/// | order  | what came before a completion is seen by whoever saw that completion            |
/// | threads| all members from any thread; a thread that waits spins at most 50 us, then sleeps |
class Host::Event {
public:
  Event() = default;
  explicit Event(Host& /*device*/) {}
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event() {
    // Whoever waited may destroy the event while signal() is still on its way out.
    while (signalling_.load(std::memory_order_acquire) != 0) detail::pause();
  }

  /// Completions so far.
  [[nodiscard]] std::uint64_t epoch() const { return count_.load(std::memory_order_acquire); }

  /// One more completion.
  void signal() {
    signalling_.fetch_add(1, std::memory_order_relaxed);
    count_.fetch_add(1, std::memory_order_release);
    bell_.ring();
    signalling_.fetch_sub(1, std::memory_order_release);
  }

  [[nodiscard]] bool ready(std::uint64_t epoch) const { return this->epoch() >= epoch; }

  /// Blocks the calling thread until completion `epoch`.
  void synchronize(std::uint64_t epoch) {
    bell_.await([&] { return ready(epoch); }, detail::longest_spin);
  }

private:
  friend class Lane;
  std::atomic<std::uint64_t> count_{0};
  std::atomic<int> signalling_{0};
  detail::Doorbell bell_;
};

/// An in-order queue of functions and the thread that runs them.
///
/// | order  | functions run one after another, in the order of submission                         |
/// | cost   | submit: a lock and, for functions of at most 96 bytes, no allocation                |
/// | errors | an exception stops the lane: what is queued, and what comes before synchronize(),   |
/// |        | is dropped; synchronize() throws it and makes the lane usable again. Lanes of the   |
/// |        | same device that wait() for an event meanwhile stop too, rather than wait for ever  |
/// | life   | the destructor runs what is queued, then joins; it swallows an unclaimed exception  |
class Host::Lane {
public:
  Lane(Host& device, std::string lane_name, Priority priority = Priority::normal)
      : device_(device), worker_(*this, std::move(lane_name), device.failed_lanes_, [priority] {
          detail::wake_on_time();  // emulated links end on time
          if (priority == Priority::high) detail::go_first();
        }) {}
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  /// Queues function(Lane&). From any thread.
  template <class F>
  void submit(F&& function) {
    worker_.submit(std::forward<F>(function));
  }

  /// Blocks until everything submitted so far is done; throws what stopped the lane.
  void synchronize() {
    worker_.synchronize("Host");
    if (auto error = worker_.take_error([] {})) std::rethrow_exception(std::move(error));
  }

  // -- inside a submitted function ---------------------------------------------------------------

  /// Completes the event once what came before on this lane is done: now.
  void record(Event& event) { event.signal(); }

  /// The trace's clock once what came before on this lane is done: now, where a slowed kernel owes no sleep.
  void stamp(Seconds& to) {
    if (owed_ > Clock::duration{}) sleep_owed();
    to = trace::now();
  }

  /// What follows on this lane starts after completion `epoch` of the event.
  void wait(Event& event, std::uint64_t epoch) {
    worker_.await(event.bell_, "Host", [&] { return event.ready(epoch); });
  }

  /// What came before on this lane is done, so the function itself may look at it: it is.
  void settle() {}

  /// Copies, and takes the time of the link where it crosses it. The two ranges must not overlap.
  void copy(void* to, const void* from, Bytes bytes, Copy direction) {
    if (direction == Copy::on_device || direction == Copy::on_host) {
      in_pieces(bytes, [&](Bytes begin, std::size_t size) {
        std::memcpy(static_cast<std::byte*>(to) + begin,
                    static_cast<const std::byte*>(from) + begin, size);
      });
      return;
    }
    const Options& options = device_.options_;
    if (options.link_bytes_per_second <= 0 && options.link_latency <= 0) {
      if (bytes != 0) std::memcpy(to, from, static_cast<std::size_t>(bytes));
      return;
    }
    const auto end = device_.book_link(direction, bytes);
    if (bytes != 0) std::memcpy(to, from, static_cast<std::size_t>(bytes));
    std::this_thread::sleep_until(end);
  }

  /// What was there is not to be read any more: NaNs, where Options::poison_freed says so.
  void poison(void* memory, Bytes bytes) {
    if (bytes == 0 || !device_.options_.poison_freed) return;
    std::memset(memory, 0xFF, static_cast<std::size_t>(bytes));
  }

  void fill_zero(void* to, Bytes bytes) {
    in_pieces(bytes, [&](Bytes begin, std::size_t size) {
      std::memset(static_cast<std::byte*>(to) + begin, 0, size);
    });
  }

  /// Threads of the device's pool.
  [[nodiscard]] int threads() const { return device_.threads(); }

  /// function(part) for every part in [0, parts), on the pool; blocks. The split into parts is the
  /// caller's, so it does not depend on the number of threads.
  template <class F>
  void parallel(std::int64_t parts, F&& function) {
    const bool slowed = device_.options_.slowdown > 1;
    const auto begin = slowed ? Clock::now() : Clock::time_point{};
    device_.pool_.run(
        parts,
        [](void* context, std::int64_t part) {
          (*static_cast<std::remove_reference_t<F>*>(context))(part);
        },
        const_cast<void*>(static_cast<const void*>(std::addressof(function))));
    if (slowed) sleep_out(Clock::now() - begin);
  }

  [[nodiscard]] Host& device() { return device_; }
  [[nodiscard]] const std::string& lane_name() const { return worker_.name(); }

private:
  template <class F>
  void in_pieces(Bytes bytes, const F& function) {
    constexpr Bytes piece = Bytes{1} << 20;
    parallel(static_cast<std::int64_t>(divide_up(bytes, piece)), [&](std::int64_t part) {
      const Bytes begin = static_cast<Bytes>(part) * piece;
      function(begin, static_cast<std::size_t>((std::min)(piece, bytes - begin)));
    });
  }

  // The rest of what a kernel of that time would have taken on a slower device. Short rests gather
  // to a sleep that is worth its wake-up.
  void sleep_out(Clock::duration kernel) {
    constexpr Clock::duration shortest = std::chrono::milliseconds(1);
    owed_ += std::chrono::duration_cast<Clock::duration>(kernel * (device_.options_.slowdown - 1));
    if (owed_ >= shortest) sleep_owed();
  }

  void sleep_owed() {
    const auto begin = Clock::now();
    std::this_thread::sleep_for(owed_);
    owed_ -= Clock::now() - begin;  // a late wake-up is made good
  }

  Host& device_;
  Clock::duration owed_{};       // of the lane's thread: sleep that a slowed kernel still owes
  detail::Worker<Lane> worker_;  // last: its thread uses all of the above
};

static_assert(device<Host>);

}  // namespace device
}  // namespace v0
}  // namespace reef
