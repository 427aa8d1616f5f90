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

/// A switch by which a failed communication releases the run of a program that is in progress, if there is one. The
/// progress thread may outlive the executors, so it holds a switch and never an executor.
class FailureSwitch {
public:
  /// Calls the function that was set, if there is one. Any thread may call it.
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

/// The device queues (lanes) and message queues on which the programs of one process run.
///
/// | life | the device and Progress outlive it |
///
/// \code
/// // given: device::Host& host, comm::Progress& progress, trace::Sink& sink
/// run::Lanes lanes(host, progress, &sink);
/// \endcode
struct Lanes {
  std::unique_ptr<device::AnyDevice> any_device;
  /// Device queues; null at message queues.
  std::array<std::unique_ptr<device::AnyLane>, schedule::lane_count> lanes{};
  std::array<comm::Queue*, schedule::lane_count> queues{};   ///< message queues; null at device queues
  std::array<trace::Track*, schedule::lane_count> tracks{};  ///< trace tracks, one for each queue; null without a trace
  /// The receiver of trace events; null without a trace.
  trace::Sink* sink;
  /// Switch by which the progress thread releases a running program after a failure.
  std::shared_ptr<FailureSwitch> on_failure;

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
