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

/// The state of a SharedCounter, as a checkpoint must store it. The numbers used so far are those below `next` except
/// those in `unused`.
struct CounterState {
  std::uint64_t next = 0;               ///< the lowest number that was not given to any rank yet
  std::vector<std::uint64_t> unused{};  ///< numbers given to a rank that has not used them yet; ascending

  /// Returns true if the counter's state is valid: from an invalid one a counter would give a number twice.
  [[nodiscard]] bool is_valid() const;

  friend bool operator==(const CounterState&, const CounterState&) = default;
};

/// A counter that all ranks share: it gives each of the numbers 0, 1, 2, ... to one rank, as ranks ask for them.
///
/// \code
/// // given: comm::Progress& progress
/// comm::SharedCounter counter(progress, "micro-batches");
/// const std::uint64_t number = counter.next();  // which micro-batch this rank takes next
/// \endcode
///
/// So ranks of unequal speed process unequal parts of one sequence, in order except for numbers in transit.
/// Each rank requests its next number when it receives one, so that the answer travels while the rank computes.
///
/// | who     | all ranks construct it, and call state and reset, between uses: collective, both               |
/// |         | block. A rank calls next by itself: any thread but the progress thread, one at a time          |
/// | next    | needs no message on rank 0; on others it waits for the rest of the round trip, the first       |
/// |         | time for all of it. A rank that stops asking delays no other                                   |
/// | held    | every rank but 0 holds at most one unused number: `state` lists these, so that a               |
/// |         | resumed job leaves none out                                                                    |
/// | wire    | a claim: cost_of_claim from the rank to rank 0, and cost_of_answer back; over                  |
/// |         | shaped links like all messages. state and reset: two all-gathers each                          |
/// | answers | rank 0's progress thread sends them, whatever its other threads do, until its                  |
/// |         | Progress object ends; for that it tests for claims even while it has no task                   |
/// | errors  | the error that ended the Progress object, as from Progress::wait; OptionError on all ranks for |
/// |         | a state that is invalid, or not the same on all: the counter is unchanged then                 |
/// | end     | waits for the answer to the claim in flight, at most a round trip                              |
///
/// Counters that exist at the same time must have different names; a later counter of the same name starts anew.
class SharedCounter {
public:
  static constexpr Cost cost_of_claim{1, header_bytes, 0};
  static constexpr Cost cost_of_answer{1, sizeof(detail::Allotment), 0};

  /// Constructs a counter that continues from the state `from`, the same on all ranks.
  SharedCounter(Progress& progress, const std::string& name, const CounterState& from = {});

  SharedCounter(const SharedCounter&) = delete;
  SharedCounter& operator=(const SharedCounter&) = delete;
  ~SharedCounter();

  /// Returns the next number of the shared sequence for this rank to use.
  std::uint64_t next();

  /// Returns the state of the counter on all ranks together, on all ranks. Changes nothing.
  CounterState state();

  /// Continues from the state `from`, the same on all ranks, and forgets the former one: the unused numbers of
  /// `from` are given first, to the ranks in turn; the number of ranks may differ from when the state was stored.
  void reset(const CounterState& from);

private:
  /// Requests the number to be used next from rank 0, if none is held.
  void fetch();

  void claim();

  /// Waits for the answer to the request for a number that is in flight, if there is one.
  void settle();

  /// Throws OptionError on all ranks unless all pass the same counter state, and it is valid.
  void check_state(const CounterState& state);

  [[nodiscard]] std::vector<std::int64_t> one_each() const {
    return even_offsets(progress_->size(), progress_->size());
  }

  /// Returns the numbers of all ranks, one rank after the other. All ranks call it.
  std::vector<std::uint64_t> gather(const std::vector<std::uint64_t>& mine,
                                    std::vector<std::int64_t> offsets);

  Progress* progress_;
  Queue* queue_;
  detail::ClaimDesk* desk_;  // the desk that answers claims; null on all ranks but 0
  detail::ClaimTask claim_;  // the task that requests numbers, on all ranks but 0
  bool claiming_ = false;    // true if a claim was sent since the last settle
  std::deque<std::uint64_t> held_;
};

}  // namespace comm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/comm/shared_counter.ipp>
#endif
