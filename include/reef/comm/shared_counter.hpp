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

/// Where a SharedCounter is: all that a checkpoint must keep. The numbers that were used are those below
/// `next` but for `unused`.
struct CounterState {
  std::uint64_t next = 0;               ///< no rank was given this one, or one above
  std::vector<std::uint64_t> unused{};  ///< given to a rank that has not used them yet; ascending

  /// Whether a counter can be in it: else a number would be given twice.
  [[nodiscard]] bool possible() const;

  friend bool operator==(const CounterState&, const CounterState&) = default;
};

/// Numbers that all ranks share: 0, 1, 2, ..., each given to one of them, as they ask.
///
/// \code
/// // given: comm::Progress& progress
/// comm::SharedCounter counter(progress, "micro-batches");
/// const std::uint64_t number = counter.next();  // which micro-batch this rank takes next
/// \endcode
///
/// Ranks of unequal speed so take unequal parts of one sequence, in order but for what is under way.
/// Each rank asks for its next number when it is given one, so that the answer travels while it computes.
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
/// | errors   | what ended the Progress object, as of Progress::wait; OptionError on all ranks for  |
/// |          | a state that no counter was in, or not the same everywhere: unchanged then          |
/// | end      | waits for the answer to the claim in flight, a round trip at most                   |
///
/// Two at a time have names of their own; who takes a name again begins anew.
class SharedCounter {
public:
  static constexpr Cost cost_of_claim{1, header_bytes, 0};
  static constexpr Cost cost_of_answer{1, sizeof(detail::Allotment), 0};

  /// Goes on from `from`, the same on all ranks.
  SharedCounter(Progress& progress, const std::string& name, const CounterState& from = {});

  SharedCounter(const SharedCounter&) = delete;
  SharedCounter& operator=(const SharedCounter&) = delete;
  ~SharedCounter();

  /// The number that this rank shall use now.
  std::uint64_t next();

  /// Where all ranks together are, on all ranks. Changes nothing.
  CounterState state();

  /// Goes on from `from`, the same on all ranks, and forgets what was: its unused numbers are given
  /// first, to the ranks in turn, of whatever number of ranks it was.
  void reset(const CounterState& from);

private:
  /// Makes a number the next to be used, where none is held.
  void fetch();

  void claim();

  /// Waits for the answer to the claim in flight, if there is one.
  void settle();

  /// Throws OptionError on all ranks unless all give the same state, of which a counter can be.
  void check_state(const CounterState& state);

  [[nodiscard]] std::vector<std::int64_t> even() const {
    return even_offsets(progress_->size(), progress_->size());
  }

  /// The numbers of all ranks, by rank. Collective.
  std::vector<std::uint64_t> gather(const std::vector<std::uint64_t>& mine,
                                    std::vector<std::int64_t> offsets);

  Progress* progress_;
  Queue* queue_;
  detail::ClaimDesk* desk_;  // rank 0 alone has one
  detail::ClaimTask claim_;  // the other ranks'
  bool claiming_ = false;    // since the last settle
  std::deque<std::uint64_t> held_;
};

}  // namespace comm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/comm/shared_counter.ipp>
#endif
