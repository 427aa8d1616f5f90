#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include <reef/comm/detail/occupations.hpp>
#include <reef/comm/progress.hpp>
#include <reef/core/units.hpp>
#include <reef/device/any_device.hpp>
#include <reef/run/detail/coarse_clock.hpp>

namespace reef {
inline namespace v0 {
namespace run {

/// A record of the instruction that a device queue (lane) runs, which tells the ranks that wait for this rank that it
/// is at work.
///
/// An instruction that is repeated until something else completes does not count as work: it does not advance what
/// other ranks wait for. On a device with asynchronous lanes, the lane is at work until its last recorded event has
/// happened. A wait for messages within an instruction, such as in a source, does not count as work either, except
/// on a device with asynchronous lanes.
///
/// | threads | the lane calls begin and end; the progress thread reads the record |
/// | cost    | some relaxed stores                                                |
///
/// \code
/// // given: comm::Progress& progress, device::AnyEvent& done, const std::string& name
/// run::LaneWork work(progress, true);
/// work.begin(name, run::detail::coarse_now_ns(), 20);  // it should take 20 s
/// // ... what takes long ...
/// work.end(done, 1);
/// \endcode
class LaneWork final : private comm::detail::Worker {
public:
  /// Registers the device queue. `on_host`: true if work is complete when the queue records its event (see
  /// device::device).
  LaneWork(comm::Progress& progress, bool on_host);
  LaneWork(const LaneWork&) = delete;
  LaneWork& operator=(const LaneWork&) = delete;
  ~LaneWork();

  /// Notes that the queue begins an instruction at `since` (nanoseconds of detail::coarse_now_ns()), which should take
  /// `expected` seconds; `name` outlives this object. If `until` is given, the instruction is repeated until this event
  /// has been recorded for `epoch`.
  void begin(const std::string& name, std::int64_t since, Seconds expected, const device::AnyEvent* until = nullptr,
             std::uint64_t epoch = 0) {
    name_.store(&name, std::memory_order_relaxed);
    expected_.store(expected, std::memory_order_relaxed);
    until_epoch_.store(epoch, std::memory_order_relaxed);
    until_.store(until, std::memory_order_relaxed);
    since_.store(since, std::memory_order_relaxed);
    if (on_host_) thread_.store(std::this_thread::get_id(), std::memory_order_relaxed);
    at_.store(true, std::memory_order_release);
  }

  /// Notes that the queue has recorded the completion of its instruction in an event.
  void end(const device::AnyEvent& recorded, std::uint64_t epoch) {
    if (!on_host_) {
      recorded_epoch_.store(epoch, std::memory_order_relaxed);
      recorded_.store(&recorded, std::memory_order_release);
    }
    at_.store(false, std::memory_order_release);
  }

private:
  [[nodiscard]] std::optional<comm::detail::Work> work() const override;
  [[nodiscard]] std::thread::id thread() const override;

  std::shared_ptr<comm::detail::Occupations> all_;
  bool on_host_;
  std::atomic<std::thread::id> thread_{};
  std::atomic<bool> at_{false};
  std::atomic<const std::string*> name_{nullptr};
  std::atomic<std::int64_t> since_{0};
  std::atomic<Seconds> expected_{0};
  std::atomic<const device::AnyEvent*> until_{nullptr};
  std::atomic<std::uint64_t> until_epoch_{0};
  std::atomic<const device::AnyEvent*> recorded_{nullptr};
  std::atomic<std::uint64_t> recorded_epoch_{0};
};

}  // namespace run
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/run/lane_work.ipp>
#endif
