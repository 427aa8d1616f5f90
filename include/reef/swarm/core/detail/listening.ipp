#pragma once

#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <variant>

#include <reef/core/inline.hpp>
#include <reef/swarm/core/detail/listening.hpp>
#include <reef/swarm/core/job_summary.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace core {
namespace detail {

REEF_INLINE void Listening::note(const event::Received& received) {
  peer.detector.heard(received.from, now);
  std::visit([&](const auto& message) { take(received.from, message); }, received.message);
}

REEF_INLINE void Listening::take(const PeerId& from, const Beat& beat) {
  const auto [at, is_new] = peer.beats.try_emplace(from, beat);
  if (!is_new && beat.steps > at->second.steps) peer.detector.progressed(from, now);
  at->second = beat;
  if (in_this_round(beat) && beat.closed) peer.round.close();
}

REEF_INLINE void Listening::take(const PeerId& from, const Offer& offer) {
  if (!is_of_this_round(from, offer)) return;
  peer.round.close();
  peer.round.offered(from, offer);
}

REEF_INLINE void Listening::take(const PeerId& from, const Part& part) {
  if (part.piece < 0 || part.piece >= pieces() || !part.bytes || !is_of_this_round(from, part)) return;
  peer.round.close();
  if (functions().accepts(part.piece, part.bytes)) peer.round.received(from, part);
}

REEF_INLINE void Listening::take(const PeerId& from, const Result& result) {
  if (result.piece < 0 || result.piece >= pieces() || !result.bytes) return;
  const auto behind = peer.behind.find(result.round);
  if (behind != peer.behind.end()) {
    behind->second.reduced(result.targets, result.piece, result.bytes, functions().digest);
  } else if (is_of_this_round(from, result)) {
    peer.round.reduced(result.targets, result.piece, result.bytes, functions().digest);
  }
}

REEF_INLINE void Listening::take(const PeerId& from, const Want& want) {
  if (in_this_round(want) && peer.round.contributed()) {
    if (want.offer) send(from, *peer.round.offer_of(self()));
    for (const std::int64_t piece : want.parts) {
      if (piece < 0 || piece >= static_cast<std::int64_t>(peer.round.own_parts().size())) continue;
      send(from, Part{want.round, want.attempt, piece, peer.round.own_parts()[static_cast<std::size_t>(piece)]});
    }
  }
  const auto kept = peer.kept.find(want.round);
  for (const std::int64_t piece : want.results) {
    if (piece < 0 || piece >= pieces()) continue;
    Bulk bytes;
    if (kept != peer.kept.end() && kept->second.targets == want.targets) {
      bytes = kept->second.results[static_cast<std::size_t>(piece)];
    } else if (in_this_round(want)) {
      bytes = peer.round.result(want.targets, piece);
    }
    if (bytes) send(from, Result{want.round, want.attempt, want.targets, piece, bytes});
  }
}

REEF_INLINE void Listening::take(const PeerId& from, const WantState& want) {
  if (peer.applied != peer.applying) return;  // the weights are between two rounds
  for (const std::int64_t piece : want.pieces) {
    if (piece >= 0 && piece < pieces()) actions.push_back(action::ReadState{from, piece});
  }
}

REEF_INLINE void Listening::take(const PeerId& /*from*/, const StatePiece& piece) {
  if (peer.is_member() || piece.piece < 0 || piece.piece >= pieces() || !piece.bytes) return;
  if (peer.applied != peer.applying) return;  // the trainer is applying a round
  if (piece.lineage != state().lineage || piece.rounds <= peer.applying || piece.rounds > state().round() ||
      piece.rounds < state().forgotten) {
    return;
  }
  // Of one version alone: the newest that somebody has given a piece of.
  if (!peer.joining.empty() && peer.joining.rbegin()->first > piece.rounds) return;
  peer.joining.erase(peer.joining.begin(), peer.joining.lower_bound(piece.rounds));
  auto& pieces_here = peer.joining[piece.rounds];
  pieces_here.try_emplace(piece.piece, piece.bytes);
  if (static_cast<std::int64_t>(pieces_here.size()) < pieces()) return;
  action::SetState set{piece.rounds, {}};
  for (auto& [at, bytes] : pieces_here) set.pieces.push_back(std::move(bytes));
  peer.applying = piece.rounds;
  peer.joining.clear();
  actions.push_back(std::move(set));
}

REEF_INLINE void Listening::note(const event::LogEnd& end) {
  if (!peer.log_end) peer.log_end = end.entries;
}

REEF_INLINE void Listening::note(const event::Lost& lost) { peer.detector.lost(lost.peer); }

REEF_INLINE bool Listening::begin_with(const event::Read& read) {
  JobState next;
  std::string why = core::begin_with(next, read.index, read.entry);
  if (why.empty() && peer.applying > 0 && next.lineage != state().lineage)
    why = "its weights may contain rounds that were rolled back";
  if (!why.empty()) {
    peer.gone = true;
    actions.push_back(action::Gone{std::move(why)});
    return false;
  }
  peer.state = std::move(next);
  peer.pending.reset();
  peer.kept.clear();
  peer.behind.clear();
  peer.joining.clear();
  peer.view_wanted_at = -1;
  peer.view_read_at = now;
  begin_round();
  actions.push_back(action::Restart{});
  return true;
}

REEF_INLINE void Listening::note(const event::Read& read) {
  if (read.index > state().entries && (peer.gone || !begin_with(read))) return;
  if (peer.pending && *peer.pending == state().entries) peer.pending.reset();
  const std::int64_t before = state().round();
  const std::int64_t epoch = state().epoch;
  const std::int64_t lineage = state().lineage;
  const std::int64_t attempt = state().attempt;
  const std::vector<PeerId> targets = state().targets();
  const std::string why = apply(peer.state, read.entry);
  // Others may have read more: an own entry that came to nothing is not repeated at once.
  if (!why.empty() && read.entry.author == self()) peer.quiet_until = now + deadlines().beat;
  if (state().lineage != lineage) {
    begin_round();
    peer.kept.clear();
    peer.behind.clear();
    peer.joining.clear();
    peer.roots.erase(peer.roots.upper_bound(state().round()), peer.roots.end());
    if (peer.own_kept > state().round()) peer.own_kept = 0;
    if (peer.applying > state().round()) {
      peer.gone = true;
      actions.push_back(action::Gone{"its weights contain rounds that were rolled back"});
    }
  } else if (state().round() != before) {
    Round& committed = peer.behind.emplace(before, std::move(peer.round)).first->second;
    committed.commit(digest_of(state().ledger.rounds().back().contributors(), functions().digest));
    begin_round();
  } else if (state().attempt != attempt) {
    begin_round();
    actions.push_back(action::Restart{});
  }
  if (state().epoch != epoch) {
    // Whoever has left is nobody's contact any more; a reducer that is new is sent its parts in advance().
    for (auto at = peer.beats.begin(); at != peer.beats.end();) {
      at = state().member(at->first) == nullptr && !peer.presences.contains(at->first) ? peer.beats.erase(at)
                                                                                       : std::next(at);
    }
    peer.view_wanted_at = -1;
    peer.view_read_at = now;
  }
  peer.state.forget(peer.applied);
  if (state().epoch != epoch || state().targets() != targets) {
    peer.ready_at = -1;
    if (peer.closed_at >= 0) peer.closed_at = now;
  }
}

REEF_INLINE void Listening::begin_round() {
  peer.round = Round(state().round(), state().attempt, pieces());
  peer.sent.clear();
  peer.told.clear();
  peer.taken = 0;
  peer.computed = 0;
  peer.close_asked = false;
  peer.closed_at = -1;
  peer.ready_at = -1;
  peer.round_began = now;
  std::vector<std::pair<PeerId, Message>> early;
  early.swap(peer.early);
  for (const auto& [from, message] : early) {
    std::visit([&, from = from](const auto& m) { take(from, m); }, message);
  }
}

REEF_INLINE void Listening::note(const event::Appended& answer) {
  // What stands at the index is read before anything else is appended. Where nothing comes, the append may be lost.
  if (!answer.won && peer.pending && *peer.pending == answer.index) peer.pending_until = now + deadlines().suspect;
}

REEF_INLINE void Listening::note(const event::Present& present) {
  peer.presences.clear();
  for (const PeerPresence& presence : present.all) {
    if (presence.who.id != self()) peer.presences[presence.who.id] = presence;
  }
}

REEF_INLINE void Listening::note(const event::Contributed& contributed) {
  if (!in_this_round(contributed) || peer.round.contributed()) return;
  peer.round.close();
  peer.round.contribute(self(), checked(contributed.contribution, functions()), functions().digest);
  peer.closed_at = now;
}

REEF_INLINE void Listening::note(const event::Computed& computed) {
  ++peer.steps;
  if (in_this_round(computed)) ++peer.computed;
}

REEF_INLINE void Listening::note(const event::Applied& applied) {
  peer.applied = applied.rounds;
  peer.applying = (std::max)(peer.applying, applied.rounds);
  peer.state.forget(peer.applied);
}

REEF_INLINE void Listening::note(const event::StateKept& own) {
  peer.roots[own.rounds] = own.root;
  if (own.kept) peer.own_kept = own.rounds;
  constexpr std::size_t most = 4;
  if (peer.roots.size() > most) peer.roots.erase(peer.roots.begin());
  if (!peer.roots.contains(peer.own_kept)) peer.own_kept = 0;
}

REEF_INLINE void Listening::note(const event::StateFound& own) { peer.found[own.rounds] = own.root; }

REEF_INLINE void Listening::note(const event::StateRead& read) {
  if (peer.gone || peer.differs) return;  // the weights may be of rounds that were rolled back
  StatePiece piece = read.piece;
  piece.lineage = state().lineage;
  send(read.to, std::move(piece));
}

REEF_INLINE void Listening::note(const event::Tick& /*tick*/) {}

REEF_INLINE void Listening::note(const event::Leave& leave) {
  if (peer.leaving) return;
  peer.leaving = leave.why;
  peer.leaving_since = now;
}

}  // namespace detail
}  // namespace core
}  // namespace swarm
}  // namespace v0
}  // namespace reef
