#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <vector>

#include <reef/core/units.hpp>
#include <reef/plan/allocation.hpp>
#include <reef/plan/detail/link_weights.hpp>

namespace reef {
inline namespace v0 {
namespace plan {

/// What the local search of genetic_allocation takes for the gain of moving a device to another group.
enum class GeneticGain {
  published,  ///< mean link to that group, less the fastest link to its own: of activations alone
  kernighan_lin,  ///< sum of activation less gradient times over that group, less that over its own
};

namespace detail {

/// The local search of genetic_allocation: devices move along a cycle of groups, P_0 to P_1, on to P_2, and
/// the last back to P_0, each time the one of greatest gain; the cycle is closed where the sum of gains
/// was greatest. At most S cycles, in which no device moves twice.
///
/// Kernighan and Lin's search returns the state after the cycle to which the sum of gains is greatest. As
/// published, what is returned is the state one cycle before: of a single cycle, the state that was given.
///
/// Source: Yuan et al., arXiv 2206.01288, section 3.4, and its published program.
class CyclicMoves {
public:
  CyclicMoves(const AllocationProblem& problem, GeneticGain gain)
      : groups_(problem.stages), size_(problem.pipelines), gain_(gain), weights_(whole(problem)) {}

  /// Moves devices out of groups that have too many, in the order of devices, each to the first that has room.
  void mend_sizes(std::vector<int>& labels) const {
    std::vector<int> sizes = sizes_of(labels);
    for (int& label : labels) {
      if (sizes.data()[label] <= size_) continue;
      int to = 0;
      while (sizes.data()[to] >= size_) ++to;
      ++sizes.data()[to];
      --sizes.data()[label];
      label = to;
    }
  }

  void improve(std::vector<int>& labels) const {
    if (size_ < 2 || groups_ < 2) return;  // no gain is defined
    std::vector<std::vector<int>> states{labels};
    std::vector<double> sums{0};
    std::vector<char> locked(labels.size(), 0);
    std::vector<char> reached(static_cast<std::size_t>(groups_), 0);
    for (int cycle = 0; cycle < groups_; ++cycle) {
      std::vector<int> state = states.back();
      double sum = 0;
      if (!run_cycle(state, sum, locked, reached)) break;
      states.push_back(std::move(state));
      sums.push_back(sum);
      if (std::all_of(reached.begin(), reached.end(), [](char r) { return r != 0; })) break;
    }
    double most = 0;
    double sum = 0;
    std::size_t chosen = 0;
    for (std::size_t i = 1; i < sums.size(); ++i) {
      const std::size_t state = gain_ == GeneticGain::published ? i - 1 : i;
      sum += sums[state];
      if (sum > most) {
        most = sum;
        chosen = state;
      }
    }
    labels = states[chosen];
  }

private:
  static constexpr double none = -std::numeric_limits<double>::infinity();

  struct Move {
    int device = -1;
    int to = -1;
    double gain = none;
    std::vector<double> gains;  // the best to each group
  };

  /// With the whole gradient on each link, not a shard of it.
  static LinkWeights whole(AllocationProblem problem) {
    problem.pipelines = 1;
    return link_weights(problem);
  }

  [[nodiscard]] std::vector<int> sizes_of(const std::vector<int>& labels) const {
    std::vector<int> sizes(static_cast<std::size_t>(groups_), 0);
    for (const int label : labels) ++sizes.data()[label];
    return sizes;
  }

  /// The move out of a group that gains most.
  [[nodiscard]] Move best_move(const std::vector<int>& labels, const std::vector<char>& locked,
                               int from) const {
    const std::vector<int> sizes = sizes_of(labels);
    Move best;
    best.gains.assign(static_cast<std::size_t>(groups_), none);
    const bool published = gain_ == GeneticGain::published;
    const int devices = static_cast<int>(labels.size());
    int chosen =
        -1;  // published: of each group only the device whose fastest inner link is the fastest
    if (published) {
      Seconds fastest = std::numeric_limits<Seconds>::infinity();
      for (int d = 0; d < devices; ++d) {
        if (labels.data()[d] != from || locked.data()[d] != 0) continue;
        const Seconds own = fastest_inner(labels, d);
        if (own >= fastest) continue;
        fastest = own;
        chosen = d;
      }
      if (chosen < 0) return best;
    }
    for (int d = 0; d < devices; ++d) {
      if (labels.data()[d] != from || locked.data()[d] != 0 || (published && d != chosen)) continue;
      std::vector<double> to(static_cast<std::size_t>(groups_), 0);
      for (int e = 0; e < devices; ++e) {
        if (e == d) continue;
        const int group = labels.data()[e];
        const Seconds activation = weights_.pp_of(d)[e] / 2;
        to.data()[group] += published ? (group == from ? 0 : activation / sizes.data()[group])
                                      : activation - weights_.dp_of(d)[e] / 2;
      }
      const double own = published ? fastest_inner(labels, d) : to.data()[from];
      for (int group = 0; group < groups_; ++group) {
        if (group == from) continue;
        const double gain = to.data()[group] - own;
        best.gains.data()[group] = (std::max)(best.gains.data()[group], gain);
        if (gain <= best.gain) continue;
        best.gain = gain;
        best.device = d;
        best.to = group;
      }
    }
    return best;
  }

  [[nodiscard]] Seconds fastest_inner(const std::vector<int>& labels, int device) const {
    Seconds fastest = std::numeric_limits<Seconds>::infinity();
    for (int e = 0; e < static_cast<int>(labels.size()); ++e) {
      if (e != device && labels.data()[e] == labels.data()[device]) {
        fastest = (std::min)(fastest, weights_.pp_of(device)[e] / 2);
      }
    }
    return fastest;
  }

  /// One cycle; false where no device is free.
  bool run_cycle(std::vector<int>& labels, double& sum, std::vector<char>& locked,
                 std::vector<char>& reached) const {
    int start = 0;
    double most = none;
    for (int group = 0; group < groups_; ++group) {
      const Move move = best_move(labels, locked, group);
      if (move.gain <= most) continue;
      most = move.gain;
      start = group;
    }
    if (most == none) return false;
    struct Step {
      int device, from;
      double gain, home;
    };
    std::vector<Step> steps;
    for (int from = start; steps.size() < labels.size();) {
      Move move = best_move(labels, locked, from);
      if (move.device < 0) {  // nobody is free there: who has just come goes on to the start
        move.device = steps.back().device;
        move.to = start;
      }
      steps.push_back({move.device, from, move.gain, move.gains.data()[start]});
      labels.data()[move.device] = move.to;
      locked.data()[move.device] = 1;
      reached.data()[move.to] = 1;
      from = move.to;
      if (from == start) break;
    }
    std::size_t last = 0;
    double before = 0;
    for (std::size_t i = 1; i < steps.size(); ++i) {
      before += steps[i - 1].gain;
      if (before + steps[i].home > sum) {
        sum = before + steps[i].home;
        last = i;
      }
    }
    for (std::size_t i = steps.size() - 1; i > last; --i)
      labels.data()[steps[i].device] = steps[i].from;
    labels.data()[steps[last].device] = start;
    return true;
  }

  int groups_;
  int size_;
  GeneticGain gain_;
  LinkWeights weights_;
};

}  // namespace detail

}  // namespace plan
}  // namespace v0
}  // namespace reef
