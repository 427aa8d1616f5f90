#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <reef/core/inline.hpp>
#include <reef/core/units.hpp>
#include <reef/swarm/core/deadlines.hpp>
#include <reef/swarm/core/peer.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace detail {

/// Looks for a round that is not committed in time, for members that do not come, and for weights that nobody can give
/// a peer that joins.
class RoundWatch {
public:
  /// A sentence to report, and whether the peer gives up the job.
  struct Finding {
    std::string what{};
    bool is_over = false;
  };

  /// Returns what there is to report now: of each round once.
  [[nodiscard]] std::optional<Finding> look(const core::Peer& peer, const Deadlines& deadlines, Seconds now);

private:
  /// Returns what is to be said of a first round whose members have not come in time.
  [[nodiscard]] std::optional<Finding> look_at_start(const core::Peer& peer, const Deadlines& deadlines, Seconds now);

  std::optional<Seconds> without_members_{};  ///< since when the first round waits for peers
  std::int64_t reported_ = -1;              ///< the last round that was reported to take too long
  std::optional<Seconds> without_donor_{};  ///< since when nobody is heard who has the weights
};

}  // namespace detail
}  // namespace swarm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swarm/average/detail/round_watch.ipp>
#endif
