#pragma once

#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/plan/router.hpp>

namespace reef {
inline namespace v0 {
namespace plan {

REEF_INLINE Router::Router(RouteRequest request, RouteOptions options)
    : request_(request), options_(options) {
  validate(request_);
  validate(options_);
  nodes_.emplace_back();  // the client: from where the request's first block is entered
  nodes_[client].end = request_.start;
  order_.push_back(client);
}

REEF_INLINE void Router::set(const std::string& name, const RouteServer& server) {
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

REEF_INLINE void Router::remove(std::string_view name) {
  const auto found = ids_.find(name);
  if (found != ids_.end() && nodes_[at(found->second)].is_there) leave(found->second);
}

REEF_INLINE Route Router::route() {
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
    const int end = (std::min)(node.end, request_.end);
    route.path.push_back({names_[at(to)], block, end});
    route.cost += detail::delay(rtt(from, to), options_) +
                  detail::entry_time(node.server, end - block, request_, options_);
    for (; block < end; ++block) route.cost += detail::block_time(node.server, options_);
    from = to;
    if (end == request_.end) route.cost += detail::delay(node.server.client_rtt, options_);
  }
  return route;
}

REEF_INLINE int Router::intern(const std::string& name) {
  const auto [found, is_new] = ids_.emplace(name, static_cast<int>(nodes_.size()));
  if (is_new) {
    nodes_.emplace_back();
    names_.resize(nodes_.size());
    names_.back() = name;
  }
  return found->second;
}

REEF_INLINE void Router::prepare(int id) {
  Node& node = nodes_[at(id)];
  node.client_delay = detail::picoseconds(detail::delay(node.server.client_rtt, options_));
  node.block = detail::picoseconds(detail::block_time(node.server, options_));
  node.entry = detail::picoseconds(
      detail::entry_time(node.server, node.server.end - node.server.start, request_, options_));
}

REEF_INLINE std::optional<Seconds> Router::rtt(int from, int to) const {
  if (from == client) return nodes_[at(to)].server.client_rtt;
  const auto& next = nodes_[at(from)].server.next;
  const auto found = next.find(names_[at(to)]);
  if (found == next.end()) return std::nullopt;
  return found->second;
}

REEF_INLINE detail::Picoseconds Router::delay(int from, int to) const {
  if (from == client) return nodes_[at(to)].client_delay;
  const auto& delays = nodes_[at(from)].delays;
  const auto found = std::ranges::lower_bound(delays, to, std::less<>(),
                                              &std::pair<int, detail::Picoseconds>::first);
  if (found != delays.end() && found->first == to) return found->second;
  return detail::picoseconds(options_.unknown_delay);
}

REEF_INLINE Router::Best Router::through(int from, int to) {
  ++examined_hops_;
  const Node& node = nodes_[at(to)];
  if (node.best.cost == none) return {};
  const int used = (std::min)(node.end, request_.end) - nodes_[at(from)].end;
  const detail::Picoseconds entry =
      options_.cache_of_used_blocks
          ? detail::picoseconds(detail::entry_time(node.server, used, request_, options_))
          : node.entry;
  return {delay(from, to) + entry + used * node.block + node.best.cost, node.best.hops + 1, to};
}

REEF_INLINE bool Router::before(const Best& a, const Best& b) const {
  if (a.cost != b.cost) return a.cost < b.cost;
  if (a.cost == none) return false;
  if (a.hops != b.hops) return a.hops < b.hops;
  return names_[at(a.next)] < names_[at(b.next)];
}

REEF_INLINE void Router::look_again(int id) {
  nodes_[at(id)].scan = true;
  enqueue(id);
}

REEF_INLINE void Router::leave(int id) {
  Node& node = nodes_[at(id)];
  for_each_before(node, [&](int from) {
    if (nodes_[at(from)].best.next == id) look_again(from);
  });
  order_.erase(std::ranges::lower_bound(order_, std::pair(node.end, id), std::less<>(), by_end()));
  dirty_.erase(std::pair(node.end, id));
  node = {};
}

REEF_INLINE Router::Best Router::scan(int id) {
  const Node& node = nodes_[at(id)];
  if (node.end >= request_.end) {
    ++examined_hops_;
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

REEF_INLINE void Router::offer(int from, int to) {
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

REEF_INLINE void Router::settle() {
  while (!dirty_.empty()) {
    const int id = dirty_.begin()->second;
    dirty_.erase(dirty_.begin());
    Node& node = nodes_[at(id)];
    if (std::exchange(node.scan, false)) node.best = scan(id);
    const bool changed = node.best.cost != node.settled.cost || node.best.hops != node.settled.hops;
    node.settled = node.best;
    if (!std::exchange(node.touched, false) && !changed) continue;
    for_each_before(node, [&](int from) { offer(from, id); });
  }
}

REEF_INLINE std::string Router::why_not() const {
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

}  // namespace plan
}  // namespace v0
}  // namespace reef
