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

namespace reef {
inline namespace v0 {
namespace run {

/// Tells the ranks that wait for this one which instruction a lane is at.
///
/// An instruction that is repeated until something else has come is no work: it does not bring nearer what other ranks
/// wait for. On a device whose lanes run ahead of it, the lane is at work until the event that it recorded last has
/// happened. A wait for messages within an instruction, as a source may have, is no work either; on such a device it
/// counts as work.
///
/// | who  | begin and end: the lane; the progress thread asks                     |
/// | cost | begin and end: some relaxed stores and two looks at the clock         |
///
/// \code
/// // given: comm::Progress& progress, device::AnyEvent& done, const std::string& name
/// run::LaneWork work(progress, true);
/// work.begin(name, 20);  // it should take 20 s
/// // ... what takes long ...
/// work.end(done, 1);
/// \endcode
class LaneWork final : private comm::detail::Worker {
public:
  /// Registers the lane. `on_host`: true if work that the lane records is done by then, as device::device says.
  LaneWork(comm::Progress& progress, bool on_host);
  LaneWork(const LaneWork&) = delete;
  LaneWork& operator=(const LaneWork&) = delete;
  ~LaneWork();

  /// Notes that the lane begins the instruction `name`, which outlives this object. `until`, if given: the instruction
  /// is repeated until that completion.
  void begin(const std::string& name, Seconds expected, const device::AnyEvent* until = nullptr,
             std::uint64_t epoch = 0) {
    name_.store(&name, std::memory_order_relaxed);
    expected_.store(expected, std::memory_order_relaxed);
    until_epoch_.store(epoch, std::memory_order_relaxed);
    until_.store(until, std::memory_order_relaxed);
    since_.store(comm::detail::now_ns(), std::memory_order_relaxed);
    if (on_host_) thread_.store(std::this_thread::get_id(), std::memory_order_relaxed);
    at_.store(true, std::memory_order_release);
  }

  /// Notes that the lane has recorded the completion of its instruction.
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
