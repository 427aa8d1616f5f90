#pragma once

#include <algorithm>
#include <utility>
#include <variant>

#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/swarm/core/detail/asking.hpp>
#include <reef/swarm/core/detail/checkpoint_duty.hpp>
#include <reef/swarm/core/detail/listening.hpp>
#include <reef/swarm/core/detail/room.hpp>
#include <reef/swarm/core/detail/round_duty.hpp>
#include <reef/swarm/core/detail/view_duty.hpp>
#include <reef/swarm/core/peer.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace core {

namespace detail {

/// Does everything that the peer's memory asks for now.
inline void advance(PeerMemory& peer, Seconds now, std::vector<Action>& actions) {
  RoundDuty round{{peer, now, actions}};
  ViewDuty view{{peer, now, actions}};
  CheckpointDuty checkpoint{{peer, now, actions}};
  const auto refused = [&] { return !refusal_of(peer.state, peer.options.genesis).empty(); };
  if (peer.gone) return;
  if (!peer.log_end || peer.state.entries < *peer.log_end) return;
  if (peer.state.entries == 0) {
    round.append(peer.options.genesis);
    return;
  }
  if (refused()) return;
  if (peer.round.round() != peer.state.round() || (peer.state.genesis && peer.round == Round()))
    Listening{{peer, now, actions}}.begin_round();
  checkpoint.restore();
  round.apply_committed();
  checkpoint.compare();
  if (peer.leaving) view.leave();
  if (peer.gone) return;
  if (round.in_round()) {
    round.close_round();
    round.exchange();
    round.reduce();
    round.agree();
  }
  view.change_view();
  checkpoint.decide();
  Asking{{peer, now, actions}}.ask_again();
  view.announce();
  view.beat();
}

}  // namespace detail

REEF_INLINE Peer::Peer(PeerOptions options) : memory_(std::move(options)) {
  memory_.options.deadlines.validate();
  const RoundFunctions& functions = memory_.options.functions;
  if (!functions.digest || !functions.fold || !functions.accepts || !functions.judge) {
    throw OptionError(
        "reef::swarm::core::Peer: a function of PeerOptions::functions is not given.\n  fix: all four.");
  }
}

REEF_INLINE std::vector<Action> Peer::on(const Event& event, Seconds now) {
  std::vector<Action> actions;
  std::visit([&](const auto& what) { detail::Listening{{memory_, now, actions}}.note(what); }, event);
  detail::advance(memory_, now, actions);
  detail::Room{{memory_, now, actions}}.make();
  return actions;
}

REEF_INLINE std::optional<std::int64_t> Peer::take() {
  if (memory_.gone || memory_.leaving || !is_member() || memory_.applied != memory_.state.round() ||
      memory_.round.round() != memory_.state.round()) {
    return std::nullopt;
  }
  if (memory_.round.closed() || memory_.round.contributed()) return std::nullopt;
  if (memory_.taken >= most_of_member(*memory_.state.genesis)) return std::nullopt;
  const std::optional<std::int64_t> index = memory_.state.dealing.index_of(id(), memory_.taken);
  if (index) ++memory_.taken;
  return index;
}

REEF_INLINE PeerPresence Peer::presence(Seconds now) const {
  detail::PeerMemory memory = memory_;
  std::vector<Action> none;
  return detail::ViewDuty{{memory, now, none}}.own_presence();
}

REEF_INLINE bool Peer::holds(std::int64_t round, std::span<const PeerId> contributors) const {
  const Digest targets = digest_of(contributors, memory_.options.functions.digest);
  const auto kept = memory_.kept.find(round);
  if (kept != memory_.kept.end()) return kept->second.targets == targets;
  if (memory_.round.round() == round) return memory_.round.results(targets).has_value();
  const auto behind = memory_.behind.find(round);
  return behind != memory_.behind.end() && behind->second.results(targets).has_value();
}

REEF_INLINE bool Peer::is_without_donor(Seconds now) const {
  const std::int64_t round = memory_.state.round();
  if (is_member() || memory_.applied > 0 || round == 0) return false;
  return std::none_of(memory_.beats.begin(), memory_.beats.end(), [&](const auto& heard) {
    return heard.second.applied >= round && !memory_.detector.suspects(heard.first, now);
  });
}

REEF_INLINE WaitCause Peer::wait_cause(Seconds now) const {
  const bool is_behind = memory_.applied < memory_.state.round();
  if (!is_member()) return is_behind ? WaitCause::weights : WaitCause::membership;
  if (is_behind) return WaitCause::results;
  for (const Member& member : memory_.state.members) {
    if (member.id != id() && memory_.detector.suspects(member.id, now)) return WaitCause::members;
  }
  if (!memory_.round.contributed()) return WaitCause::micro_batches;
  for (const PeerId& target : memory_.state.targets()) {
    if (memory_.round.offer_of(target) == nullptr) return WaitCause::contributions;
  }
  return memory_.ready_at < 0 ? WaitCause::results : WaitCause::commit;
}

REEF_INLINE std::string Peer::waits_for(Seconds now) const {
  const std::int64_t round = memory_.state.round();
  std::string names;
  const auto name = [&names](const PeerId& peer, const char* more) {
    names += concat(names.empty() ? "" : ", ", to_text(peer), more);
  };
  switch (wait_cause(now)) {
    case WaitCause::membership: return "to be heard by all members, who then append a view with it";
    case WaitCause::weights: {
      std::int64_t newest = memory_.applied;
      for (const auto& [other, beat] : memory_.beats) {
        if (!memory_.detector.suspects(other, now)) newest = (std::max)(newest, beat.applied);
      }
      const std::string weights = concat("for the weights after round ", round);
      if (newest >= round) return weights;
      return concat(weights, ", which nobody has who is heard; where they are lost, reef-swarm rollback --rounds ",
                    newest, " goes on from there");
    }
    case WaitCause::members:
      for (const Member& member : memory_.state.members) {
        if (member.id != id() && memory_.detector.suspects(member.id, now)) name(member.id, "");
      }
      return concat("for the log to say whether ", names, " are still members");
    case WaitCause::contributions:
      for (const PeerId& target : memory_.state.targets()) {
        if (memory_.round.offer_of(target) != nullptr) continue;
        name(target, memory_.detector.stalled(target, now) ? " (it answers, and computes nothing)" : "");
      }
      return concat("for the contributions of ", names);
    case WaitCause::results:
      return memory_.applied < round ? concat("for the results of round ", memory_.applied) : "for results";
    case WaitCause::commit: return "for the commit";
    case WaitCause::micro_batches:
    case WaitCause::log: break;
  }
  return {};
}

}  // namespace core
}  // namespace swarm
}  // namespace v0
}  // namespace reef
