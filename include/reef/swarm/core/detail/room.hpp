#pragma once

#include <cstddef>
#include <cstdint>

#include <reef/swarm/core/detail/duty.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace core {
namespace detail {

/// The bound on what a peer keeps of rounds, in encoded pieces, whatever is late: of three models.
///
///     own contribution + parts to sum + results <= 3 pieces()
///
/// | first | results of committed rounds that nobody can ask for any more are dropped, also where there is room   |
/// | then  | where there is none: results of the oldest round that this peer has applied, whose weights it can    |
/// |       | give; what came early; results for other contributors; parts that are not summed here; results ahead |
/// |       | of the trainer                                                                                       |
/// | cost  | what is dropped and needed after all is asked for again                                              |
/// | needs | a reducer of k pieces among n members has k (n - 1) parts of others, no more than pieces():          |
/// |       | assign_reducers                                                                                      |
struct Room : Duty {
  void make();

private:
  /// Returns true if a member or a joiner may still lack the results of a round that is committed.
  [[nodiscard]] bool may_be_asked_for(std::int64_t round) const;
  [[nodiscard]] bool is_full() const { return peer.encoded_pieces() > 3 * static_cast<std::size_t>(pieces()); }
  void drop_early();
  void drop_ahead();
};

}  // namespace detail
}  // namespace core
}  // namespace swarm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swarm/core/detail/room.ipp>
#endif
