#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <variant>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/io/json.hpp>
#include <reef/swarm/core/entry_json.hpp>
#include <reef/swarm/core/job_summary.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace core {
namespace detail {

/// The most indices that a summary may leave open or withdraw: a reader goes over each.
inline constexpr std::int64_t max_open_indices = 1 << 22;

using swarm::detail::commit_from;
using swarm::detail::EntryWriter;
using swarm::detail::ids_of;
using swarm::detail::json_of;
using swarm::detail::member_from;
using swarm::detail::runs_from;

inline std::int64_t number_in(const io::Json& json, std::string_view key) {
  const auto number = io::require<std::int64_t>(json, key, "a summary");
  if (number < 0) throw DecodeError("reef::swarm: a summary's ", key, " is ", number, ".\n  fix: 0 or more.");
  return number;
}

inline IndexSet set_in(const io::Json& json, std::string_view key) {
  std::vector<std::pair<std::int64_t, std::int64_t>> ranges;
  for (const auto& range : io::require<std::vector<std::vector<std::int64_t>>>(json, key, "a summary")) {
    if (range.size() != 2) throw DecodeError("reef::swarm: a summary's ", key, ".\n  fix: ranges [first, end].");
    ranges.emplace_back(range[0], range[1]);
  }
  return IndexSet(std::move(ranges));
}

inline io::Json json_of_set(const IndexSet& set) {
  io::Json json = io::Json::array();
  for (const auto& [begin, end] : set.ranges()) json.push_back({begin, end});
  return json;
}

/// Reducers as runs of equal ones: the position of the member, and the number of pieces.
inline io::Json json_of_reducers(const JobState& state) {
  io::Json json = io::Json::array();
  const std::vector<PeerId> members = state.member_ids();
  for (const PeerId& reducer : state.reducers) {
    const auto at = std::find(members.begin(), members.end(), reducer) - members.begin();
    if (json.empty() || json.back()[0] != at) json.push_back({at, 0});
    json.back()[1] = json.back()[1].get<std::int64_t>() + 1;
  }
  return json;
}

inline std::vector<PeerId> reducers_in(const io::Json& json, const JobState& state) {
  std::vector<PeerId> reducers;
  const std::int64_t pieces = piece_count(*state.genesis);
  for (const auto& run : io::require<std::vector<std::vector<std::int64_t>>>(json, "reducers", "a summary")) {
    const bool possible = run.size() == 2 && run[0] >= 0 && run[1] > 0 &&
                          run[0] < static_cast<std::int64_t>(state.members.size()) &&
                          run[1] <= pieces - static_cast<std::int64_t>(reducers.size());
    if (!possible) throw DecodeError("reef::swarm: a summary's reducers.\n  fix: [member, pieces] of all pieces.");
    const Member& member = state.members[static_cast<std::size_t>(run[0])];
    reducers.insert(reducers.end(), static_cast<std::size_t>(run[1]), member.id);
  }
  if (!reducers.empty() && static_cast<std::int64_t>(reducers.size()) != pieces)
    throw DecodeError("reef::swarm: a summary has reducers of ", reducers.size(), " of ", pieces, " pieces.");
  return reducers;
}

/// Throws DecodeError for a genesis that core::apply would not take.
inline void require_genesis(const Genesis& genesis) {
  JobState state;
  const std::string why = apply(state, {{"summary", 0}, 0, genesis});
  if (!why.empty()) throw DecodeError("reef::swarm: a summary's genesis: ", why, ".");
}

inline JobState state_in(const io::Json& json) {
  JobState state;
  state.genesis = swarm::detail::genesis_from(io::require<io::Json>(json, "genesis", "a summary"));
  require_genesis(*state.genesis);
  state.entries = number_in(json, "entries");
  state.epoch = number_in(json, "epoch");
  for (const io::Json& member : io::require<std::vector<io::Json>>(json, "members", "a summary"))
    state.members.push_back(member_from(member));
  state.contributors = ids_of(json, "contributors");
  state.reducers = reducers_in(json, state);
  state.attempt = number_in(json, "attempt");
  state.lineage = number_in(json, "lineage");
  state.ignored = number_in(json, "ignored");
  state.dealing = Dealing(ids_of(json, "dealing.members"),
                          {io::require<std::vector<std::int64_t>>(json, "dealing.first", "a summary"),
                           indices_of(runs_from(json, "dealing.holes")), number_in(json, "dealing.next")});
  state.forgotten = number_in(json, "settled.rounds");
  state.forgotten_applied = number_in(json, "settled.applied");
  Ledger::Account settled{set_in(json, "settled.committed"), set_in(json, "settled.quarantined"), {}};
  for (const io::Json& one : io::require<std::vector<io::Json>>(json, "settled.failed", "a summary"))
    settled.failed.emplace(number_in(one, "index"), peer_id_from_text(io::require<std::string>(one, "id"), "id"));
  IndexSet withdrawn = set_in(json, "withdrawn");
  const std::int64_t failed = settled.failed.empty() ? 0 : settled.failed.rbegin()->first + 1;
  const std::int64_t end = (std::max)({settled.committed.end(), settled.quarantined.end(), failed, withdrawn.end()});
  if (end - settled.committed.count() > max_open_indices || withdrawn.count() > max_open_indices)
    throw DecodeError("reef::swarm: a summary leaves more than ", max_open_indices, " micro-batches open.");
  std::vector<Ledger::Round> later;
  for (const io::Json& one : io::require<std::vector<io::Json>>(json, "rounds", "a summary")) {
    Commit commit = commit_from(one);
    if (commit.round != state.round())
      throw DecodeError("reef::swarm: a summary's rounds are not one after the other.");
    state.rounds.push_back({commit.epoch, commit.root, commit.verdict});
    later.push_back({commit.round, std::move(commit.shares), commit.verdict.finite});
  }
  state.ledger = Ledger(state.forgotten, std::move(settled), std::move(withdrawn), std::move(later));
  return state;
}

}  // namespace detail

