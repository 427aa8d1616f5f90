#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include <reef/schedule/program.hpp>
#include <reef/schedule/skeleton.hpp>

namespace reef {
inline namespace v0 {
namespace schedule::detail {

/// What a record of a collective stands for.
inline std::pair<std::vector<Message>, std::vector<Message>> messages_of(const Skeleton& skeleton,
                                                                         const Exchange& exchange) {
  const std::vector<int> members = skeleton.groups[exchange.group].members();
  const auto messages = [&](const std::vector<Portion>& portions) {
    std::vector<Message> result;
    auto member = members.begin();
    for (const Portion& portion : portions) {
      for (std::uint32_t left = portion.members; left > 0; --left) {
        if (*member == skeleton.rank) ++member;
        if (portion.there)
          result.push_back({*member, portion.bytes, exchange.channel, portion.pieces});
        ++member;
      }
    }
    return result;
  };
  return {messages(exchange.sent), messages(exchange.received)};
}

/// The collectives of all ranks, each as one where its members say the same of it.
///
/// On a channel that only collectives use, each rank those of one group, the n-th of each member are one collective, if
/// they are of one scope.
/// All of its messages match if all members have the same sizes by position: of what goes to a member (a
/// reduce-scatter), or of what comes from one (an all-gather). Where that is not so, they are looked at message by
/// message, which also says what is wrong.
class Exchanges {
public:
  struct Start {
    std::uint32_t rank, node;
  };

  /// By rank.
  explicit Exchanges(std::span<const Skeleton> skeletons) : skeletons_(skeletons) {
    for (std::uint32_t r = 0; r < skeletons.size(); ++r) {
      const Skeleton& skeleton = skeletons[r];
      met_.emplace_back(skeleton.exchanges.size());
      for (std::uint32_t n = 0; n < skeleton.nodes.size(); ++n) {
        if (!is_exchange(skeleton, n)) continue;
        channels_[exchange_at({r, n}).channel][r].push_back({r, n});
      }
    }
    std::set<std::uint32_t> shared;  // with messages of their own
    for (const Skeleton& skeleton : skeletons) {
      for (const auto* messages : {&skeleton.sends, &skeleton.receives}) {
        for (const Message& message : *messages) {
          if (!channels_.empty() && channels_.contains(message.channel))
            shared.insert(message.channel);
        }
      }
    }
    for (const auto& [channel, by_rank] : channels_) {
      if (!shared.contains(channel)) meet_all(by_rank);
    }
    channels_.clear();
  }

  /// The node is a collective that is looked at message by message.
  [[nodiscard]] bool is_apart(std::size_t rank, std::size_t node) const {
    const Skeleton& skeleton = skeletons_[rank];
    return is_exchange(skeleton, node) && met_[rank][skeleton.nodes[node].exchange].count == 0;
  }

  [[nodiscard]] std::size_t meetings() const { return starts_.size(); }
  /// That the end of a node waits for.
  [[nodiscard]] std::span<const std::size_t> meetings_of(std::size_t rank, std::size_t node) const {
    const Skeleton& skeleton = skeletons_[rank];
    if (!is_exchange(skeleton, node)) return {};
    const Meetings& met = met_[rank][skeleton.nodes[node].exchange];
    return std::span(met.of).first(met.count);
  }
  /// That a meeting waits for.
  [[nodiscard]] std::span<const Start> starts_of(std::size_t meeting) const {
    return starts_[meeting];
  }

private:
  using ByRank = std::map<std::uint32_t, std::vector<Start>>;
  struct Meetings {
    std::size_t of[2] = {0, 0};
    std::size_t count = 0;  // 0: it is looked at message by message
  };

  static bool is_exchange(const Skeleton& skeleton, std::size_t node) {
    return skeleton.nodes[node].part == Skeleton::Part::instruction &&
           skeleton.nodes[node].exchange != Skeleton::none;
  }
  [[nodiscard]] const Exchange& exchange_at(Start at) const {
    const Skeleton& skeleton = skeletons_[at.rank];
    return skeleton.exchanges[skeleton.nodes[at.node].exchange];
  }
  [[nodiscard]] std::uint32_t scope_at(Start at) const { return skeletons_[at.rank].nodes[at.node].scope; }
  [[nodiscard]] const RankSet& group_at(Start at) const {
    return skeletons_[at.rank].groups[exchange_at(at).group];
  }

  /// All of a channel, if it is all right.
  void meet_all(const ByRank& by_rank) {
    std::vector<std::vector<Start>> collectives;
    std::vector<std::vector<Portion>> sizes;
    std::size_t covered = 0;
    for (const auto& [rank, own] : by_rank) {
      const RankSet& group = group_at(own.front());
      if (group.first() != skeletons_[rank].rank) continue;  // the first of a group speaks for it
      const std::vector<int> members = group.members();
      covered += members.size();
      const std::size_t begin = collectives.size();
      collectives.resize(begin + own.size());
      for (const int member : members) {
        const auto found = by_rank.find(static_cast<std::uint32_t>(member));
        if (found == by_rank.end() || found->second.size() != own.size()) return;
        for (std::size_t n = 0; n < own.size(); ++n) {
          if (group_at(found->second[n]) != group || scope_at(found->second[n]) != scope_at(own[n])) return;
          collectives[begin + n].push_back(found->second[n]);
        }
      }
      for (std::size_t n = begin; n < collectives.size(); ++n) {
        std::optional<std::vector<Portion>> same = same_sizes(collectives[n], true);
        if (!same) same = same_sizes(collectives[n], false);
        if (!same) return;
        sizes.push_back(std::move(*same));
      }
    }
    if (covered != by_rank.size()) return;
    for (std::size_t n = 0; n < collectives.size(); ++n) meet(collectives[n], sizes[n]);
  }

  /// By position, if all members say the same: of what goes to each, or of what comes from each.
  [[nodiscard]] std::optional<std::vector<Portion>> same_sizes(const std::vector<Start>& members,
                                                               bool to) const {
    std::optional<std::vector<Portion>> all;
    for (std::uint32_t position = 0; position < members.size(); ++position) {
      const Exchange& exchange = exchange_at(members[position]);
      const std::vector<Portion>& own = to ? exchange.received : exchange.sent;
      if (own.size() != 1) return std::nullopt;
      std::vector<Portion> sizes =
          with_own(to ? exchange.sent : exchange.received, position, own.front());
      if (all && *all != sizes) return std::nullopt;
      all = std::move(sizes);
    }
    return all;
  }

  static std::vector<Portion> with_own(const std::vector<Portion>& others, std::uint32_t position,
                                       Portion own) {
    std::vector<Portion> result;
    const auto add = [&](Portion portion, std::uint32_t members) {
      if (members == 0) return;
      portion.members = members;
      if (!result.empty() && result.back().is_like(portion)) {
        result.back().members += members;
      } else {
        result.push_back(portion);
      }
    };
    std::uint32_t before = 0;
    bool is_in = false;
    for (const Portion& portion : others) {
      const std::uint32_t ahead = is_in ? 0 : (std::min)(portion.members, position - before);
      add(portion, ahead);
      before += ahead;
      if (!is_in && before == position && ahead < portion.members) {
        add(own, 1);
        is_in = true;
      }
      add(portion, portion.members - ahead);
    }
    if (!is_in) add(own, 1);
    return result;
  }

  /// Between two members there is a message unless neither has a size. Those with one meet: all wait for them. The
  /// others meet too, but only those with a size wait for them.
  void meet(const std::vector<Start>& members, const std::vector<Portion>& sizes) {
    const std::size_t with = starts_.size();
    const bool all = sizes.size() == 1 && sizes.front().there;
    starts_.resize(with + (all ? 1 : 2));
    std::size_t position = 0;
    for (const Portion& portion : sizes) {
      for (std::uint32_t left = portion.members; left > 0; --left, ++position) {
        const Start at = members[position];
        Meetings& met = met_[at.rank][skeletons_[at.rank].nodes[at.node].exchange];
        met = {{with, with + 1}, portion.there && !all ? 2U : 1U};
        starts_[portion.there ? with : with + 1].push_back(at);
      }
    }
  }

  std::span<const Skeleton> skeletons_;
  std::map<std::uint32_t, ByRank> channels_{};
  std::vector<std::vector<Meetings>> met_{};  // by rank and exchange
  std::vector<std::vector<Start>> starts_{};  // by meeting
};

}  // namespace schedule::detail
}  // namespace v0
}  // namespace reef
