#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <reef/swarm/core/detail/duty.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace core {
namespace detail {

/// What a peer does when it hears of an event, before it acts: it notes what the event says.
struct Listening : Duty {
  /// Returns true for a message of the round in progress. One of the next round is kept: its sender has read a commit
  /// that this peer will read.
  template <class M>
  bool is_of_this_round(const PeerId& from, const M& message) {
    if (in_this_round(message)) return true;
    constexpr std::size_t max_early = 4096;
    const bool is_next = message.round == peer.round.round() + 1 ||
                         (message.round == peer.round.round() && message.attempt > peer.round.attempt());
    if (is_next && peer.early.size() < max_early) {
      peer.early.emplace_back(from, Message(message));
    }
    return false;
  }

  void note(const event::Received& received);
  void take(const PeerId& from, const Beat& beat);
  void take(const PeerId& from, const Offer& offer);
  void take(const PeerId& from, const Part& part);
  void take(const PeerId& from, const Result& result);
  void take(const PeerId& from, const Want& want);
  void take(const PeerId& from, const WantState& want);
  void take(const PeerId& /*from*/, const StatePiece& piece);
  void note(const event::LogEnd& end);
  void note(const event::Lost& lost);
  void note(const event::Read& read);
  /// Begins with the summary of a checkpoint whose entries before are dropped from the log. Returns false if the peer
  /// cannot, and then is gone.
  bool begin_with(const event::Read& read);
  void begin_round();
  void note(const event::Appended& answer);
  void note(const event::Present& present);
  void note(const event::Contributed& contributed);
  void note(const event::Computed& computed);
  void note(const event::Applied& applied);
  void note(const event::StateKept& own);
  void note(const event::StateFound& own);
  void note(const event::StateRead& read);
  void note(const event::Tick& /*tick*/);
  void note(const event::Leave& leave);
};

}  // namespace detail
}  // namespace core
}  // namespace swarm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swarm/core/detail/listening.ipp>
#endif
