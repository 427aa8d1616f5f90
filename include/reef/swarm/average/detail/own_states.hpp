#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <reef/swarm/average/averaging_peer.hpp>
#include <reef/swarm/core/digest.hpp>
#include <reef/swarm/core/event.hpp>
#include <reef/swarm/core/message.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace detail {

/// The states (weights and optimizer) that a peer keeps for checkpoints, each in a file of its folder:
///
///     {"job":TEXT,"pieces":COUNT,"rounds":ROUNDS}   one line of JSON, then for each piece:
///     SIZE BYTES                                    its size as 8 bytes, the lowest first, and the piece
///
/// A file appears whole, or not at all. What is read is told by its digest, which is the log's to compare.
class OwnStates {
public:
  /// Throws OptionError if the job has checkpoints and the options no StateAccess.
  explicit OwnStates(const AveragingOptions& options);

  /// Returns the digest of the state after so many rounds, which is kept where there is a folder; nothing where the job
  /// has no checkpoint after these. Costs a pass over the state, and an fsync.
  [[nodiscard]] std::optional<core::event::StateKept> keep(std::int64_t rounds) const;
  /// Returns what an earlier process has kept. A file that is not whole, or of another job, is passed over.
  [[nodiscard]] std::vector<core::event::StateFound> found() const;
  /// Returns the pieces of a state that is kept. Throws Error where it is not.
  [[nodiscard]] std::vector<Bulk> read(std::int64_t rounds) const;
  /// Removes what is older than the last checkpoint.
  void remove_before(std::int64_t rounds) const;

private:
  [[nodiscard]] std::filesystem::path file_of(std::int64_t rounds) const;
  [[nodiscard]] std::vector<std::int64_t> rounds_kept() const;

  const AveragingOptions& options_;
};

}  // namespace detail
}  // namespace swarm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swarm/average/detail/own_states.ipp>
#endif
