#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

#include <reef/device/concept.hpp>
#include <reef/schedule/placement.hpp>
#include <reef/schedule/program.hpp>

namespace reef {
inline namespace v0 {
namespace run {

/// The two arenas that a rank's programs run in: one of the device, one of host memory that copies
/// are fast from. Allocated once; several programs with the same reserved storages share them.
template <device::device Device>
class Arenas {
public:
  /// Throws MemoryError when the device has less than a placement needs. New memory is zero.
  Arenas(Device& device, std::span<const schedule::Placement* const> placements);

  [[nodiscard]] void* base(schedule::Place place) const& {
    return place == schedule::Place::device ? device_.data() : host_.data();
  }
  void base(schedule::Place) const&& = delete;
  [[nodiscard]] Bytes device_bytes() const { return device_.bytes(); }

private:
  typename Device::Buffer device_;
  typename Device::PinnedBuffer host_;
};

template <device::device Device>
Arenas<Device>::Arenas(Device& device, std::span<const schedule::Placement* const> placements) {
  Bytes device_bytes = 0;
  Bytes host_bytes = 0;
  for (const schedule::Placement* placement : placements) {
    device_bytes = (std::max)(device_bytes, placement->device_bytes);
    host_bytes = (std::max)(host_bytes, placement->host_bytes);
  }
  device_ = device.allocate(device_bytes, "the step's device arena");
  host_ = device.allocate_pinned(host_bytes, "the step's host arena");
  typename Device::Lane lane(device, "zero");
  lane.submit([&](typename Device::Lane& self) { self.fill_zero(device_.data(), device_bytes); });
  lane.synchronize();
  std::fill_n(static_cast<std::byte*>(host_.data()), host_bytes, std::byte{});
}

/// A copy between two storages.
struct StorageCopy {
  void* to;
  const void* from;
  Bytes bytes;
  device::Copy direction;

  template <class DeviceLane>
  void operator()(DeviceLane& lane) const {
    lane.copy(to, from, bytes, direction);
  }
};

/// A program with the places of its storages in the arenas.
///
/// \code
/// // given: device::Host& host, const schedule::Program& program, schedule::StorageId x
/// const schedule::Placement placement = schedule::place(program);
/// const schedule::Placement* const all[] = {&placement};
/// const run::Arenas<device::Host> arenas(host, all);
/// const run::Memory<device::Host> memory(program, placement, arenas);
/// float* const elements = memory.at<float>(x);
/// \endcode
template <device::device Device>
class Memory {
public:
  Memory(const schedule::Program& program, const schedule::Placement& placement,
         const Arenas<Device>& arenas)
      : program_(program), placement_(placement), arenas_(arenas) {}

  [[nodiscard]] const schedule::Program& program() const { return program_; }

  /// The first byte of a storage, in device or host memory as it says.
  template <class T = void>
  [[nodiscard]] T* at(schedule::StorageId id) const {
    auto* const base = static_cast<std::byte*>(arenas_.base(program_.storages[id].place));
    return static_cast<T*>(static_cast<void*>(base + placement_.address(program_, id)));
  }

  /// A storage from a byte of it on.
  struct Part {
    schedule::StorageId storage;
    Bytes offset = 0;
  };

  /// A copy of so many bytes, in the direction that the places of both make it.
  [[nodiscard]] StorageCopy copy(Part to, Part from, Bytes bytes) const {
    const auto on_device = [&](Part part) {
      return program_.storages[part.storage].place == schedule::Place::device;
    };
    return {at<std::byte>(to.storage) + to.offset, at<std::byte>(from.storage) + from.offset, bytes,
            device::copy_between(on_device(from), on_device(to))};
  }

private:
  const schedule::Program& program_;
  const schedule::Placement& placement_;
  const Arenas<Device>& arenas_;
};

}  // namespace run
}  // namespace v0
}  // namespace reef
