#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/text.hpp>
#include <reef/plan/atom_schedule.hpp>
#include <reef/plan/chain.hpp>
#include <reef/plan/detail/chain_sums.hpp>
#include <reef/plan/kinds.hpp>
#include <reef/plan/partition.hpp>
#include <reef/schedule/program.hpp>

namespace reef {
inline namespace v0 {
namespace plan::detail {

/// How many iterations it takes to be in the steady state.
inline constexpr int max_rounds = 64;

[[nodiscard]] constexpr bool streams(SwapLanes lanes) {
  return lanes == SwapLanes::streaming || lanes == SwapLanes::streaming_sync;
}

inline void check_swap(const OperatorChain& chain, std::span<const int> bounds,
                       const AtomSchedule& schedule) {
  chain.validate(schedule.accumulation);
  chain.validate_bounds(bounds);
  if (bounds.size() > max_operators + 1) {
    throw OptionError("reef::plan::swap_program: ", bounds.size() - 1,
                      " sub-models.\n  why: what waits for what is looked for in all of them.\n"
                      "  fix: at most ",
                      max_operators, ".");
  }
  if (schedule.weight_slots != 0 && schedule.weight_slots < 2) {
    throw OptionError(
        "reef::plan::swap_program: ", schedule.weight_slots,
        " slots.\n  fix: at least 2, one that runs and one that is loaded, or 0 for no limit.");
  }
  if (schedule.weight_slots != 0 && schedule.lanes != SwapLanes::three_lanes) {
    throw OptionError("reef::plan::swap_program: 'slots' is ", schedule.weight_slots,
                      " where sub-models have no lane of their own to leave on.\n"
                      "  why: two lanes have two slots, and what streams has no limit.\n"
                      "  fix: three lanes (atom3), or leave slots out.");
  }
  if (schedule.turn && streams(schedule.lanes)) {
    throw OptionError(
        "reef::plan::swap_program: 'turn' where sub-models stream.\n"
        "  why: every micro-batch passes by itself, and there is no turn to load earlier at.\n"
        "  fix: two or three lanes (atom2, atom3), or leave turn out.");
  }
  const ChainSums sums(chain, schedule.accumulation);
  const int n = chain.size();
  const double ticks =
      static_cast<double>(sums.forward(0, n)) + static_cast<double>(sums.backward(0, n)) +
      2.0 * static_cast<double>(sums.load(0, n)) + static_cast<double>(sums.leave_forward(0, n)) +
      static_cast<double>(sums.leave_backward(0, n));
  if (ticks * max_rounds > 9e15) {
    throw OptionError("reef::plan::swap_program: an iteration of up to ", ticks,
                      " units of time.\n  why: virtual time is exact below 2^53, for ", max_rounds,
                      " iterations.\n  fix: a larger unit, or fewer micro-batches.");
  }
}

/// Writes the program of an iteration. Storages are signs without bytes: what a sub-model holds is the
/// planner's matter, when it may come and go is the schedule's. A use is a forward or a backward, counted
/// up and down; a residency is from a load to the last use before it leaves.
///
///     done[u]   use u has run; on two lanes, what it leaves has left, too. Loads wait for it
///     here[r]   residency r has been loaded. Its uses wait for it
///     left[r]   residency r has left. The load that takes its slot waits for it
class SwapWriter {
public:
  SwapWriter(const OperatorChain& chain, std::span<const int> bounds, const AtomSchedule& schedule)
      : sums_(chain, schedule.accumulation),
        one_(chain, 1),
        bounds_(bounds),
        schedule_(schedule),
        segments_(static_cast<int>(bounds.size()) - 1) {}

  /// Of ATOM: forwards of all sub-models, then backwards. `cold`: the first one is not there yet.
  schedule::Program atom(bool cold) {
    const int uses = 2 * segments_;
    const int loads = 2 * (segments_ - 1);
    const bool two = schedule_.lanes == SwapLanes::two_lanes;
    // With more slots than come in an iteration and stay from the last, a load would wait for an iteration
    // before the last, of which nothing is left.
    const int places = two ? 2 : (std::min)(schedule_.weight_slots, loads + 1);
    const Signs done = signs("done", uses);
    const Signs here = signs("here", loads + 1);
    const Signs left = signs("left", loads + 1);
    if (cold) load(0, here[0], {});
    int resident = 0;  // which of the loads brought the sub-model that runs
    for (int use = 0; use < uses; ++use) {
      const bool last_forward = use == segments_ - 1;
      if (!last_forward && use + 1 < uses) {
        // While this runs: after what ran before it. At a turn, one earlier still.
        const bool turns = schedule_.turn && (use == 0 || use == segments_);
        const int after = use - 1 - (turns ? 1 : 0);
        std::vector<schedule::StorageId> waits{done[after < 0 ? after + uses : after]};
        const int leaves = resident + 1 - places;
        if (!two && places > 0) waits.push_back(left[leaves < 0 ? leaves + loads : leaves]);
        load(segment(use + 1), here[resident + 1], waits);
      }
      // What the round before left on the device, this one finds there.
      run(use, resident, here, done);
      const bool stays = last_forward || use == uses - 1;
      if (!stays) {
        leave(use, two ? schedule::Lane::compute : schedule::Lane::evict, left[resident],
              done[use]);
        ++resident;
      }
    }
    return std::move(program_);
  }

  /// Of one micro-batch that streams through all sub-models.
  schedule::Program streaming() {
    const int uses = 2 * segments_;
    const bool sync = schedule_.lanes == SwapLanes::streaming_sync;
    const Signs done = signs("done", uses);
    const Signs here = signs("here", uses);
    const Signs left = signs("left", uses);
    const auto lane = sync ? schedule::Lane::compute : schedule::Lane::evict;
    load(0, here[0], {});
    for (int use = 0; use < uses; ++use) {
      const bool again = use == segments_ && !sync;  // it is still there
      if (sync && use > 0) load(segment(use), here[use], {done[use - 1]});
      if (!sync && use + 1 < uses && use + 1 != segments_) {
        std::vector<schedule::StorageId> waits;
        if (use > 0) waits.push_back(done[use - 1]);
        load(segment(use + 1), here[use + 1], waits);
      }
      run(use, again ? use - 1 : use, here, done);
      if (use >= segments_) leave(use, lane, left[use], done[use]);
    }
    return std::move(program_);
  }

private:
  struct Signs {
    schedule::StorageId first;
    schedule::StorageId operator[](int i) const {
      return first + static_cast<schedule::StorageId>(i);
    }
  };

  Signs signs(const char* name, int count) {
    const Signs result{static_cast<schedule::StorageId>(program_.storages.size())};
    for (int i = 0; i < count; ++i) {
      program_.add_storage(concat(name, " ", i), 0, schedule::Place::device,
                           schedule::Life::persistent);
    }
    return result;
  }

  /// Which sub-model a use is of: up, then down.
  [[nodiscard]] int segment(int use) const {
    return use < segments_ ? use : 2 * segments_ - 1 - use;
  }
  [[nodiscard]] int begin(int s) const { return bounds_[static_cast<std::size_t>(s)]; }

  schedule::Instruction& add(std::string_view kind, schedule::Lane lane, int s, Ticks ticks) {
    schedule::Instruction& instruction = program_.add(kind, lane, s);
    instruction.cost.seconds = static_cast<double>(ticks);
    return instruction;
  }

  void load(int s, schedule::StorageId here, const std::vector<schedule::StorageId>& waits) {
    schedule::Instruction& instruction =
        add(kinds::load, schedule::Lane::load, s, sums_.load(begin(s), begin(s + 1)));
    for (const schedule::StorageId wait : waits) instruction.reads.push_back({wait, 0});
    instruction.writes.push_back({here, 0});
  }

  void run(int use, int resident, const Signs& here, const Signs& done) {
    const bool forward = use < segments_;
    const int s = segment(use);
    const ChainSums& sums = streams(schedule_.lanes) ? one_ : sums_;
    schedule::Instruction& instruction =
        add(forward ? kinds::forward : kinds::backward, schedule::Lane::compute, s,
            forward ? sums.forward(begin(s), begin(s + 1)) : sums.backward(begin(s), begin(s + 1)));
    instruction.reads.push_back({here[resident], 0});
    instruction.writes.push_back({done[use], 0});
  }

  /// On the compute lane, what runs is not done before what ran has left.
  void leave(int use, schedule::Lane lane, schedule::StorageId left, schedule::StorageId done) {
    const int s = segment(use);
    schedule::Instruction& instruction =
        add(kinds::evict, lane, s,
            use < segments_ ? sums_.leave_forward(begin(s), begin(s + 1))
                            : sums_.leave_backward(begin(s), begin(s + 1)));
    (lane == schedule::Lane::compute ? instruction.accumulates : instruction.reads)
        .push_back({done, 0});
    instruction.writes.push_back({left, 0});
  }

  ChainSums sums_;
  ChainSums one_;
  std::span<const int> bounds_;
  const AtomSchedule& schedule_;
  int segments_;
  schedule::Program program_;
};

}  // namespace plan::detail
}  // namespace v0
}  // namespace reef
