#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include <reef/comm/detail/claims.hpp>
#include <reef/comm/progress.hpp>
#include <reef/comm/shards.hpp>
#include <reef/core/error.hpp>

namespace reef {
inline namespace v0 {
namespace comm {

/// The state of a SharedCounter: all that a checkpoint must keep. The used numbers are those below `next` but for
/// `unused`.
struct CounterState {
  std::uint64_t next = 0;               ///< no rank was given this number, or one above
  std::vector<std::uint64_t> unused{};  ///< numbers given to a rank that has not used them yet; ascending

  /// True if a counter can be in this state: in another one it would give a number twice.
  [[nodiscard]] bool possible() const;

  friend bool operator==(const CounterState&, const CounterState&) = default;
};

/// Gives out numbers that all ranks share: 0, 1, 2, ..., each to one of them, as they ask.
///
/// \code
/// // given: comm::Progress& progress
/// comm::SharedCounter counter(progress, "micro-batches");
/// const std::uint64_t number = counter.next();  // which micro-batch this rank takes next
/// \endcode
///
/// So ranks of unequal speed take unequal parts of one sequence, in order but for numbers under way. Each rank asks for
/// its next number when it is given one, so that the answer travels while the rank computes.
///
/// | who      | all ranks construct it, and call state and reset, between uses: collective, both    |
/// |          | block. next is this rank's alone: any thread but the progress thread, one at a time |
/// | next     | no message on rank 0; elsewhere it waits for what is left of the answer's journey,  |
/// |          | of all of it the first time. A rank that stops asking holds up nobody               |
/// | held     | one number at most is with each other rank, unused: `state` lists them, so that a   |
/// |          | resume leaves none out                                                              |
/// | wire     | a claim: cost_of_claim from the rank to rank 0, and cost_of_answer back; over       |
/// |          | shaped links like all messages. state and reset: two all-gathers each               |
/// | answers  | rank 0's progress thread gives them, whatever its other threads do, until its       |
/// |          | Progress object ends; for that it looks for claims also while it has no task        |
/// | errors   | the error that ended the Progress object, as of Progress::wait; OptionError on all ranks for |
/// |          | a state that no counter was in, or not the same everywhere: unchanged then          |
/// | end      | waits for the answer to the claim in flight, a round trip at most                   |
///
/// Two counters at a time have names of their own; a counter that takes a name again begins anew.
class SharedCounter {
public:
  static constexpr Cost cost_of_claim{1, header_bytes, 0};
  static constexpr Cost cost_of_answer{1, sizeof(detail::Allotment), 0};

  /// Continues from the state `from`, the same on all ranks.
  SharedCounter(Progress& progress, const std::string& name, const CounterState& from = {});

  SharedCounter(const SharedCounter&) = delete;
  SharedCounter& operator=(const SharedCounter&) = delete;
  ~SharedCounter();

  /// Returns the number that this rank shall use now.
  std::uint64_t next();

  /// Returns the state of all ranks together, on all ranks. Changes nothing.
  CounterState state();

  /// Continues from the state `from`, the same on all ranks, and forgets the former one: the unused numbers of `from`
  /// are given first, to the ranks in turn, whatever number of ranks it is of.
  void reset(const CounterState& from);

private:
  /// Fetches the number to be used next, if none is held.
  void fetch();

  void claim();

  /// Waits for the answer to the claim in flight, if there is one.
  void settle();

  /// Throws OptionError on all ranks unless all give the same state, and it is possible.
  void check_state(const CounterState& state);

  [[nodiscard]] std::vector<std::int64_t> even() const {
    return even_offsets(progress_->size(), progress_->size());
  }

  /// Returns the numbers of all ranks, by rank. Collective.
  std::vector<std::uint64_t> gather(const std::vector<std::uint64_t>& mine,
                                    std::vector<std::int64_t> offsets);

  Progress* progress_;
  Queue* queue_;
  detail::ClaimDesk* desk_;  // null on all ranks but 0
  detail::ClaimTask claim_;  // used by all ranks but 0
  bool claiming_ = false;    // true if a claim was sent since the last settle
  std::deque<std::uint64_t> held_;
};

}  // namespace comm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/comm/shared_counter.ipp>
#endif
