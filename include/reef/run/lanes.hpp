#pragma once

#include <array>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include <reef/comm/progress.hpp>
#include <reef/device/any_device.hpp>
#include <reef/schedule/program.hpp>
#include <reef/trace/sink.hpp>

namespace reef {
inline namespace v0 {
namespace run {

/// A switch by which a failed communication releases the round that runs, if one does. The progress thread may outlive
/// the executors, so it holds a switch and never an executor.
class FailureSwitch {
public:
  /// Calls the function that is armed. Any thread.
  void trip() {
    const std::scoped_lock lock(mutex_);
    if (armed_) armed_();
  }
  void arm(std::function<void()> action) {
    const std::scoped_lock lock(mutex_);
    armed_ = std::move(action);
  }

private:
  std::mutex mutex_;
  std::function<void()> armed_;
};

/// The lanes and queues that the programs of one process run on.
///
/// | life | the device and Progress outlive it |
///
/// \code
/// // given: device::Host& host, comm::Progress& progress, trace::Sink& sink
/// run::Lanes lanes(host, progress, &sink);
/// \endcode
struct Lanes {
  std::unique_ptr<device::AnyDevice> any_device;
  std::array<std::unique_ptr<device::AnyLane>, schedule::lane_count> lanes{};  ///< the lanes of the device; null for queues
  std::array<comm::Queue*, schedule::lane_count> queues{};                     ///< the queues of messages; null for lanes
  std::array<trace::Track*, schedule::lane_count> tracks{};                    ///< null without a trace
  trace::Sink* sink;                                                           ///< null without a trace
  std::shared_ptr<FailureSwitch> on_failure;  ///< tripped by the progress thread

  template <device::device Device>
  Lanes(Device& on, comm::Progress& progress, trace::Sink* trace_sink,
        std::shared_ptr<FailureSwitch> failure = std::make_shared<FailureSwitch>())
      : Lanes(device::any_device(on), progress, trace_sink, std::move(failure)) {}
  Lanes(std::unique_ptr<device::AnyDevice> on, comm::Progress& progress, trace::Sink* trace_sink,
        std::shared_ptr<FailureSwitch> failure);
};

}  // namespace run
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/run/lanes.ipp>
#endif
