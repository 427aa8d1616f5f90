#pragma once

#include <cstdint>
#include <vector>

#include <reef/schedule/detail/occupancy.hpp>
#include <reef/schedule/program.hpp>

namespace reef {
inline namespace v0 {
namespace schedule {

/// Where every region lies in the arena of its place, fixed before the first step: nothing is
/// allocated while a round runs, so the peak is exact.
struct Placement {
  std::vector<Bytes> offset{};  ///< by storage; of a region in its arena, 0 for a part
  Bytes device_bytes = 0;       ///< the device arena
  Bytes host_bytes = 0;         ///< the arena of pinned host memory

  [[nodiscard]] Bytes arena_bytes(Place place) const {
    return place == Place::device ? device_bytes : host_bytes;
  }

  /// Where a storage, region or part, begins in the arena of its place.
  [[nodiscard]] Bytes address(const Program& program, StorageId id) const;

  /// Where each storage begins, in one space: the host's arena behind the device's.
  [[nodiscard]] std::vector<Bytes> addresses(const Program& program) const;
};

namespace detail {

/// Where each storage would begin were all regions to lie one behind the other.
std::vector<Bytes> addresses_by_region(const Program& program);

/// Which regions are alive, and which of two is certainly done with its bytes before the other
/// begins, whatever the speed of the lanes. What a lane with posted transfers touches is done with them at the end
/// of the round: rings of slots say otherwise.
class Lifetimes {
public:
  explicit Lifetimes(const Program& program);

  /// Something uses the region, or it is kept whether or not something does.
  [[nodiscard]] bool alive(StorageId region) const {
    return !regions_[region].of_round || regions_[region].used;
  }

  /// Their bytes must differ.
  [[nodiscard]] bool meet(StorageId a, StorageId b) const;

  /// Of a region that is alive.
  [[nodiscard]] Lifetime of(StorageId region) const { return regions_[region].life; }

private:
  struct Region {
    Place place = Place::device;
    bool of_round = false;  ///< it may share its bytes
    bool used = false;
    Lifetime life{};
  };

  /// What was there before a loop, each of its iterations may read: to its end nothing in it takes
  /// the bytes.
  void keep_through(const Repeat& repeat);

  const Program& program_;
  std::vector<Region> regions_;
};

}  // namespace detail

/// Gives every region an offset, and the same bytes to regions of which one is certainly done before
/// the other begins: sharing never makes a lane wait that would not wait anyway.
///
/// What is reserved or persistent comes first, in the order of the program's storages, so that
/// programs which begin with the same storages agree on where those lie. The other regions are
/// taken largest first, of one size in the order in which they are first used, and put at the lowest offset that no
/// region they meet holds: so regions of one size that one lane uses take no more places than are alive at one time. `looked_at`, if
/// given, becomes how many regions were looked at for that.
///
/// | cost   | O(accesses * log storages), and for each region what Occupancy looks at: log regions where     |
/// |        | the same comes again and again, as micro-batches do                                           |
/// | order  | deterministic: equal programs get equal placements                                            |
///
/// \code
/// // given: const schedule::Program& program
/// const schedule::Placement placement = schedule::place(program);
/// const Bytes peak = placement.arena_bytes(schedule::Place::device);
/// \endcode
Placement place(const Program& program, std::uint64_t* looked_at = nullptr);

/// The programs have the same placement: what they do on their lanes they do to the same storages. Messages, costs and
/// names may differ.
///
/// | cost | O(accesses + storages) at most: much less than placing |
bool placed_alike(const Program& a, const Program& b);

/// The most bytes of a place that are alive at one instruction, in the order of the program: no arena that
/// placing makes is smaller.
///
/// | cost | O(accesses + storages): much less than placing |
Bytes most_live(const Program& program, Place place);

/// The two storages share at least one byte.
bool overlap(const Program& program, const Placement& placement, StorageId a, StorageId b);

}  // namespace schedule
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/schedule/placement.ipp>
#endif
