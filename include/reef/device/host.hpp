#pragma once

#include <reef/device/concept.hpp>
#include <reef/device/detail/host_device.hpp>
#include <reef/device/detail/host_event.hpp>
#include <reef/device/detail/host_lane.hpp>
#include <reef/device/detail/host_memory.hpp>

/// \file
/// The cores of this machine as a device: class Host, its memory, events and queues (lanes).
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

namespace reef {
inline namespace v0 {
namespace device {

static_assert(device<Host>);

}  // namespace device
}  // namespace v0
}  // namespace reef
