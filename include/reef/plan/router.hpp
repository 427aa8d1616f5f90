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
#include <reef/core/text.hpp>
#include <reef/plan/detail/route_cost.hpp>
#include <reef/plan/route.hpp>

namespace reef::inline v0::plan {

/// The quickest way through the blocks of a request, kept while servers come, go and change.
///
///     cost = sum over hops [delay + overhead (+ allocation where the cache is short) + waiting]
///          + sum over blocks [max(1, (occupancy + 1) / batch) / rps] + delay back to the client
///     delay = min(rtt / 2, 5 s), 0.15 s where unknown;  waiting = queue * span / rps
///
/// A server that is entered is left at its own last block, or at the request's. So what lies behind a
/// server depends only on servers that end later: after a change those that it touches are settled in
/// descending order of their ends, each once, and only while something changes.
///
/// | defaults | queue, occupancy 0 and batch 1: the published cost                             |
/// | order    | of equal cost: fewest hops, then the names, in the order of the alphabet       |
/// | answers  | depend on the servers alone, not on what was changed in which order            |
/// | cost     | of a change: servers that end inside the span of one that it touches           |
/// | memory   | a server that has left keeps its name and an empty place, for good             |
/// | errors   | OptionError, naming the field; the router is unchanged                         |
///
/// Source: Borzunov et al., arXiv 2312.08361, section 3.3, as the public code's `min_latency`; Koenig and
/// Likhachev, D* Lite, AAAI 2002. Deviation from that: there are no cycles, so no server is settled twice.
class Router {
  [[nodiscard]] auto by_end() const {
    return [this](int id) { return std::pair(nodes_[at(id)].end, id); };
  }

public:
  explicit Router(RouteRequest request, RouteOptions options = {})
      : request_(request), options_(options) {
    validate(request_);
    validate(options_);
    nodes_.emplace_back();  // the client: from where the request's first block is entered
    nodes_[client].end = request_.start;
    order_.push_back(client);
  }

  /// A server that has come, or what it is now.
  void set(const std::string& name, const RouteServer& server) {
    validate(server, name);
    const int id = intern(name);
    Node& node = nodes_[at(id)];
    const bool needed = server.start < request_.end && server.end > request_.start;
    if (node.is_there &&
        (!needed || server.start != node.server.start || server.end != node.server.end))
      leave(id);
    if (!needed) return;
    const bool is_new = !node.is_there;
    if (!is_new && node.server == server) return;
    const RouteServer before = std::exchange(node.server, server);
    if (is_new) {
      node.is_there = true;
      node.end = server.end;
      order_.insert(
          std::ranges::lower_bound(order_, std::pair(server.end, id), std::less<>(), by_end()), id);
    }
    if (is_new || server.next != before.next) {
      node.delays.clear();
      for (const auto& [other, rtt] : server.next) {
        node.delays.emplace_back(intern(other), detail::picoseconds(detail::delay(rtt, options_)));
      }
      std::ranges::sort(node.delays);
    }
    prepare(id);
    if (is_new || server.next != before.next || server.client_rtt != before.client_rtt)
      look_again(id);
    node.touched = true;
    enqueue(id);
  }

  /// A server that has gone, or is not to be used. One that is not there changes nothing.
  void remove(std::string_view name) {
    const auto found = ids_.find(name);
    if (found != ids_.end() && nodes_[at(found->second)].is_there) leave(found->second);
  }

  /// The quickest route as things are.
  [[nodiscard]] Route route() {
    settle();
    Route route;
    if (nodes_[client].best.cost == none) {
      route.why = why_not();
      return route;
    }
    route.feasible = true;
    route.picoseconds = nodes_[client].best.cost;
    int block = request_.start;
    for (int from = client; nodes_[at(from)].best.next != client;) {
      const int to = nodes_[at(from)].best.next;
      const Node& node = nodes_[at(to)];
      const int end = std::min(node.end, request_.end);
      route.path.push_back({names_[at(to)], block, end});
      route.cost += detail::delay(rtt(from, to), options_) +
                    detail::entry_time(node.server, end - block, request_, options_);
      for (; block < end; ++block) route.cost += detail::block_time(node.server, options_);
      from = to;
      if (end == request_.end) route.cost += detail::delay(node.server.client_rtt, options_);
    }
    return route;
  }

  /// How many ways from a server to another, or from and to the client, were looked at since it was made.
  [[nodiscard]] std::int64_t looked_at() const { return looked_at_; }

private:
  static constexpr int client = 0;
  static constexpr detail::Picoseconds none = std::numeric_limits<detail::Picoseconds>::max();

  /// From a server's end on.
  struct Best {
    detail::Picoseconds cost = none;
    int hops = 0;
    int next = client;

    friend bool operator==(const Best&, const Best&) = default;
  };

  struct Node {
    RouteServer server;
    std::vector<std::pair<int, detail::Picoseconds>> delays;  // to others, by id
    int end = 0;
    detail::Picoseconds client_delay = 0;
    detail::Picoseconds block = 0;
    detail::Picoseconds entry = 0;  // of the whole span
    Best best;
    Best settled;  // as those before it know it
    bool is_there = false;
    bool touched = false;  // what others pay for it has changed
    bool scan = false;     // its best must be looked for among all
  };

  static std::size_t at(int id) { return static_cast<std::size_t>(id); }

  int intern(const std::string& name) {
    const auto [found, is_new] = ids_.emplace(name, static_cast<int>(nodes_.size()));
    if (is_new) {
      nodes_.emplace_back();
      names_.resize(nodes_.size());
      names_.back() = name;
    }
    return found->second;
  }

