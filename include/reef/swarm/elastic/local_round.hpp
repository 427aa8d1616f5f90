#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include <reef/core/inline.hpp>
#include <reef/swarm/elastic/round_exchange.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {

/// Rounds of gradient averaging among trainers of one process, each stepping on a thread of its own: a swarm without
/// network and log. For tests, and as a reference implementation of RoundExchange.
///
/// | order  | contributions are added in ascending order of members; those without micro-batches are left out    |
/// | closed | a member's part of a round, when `deal` gives it nothing more; a round, when all members that have |
/// |        | not left have offered                                                                              |
/// | skips  | a round without weight, or with a sum that is not finite                                           |
/// | memory | a gradient for each member, and one for each round that somebody has not read                      |
/// | errors | OptionError for a contribution of another length than the others                                   |
///
/// \code
/// swarm::LocalRound round(2, swarm::LocalRound::in_turns({3, 1}));
/// round.member(1).begin(0);
/// const std::optional<std::int64_t> first = round.member(1).next_micro_batch();  // 1: member 0 has 0, 2 and 3
/// \endcode
class LocalRound {
public:
  /// A function that returns the index in the job of the micro-batch that a member computes after `taken` others of
  /// that round; nothing ends the member's part of the round. Called by any member's thread.
  using Deal = std::function<std::optional<std::int64_t>(int member, std::int64_t round, std::int64_t taken)>;

  /// Constructs rounds among `members` members, 1 or more, beginning with round 0.
  LocalRound(int members, Deal deal);
  ~LocalRound();
  LocalRound(const LocalRound&) = delete;
  LocalRound& operator=(const LocalRound&) = delete;

  /// Returns a function by which member m computes counts[m] micro-batches of each round: all members take the next one
  /// in turn, as long as they have fewer.
  [[nodiscard]] static Deal in_turns(std::vector<std::int64_t> counts);

  /// Returns the exchange of a member, numbered from 0, which lives as long as this object.
  [[nodiscard]] RoundExchange& member(int index) &;
  void member(int) && = delete;

  /// Lets a member leave: rounds to which it has not contributed do not wait for it, and its calls of result() throw.
  /// Any thread.
  void leave(int index);

private:
  class Member;
  struct Round;

  void offer(int index, std::int64_t round, const Contribution& contribution);
  RoundOutcome result(int index, std::int64_t round, std::span<float> sum);
  /// Adds the contributions of a round if nobody is waited for any more. The caller holds the lock.
  void close_if_complete(Round& round);
  [[nodiscard]] bool has_left(int index) const { return left_[static_cast<std::size_t>(index)]; }

  const Deal deal_;
  std::vector<std::unique_ptr<Member>> members_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<bool> left_;                 // under mutex_, as what follows
  std::map<std::int64_t, Round> rounds_;  // those that somebody has not read
};

}  // namespace swarm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swarm/elastic/local_round.ipp>
#endif
