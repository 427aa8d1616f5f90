#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/text.hpp>
#include <reef/plan/chain.hpp>
#include <reef/plan/detail/chain_sums.hpp>
#include <reef/schedule/program.hpp>
#include <reef/schedule/simulate.hpp>

namespace reef::inline v0::plan {

/// How sub-models pass through the device.
///
/// | two_lanes      | ATOM as published: a load beside the sub-model that runs; what leaves, leaves on the   |
/// |                | compute lane. The last stays for its backward, the first for the next forward          |
/// | three_lanes    | as that, and what leaves has a lane of its own                                         |
/// | streaming      | every micro-batch by itself through all sub-models, the next loaded beside, what       |
/// |                | leaves on a lane of its own: layer streaming, as ZeRO-Offload's                        |
/// | streaming_sync | as that, and nothing beside anything                                                   |
enum class SwapLanes : std::uint8_t { two_lanes, three_lanes, streaming, streaming_sync };

/// The names of case files.
constexpr std::optional<SwapLanes> swap_lanes_of(std::string_view name) {
  constexpr std::array<std::string_view, 4> names{"atom2", "atom3", "zero", "zero_sync"};
  const auto* const found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) return std::nullopt;
  return static_cast<SwapLanes>(found - names.begin());
}

struct SwapSchedule {
  std::int64_t accumulation = 1;
  SwapLanes lanes = SwapLanes::three_lanes;
  /// Sub-models on the device at once, with three lanes; 0 asks only that one has left when it runs again.
  /// Two lanes have two, and what streams has no limit.
  int slots = 0;
  bool turn = false;  ///< loads begin one sub-model earlier at the two turns
};

/// What a schedule takes, in the chain's ticks.
struct SwapTimes {
  /// In the steady state: after some dozen others, of which it is the mean where they differ.
  Ticks iteration = 0;
  Ticks compute = 0;  ///< of it, forwards and backwards
  Ticks first = 0;    ///< the first iteration, which begins with nothing on the device

  [[nodiscard]] double utilisation() const {
    return iteration > 0 ? static_cast<double>(compute) / static_cast<double>(iteration) : 0;
  }
};

