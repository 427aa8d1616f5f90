#pragma once

#include <map>
#include <utility>

#include <reef/core/inline.hpp>
#include <reef/swarm/core/detail/asking.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace core {
namespace detail {

REEF_INLINE void Asking::ask_again() {
  const Seconds interval = deadlines().suspect / 2;
  // Who is no member is sent no result, and keeps up with rounds that may be shorter than a beat.
  const bool at_once = !peer.is_member() && peer.results_wanted != peer.applying;
  if (at_once || now - peer.last_results_want >= (peer.is_member() ? interval : deadlines().beat)) want_results();
  if (now - peer.last_want < interval) return;
  peer.last_want = now;
  if (in_round() && peer.round.contributed()) want_parts();
  if (!peer.is_member() && peer.applied == peer.applying && peer.applied < state().round()) want_state();
}

REEF_INLINE void Asking::want_parts() {
  const Digest digest = digest_of_targets();
  for (const PeerId& id : state().targets()) {
    const auto beat = peer.beats.find(id);
    if (id == self() || beat == peer.beats.end() || !in_this_round(beat->second)) continue;
    if (beat->second.phase != Phase::exchange && beat->second.phase != Phase::ready) continue;
    Want want{state().round(), state().attempt, peer.round.offer_of(id) == nullptr, {}, {}, {}};
    const Offer* const offer = peer.round.offer_of(id);
    for (std::size_t piece = 0; piece < state().reducers.size(); ++piece) {
      const auto at = static_cast<std::int64_t>(piece);
      if (state().reducers[piece] != self() || peer.round.has_part(at, id)) continue;
      if (offer == nullptr || offer->weight > 0) want.parts.push_back(at);
    }
    if (want.offer || !want.parts.empty()) send(id, std::move(want));
  }
  // A result is asked of its reducer, or of whoever holds all.
  std::map<PeerId, Want> wants;
  for (const std::int64_t piece : peer.round.missing_results(digest)) {
    PeerId from = state().reducers[static_cast<std::size_t>(piece)];
    for (const auto& [id, beat] : peer.beats) {
      if (in_this_round(beat) && beat.targets == digest && beat.root != Digest{}) from = id;
    }
    if (from == self()) continue;
    wants.try_emplace(from, Want{state().round(), state().attempt, false, {}, digest, {}})
        .first->second.results.push_back(piece);
  }
  for (auto& [from, want] : wants) send(from, std::move(want));
}

REEF_INLINE void Asking::want_results() {
  const auto behind = peer.behind.find(peer.applying);
  if (behind == peer.behind.end()) return;
  const Ledger::Round& record = *state().ledger.round(peer.applying);
  const Digest targets = digest_of(record.contributors(), functions().digest);
  const std::vector<std::int64_t> missing = behind->second.missing_results(targets);
  if (missing.empty()) return;
  std::vector<PeerId> holders;
  for (const auto& [id, beat] : peer.beats) {
    if (beat.applied > peer.applying && !peer.detector.suspects(id, now)) holders.push_back(id);
  }
  if (holders.empty()) return;
  // Pieces are spread over the holders; a holder that does not answer is asked for others the next time.
  std::map<PeerId, Want> wants;
  for (const std::int64_t piece : missing) {
    const PeerId& from = holders[(static_cast<std::size_t>(piece) + peer.results_wants) % holders.size()];
    wants.try_emplace(from, Want{peer.applying, behind->second.attempt(), false, {}, targets, {}})
        .first->second.results.push_back(piece);
  }
  ++peer.results_wants;
  peer.last_results_want = now;
  peer.results_wanted = peer.applying;
  for (auto& [from, want] : wants) send(from, std::move(want));
}

REEF_INLINE void Asking::want_state() {
  std::vector<PeerId> donors;
  for (const auto& [id, beat] : peer.beats) {
    if (beat.applied == state().round() && !peer.detector.suspects(id, now)) donors.push_back(id);
  }
  if (donors.empty()) return;
  peer.joining.erase(peer.joining.begin(), peer.joining.lower_bound(state().round()));
  std::vector<WantState> wants(donors.size());
  const auto here = peer.joining.find(state().round());
  std::size_t at = 0;
  for (std::int64_t piece = 0; piece < pieces(); ++piece) {
    if (here != peer.joining.end() && here->second.contains(piece)) continue;
    wants[at++ % donors.size()].pieces.push_back(piece);
  }
  for (std::size_t i = 0; i < donors.size(); ++i) {
    if (!wants[i].pieces.empty()) send(donors[i], std::move(wants[i]));
  }
}

}  // namespace detail
}  // namespace core
}  // namespace swarm
}  // namespace v0
}  // namespace reef
