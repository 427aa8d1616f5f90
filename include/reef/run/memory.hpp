#pragma once

#include <cstddef>
#include <span>

#include <reef/device/any_device.hpp>
#include <reef/device/concept.hpp>
#include <reef/schedule/placement.hpp>
#include <reef/schedule/program.hpp>

namespace reef {
inline namespace v0 {
namespace run {

/// The two memory arenas of a rank's programs: one in device memory, one in pinned host memory, from which copies are
/// fast. Allocated once; several programs with the same reserved storages share them.
class Arenas {
public:
  /// Allocates the arenas, filled with zeros, for programs whose memory blocks (storages) have these offsets. Throws
  /// MemoryError when the device has less memory than a placement needs.
  Arenas(device::AnyDevice& device, std::span<const schedule::Placement* const> placements);
  template <device::device Device>
  Arenas(Device& device, std::span<const schedule::Placement* const> placements)
      : Arenas(*device::any_device(device), placements) {}

  [[nodiscard]] void* base(schedule::Place place) const& {
    return place == schedule::Place::device ? device_.data() : host_.data();
  }
  void base(schedule::Place) const&& = delete;
  [[nodiscard]] Bytes device_bytes() const { return device_.bytes(); }

private:
  device::AnyBuffer device_;
  device::AnyBuffer host_;
};

/// A copy between two storages (named blocks of memory), which a device queue runs.
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

/// A program with the addresses of its storages (named blocks of bytes) in the arenas.
///
/// \code
/// // given: device::Host& host, const schedule::Program& program, schedule::StorageId x
/// const schedule::Placement placement = schedule::place(program);
/// const schedule::Placement* const all[] = {&placement};
/// const run::Arenas arenas(host, all);
/// const run::Memory memory(program, placement, arenas);
/// float* const elements = memory.at<float>(x);
/// \endcode
class Memory {
public:
  Memory(const schedule::Program& program, const schedule::Placement& placement,
         const Arenas& arenas)
      : program_(program), placement_(placement), arenas_(arenas) {}

  [[nodiscard]] const schedule::Program& program() const { return program_; }

  /// Returns the address of a storage's (memory block's) first byte, in device or host memory as its `place` says.
  template <class T = void>
  [[nodiscard]] T* at(schedule::StorageId id) const {
    auto* const base = static_cast<std::byte*>(arenas_.base(program_.storages[id].place));
    return static_cast<T*>(static_cast<void*>(base + placement_.address(program_, id)));
  }

  /// The part of a storage (named block of bytes) from the byte at `offset` on.
  struct Part {
    schedule::StorageId storage;
    Bytes offset = 0;
  };

  /// Returns a copy of `bytes` bytes, whose direction follows from where the two storages are, in host or device
  /// memory.
  [[nodiscard]] StorageCopy copy(Part to, Part from, Bytes bytes) const;

private:
  const schedule::Program& program_;
  const schedule::Placement& placement_;
  const Arenas& arenas_;
};

}  // namespace run
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/run/memory.ipp>
#endif
