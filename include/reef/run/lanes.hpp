#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include <reef/comm/progress.hpp>
#include <reef/device/concept.hpp>
#include <reef/schedule/program.hpp>
#include <reef/trace/sink.hpp>

namespace reef {
inline namespace v0 {
namespace run {

/// What a failed communication lets go: the round that runs, if one does. The progress thread may
/// outlive the executors, so it holds this and never one of them.
class FailureSwitch {
public:
  /// Calls what is armed. Any thread.
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
/// \code
/// // given: device::Host& host, comm::Progress& progress, trace::Sink& sink
/// run::Lanes<device::Host> lanes(host, progress, &sink);
/// \endcode
template <device::device Device>
struct Lanes {
  using Lane = typename Device::Lane;

  std::array<std::unique_ptr<Lane>, schedule::lane_count> lanes{};  ///< null for queues
  std::array<comm::Queue*, schedule::lane_count> queues{};          ///< null for lanes
  std::array<trace::Track*, schedule::lane_count> tracks{};         ///< null for no trace
  trace::Sink* sink;                                                ///< null for no trace
  std::shared_ptr<FailureSwitch> on_failure;  ///< tripped by the progress thread

  Lanes(Device& device, comm::Progress& progress, trace::Sink* trace_sink,
        std::shared_ptr<FailureSwitch> failure = std::make_shared<FailureSwitch>());
};

template <device::device Device>
Lanes<Device>::Lanes(Device& device, comm::Progress& progress, trace::Sink* trace_sink, std::shared_ptr<FailureSwitch> failure)
    : sink(trace_sink), on_failure(std::move(failure)) {
  for (std::size_t i = 0; i < schedule::lane_count; ++i) {
    const auto lane = static_cast<schedule::Lane>(i);
    const std::string name(schedule::name_of(lane));
    if (schedule::communicates(lane)) {
      queues[i] = &progress.queue(name);
    } else {
      // The next communication waits for updates; copies have a link, or engines, of their own.
      lanes[i] = std::make_unique<Lane>(
          device, name,
          lane == schedule::Lane::update ? device::Priority::high : device::Priority::normal);
      if (sink != nullptr) tracks[i] = &sink->track(name);
    }
  }
}

}  // namespace run
}  // namespace v0
}  // namespace reef
