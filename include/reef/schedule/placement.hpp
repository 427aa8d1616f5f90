#pragma once

#include <cstdint>
#include <vector>

#include <reef/schedule/detail/occupancy.hpp>
#include <reef/schedule/program.hpp>

namespace reef {
inline namespace v0 {
namespace schedule {

/// The offset of every region in the arena of its place, fixed before the first step: nothing is
/// allocated while a round runs, so the peak is exact.
struct Placement {
  std::vector<Bytes> offset{};  ///< by storage: the offset of a region in its arena; 0 for a part
  Bytes device_bytes = 0;       ///< the size of the device arena
  Bytes host_bytes = 0;         ///< the size of the arena of pinned host memory

  [[nodiscard]] Bytes arena_bytes(Place place) const {
    return place == Place::device ? device_bytes : host_bytes;
  }

  /// Returns the offset at which a storage, region or part, begins in the arena of its place.
  [[nodiscard]] Bytes address(const Program& program, StorageId id) const;

  /// Returns the address of each storage in one space: the host's arena lies behind the device's.
  [[nodiscard]] std::vector<Bytes> addresses(const Program& program) const;
};

namespace detail {

/// Returns the address of each storage if all regions lie one behind the other.
std::vector<Bytes> addresses_by_region(const Program& program);

/// The lifetimes of a program's regions: which regions are alive, and which of two is certainly done with its bytes
/// before the other begins, whatever the speed of the lanes. A region that an instruction waits for
/// (Instruction::after) is alive up to that instruction, so a region that takes its bytes is not waited for too. A
/// region that a lane with posted transfers touches is done with its bytes at the end of the round; rings of slots may
/// be done earlier.
class Lifetimes {
public:
  explicit Lifetimes(const Program& program);

  /// Returns true if an instruction uses the region, or if its life keeps it whether or not one does.
  [[nodiscard]] bool alive(StorageId region) const {
    return !regions_[region].of_round || regions_[region].used;
  }

  /// Returns true if two regions must have different bytes.
  [[nodiscard]] bool meet(StorageId a, StorageId b) const;

  /// Returns the lifetime of a region, which must be alive.
  [[nodiscard]] Lifetime of(StorageId region) const { return regions_[region].life; }

private:
  struct Region {
    Place place = Place::device;
    bool of_round = false;  ///< the region lives for a round, and may share its bytes
    bool used = false;
    Lifetime life{};
  };

  /// Keeps the regions that hold a value before a loop alive to its end: each iteration may read them, so no region of
  /// the loop takes their bytes.
  void keep_through(const Repeat& repeat);

  const Program& program_;
  std::vector<Region> regions_;
};

}  // namespace detail

/// Gives every region an offset. Two regions share bytes if one is certainly done before the other begins: sharing
/// never makes a lane wait that would not wait anyway.
///
/// Reserved and persistent regions come first, in the order of the program's storages, so that
/// programs which begin with the same storages agree on their offsets. The other regions are
/// taken largest first, of one size in the order in which they are first used, and put at the lowest offset that no
/// region they meet holds: so regions of one size that one lane uses take no more places than are alive at one time.
/// `looked_at`, if given, becomes the number of regions that were looked at in the search for offsets.
///
/// | cost   | O(accesses * log storages), and for each region the entries that Occupancy looks at: log       |
/// |        | regions where the same pattern repeats, as that of micro-batches does                         |
/// | order  | deterministic: equal programs get equal placements                                            |
///
/// \code
/// // given: const schedule::Program& program
/// const schedule::Placement placement = schedule::place(program);
/// const Bytes peak = placement.arena_bytes(schedule::Place::device);
/// \endcode
Placement place(const Program& program, std::uint64_t* looked_at = nullptr);

/// Returns true if two programs have the same placement: on their lanes they access the same storages. Their messages,
/// costs and names may differ.
///
/// | cost | O(accesses + storages) at most: much less than placing |
bool placed_alike(const Program& a, const Program& b);

/// Returns the most bytes of a place that are alive at one instruction, in the order of the program: no arena that
/// `place` makes is smaller.
///
/// | cost | O(accesses + storages): much less than placing |
Bytes most_live(const Program& program, Place place);

/// Returns true if two storages share at least one byte.
bool overlap(const Program& program, const Placement& placement, StorageId a, StorageId b);

}  // namespace schedule
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/schedule/placement.ipp>
#endif
