#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/text.hpp>
#include <reef/swarm/core/detail/draws.hpp>
#include <reef/swarm/core/detail/simulated_account.hpp>
#include <reef/swarm/core/detail/simulated_job.hpp>
#include <reef/swarm/core/entry_json.hpp>
#include <reef/swarm/core/peer.hpp>

// Three peers of a job as values, for an exploration of all that they may do. What one of them does depends on its own
// state and on one event alone, so each such step is computed once, and states, messages and entries are numbers.

namespace reef::swarm::core::explored {

inline constexpr int peers = 3;
inline constexpr std::int64_t pieces = 2;
inline constexpr Seconds tick = 1;
inline constexpr int oldest = 5;  // ticks, beyond which no deadline tells ages apart

using Id = std::uint32_t;
using Triple = std::array<Id, peers>;

inline const std::array<PeerId, peers>& ids() {
  static const std::array<PeerId, peers> all{PeerId{"a", 1}, PeerId{"b", 1}, PeerId{"c", 1}};
  return all;
}
inline Member member(int peer) { return {ids()[static_cast<std::size_t>(peer)], concat("10.0.0.", peer), 0, 0}; }
inline int number_of(const PeerId& id) {
  return static_cast<int>(std::find(ids().begin(), ids().end(), id) - ids().begin());
}

inline Genesis genesis() {
  Genesis genesis;
  genesis.job = "explored";
  genesis.global_batch = 1;
  genesis.parameters = pieces;
  genesis.piece = 1;
  return genesis;
}

inline PeerOptions options_of(int peer) {
  PeerOptions options;
  options.self = member(peer);
  options.genesis = genesis();
  // A tick is longer than what is repeated, two are longer than what is suspected.
  options.deadlines = {.beat = 0.2, .suspect = 1.4, .exchange = 1.5, .round = 600};
  options.functions = detail::simulated_functions();
  return options;
}

/// A peer, its trainer, and its clock.
struct Local {
  Peer peer;
  Seconds now = 0;
  std::vector<std::int64_t> indices{};
  std::vector<std::uint64_t> weights = std::vector<std::uint64_t>(pieces);
  std::int64_t applied = 0;
  std::vector<Id> read{};
  int ticks = 0;
};

/// What happens to a peer. `what`: the number of the message, entry or presences.
struct Step {
  enum Kind : std::uint8_t { deliver, read, present, fire, compute, lost, answer_won, answer_other };
  Kind kind{};
  int from = 0;
  Id what = 0;
};

/// What came of a step.
struct Outcome {
  Id local = 0;
  std::vector<std::pair<int, Id>> sends{};             // to, message
  std::vector<std::pair<std::int64_t, Id>> appends{};  // index, entry
  std::vector<Id> announced{};
  bool gone = false;
};

/// Things with numbers, one for each text that tells them apart. Number 0 is nothing.
template <class T>
class Numbered {
public:
  Id number(const std::string& text, const T& thing) {
    const auto [at, is_new] = numbers_.try_emplace(text, static_cast<Id>(things_.size()));
    if (is_new) things_.push_back(thing);
    return at->second;
  }
  const T& operator[](Id number) const { return things_[number]; }
  [[nodiscard]] std::size_t size() const { return things_.size(); }
  explicit Numbered(const T& nothing) : things_{nothing} {}

private:
  std::unordered_map<std::string, Id> numbers_;
  std::vector<T> things_;
};

/// Writes a peer's memory, with ages in place of times: what two peers of the same text do next is the same.
class Writer {
public:
  Writer(const Local& local) : local_(local) {
    const detail::PeerMemory& m = local.peer.memory();
    put(to_text(m.id()));
    for (const Id entry : local.read) put(entry);
    put("|", m.applied, m.applying, m.taken, m.computed, m.steps, m.close_asked, m.gone, m.results_wants,
        m.results_wanted);
    put(m.log_end.value_or(-1), m.pending.value_or(-1), m.leaving.has_value(), m.exchanges.size());
    for (const Seconds time : {m.last_beat, m.last_want, m.last_results_want, m.round_began, m.view_read_at}) age(time);
    for (const Seconds time : {m.closed_at, m.ready_at, m.view_wanted_at}) time < 0 ? put("-") : age(time);
    for (const Seconds time : {m.quiet_until, m.pending_until}) put(std::clamp(time - local.now, 0.0, 2.0 * oldest));
    for (const PeerId& id : ids()) {
      const auto silence = m.detector.silence(id, local.now);
      put(m.detector.suspects(id, local.now), silence ? std::min(*silence, Seconds{oldest}) : -1.0);
    }
    for (const auto& [id, beat] : m.beats) put(to_text(id), to_json(beat).dump());
    put(to_json(m.beat).dump());
    for (const auto& [id, presence] : m.presences) put(text_of(presence));
    put(m.announced ? text_of(*m.announced) : "-");
    for (const auto& [piece, to] : m.sent) put(piece, to_text(to));
    for (const PeerId& to : m.told) put("t", to_text(to));
    for (const auto& [from, message] : m.early) put("e", to_text(from), text_of(message));
    round(m.round);
    for (const auto& [number, behind] : m.behind) round(behind);
    for (const auto& [number, kept] : m.kept) put("k", number, to_hex(kept.targets));
    for (const auto& [rounds, some] : m.joining) {
      for (const auto& [piece, bytes] : some) put("j", rounds, piece, detail::value_of(bytes));
    }
    for (const std::int64_t index : local.indices) put("i", index);
    for (const std::uint64_t weight : local.weights) put("w", weight);
    put(local.applied, local.ticks);
  }
  [[nodiscard]] const std::string& text() const { return text_; }