  void prepare(int id) {
    Node& node = nodes_[at(id)];
    node.client_delay = detail::picoseconds(detail::delay(node.server.client_rtt, options_));
    node.block = detail::picoseconds(detail::block_time(node.server, options_));
    node.entry = detail::picoseconds(
        detail::entry_time(node.server, node.server.end - node.server.start, request_, options_));
  }

  [[nodiscard]] std::optional<Seconds> rtt(int from, int to) const {
    if (from == client) return nodes_[at(to)].server.client_rtt;
    const auto& next = nodes_[at(from)].server.next;
    const auto found = next.find(names_[at(to)]);
    if (found == next.end()) return std::nullopt;
    return found->second;
  }

  [[nodiscard]] detail::Picoseconds delay(int from, int to) const {
    if (from == client) return nodes_[at(to)].client_delay;
    const auto& delays = nodes_[at(from)].delays;
    const auto found = std::ranges::lower_bound(delays, to, std::less<>(),
                                                &std::pair<int, detail::Picoseconds>::first);
    if (found != delays.end() && found->first == to) return found->second;
    return detail::picoseconds(options_.unknown_delay);
  }

  /// From the end of one to the end of all, through the other.
  Best through(int from, int to) {
    ++looked_at_;
    const Node& node = nodes_[at(to)];
    if (node.best.cost == none) return {};
    const int used = std::min(node.end, request_.end) - nodes_[at(from)].end;
    const detail::Picoseconds entry =
        options_.cache_of_used_blocks
            ? detail::picoseconds(detail::entry_time(node.server, used, request_, options_))
            : node.entry;
    return {delay(from, to) + entry + used * node.block + node.best.cost, node.best.hops + 1, to};
  }

  [[nodiscard]] bool before(const Best& a, const Best& b) const {
    if (a.cost != b.cost) return a.cost < b.cost;
    if (a.cost == none) return false;
    if (a.hops != b.hops) return a.hops < b.hops;
    return names_[at(a.next)] < names_[at(b.next)];
  }

  void enqueue(int id) { dirty_.emplace(nodes_[at(id)].end, id); }

  void look_again(int id) {
    nodes_[at(id)].scan = true;
    enqueue(id);
  }

  /// Those that may go on to a server: they end inside its span, and before the request does.
  template <class F>
  void for_each_before(const Node& node, F&& function) {
    const int last = std::min(node.end, request_.end);
    for (auto from = std::ranges::lower_bound(order_, std::pair(node.server.start, client),
                                              std::less<>(), by_end());
         from != order_.end() && nodes_[at(*from)].end < last; ++from) {
      function(*from);
    }
  }

  void leave(int id) {
    Node& node = nodes_[at(id)];
    for_each_before(node, [&](int from) {
      if (nodes_[at(from)].best.next == id) look_again(from);
    });
    order_.erase(
        std::ranges::lower_bound(order_, std::pair(node.end, id), std::less<>(), by_end()));
    dirty_.erase(std::pair(node.end, id));
    node = {};
  }

  /// The best of all that can be gone on to.
  Best scan(int id) {
    const Node& node = nodes_[at(id)];
    if (node.end >= request_.end) {
      ++looked_at_;
      return {node.client_delay, 0, client};
    }
    Best best;
    for (auto to = std::ranges::lower_bound(order_, std::pair(node.end + 1, client), std::less<>(),
                                            by_end());
         to != order_.end(); ++to) {
      if (nodes_[at(*to)].server.start > node.end) continue;
      const Best other = through(id, *to);
      if (before(other, best)) best = other;
    }
    return best;
  }

  /// A server is another way for one that may go on to it.
  void offer(int from, int to) {
    Node& node = nodes_[at(from)];
    if (node.scan) return;
    const Best other = through(from, to);
    if (other == node.best) return;
    if (node.best.next == to && before(node.best, other)) {
      look_again(from);  // its way has become longer: another may be the best now
    } else if (node.best.next == to || before(other, node.best)) {
      node.best = other;
      enqueue(from);
    }
  }

  /// All that was touched, from the last blocks to the first. What a server is settled from ends later.
  void settle() {
    while (!dirty_.empty()) {
      const int id = dirty_.begin()->second;
      dirty_.erase(dirty_.begin());
      Node& node = nodes_[at(id)];
      if (std::exchange(node.scan, false)) node.best = scan(id);
      const bool changed =
          node.best.cost != node.settled.cost || node.best.hops != node.settled.hops;
      node.settled = node.best;
      if (!std::exchange(node.touched, false) && !changed) continue;
      for_each_before(node, [&](int from) { offer(from, id); });
    }
  }

  /// There is a way wherever each block is held: from a server's end to any that holds the next block.
  [[nodiscard]] std::string why_not() const {
    int held = request_.start;  // all before it are
    for (bool more = true; more;) {
      more = false;
      for (const int id : order_) {
        if (id == client || nodes_[at(id)].server.start > held || nodes_[at(id)].end <= held)
          continue;
        held = nodes_[at(id)].end;
        more = true;
      }
    }
    return concat("no server holds block ", held);
  }

  RouteRequest request_;
  RouteOptions options_;
  std::map<std::string, int, std::less<>> ids_;
  std::deque<Node> nodes_;  // which stay where they are when more come
  std::vector<std::string> names_ = std::vector<std::string>(1);
  std::vector<int> order_;  // those that are there and the client, by end and id
  std::set<std::pair<int, int>, std::greater<>> dirty_;  // by end: to be settled
  std::int64_t looked_at_ = 0;
};

}  // namespace reef::inline v0::plan
