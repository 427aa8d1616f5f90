#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>

#include <reef/core/inline.hpp>
#include <reef/run/memory.hpp>

namespace reef {
inline namespace v0 {
namespace run {

REEF_INLINE Arenas::Arenas(device::AnyDevice& device, std::span<const schedule::Placement* const> placements) {
  Bytes device_bytes = 0;
  Bytes host_bytes = 0;
  for (const schedule::Placement* placement : placements) {
    device_bytes = (std::max)(device_bytes, placement->device_bytes);
    host_bytes = (std::max)(host_bytes, placement->host_bytes);
  }
  device_ = device.allocate(device_bytes, "the step's device arena");
  host_ = device.allocate_pinned(host_bytes, "the step's host arena");
  const std::unique_ptr<device::AnyLane> lane = device.make_lane("zero");
  lane->submit([&](device::AnyLane& self) { self.fill_zero(device_.data(), device_bytes); });
  lane->synchronize();
  std::fill_n(static_cast<std::byte*>(host_.data()), host_bytes, std::byte{});
}

REEF_INLINE StorageCopy Memory::copy(Part to, Part from, Bytes bytes) const {
  const auto on_device = [&](Part part) {
    return program_.storages[part.storage].place == schedule::Place::device;
  };
  return {at<std::byte>(to.storage) + to.offset, at<std::byte>(from.storage) + from.offset, bytes,
          device::copy_between(on_device(from), on_device(to))};
}

}  // namespace run
}  // namespace v0
}  // namespace reef
