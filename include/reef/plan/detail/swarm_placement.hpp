#pragma once

#include <algorithm>
#include <bit>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

#include <reef/plan/swarm.hpp>

namespace reef {
inline namespace v0 {
namespace plan::detail {

/// How far all blocks are from a throughput, as a whole number: the sum of squared shortfalls, each in 2^-20 of
/// the target, rounded up. 0 means that every block has it.
class Shortfall {
public:
  explicit Shortfall(Throughput target)
      : target_(target),
        shift_((std::max)(
            0, static_cast<int>(std::bit_width(static_cast<std::uint64_t>(target))) - 20)) {}

  [[nodiscard]] std::int64_t of(Throughput t) const {
    if (t >= target_) return 0;
    const std::int64_t missing = ((target_ - t - 1) >> shift_) + 1;
    return missing * missing;
  }
  [[nodiscard]] std::int64_t of(const std::vector<Throughput>& t) const {
    std::int64_t sum = 0;
    for (const Throughput block : t) sum += of(block);
    return sum;
  }

private:
  Throughput target_;
  int shift_;
};

/// Where all servers stand, and what that is worth.
struct SwarmPlacement {
  std::vector<Throughput> t;  // (L,)
  std::vector<int> starts;    // by server
  std::int64_t shortfall = 0;
  int moved = 0;  // servers that stood elsewhere at first

  void relocate(const Swarm& swarm, int server, int start) {
    const auto at = static_cast<std::size_t>(server);
    const SwarmServer& s = swarm.servers[at];
    const auto has_moved = [&] { return s.start != SwarmServer::nowhere && starts[at] != s.start; };
    if (starts[at] != SwarmServer::nowhere) add_to_blocks(t, starts[at], s.length, -s.throughput);
    moved -= has_moved() ? 1 : 0;
    starts[at] = start;
    moved += has_moved() ? 1 : 0;
    add_to_blocks(t, start, s.length, s.throughput);
  }
};

/// The least shortfall that a server can leave when it is added to t, and the start for it, the leftmost of equals.
inline std::pair<std::int64_t, int> least_shortfall(const std::vector<Throughput>& t,
                                                    const SwarmServer& server,
                                                    const Shortfall& shortfall,
                                                    std::vector<std::int64_t>& gains) {
  std::int64_t without = 0;
  gains.resize(t.size());
  for (std::size_t i = 0; i < t.size(); ++i) {
    const std::int64_t now = shortfall.of(t[i]);
    without += now;
    gains[i] = now == 0 ? 0 : now - shortfall.of(t[i] + server.throughput);
  }
  const auto length = static_cast<std::size_t>(server.length);
  std::int64_t gain = 0;
  for (std::size_t i = 0; i < length; ++i) gain += gains[i];
  std::int64_t most = gain;
  std::size_t best = 0;
  for (std::size_t start = 1; start + length <= t.size(); ++start) {
    gain += gains[start + length - 1] - gains[start - 1];
    if (gain > most) {
      most = gain;
      best = start;
    }
  }
  return {without - most, static_cast<int>(best)};
}

/// What a placement is worth: its throughput less the price of its moves; of what serves nothing, the number of
/// blocks that have servers.
struct Worth {
  Throughput throughput = 0;
  int served = 0;

  friend auto operator<=>(const Worth&, const Worth&) = default;
};

inline Worth worth(const SwarmPlacement& placement, std::int64_t price_ppm) {
  constexpr std::int64_t whole = 1'000'000;
  Worth value{slowest_block(placement.t), 0};
  for (const Throughput block : placement.t) value.served += block > 0 ? 1 : 0;
  // In two parts: a throughput times a million may be no number.
  for (int i = 0; i < placement.moved; ++i) {
    const Throughput t = value.throughput;
    value.throughput -= t / whole * price_ppm + t % whole * price_ppm / whole;
  }
  return value;
}

/// How far placements are looked for.
struct PlacementEffort {
  std::int64_t price_ppm = 0;
  int beam = 1;
  int depth = 1;
};

/// From one placement, relocations that each lessen the shortfall, the `beam` placements with the least of it
/// kept after each: the placement of the greatest worth among all that were seen, `best` if none is worth more.
///
/// `order` is that of ids: with equal shortfall the first server's relocation is kept.
inline void search_placements(const Swarm& swarm, const std::vector<int>& order,
                              const SwarmPlacement& first, Throughput target,
                              const PlacementEffort& effort, SwarmPlacement& best) {
  struct Candidate {
    std::int64_t shortfall;
    std::size_t parent;
    int server;
    int start;
  };
  const Shortfall shortfall(target);
  Worth most = worth(best, effort.price_ppm);
  std::vector<SwarmPlacement> beam{first};
  beam.front().shortfall = shortfall.of(first.t);
  std::vector<std::int64_t> gains;
  std::vector<Candidate> candidates;
  for (int depth = 0; depth < effort.depth && !beam.empty(); ++depth) {
    candidates.clear();
    for (std::size_t parent = 0; parent < beam.size(); ++parent) {
      const SwarmPlacement& from = beam[parent];
      std::vector<Throughput> t = from.t;
      for (const int i : order) {
        const SwarmServer& server = swarm.servers[static_cast<std::size_t>(i)];
        const int at = from.starts[static_cast<std::size_t>(i)];
        add_to_blocks(t, at, server.length, -server.throughput);
        const auto [left, start] = least_shortfall(t, server, shortfall, gains);
        add_to_blocks(t, at, server.length, server.throughput);
        if (left < from.shortfall) candidates.push_back({left, parent, i, start});
      }
    }
    std::ranges::stable_sort(candidates, {}, &Candidate::shortfall);
    std::vector<SwarmPlacement> next;
    for (const Candidate& candidate : candidates) {
      if (static_cast<int>(next.size()) == effort.beam) break;
      SwarmPlacement placement = beam[candidate.parent];
      placement.relocate(swarm, candidate.server, candidate.start);
      placement.shortfall = candidate.shortfall;
      const bool is_known = std::ranges::any_of(next, [&](const SwarmPlacement& other) {
        return other.shortfall == placement.shortfall && other.starts == placement.starts;
      });
      if (is_known) continue;
      const Worth value = worth(placement, effort.price_ppm);
      if (value > most) {
        most = value;
        best = placement;
      }
      next.push_back(std::move(placement));
    }
    beam = std::move(next);
  }
}

}  // namespace plan::detail
}  // namespace v0
}  // namespace reef
