#pragma once

#include <algorithm>
#include <cmath>
#include <span>

#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/swarm/core/job_state.hpp>
#include <reef/swarm/core/job_summary.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace core {

REEF_INLINE std::int64_t JobState::applied_of(std::int64_t count) const {
  const std::int64_t here = (std::clamp)(count - forgotten, std::int64_t{0}, round() - forgotten);
  return forgotten_applied + std::count_if(rounds.begin(), rounds.begin() + here,
                                           [](const Decided& decided) { return decided.verdict.finite; });
}

REEF_INLINE const JobState::Decided* JobState::decided(std::int64_t number) const& {
  const bool is_here = number >= forgotten && number < round();
  return is_here ? &rounds[static_cast<std::size_t>(number - forgotten)] : nullptr;
}

REEF_INLINE void JobState::forget(std::int64_t count) {
  const std::int64_t until = (std::min)(count, checkpoint ? checkpoint->rounds : 0);
  if (until <= forgotten) return;
  ledger.forget(until);
  forgotten_applied = applied_of(until);
  rounds.erase(rounds.begin(), rounds.begin() + (until - forgotten));
  forgotten = until;
}

REEF_INLINE const Member* JobState::member(const PeerId& id) const& {
  const auto found = std::find_if(members.begin(), members.end(), [&](const Member& m) { return m.id == id; });
  return found == members.end() ? nullptr : &*found;
}

REEF_INLINE std::vector<PeerId> JobState::member_ids() const {
  std::vector<PeerId> ids;
  ids.reserve(members.size());
  for (const Member& member : members) ids.push_back(member.id);
  return ids;
}

REEF_INLINE std::int64_t least_holders(std::int64_t members) {
  return (std::min)(members, (std::max)(std::int64_t{2}, members / 2 + 1));
}

namespace detail {

/// The rules of one kind of entry: each returns the broken rule, or applies the entry and returns an empty text.
struct Rules {
  JobState& state;
  const PeerId& author;

  static bool ascending(std::span<const PeerId> ids) {
    return std::adjacent_find(ids.begin(), ids.end(), [](const PeerId& a, const PeerId& b) { return !(a < b); }) ==
           ids.end();
  }
  [[nodiscard]] bool all_members(std::span<const PeerId> ids) const {
    return std::all_of(ids.begin(), ids.end(), [&](const PeerId& id) { return state.member(id) != nullptr; });
  }
  [[nodiscard]] std::string of_this_round(std::int64_t epoch, std::int64_t round) const {
    if (epoch != state.epoch) return concat("of epoch ", epoch, ", but the view is of epoch ", state.epoch);
    if (round != state.round()) return concat("of round ", round, ", but the next one is ", state.round());
    if (state.member(author) == nullptr) return concat("by ", to_text(author), ", which is no member");
    return {};
  }

  std::string operator()(const Genesis& genesis) const {
    if (state.entries != 0) return "a second genesis";
    if (genesis.global_batch < 1 || genesis.global_batch > max_indices_of_round) return "an impossible global batch";
    if (genesis.parameters < 1 || genesis.piece < 1 || piece_count(genesis) > max_pieces)
      return "no pieces or too many";
    if (genesis.checkpoint < 0) return "checkpoints after a negative number of rounds";
    state.genesis = genesis;
    return {};
  }

  std::string operator()(const ViewEntry& view) const {
    if (view.epoch != state.epoch + 1) return concat("of epoch ", view.epoch, " after ", state.epoch);
    if (view.members.empty()) return "a view of nobody";
    std::vector<PeerId> ids;
    for (const Member& member : view.members) ids.push_back(member.id);
    if (!ascending(ids)) return "members that are not ascending";
    for (std::size_t i = 1; i < ids.size(); ++i) {
      if (ids[i].name == ids[i - 1].name) return concat("two members of the name ", ids[i].name);
    }
    const std::vector<PeerId> before = state.member_ids();
    if (ids == before) return "the same members as before";
    if (std::find(ids.begin(), ids.end(), author) == ids.end()) {
      std::vector<PeerId> others = before;
      std::erase(others, author);
      if (state.member(author) == nullptr || ids != others)
        return "by a peer that is not in it, and does not just leave";
    }
    state.epoch = view.epoch;
    state.members = view.members;
    state.contributors.clear();
    state.reducers = assign_reducers(state.reducers, state.members, piece_count(*state.genesis));
    // Who stays keeps what it took in this round; where nobody of those dealt to is left, the round begins anew.
    const auto stays = [&](const PeerId& id) { return state.member(id) != nullptr; };
    const std::vector<PeerId>& dealt = state.dealing.members();
    if (std::none_of(dealt.begin(), dealt.end(), stays)) {
      state.dealing = state.ledger.deal(ids);
      state.attempt = state.epoch;
    }
    return {};
  }

