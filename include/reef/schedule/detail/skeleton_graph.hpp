#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/text.hpp>
#include <reef/schedule/detail/exchanges.hpp>
#include <reef/schedule/detail/matching.hpp>
#include <reef/schedule/skeleton.hpp>

namespace reef {
inline namespace v0 {
namespace schedule::detail {

/// Starts and ends of a round of all ranks, and what each waits for. Sends count as rendezvous, so neither end of a
/// message ends before the other starts; of a collective, ends wait for a point that waits for all starts.
///
/// What a point waits for is asked for one by one and never listed, but for messages: their other ends.
class SkeletonGraph {
public:
  /// By rank. Throws ScheduleError when a message has an end missing, or two of different sizes.
  explicit SkeletonGraph(std::span<const Skeleton> skeletons)
      : skeletons_(skeletons), exchanges_(skeletons) {
    std::size_t nodes = 0;
    std::size_t sends = 0;
    std::size_t receives = 0;
    for (const Skeleton& skeleton : skeletons) {
      first_.push_back({nodes, sends, receives});
      nodes += skeleton.nodes.size();
      sends += skeleton.sends.size();
      receives += skeleton.receives.size();
    }
    first_.push_back({nodes, sends, receives});
    receivers_.resize(sends);
    senders_.resize(receives);
    before_.resize(nodes, nothing);
    for (std::size_t r = 0; r < skeletons.size(); ++r) follow_lanes(r);
    match();
  }

  /// Throws ScheduleError with the circle of waits in words, if there is one.
  void validate() const {
    enum : std::uint8_t { unseen, open, done };
    std::vector<std::uint8_t> state(points() + exchanges_.meetings(), unseen);
    struct Frame {
      std::size_t point, next;
    };
    std::vector<Frame> path;
    for (std::size_t root = 0; root < points(); ++root) {
      if (state[root] != unseen) continue;
      path.push_back({root, 0});
      state[root] = open;
      while (!path.empty()) {
        Frame& top = path.back();
        const std::size_t target = wait(top.point, top.next++);
        if (target == nothing) {
          state[top.point] = done;
          path.pop_back();
        } else if (state[target] == unseen) {
          state[target] = open;
          path.push_back({target, 0});
        } else if (state[target] == open) {
          const auto begin = std::find_if(
              path.begin(), path.end(), [&](const Frame& frame) { return frame.point == target; });
          std::vector<std::size_t> circle;
          for (auto frame = begin; frame != path.end(); ++frame) circle.push_back(frame->point);
          throw ScheduleError(words(circle));
        }
      }
    }
  }

private:
  static constexpr std::size_t nothing = ~std::size_t{0};
  using Part = Skeleton::Part;

  struct First {
    std::size_t node, send, receive;
  };

  /// Points are twice a node, and one more for its end; then come the meetings of collectives.
  [[nodiscard]] std::size_t points() const { return 2 * before_.size(); }
  [[nodiscard]] std::size_t rank_of(std::size_t node) const {
    const auto behind =
        std::upper_bound(first_.begin(), first_.end(), node,
                         [](std::size_t value, const First& first) { return value < first.node; });
    return static_cast<std::size_t>(behind - first_.begin()) - 1;
  }
  [[nodiscard]] const Skeleton::Node& node_at(std::size_t r, std::size_t node) const {
    return skeletons_[r].nodes[node - first_[r].node];
  }

  void follow_lanes(std::size_t r) {
    std::array<std::size_t, lane_count> last{};
    last.fill(nothing);
    const std::vector<Skeleton::Node>& nodes = skeletons_[r].nodes;
    for (std::size_t n = 0; n < nodes.size(); ++n) {
      if (nodes[n].part != Part::instruction) continue;
      const std::size_t point = 2 * (first_[r].node + n);
      before_[first_[r].node + n] = std::exchange(last[static_cast<std::size_t>(nodes[n].lane)],
                                                  nodes[n].posted ? point : point + 1);
    }
  }

  void match() {
    Ends ends;
    for (std::size_t r = 0; r < skeletons_.size(); ++r) {
      const Skeleton& skeleton = skeletons_[r];
      for (std::size_t n = 0; n < skeleton.nodes.size(); ++n) {
        const auto add = [&](std::span<const Message> sends, std::span<const Message> receives) {
          const std::uint32_t scope = skeleton.nodes[n].scope;
          for (const Message& m : sends) ends.add_send(skeleton.rank, m, r, n, scope);
          for (const Message& m : receives) ends.add_receive(skeleton.rank, m, r, n, scope);
        };
        add(skeleton.sends_of(n), skeleton.receives_of(n));
        if (!exchanges_.is_apart(r, n)) continue;
        const auto [sends, receives] =
            messages_of(skeleton, skeleton.exchanges[skeleton.nodes[n].exchange]);
        add(sends, receives);
      }
    }
    // The messages of a node in the order in which they are met are not those in which it names them; whose end is
    // whose does not matter to what the node waits for.
    std::vector<std::uint32_t> met(2 * before_.size());
    const auto note = [&](const End& own, const End& other, bool sends) {
      const std::size_t node = first_[own.rank].node + own.instruction;
      const std::size_t start = 2 * (first_[other.rank].node + other.instruction);
      if (exchanges_.is_apart(own.rank, own.instruction)) {
        apart_[node].push_back(start);
        return;
      }
      const Skeleton::Node& at = node_at(own.rank, node);
      const std::size_t k = met[2 * node + (sends ? 1 : 0)]++;
      (sends ? receivers_[first_[own.rank].send + at.first_send + k]
             : senders_[first_[own.rank].receive + at.first_receive + k]) = start;
    };
    ends.match([&](const End& end) { return skeletons_[end.rank].text_of(end.instruction); },
               [&](const End& send, const End& receive) {
                 if (agrees(send.scope)) require_one_group(send, receive);
                 note(send, receive, true);
                 note(receive, send, false);
               });
  }

  /// A loop has the same number of iterations on ranks of which each hears the same ones.
  void require_one_group(const End& a, const End& b) const {
    const auto members = [&](const End& end) {
      const Skeleton& skeleton = skeletons_[end.rank];
      std::set<int> ranks{skeleton.rank};
      const std::uint32_t exchange = skeleton.nodes[end.instruction].exchange;
      if (exchange != Skeleton::none) {  // a group that is stated may have members to whom nothing goes
        for (const Message& message : messages_of(skeleton, skeleton.exchanges[exchange]).first)
          ranks.insert(message.peer);
      }
      for (const Message& message : skeleton.sends_of(end.instruction)) ranks.insert(message.peer);
      return ranks;
    };
    if (members(a) == members(b)) return;
    throw ScheduleError("reef::schedule::verify: ", skeletons_[a.rank].text_of(a.instruction), " and ",
                        skeletons_[b.rank].text_of(b.instruction),
                        " agree about a loop with different ranks.\n  why: they would run different numbers of "
                        "iterations.\n  fix: one group, of which each member exchanges with all others.");
  }

  /// The k-th that a point waits for; nothing behind the last.
  [[nodiscard]] std::size_t wait(std::size_t point, std::size_t k) const {
    if (point >= points()) {
      const auto starts = exchanges_.starts_of(point - points());
      return k < starts.size() ? 2 * (first_[starts[k].rank].node + starts[k].node) : nothing;
    }
    const std::size_t node = point / 2;
    const std::size_t r = rank_of(node);
    const std::size_t n = node - first_[r].node;
    const Skeleton& skeleton = skeletons_[r];
    if (point % 2 == 0) {
      const auto waits = skeleton.waits_of(n);
      if (k < waits.size()) return 2 * first_[r].node + waits[k].point;
      return k == waits.size() ? before_[node] : nothing;
    }
    if (k-- == 0) return point - 1;
    const std::size_t sends = skeleton.sends_of(n).size();
    if (k < sends) return receivers_[first_[r].send + skeleton.nodes[n].first_send + k];
    k -= sends;
    const std::size_t receives = skeleton.receives_of(n).size();
    if (k < receives) return senders_[first_[r].receive + skeleton.nodes[n].first_receive + k];
    k -= receives;
    const auto meetings = exchanges_.meetings_of(r, n);
    if (k < meetings.size()) return points() + meetings[k];
    k -= meetings.size();
    const auto apart = apart_.find(node);
    return apart != apart_.end() && k < apart->second.size() ? apart->second[k] : nothing;
  }

  /// The circle comes last waiter first: each entry waits for the next, the last for the first.
  [[nodiscard]] std::string words(const std::vector<std::size_t>& circle) const {
    std::vector<std::string> steps;
    for (const std::size_t point : circle) {
      if (point >= points()) continue;
      const std::size_t r = rank_of(point / 2);
      const Part part = node_at(r, point / 2).part;
      const bool is_end = point % 2 == 1;
      if (part == Part::join || (part == Part::loop && !is_end)) continue;
      steps.push_back(concat(is_end ? "the end of " : "the start of ",
                             skeletons_[r].text_of(point / 2 - first_[r].node)));
    }
    std::string result = "reef::schedule::verify: the programs deadlock:";
    for (std::size_t i = 0; i < steps.size(); ++i) {
      result += concat("\n  ", steps[i], " waits for ", steps[(i + 1) % steps.size()]);
    }
    return result +
           "\n  fix: give the sends and receives of the two ranks one order, or another lane; let "
           "a "
           "loop run until what does not wait for it.";
  }

  std::span<const Skeleton> skeletons_;
  Exchanges exchanges_;
  std::vector<First> first_{};            // by rank, of what is numbered through all ranks
  std::vector<std::size_t> before_{};     // by node: the point ahead of it on its lane
  std::vector<std::size_t> receivers_{};  // by send: the start at its other end
  std::vector<std::size_t> senders_{};    // by receive
  std::map<std::size_t, std::vector<std::size_t>>
      apart_{};  // by node whose messages are not taken as a whole
};

}  // namespace schedule::detail
}  // namespace v0
}  // namespace reef