namespace detail {

/// How many iterations it takes to be in the steady state.
inline constexpr int most_rounds = 64;

[[nodiscard]] constexpr bool streams(SwapLanes lanes) {
  return lanes == SwapLanes::streaming || lanes == SwapLanes::streaming_sync;
}

inline void check_swap(const Chain& chain, std::span<const int> bounds,
                       const SwapSchedule& schedule) {
  chain.validate(schedule.accumulation);
  const bool cut =
      bounds.size() >= 3 && bounds.front() == 0 && bounds.back() == chain.size() &&
      std::adjacent_find(bounds.begin(), bounds.end(), std::greater_equal<>()) == bounds.end();
  if (!cut) {
    throw OptionError("reef::plan::swap_program: ", bounds.size(), " bounds do not cut a chain of ",
                      chain.size(), " operators.\n  fix: ascending, the first 0, the last ",
                      chain.size(), ", and one between them at least.");
  }
  if (schedule.slots != 0 && schedule.slots < 2) {
    throw OptionError(
        "reef::plan::swap_program: ", schedule.slots,
        " slots.\n  fix: at least 2, one that runs and one that is loaded, or 0 for no limit.");
  }
  const ChainSums sums(chain, schedule.accumulation);
  const int n = chain.size();
  const double ticks =
      static_cast<double>(sums.forward(0, n)) + static_cast<double>(sums.backward(0, n)) +
      2.0 * static_cast<double>(sums.load(0, n)) + static_cast<double>(sums.leave_forward(0, n)) +
      static_cast<double>(sums.leave_backward(0, n));
  if (ticks * most_rounds > 9e15) {
    throw OptionError("reef::plan::swap_program: an iteration of up to ", ticks,
                      " units of time.\n  why: virtual time is exact below 2^53, for ", most_rounds,
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
  SwapWriter(const Chain& chain, std::span<const int> bounds, const SwapSchedule& schedule)
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
    // With one for each load of an iteration and one that stays, a load waits for nothing of its own
    // iteration: no limit is looser than that.
    const int slots = two ? 2 : std::min(schedule_.slots, loads + 1);
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
        const int leaves = resident + 1 - slots;
        if (!two && slots > 0) waits.push_back(left[leaves < 0 ? leaves + loads : leaves]);
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

  schedule::Instruction& add(const char* kind, schedule::Lane lane, int s, Ticks ticks) {
    schedule::Instruction& instruction = program_.add(kind, lane, s);
    instruction.cost.seconds = static_cast<double>(ticks);
    return instruction;
  }

  void load(int s, schedule::StorageId here, const std::vector<schedule::StorageId>& waits) {
    schedule::Instruction& instruction =
        add("Load", schedule::Lane::load, s, sums_.load(begin(s), begin(s + 1)));
    for (const schedule::StorageId wait : waits) instruction.reads.push_back({wait, 0});
    instruction.writes.push_back({here, 0});
  }

  void run(int use, int resident, const Signs& here, const Signs& done) {
    const bool forward = use < segments_;
    const int s = segment(use);
    const ChainSums& sums = streams(schedule_.lanes) ? one_ : sums_;
    schedule::Instruction& instruction =
        add(forward ? "Forward" : "Backward", schedule::Lane::compute, s,
            forward ? sums.forward(begin(s), begin(s + 1)) : sums.backward(begin(s), begin(s + 1)));
    instruction.reads.push_back({here[resident], 0});
    instruction.writes.push_back({done[use], 0});
  }

  /// On the compute lane, what runs is not done before what ran has left.
  void leave(int use, schedule::Lane lane, schedule::StorageId left, schedule::StorageId done) {
    const int s = segment(use);
    schedule::Instruction& instruction =
        add("Evict", lane, s,
            use < segments_ ? sums_.leave_forward(begin(s), begin(s + 1))
                            : sums_.leave_backward(begin(s), begin(s + 1)));
    (lane == schedule::Lane::compute ? instruction.accumulates : instruction.reads)
        .push_back({done, 0});
    instruction.writes.push_back({left, 0});
  }

  ChainSums sums_;
  ChainSums one_;
  std::span<const int> bounds_;
  const SwapSchedule& schedule_;
  int segments_;
  schedule::Program program_;
};

/// When the last backward of each round ended.
inline std::vector<Ticks> ends_of(const schedule::Program& program, const schedule::Simulation& run,
                                  int rounds) {
  std::vector<Ticks> ends(static_cast<std::size_t>(rounds), 0);
  for (const schedule::SimulatedSpan& span : run.spans) {
    if (program.round[span.instruction].kind != "Backward") continue;
    Ticks& end = ends[static_cast<std::size_t>(span.round)];
    end = std::max(end, static_cast<Ticks>(span.end));
  }
  return ends;
}

}  // namespace detail

/// The program of an iteration, of streaming that of one micro-batch; costs in ticks instead of seconds.
/// `cold`: it begins with nothing on the device. Throws OptionError for bounds that do not cut the chain,
/// fewer than 2 slots, or times too long for a virtual clock.
inline schedule::Program swap_program(const Chain& chain, std::span<const int> bounds,
                                      const SwapSchedule& schedule, bool cold = false) {
  detail::check_swap(chain, bounds, schedule);
  detail::SwapWriter writer(chain, bounds, schedule);
  return detail::streams(schedule.lanes) ? writer.streaming() : writer.atom(cold);
}

/// What a schedule takes: swap_program in the simulator. Errors as swap_program.
///
/// Source: Wu et al., ATOM, arXiv 2403.10504, section III; two lanes, where loads are hidden, give the time
/// of partition_chain.
inline SwapTimes swap_times(const Chain& chain, std::span<const int> bounds,
                            const SwapSchedule& schedule) {
  const auto world = schedule::World::uniform(1, {}, {});
  const auto ends = [&](const schedule::Program& program, int rounds) {
    const schedule::Simulation run = schedule::simulate(std::span(&program, 1), world, rounds);
    return std::pair(detail::ends_of(program, run, rounds), static_cast<Ticks>(run.total));
  };
  const schedule::Program cold = swap_program(chain, bounds, schedule, true);
  const detail::ChainSums sums(chain, schedule.accumulation);
  SwapTimes result;
  result.compute = sums.forward(0, sums.size()) + sums.backward(0, sums.size());
  const auto [first, all] = ends(cold, 1);
  if (detail::streams(schedule.lanes)) {
    const Ticks one = schedule.lanes == SwapLanes::streaming_sync ? all : first[0];
    result.iteration = result.first = schedule.accumulation * one;
    return result;
  }
  result.first = first[0];
  const schedule::Program warm = swap_program(chain, bounds, schedule);
  const auto size = static_cast<int>(std::min<std::size_t>(warm.round.size(), 1 << 20));
  const int rounds = std::clamp((1 << 18) / size, 8, detail::most_rounds);
  const std::vector<Ticks> end = ends(warm, rounds).first;
  const auto at = [&](int round) { return end[static_cast<std::size_t>(round)]; };
  const Ticks last = at(rounds - 1) - at(rounds - 2);
  const int half = rounds / 2;
  const bool settled = last == at(rounds - 2) - at(rounds - 3);
  result.iteration = settled ? last : (at(rounds - 1) - at(rounds - 1 - half)) / half;
  return result;
}

}  // namespace reef::inline v0::plan