  std::string operator()(const Exclude& exclude) const {
    if (std::string why = of_this_round(exclude.epoch, exclude.round); !why.empty()) return why;
    const std::vector<PeerId> before = state.targets();
    const std::vector<PeerId>& left = exclude.contributors;
    if (left.empty() || !ascending(left) || left.size() >= before.size() ||
        !std::includes(before.begin(), before.end(), left.begin(), left.end())) {
      return "contributors that are not fewer of those before";
    }
    state.contributors = left;
    return {};
  }

  [[nodiscard]] std::string holders_of(const Commit& commit) const {
    if (!ascending(commit.holders) || !ascending(commit.stragglers) || !all_members(commit.holders) ||
        !all_members(commit.stragglers)) {
      return "holders or stragglers that are not members, ascending";
    }
    std::vector<PeerId> both;
    std::merge(commit.holders.begin(), commit.holders.end(), commit.stragglers.begin(), commit.stragglers.end(),
               std::back_inserter(both));
    if (both != state.member_ids()) return "holders and stragglers that are not all members once";
    const auto members = static_cast<std::int64_t>(state.members.size());
    if (static_cast<std::int64_t>(commit.holders.size()) < least_holders(members)) {
      return concat("held by ", commit.holders.size(), " of ", members, " members");
    }
    return {};
  }

  [[nodiscard]] std::string shares_of(const Commit& commit) const {
    std::vector<PeerId> ids;
    double total = 0;
    for (const Share& share : commit.shares) {
      ids.push_back(share.id);
      if (!(std::isfinite(share.weight) && share.weight >= 0)) return "a weight that is negative or not finite";
      if (!share.finite && share.weight != 0) return "a weight of what is not finite";
      total += share.weight;
    }
    if (ids != state.targets()) return "shares of others than the contributors";
    if (!(total > 0) && commit.verdict.finite) return "a total weight of 0 that is to change weights";
    const std::int64_t most = most_of_member(*state.genesis);
    for (const Share& share : commit.shares) {
      for (const IndexRun& run : share.indices) {
        // What no round may have is named by the ledger.
        if (run.count > most && run.count <= max_indices_of_round)
          return concat("more micro-batches of ", to_text(share.id), " than a member takes");
      }
    }
    if (std::string why = state.ledger.refusal(commit.shares); !why.empty()) return why;
    for (const Share& share : commit.shares) {
      for (const std::int64_t index : indices_of(share.indices)) {
        const PeerId* const taker = state.dealing.taker_of(index);
        if (taker == nullptr || *taker != share.id) {
          return concat("micro-batch ", index, " of ", to_text(share.id), ", to which it is not dealt");
        }
        if (*state.dealing.turn_of(index) >= most) {
          return concat("micro-batch ", index, " of ", to_text(share.id), ", which is beyond what a member takes");
        }
      }
    }
    return {};
  }

  std::string operator()(const Commit& commit) const {
    if (std::string why = of_this_round(commit.epoch, commit.round); !why.empty()) return why;
    if (std::string why = holders_of(commit); !why.empty()) return why;
    if (std::string why = shares_of(commit); !why.empty()) return why;
    state.ledger.commit(commit.round, commit.shares, commit.verdict.finite);
    state.rounds.push_back({commit.epoch, commit.root, commit.verdict});
    state.contributors.clear();
    state.dealing = state.ledger.deal(state.member_ids());
    state.attempt = state.epoch;
    return {};
  }

  std::string operator()(const Rollback& rollback) const {
    if (rollback.rounds < 0 || rollback.rounds >= state.round()) return "a rollback to a round that is not committed";
    if (state.checkpoint && rollback.rounds < state.checkpoint->rounds)
      return concat("a rollback behind the checkpoint after ", state.checkpoint->rounds, " rounds");
    state.ledger.roll_back(rollback.rounds);
    state.rounds.resize(static_cast<std::size_t>(rollback.rounds - state.forgotten));
    state.members.clear();
    state.contributors.clear();
    state.reducers.clear();
    state.dealing = {};
    ++state.epoch;
    ++state.lineage;
    return {};
  }

