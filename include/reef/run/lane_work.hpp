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
#include <reef/device/concept.hpp>

namespace reef {
inline namespace v0 {
namespace run {

/// Tells the ranks that wait for this one which instruction a lane is at.
///
/// What is repeated until something else has come is no work: it does not bring nearer what others wait for. On a device
/// whose lanes run ahead of it, the lane is at work until what it has recorded last has happened. What waits for messages within an
/// instruction, as a source may, is no work either; on such a device it counts as some.
///
/// | who  | begin and end: the lane; the progress thread asks                     |
/// | cost | begin and end: some relaxed stores and two looks at the clock         |
///
/// \code
/// // given: comm::Progress& progress, device::Host::Event& done, const std::string& name
/// run::LaneWork<device::Host> work(progress);
/// work.begin(name, 20);  // it should take 20 s
/// // ... what takes long ...
/// work.end(done, 1);
/// \endcode
template <device::device Device>
class LaneWork final : private comm::detail::Worker {
public:
  using Event = typename Device::Event;

  explicit LaneWork(comm::Progress& progress) : all_(progress.occupations()) { all_->add(*this); }
  LaneWork(const LaneWork&) = delete;
  LaneWork& operator=(const LaneWork&) = delete;
  ~LaneWork() { all_->remove(*this); }

  /// The lane is at what has that name, which outlives this. `until`, if given: it is repeated until that completion.
  void begin(const std::string& name, Seconds expected, const Event* until = nullptr,
             std::uint64_t epoch = 0) {
    name_.store(&name, std::memory_order_relaxed);
    expected_.store(expected, std::memory_order_relaxed);
    until_epoch_.store(epoch, std::memory_order_relaxed);
    until_.store(until, std::memory_order_relaxed);
    since_.store(comm::detail::now_ns(), std::memory_order_relaxed);
    if constexpr (Device::on_host)
      thread_.store(std::this_thread::get_id(), std::memory_order_relaxed);
    at_.store(true, std::memory_order_release);
  }

  /// It has recorded that completion.
  void end([[maybe_unused]] const Event& recorded, [[maybe_unused]] std::uint64_t epoch) {
    if constexpr (!Device::on_host) {
      recorded_epoch_.store(epoch, std::memory_order_relaxed);
      recorded_.store(&recorded, std::memory_order_release);
    }
    at_.store(false, std::memory_order_release);
  }

private:
  [[nodiscard]] std::optional<comm::detail::Work> work() const override {
    bool works = at_.load(std::memory_order_acquire);
    if constexpr (!Device::on_host) {
      const Event* const recorded = recorded_.load(std::memory_order_acquire);
      works = works || (recorded != nullptr &&
                        !recorded->ready(recorded_epoch_.load(std::memory_order_relaxed)));
    }
    if (!works) return {};
    const Event* const until = until_.load(std::memory_order_relaxed);
    if (until != nullptr && !until->ready(until_epoch_.load(std::memory_order_relaxed))) return {};
    return comm::detail::Work{*name_.load(std::memory_order_relaxed),
                              since_.load(std::memory_order_relaxed),
                              expected_.load(std::memory_order_relaxed)};
  }

  [[nodiscard]] std::thread::id thread() const override {
    return thread_.load(std::memory_order_relaxed);
  }

  std::shared_ptr<comm::detail::Occupations> all_;
  std::atomic<std::thread::id> thread_{};
  std::atomic<bool> at_{false};
  std::atomic<const std::string*> name_{nullptr};
  std::atomic<std::int64_t> since_{0};
  std::atomic<Seconds> expected_{0};
  std::atomic<const Event*> until_{nullptr};
  std::atomic<std::uint64_t> until_epoch_{0};
  std::atomic<const Event*> recorded_{nullptr};
  std::atomic<std::uint64_t> recorded_epoch_{0};
};

}  // namespace run
}  // namespace v0
}  // namespace reef
