#pragma once

#include <cstddef>
#include <string>
#include <utility>

#include <reef/core/inline.hpp>
#include <reef/run/lanes.hpp>

namespace reef {
inline namespace v0 {
namespace run {

REEF_INLINE Lanes::Lanes(std::unique_ptr<device::AnyDevice> on, comm::Progress& progress, trace::Sink* trace_sink,
                         std::shared_ptr<FailureSwitch> failure)
    : any_device(std::move(on)), sink(trace_sink), on_failure(std::move(failure)) {
  for (std::size_t i = 0; i < schedule::lane_count; ++i) {
    const auto lane = static_cast<schedule::Lane>(i);
    const std::string name(schedule::name_of(lane));
    if (schedule::communicates(lane)) {
      queues[i] = &progress.queue(name);
    } else {
      // The next communication waits for updates; copies have a link, or engines, of their own.
      lanes[i] = any_device->make_lane(
          name, lane == schedule::Lane::update ? device::Priority::high : device::Priority::normal);
      if (sink != nullptr) tracks[i] = &sink->track(name);
    }
  }
}

}  // namespace run
}  // namespace v0
}  // namespace reef
