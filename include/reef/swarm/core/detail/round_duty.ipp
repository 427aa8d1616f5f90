#pragma once

#include <set>
#include <utility>

#include <reef/core/inline.hpp>
#include <reef/swarm/core/detail/round_duty.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace core {
namespace detail {

REEF_INLINE void RoundDuty::apply_committed() {
  while (peer.applied == peer.applying) {
    const auto behind = peer.behind.find(peer.applying);
    peer.behind.erase(peer.behind.begin(), peer.behind.lower_bound(peer.applying));
    if (behind == peer.behind.end()) return;
    const Ledger::Round& record = *state().ledger.round(peer.applying);
    double weight = 0;
    for (const Share& share : record.shares) weight += share.weight;
    const Digest targets = digest_of(record.contributors(), functions().digest);
    std::optional<std::vector<Bulk>> results = behind->second.results(targets);
    if (!results) return;
    const JobState::Decided& decided = *state().decided(peer.applying);
    if (behind->second.root(targets, functions().digest) != decided.root) {
      behind->second.forget_results(targets);
      return;
    }
    actions.push_back(action::Apply{peer.applying, *results, weight, decided.verdict, record.contributors(),
                                    record.micro_batches()});
    peer.kept[peer.applying] = {targets, std::move(*results)};
    peer.kept.erase(peer.kept.begin(), peer.kept.lower_bound(peer.applying - 1));
    peer.behind.erase(behind);
    ++peer.applying;
  }
}

REEF_INLINE void RoundDuty::close_round() {
  std::int64_t computed = peer.computed;
  for (const Member& member : state().members) {
    const auto beat = peer.beats.find(member.id);
    if (beat != peer.beats.end() && in_this_round(beat->second)) computed += beat->second.computed;
  }
  if (computed >= state().genesis->global_batch) peer.round.close();
  if (peer.round.closed() && !peer.close_asked) {
    peer.close_asked = true;
    actions.push_back(action::Close{state().round(), state().attempt});
  }
}

REEF_INLINE void RoundDuty::exchange() {
  if (!peer.round.contributed()) return;
  for (const Member& member : state().members) {
    if (member.id != self() && peer.told.insert(member.id).second) send(member.id, *peer.round.offer_of(self()));
  }
  const std::vector<Bulk>& parts = peer.round.own_parts();
  for (std::size_t piece = 0; piece < parts.size(); ++piece) {
    const PeerId& reducer = state().reducers[piece];
    const auto at = static_cast<std::int64_t>(piece);
    if (reducer != self() && peer.sent.emplace(at, reducer).second)
      send(reducer, Part{state().round(), state().attempt, at, parts[piece]});
  }
}

REEF_INLINE void RoundDuty::reduce() {
  if (!peer.round.contributed()) return;
  const std::vector<PeerId> targets = state().targets();
  const Digest digest = digest_of_targets();
  for (std::size_t piece = 0; piece < state().reducers.size(); ++piece) {
    const auto at = static_cast<std::int64_t>(piece);
    if (state().reducers[piece] != self() || peer.round.has_result(digest, at)) continue;
    const std::optional<std::vector<Bulk>> parts = peer.round.parts_of(at, targets);
    if (!parts) continue;
    Bulk bytes = functions().fold(at, *parts);
    send_to_members(Result{state().round(), state().attempt, digest, at, bytes});
    peer.round.reduced(digest, at, std::move(bytes), functions().digest);
  }
}

REEF_INLINE void RoundDuty::agree() {
  if (!peer.round.contributed()) return;
  const Digest digest = digest_of_targets();
  const std::optional<std::vector<Bulk>> results = peer.round.results(digest);
  if (!results) {
    if (now - peer.closed_at > exchange_bound()) exclude();
    return;
  }
  if (peer.ready_at < 0) {
    peer.ready_at = now;
    peer.exchanges.add(now - peer.closed_at);
  }
  const Digest own_root = peer.round.root(digest, functions().digest);
  Commit commit{state().epoch, state().round(), {}, own_root, {}, {}, {}};
  std::int64_t before_self = 0;
  for (const Member& member : state().members) {
    const auto beat = peer.beats.find(member.id);
    const bool holds = member.id == self() || (beat != peer.beats.end() && in_this_round(beat->second) &&
                                               beat->second.targets == digest && beat->second.root == own_root);
    (holds ? commit.holders : commit.stragglers).push_back(member.id);
    if (holds && member.id < self()) ++before_self;
  }
  const auto members = static_cast<std::int64_t>(state().members.size());
  if (static_cast<std::int64_t>(commit.holders.size()) < least_holders(members)) return;
  // The first of the holders appends at once, the others only if nothing comes of it; stragglers get some grace.
  Seconds since = now - peer.ready_at - static_cast<double>(before_self) * deadlines().suspect;
  if (!commit.stragglers.empty()) since -= deadlines().suspect;
  if (since < 0) return;
  double weight = 0;
  double loss = 0;
  for (const PeerId& id : state().targets()) {
    const Offer* const offer = peer.round.offer_of(id);
    if (offer == nullptr) return;  // its results came from others, but not its offer yet
    commit.shares.push_back({id, offer->indices, offer->weight, offer->digest, offer->finite});
    weight += offer->weight;
    loss += offer->loss;
  }
  commit.verdict = weight > 0 ? functions().judge(*results, weight, loss) : RoundVerdict{false, 0, 1, 0};
  append(std::move(commit));
}

REEF_INLINE void RoundDuty::exclude() {
  std::vector<PeerId> left = state().targets();
  const std::set<PeerId> reducers(state().reducers.begin(), state().reducers.end());
  for (const PeerId& reducer : reducers) {
    std::vector<PeerId> has;
    if (reducer == self()) {
      has = whole();
    } else if (const auto beat = peer.beats.find(reducer); beat != peer.beats.end() && in_this_round(beat->second)) {
      has = beat->second.whole;
    }
    std::erase_if(left, [&](const PeerId& id) { return std::find(has.begin(), has.end(), id) == has.end(); });
  }
  if (left.empty() || left.size() == state().targets().size()) return;
  append(Exclude{state().epoch, state().round(), std::move(left)});
}

}  // namespace detail
}  // namespace core
}  // namespace swarm
}  // namespace v0
}  // namespace reef
