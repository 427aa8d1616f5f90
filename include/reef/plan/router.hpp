#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/plan/detail/route_cost.hpp>
#include <reef/plan/route.hpp>

namespace reef {
inline namespace v0 {
namespace plan {

/// A search for the quickest route through servers that hold the requested blocks of a model, updated while servers
/// come, go and change.
///
///     cost = sum over hops [delay + overhead (+ allocation where the cache is short) + waiting]
///          + sum over blocks [max(1, (occupancy + 1) / batch) / rps] + delay back to the client
///     delay = min(rtt / 2, 5 s), 0.15 s where unknown;  waiting = queue * span / rps
///
/// A route that enters a server leaves it at the server's last block, or at the request's. So the cost of the rest
/// of a route depends only on servers that end later: after a change, the affected servers are recomputed in
/// descending order of their ends, each once, until nothing changes.
///
/// | defaults | with queue 0, occupancy 0 and batch 1 the cost is the published one               |
/// | order    | of routes of equal cost, the one with fewest hops, then the first by server names |
/// | answers  | a route depends on the present servers alone, not on the order of changes         |
/// | cost     | a change examines the servers that end inside the span of an affected server      |
/// | memory   | the name and an empty entry of a removed server are kept for good                 |
/// | errors   | OptionError, naming the field; the router is unchanged                            |
///
/// Source: Borzunov et al., arXiv 2312.08361, section 3.3, as the public code's `min_latency`; Koenig and
/// Likhachev, D* Lite, AAAI 2002. Deviation from D* Lite: without cycles, no server is recomputed twice.
///
/// \code
/// plan::Router router({.start = 0, .end = 8});
/// router.set("A", {.start = 0, .end = 8, .rps = 400.0, .client_rtt = 0.2});
/// router.set("B", {.start = 0, .end = 4, .rps = 100.0, .client_rtt = 0.04, .queue = 5});
/// const plan::Route quickest = router.route();
/// \endcode
class Router {
  [[nodiscard]] auto by_end() const {
    return [this](int id) { return std::pair(nodes_[at(id)].end, id); };
  }

public:
  explicit Router(RouteRequest request, RouteOptions options = {});

  /// Adds a server to those that routes may use, or replaces the data of the server with this name.
  void set(const std::string& name, const RouteServer& server);

  /// Removes a server, so that no route uses it. An unknown name changes nothing.
  void remove(std::string_view name);

  /// Returns the quickest route through the present servers; not feasible if no server holds one of the blocks.
  [[nodiscard]] Route route();

  /// Returns the number of hops (between servers, or between the client and a server) that were examined since the
  /// router was constructed.
  [[nodiscard]] std::int64_t examined_hops() const { return examined_hops_; }

private:
  static constexpr int client = 0;
  static constexpr detail::Picoseconds none = (std::numeric_limits<detail::Picoseconds>::max)();

  /// The best rest of a route from a server's last block on: its cost, hops, and next server.
  struct Best {
    detail::Picoseconds cost = none;
    int hops = 0;
    int next = client;

    friend bool operator==(const Best&, const Best&) = default;
  };

  struct Node {
    RouteServer server;
    std::vector<std::pair<int, detail::Picoseconds>> delays;  // the delays to other servers, by id
    int end = 0;
    detail::Picoseconds client_delay = 0;
    detail::Picoseconds block = 0;
    detail::Picoseconds entry = 0;  // the entry cost for the whole span
    Best best;
    Best settled;  // the value of `best` that the servers before it have been told
    bool is_there = false;
    bool touched = false;  // the cost of using it has changed for other servers
    bool scan = false;     // `best` must be searched among all servers
  };

  static std::size_t at(int id) { return static_cast<std::size_t>(id); }

  int intern(const std::string& name);

  void prepare(int id);

  [[nodiscard]] std::optional<Seconds> rtt(int from, int to) const;

  [[nodiscard]] detail::Picoseconds delay(int from, int to) const;

  /// Returns the rest of a route from the last block of server `from` on, of which server `to` is the next.
  Best through(int from, int to);

  [[nodiscard]] bool before(const Best& a, const Best& b) const;

  void enqueue(int id) { dirty_.emplace(nodes_[at(id)].end, id); }

  void look_again(int id);

  /// Calls function(id) for the client and for each server whose last block is inside the range of `node` and before
  /// the end of the request: those from which a route can continue at `node`.
  template <class F>
  void for_each_before(const Node& node, F&& function) {
    const int last = (std::min)(node.end, request_.end);
    for (auto from = std::ranges::lower_bound(order_, std::pair(node.server.start, client),
                                              std::less<>(), by_end());
         from != order_.end() && nodes_[at(*from)].end < last; ++from) {
      function(*from);
    }
  }

  void leave(int id);

  /// Returns the best rest of a route from the last block of server `id` on, over all servers that can be next.
  Best scan(int id);

  /// Considers server `to` as the next one of a route after server `from`.
  void offer(int from, int to);

  /// Recomputes `best` of all changed servers by descending last block, since each depends on servers that end later.
  void settle();

  /// Returns the reason why there is no route: the first block that no server holds.
  [[nodiscard]] std::string why_not() const;

  RouteRequest request_;
  RouteOptions options_;
  std::map<std::string, int, std::less<>> ids_;
  std::deque<Node> nodes_;  // a deque, since nodes must keep their addresses when more come
  std::vector<std::string> names_ = std::vector<std::string>(1);
  std::vector<int> order_;  // the present servers and the client, by end and id
  std::set<std::pair<int, int>, std::greater<>> dirty_;  // the servers to be recomputed, by end and id
  std::int64_t examined_hops_ = 0;
};

}  // namespace plan
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/plan/router.ipp>
#endif
