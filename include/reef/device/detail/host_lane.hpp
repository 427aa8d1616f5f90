#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>

#include <reef/device/detail/host_device.hpp>
#include <reef/device/detail/host_event.hpp>
#include <reef/device/detail/scheduling.hpp>
#include <reef/device/detail/worker.hpp>
#include <reef/trace/span.hpp>

namespace reef {
inline namespace v0 {
namespace device {

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

}  // namespace device
}  // namespace v0
}  // namespace reef