REEF_INLINE std::string summary_of(const JobState& state, std::int64_t rounds) {
  const Ledger::Account settled = state.ledger.account_of(rounds);
  io::Json json = {{"entries", state.entries},     {"epoch", state.epoch},     {"attempt", state.attempt},
                   {"lineage", state.lineage},     {"ignored", state.ignored}, {"withdrawn", {}},
                   {"members", io::Json::array()}, {"genesis", {}},            {"rounds", io::Json::array()}};
  detail::EntryWriter{json["genesis"]}(*state.genesis);
  ViewEntry view{state.epoch, state.members, {}};
  io::Json members;
  detail::EntryWriter{members}(view);
  json["members"] = std::move(members["members"]);
  json["contributors"] = detail::json_of(state.contributors);
  json["reducers"] = detail::json_of_reducers(state);
  json["dealing"] = {{"members", detail::json_of(state.dealing.members())},
                     {"first", state.dealing.order().first},
                     {"holes", detail::json_of(runs_of(state.dealing.order().holes))},
                     {"next", state.dealing.order().next}};
  io::Json& account = json["settled"];
  account = {{"rounds", rounds}, {"applied", state.applied_of(rounds)}, {"failed", io::Json::array()}};
  account["committed"] = detail::json_of_set(settled.committed);
  account["quarantined"] = detail::json_of_set(settled.quarantined);
  for (const auto& [index, with] : settled.failed)
    account["failed"].push_back({{"index", index}, {"id", to_text(with)}});
  json["withdrawn"] = detail::json_of_set(state.ledger.withdrawn());
  for (std::int64_t round = rounds; round < state.round(); ++round) {
    const JobState::Decided& decided = *state.decided(round);
    const Ledger::Round& record = *state.ledger.round(round);
    io::Json& one = json["rounds"].emplace_back();
    detail::EntryWriter{one}(Commit{decided.epoch, round, record.shares, decided.root, decided.verdict, {}, {}});
  }
  std::string text = json.dump();
  const bool fits = text.size() <= max_summary_bytes && state.ledger.withdrawn().count() <= detail::max_open_indices;
  return fits ? text : std::string();
}

REEF_INLINE JobState state_of(std::string_view summary) {
  constexpr io::JsonLimits limits{.bytes = max_summary_bytes, .depth = 8};
  const io::Json json = io::parse_json(summary, "a summary", limits);
  return detail::state_in(json);
}

REEF_INLINE std::string begin_with(JobState& state, std::int64_t index, const Entry& entry) {
  const auto* const checkpoint = std::get_if<LogCheckpoint>(&entry.what);
  if (checkpoint == nullptr || checkpoint->summary.empty())
    return concat("the log has no entries before ", index, ", which is no checkpoint with a summary");
  JobState next;
  try {
    next = state_of(checkpoint->summary);
  } catch (const Error& error) {
    return concat("the log begins with entry ", index, ", whose summary is none: ", error.what());
  }
  JobState after = next;
  if (next.entries != index || !apply(after, entry).empty())
    return concat("the log begins with entry ", index, ", whose summary is of another state");
  state = std::move(next);
  return {};
}

}  // namespace core
}  // namespace swarm
}  // namespace v0
}  // namespace reef
