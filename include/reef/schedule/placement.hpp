#pragma once

#include <cstdint>
#include <vector>

#include <reef/schedule/detail/occupancy.hpp>
#include <reef/schedule/program.hpp>

namespace reef {
inline namespace v0 {
namespace schedule {

/// The offset of every block of memory of a program in the arena (device or host) that contains it, fixed before the
/// first step: no memory is allocated while the program runs, so the peak is known exactly.
struct Placement {
  /// By storage (block of memory): its offset in the arena; 0 for a part of another storage.
  std::vector<Bytes> offset{};
  Bytes device_bytes = 0;  ///< size in bytes of the program's device memory
  Bytes host_bytes = 0;    ///< size in bytes of the program's pinned host memory

  [[nodiscard]] Bytes arena_bytes(Place place) const {
    return place == Place::device ? device_bytes : host_bytes;
  }

  /// Returns the offset at which a storage (a block of memory or a part of one) begins in its arena.
  [[nodiscard]] Bytes address(const Program& program, StorageId id) const;

  /// Returns the address of each storage (block of memory) in one address space, in which the host's arena follows the
  /// device's.
  [[nodiscard]] std::vector<Bytes> addresses(const Program& program) const;
};

namespace detail {

/// Returns the address that each storage would have if all independent blocks of memory were stored one after another.
std::vector<Bytes> addresses_by_region(const Program& program);

/// The lifetimes of a program's regions (independent blocks of memory): which regions are in use, and which of two
/// certainly needs its bytes no more before the other needs any, whatever the speed of the lanes. A region that an
/// instruction waits for (Instruction::after) is alive up to that instruction, so that it does not wait for another
/// region that reuses the bytes. A region that a lane with posted transfers accesses is alive to the end of the round;
/// only slots of a ring (transfer_slots) are reused earlier.
class Lifetimes {
public:
  explicit Lifetimes(const Program& program);

  /// Returns true if the region (block of memory) needs bytes: an instruction uses it, or it is reserved or persistent.
  [[nodiscard]] bool alive(StorageId region) const {
    return !regions_[region].of_round || regions_[region].used;
  }

  /// Returns true if two regions (blocks of memory) must have different bytes, since their lifetimes overlap.
  [[nodiscard]] bool meet(StorageId a, StorageId b) const;

  /// Returns the lifetime of a region (block of memory), which must be in use.
  [[nodiscard]] Lifetime of(StorageId region) const { return regions_[region].life; }

private:
  struct Region {
    Place place = Place::device;
    /// True if the region is needed within one run of the program only, and may share its bytes with other regions.
    bool of_round = false;
    bool used = false;
    Lifetime life{};
  };

  /// Extends the lifetimes of regions that hold a value before a loop to its end: each iteration may read them, so no
  /// region of the loop may reuse their bytes.
  void keep_through(const Repeat& repeat);

  const Program& program_;
  std::vector<Region> regions_;
};

}  // namespace detail

/// Assigns an offset in device or host memory to every region (block of memory) of a program. Two regions share bytes
/// only if one is certainly no longer used when the other begins to be used: sharing never makes a queue wait that
/// would not wait anyway.
///
/// Reserved and persistent regions come first, in the order of the program's storages, so that programs which
/// begin with the same storages agree on their offsets. The other regions follow, the largest first, regions
/// of one size in the order of their first use, each at the lowest offset where it overlaps no region that is
/// alive with it: so regions of one size on one lane need only as many places as are alive at one time.
/// `looked_at`, if given, is set to the number of regions that were examined in the search for offsets.
///
/// | cost  | O(accesses * log storages), plus for each region the entries that the search examines: about |
/// |       | log(regions) where a pattern repeats, as that of micro-batches does                          |
/// | order | deterministic: equal programs get equal placements                                           |
///
/// \code
/// // given: const schedule::Program& program
/// const schedule::Placement placement = schedule::place(program);
/// const Bytes peak = placement.arena_bytes(schedule::Place::device);
/// \endcode
Placement place(const Program& program, std::uint64_t* looked_at = nullptr);

/// Returns true if two programs need the same memory offsets: their queues access the same memory blocks (storages).
/// Messages, costs and names may differ.
///
/// | cost | O(accesses + storages) at most: much less than that of place() |
bool placed_alike(const Program& a, const Program& b);

/// Returns the largest number of bytes of device or host memory that are in use at one instruction, in the order of the
/// program: a lower bound of the arena that `place` computes.
///
/// | cost | O(accesses + storages): much less than that of place() |
Bytes max_live(const Program& program, Place place);

/// Returns true if two storages (blocks of memory) share at least one byte.
bool overlap(const Program& program, const Placement& placement, StorageId a, StorageId b);

}  // namespace schedule
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/schedule/placement.ipp>
#endif