  static std::string text_of(const Message& message) {
    return concat(message.index(), " ", std::visit([](const auto& m) { return body_of(m); }, message));
  }
  static std::string text_of(const PeerPresence& p) {
    std::string text = concat(to_text(p.who.id), p.joins ? " joins " : " ", p.applied, " ", p.epoch);
    for (const PeerId& id : p.reach) text += " " + to_text(id);
    return text;
  }

private:
  template <class Value>
  static decltype(auto) plain(const Value& value) {
    if constexpr (std::is_same_v<Value, bool>)
      return int{value};
    else
      return (value);
  }
  template <class... Values>
  void put(const Values&... values) {
    ((text_ += concat(plain(values), " ")), ...);
  }
  void age(Seconds time) { put("a", std::clamp(local_.now - time, 0.0, Seconds{oldest})); }
  void round(const Round& round) {
    put("r", round.round(), round.attempt(), round.closed(), round.contributed());
    for (const PeerId& id : ids()) {
      if (const Offer* const offer = round.offer_of(id)) put("o", to_text(id), to_json(*offer).dump());
      for (std::int64_t piece = 0; piece < pieces; ++piece) put(round.has_part(piece, id));
    }
    for (int set = 1; set < 1 << peers; ++set) {
      std::vector<PeerId> targets;
      for (int peer = 0; peer < peers; ++peer) {
        if ((set >> peer & 1) != 0) targets.push_back(ids()[static_cast<std::size_t>(peer)]);
      }
      const Digest digest = digest_of(targets, detail::simulated_digest);
      for (std::int64_t piece = 0; piece < pieces; ++piece) {
        if (round.has_result(digest, piece)) put("s", set, piece, detail::value_of(round.result(digest, piece)));
      }
    }
  }
  static std::string body_of(const Beat& m) { return to_json(m).dump(); }
  static std::string body_of(const Offer& m) { return to_json(m).dump(); }
  static std::string body_of(const Want& m) { return to_json(m).dump(); }
  static std::string body_of(const WantState& m) { return to_json(m).dump(); }
  static std::string body_of(const Part& m) {
    return concat(m.round, " ", m.attempt, " ", m.piece, " ", detail::value_of(m.bytes));
  }
  static std::string body_of(const Result& m) {
    return concat(m.round, " ", m.attempt, " ", m.piece, " ", to_hex(m.targets), detail::value_of(m.bytes));
  }
  static std::string body_of(const StatePiece& m) {
    return concat(m.rounds, " ", m.lineage, " ", m.piece, " ", detail::value_of(m.bytes));
  }

  const Local& local_;
  std::string text_;
};

/// The states of single peers, and their steps, each computed once.
class Locals {
public:
  Locals() : locals_(Local{Peer(options_of(0))}), messages_(Message{}), entries_(Entry{}), presences_(PeerPresence{}) {}

  Id add(const Local& local) { return locals_.number(Writer(local).text(), local); }
  Id add(const Entry& entry) {
    Entry same = entry;
    same.nonce = 0;  // which no peer reads
    return entries_.number(to_text(same), same);
  }
  const Local& operator[](Id local) const { return locals_[local]; }
  const Message& message(Id id) const { return messages_[id]; }
  const Entry& entry(Id id) const { return entries_[id]; }
  [[nodiscard]] std::size_t size() const { return locals_.size(); }
  [[nodiscard]] std::size_t steps() const { return outcomes_.size(); }
  Id presences(const Triple& all) {
    return triples_.number(concat(all[0], " ", all[1], " ", all[2]), all);
  }

