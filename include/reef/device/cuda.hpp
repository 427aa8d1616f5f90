#pragma once

/// \file
/// An NVIDIA GPU as a device: class Cuda, its memory, events and queues (lanes).

#include <reef/device/concept.hpp>
#include <reef/device/detail/cuda_device.hpp>
#include <reef/device/detail/cuda_event.hpp>
#include <reef/device/detail/cuda_lane.hpp>
#include <reef/device/detail/cuda_memory.hpp>

namespace reef {
inline namespace v0 {
namespace device {

static_assert(device<Cuda>);

}  // namespace device
}  // namespace v0
}  // namespace reef
