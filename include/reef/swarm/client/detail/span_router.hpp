#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <reef/core/units.hpp>
#include <reef/swarm/core/session_client.hpp>
#include <reef/swarm/serve/served_span.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace detail {

/// Chooses servers for blocks: those that reach furthest, of these the first by name. Servers that failed are avoided
/// for a while, twice as long each time, but where nobody else has a block.
class SpanRouter {
public:
  explicit SpanRouter(Seconds avoid) : avoid_(avoid) {}

  /// Replaces the servers that are there.
  void set(std::vector<ServedSpan> servers) {
    std::sort(servers.begin(), servers.end(),
              [](const ServedSpan& a, const ServedSpan& b) { return a.id < b.id; });
    servers_ = std::move(servers);
  }

  /// Notes that a server was replaced. One that only refused, such as for room, is asked again soon.
  void avoid(const std::string& server, core::HopFailure why, Seconds now) {
    constexpr Seconds soon = 2;
    Avoided& one = avoided_[server];
    if (why == core::HopFailure::refused) {
      one.until = (std::max)(one.until, now + soon);
      return;
    }
    if (now < one.until) return;  // it is avoided already
    one.until = now + avoid_ * static_cast<double>(std::int64_t{1} << (std::min)(one.failures, 6));
    ++one.failures;
  }
  /// Notes that a server has answered.
  void praise(const std::string& server) { avoided_.erase(server); }

  /// Returns servers for the blocks; none where a block has no server.
  [[nodiscard]] std::vector<core::RouteHop> route(const BlockRange& blocks, Seconds now) const {
    std::vector<core::RouteHop> route;
    for (std::int64_t at = blocks.first; at < blocks.last;) {
      const ServedSpan* best = nullptr;
      std::pair<bool, std::int64_t> best_rank{false, 0};
      for (const ServedSpan& one : servers_) {
        if (one.blocks.first > at || one.blocks.last <= at) continue;
        const auto found = avoided_.find(to_text(one.id));
        const bool is_good = found == avoided_.end() || found->second.until <= now;
        const std::pair rank{is_good, (std::min)(one.blocks.last, blocks.last)};
        if (best == nullptr || rank > best_rank) {
          best = &one;
          best_rank = rank;
        }
      }
      if (best == nullptr) return {};
      route.push_back({to_text(best->id), {at, best_rank.second}});
      at = best_rank.second;
    }
    return route;
  }

private:
  struct Avoided {
    Seconds until = -1e9;
    int failures = 0;
  };

  Seconds avoid_;
  std::vector<ServedSpan> servers_{};
  std::map<std::string, Avoided> avoided_{};
};

}  // namespace detail
}  // namespace swarm
}  // namespace v0
}  // namespace reef