  std::string operator()(const Quarantine& quarantine) const {
    if (state.member(author) == nullptr) return "a quarantine by a peer that is no member";
    const std::int64_t most = most_of_member(*state.genesis);
    for (const IndexRun& run : quarantine.indices) {
      // Of an impossible run the ledger says what is wrong with it.
      const bool possible = run.first >= 0 && run.stride >= 1 && run.count >= 1 && run.count <= max_indices_of_round;
      if (!possible || run.stride > max_indices_of_round || run.first > (std::int64_t{1} << 53)) continue;
      const std::int64_t last = run.first + (run.count - 1) * run.stride;
      const std::optional<std::int64_t> turn = state.dealing.turn_of(last);
      if (last >= state.ledger.end() && (!turn || *turn >= most)) {
        return concat("micro-batch ", last, " is beyond what a member takes");
      }
    }
    return state.ledger.quarantine(quarantine.indices);
  }

  std::string operator()(const Unreadable& unreadable) const { return concat("not readable: ", unreadable.why); }

  std::string operator()(const LogCheckpoint& checkpoint) const {
    if (state.member(author) == nullptr) return "a checkpoint by a peer that is no member";
    if (checkpoint.rounds < 1 || checkpoint.rounds > state.round())
      return "a checkpoint of a round that is not committed";
    if (state.genesis->checkpoint == 0 || checkpoint.rounds % state.genesis->checkpoint != 0)
      return concat("a checkpoint after ", checkpoint.rounds, " rounds, after which the job has none");
    if (state.checkpoint && checkpoint.rounds <= state.checkpoint->rounds)
      return concat("a checkpoint before that after ", state.checkpoint->rounds, " rounds");
    const auto members = static_cast<std::int64_t>(state.members.size());
    if (!ascending(checkpoint.holders) || !all_members(checkpoint.holders))
      return "a checkpoint whose holders are not ascending members";
    if (static_cast<std::int64_t>(checkpoint.holders.size()) < least_holders(members))
      return concat("a checkpoint that ", checkpoint.holders.size(), " of ", members, " members hold");
    if (!checkpoint.summary.empty() && checkpoint.summary != summary_of(state, checkpoint.rounds))
      return "a checkpoint with another summary than this state's";
    state.ledger.settle(checkpoint.rounds);
    state.checkpoint = checkpoint;
    state.checkpoint->summary.clear();  // what follows from it is here
    return {};
  }
};

}  // namespace detail

REEF_INLINE std::string apply(JobState& state, const Entry& entry) {
  std::string why;
  const bool begins = std::holds_alternative<Genesis>(entry.what);
  if (!begins && !state.genesis) why = "an entry before a valid genesis";
  if (why.empty()) why = std::visit(detail::Rules{state, entry.author}, entry.what);
  ++state.entries;
  if (!why.empty()) ++state.ignored;
  return why;
}

REEF_INLINE std::string refusal_of(const JobState& state, const Genesis& own) {
  if (!state.genesis) return "the log begins with no genesis";
  const Genesis& theirs = *state.genesis;
  std::string differs;
  const auto compare = [&](const char* name, const auto& a, const auto& b) {
    if (!(a == b)) differs += concat(differs.empty() ? "" : ", ", name);
  };
  compare("job", theirs.job, own.job);
  compare("recipe", theirs.recipe, own.recipe);
  compare("model", theirs.model, own.model);
  compare("data", theirs.data, own.data);
  compare("update class", theirs.update_class, own.update_class);
  compare("seed", theirs.seed, own.seed);
  compare("global batch", theirs.global_batch, own.global_batch);
  compare("parameters", theirs.parameters, own.parameters);
  compare("piece", theirs.piece, own.piece);
  compare("codec", theirs.codec, own.codec);
  compare("number of rounds between checkpoints", theirs.checkpoint, own.checkpoint);
  if (differs.empty()) return {};
  return concat("the log is of a job with another ", differs);
}

}  // namespace core
}  // namespace swarm
}  // namespace v0
}  // namespace reef