  const Outcome& step(Id local, const Step& step) {
    const std::uint64_t key = std::uint64_t{local} << 32 | std::uint64_t{step.what} << 6 |
                              static_cast<std::uint64_t>(step.from) << 4 | step.kind;
    const auto [at, is_new] = outcomes_.try_emplace(key);
    if (is_new) {
      Outcome outcome = computed(local, step);
      return outcomes_[key] = std::move(outcome);
    }
    return at->second;
  }

private:
  Outcome computed(Id id, const Step& step) {
    Local local = locals_[id];
    Outcome outcome;
    switch (step.kind) {
      case Step::deliver:
        hear(local, outcome, event::Received{ids()[static_cast<std::size_t>(step.from)], messages_[step.what]});
        break;
      case Step::read:
        local.read.push_back(step.what);
        hear(local, outcome, event::Read{entries_[step.what]});
        break;
      case Step::present: {
        event::Present present;
        for (const Id one : triples_[step.what]) {
          if (one != 0) present.all.push_back(presences_[one]);
        }
        hear(local, outcome, present);
        break;
      }
      case Step::fire:
        local.now += tick;
        ++local.ticks;
        hear(local, outcome, event::Tick{});
        break;
      case Step::compute:
        if (const auto index = local.peer.take()) {
          local.indices.push_back(*index);
          hear(local, outcome, event::Computed{local.peer.state().round(), local.peer.state().attempt});
        }
        break;
      case Step::lost: hear(local, outcome, event::Lost{ids()[static_cast<std::size_t>(step.from)]}); break;
      case Step::answer_won: hear(local, outcome, event::Appended{step.what, true}); break;
      case Step::answer_other: hear(local, outcome, event::Appended{step.what, false}); break;
    }
    outcome.local = add(local);
    return outcome;
  }

  void hear(Local& local, Outcome& outcome, const Event& event) {
    for (Action& action : local.peer.on(event, local.now)) {
      std::visit([&](auto& what) { act(local, outcome, what); }, action);
    }
  }
  void act(Local&, Outcome& outcome, action::Send& send) {
    outcome.sends.emplace_back(number_of(send.to), messages_.number(Writer::text_of(send.message), send.message));
  }
  void act(Local&, Outcome& outcome, action::Append& append) {
    outcome.appends.emplace_back(append.index, add(append.entry));
  }
  void act(Local&, Outcome& outcome, action::Announce& announce) {
    outcome.announced.push_back(presences_.number(Writer::text_of(announce.presence), announce.presence));
  }
  void act(Local& local, Outcome& outcome, action::Close& close) {
    event::Contributed contributed{close.round, close.attempt, {}};
    Contribution& mine = contributed.contribution;
    std::sort(local.indices.begin(), local.indices.end());
    mine.indices = std::exchange(local.indices, {});
    mine.weight = static_cast<double>(mine.indices.size());
    for (std::int64_t piece = 0; piece < pieces && !mine.indices.empty(); ++piece) {
      std::uint64_t sum = 0;
      for (const std::int64_t index : mine.indices) sum += detail::gradient_of(index, piece);
      mine.parts.push_back(detail::bulk_of(sum));
    }
    hear(local, outcome, contributed);
  }
  void act(Local& local, Outcome&, action::Restart&) { local.indices.clear(); }
  void act(Local& local, Outcome& outcome, action::Apply& apply) {
    for (std::size_t piece = 0; piece < local.weights.size() && apply.verdict.finite; ++piece) {
      local.weights[piece] = detail::next_weight(local.weights[piece], detail::value_of(apply.results[piece]));
    }
    applied(local, outcome, apply.round + 1);
  }
  void act(Local& local, Outcome& outcome, action::ReadState& read) {
    const Bulk bytes = detail::bulk_of(local.weights[static_cast<std::size_t>(read.piece)]);
    hear(local, outcome, event::StateRead{read.to, {local.applied, read.piece, bytes}});
  }
  void act(Local& local, Outcome& outcome, action::SetState& set) {
    for (std::size_t piece = 0; piece < local.weights.size(); ++piece)
      local.weights[piece] = detail::value_of(set.pieces[piece]);
    applied(local, outcome, set.rounds);
  }
  void act(Local&, Outcome&, action::Restore&) {}  // there are no checkpoints
  void act(Local&, Outcome& outcome, action::Gone&) { outcome.gone = true; }
  void applied(Local& local, Outcome& outcome, std::int64_t rounds) {
    local.applied = rounds;
    local.indices.clear();
    hear(local, outcome, event::Applied{rounds});
  }

  Numbered<Local> locals_;
  Numbered<Message> messages_;
  Numbered<Entry> entries_;
  Numbered<PeerPresence> presences_;
  Numbered<Triple> triples_{Triple{}};
  std::unordered_map<std::uint64_t, Outcome> outcomes_;
};

}  // namespace reef::swarm::core::explored
