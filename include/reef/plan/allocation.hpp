#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/units.hpp>
#include <reef/profile/network.hpp>

namespace reef {
inline namespace v0 {
namespace plan {

/// The most devices that allocate(), the placement of stages on devices, accepts.
inline constexpr int max_allocated_devices = 4096;

/// A problem for allocate(): devices that are to train a model in D_DP pipelines of D_PP stages each.
///
/// Each device runs one stage and holds a copy of its weights. The D_DP devices of a stage are a group, which
/// all-reduces gradients; devices of neighbouring stages are matched into pipelines.
struct AllocationProblem {
  profile::Network network;  ///< the N devices and their links
  int stages = 0;            ///< number D_PP of stages of a pipeline
  int pipelines = 0;         ///< number D_DP of pipelines
  double activation_bytes =
      0;                      ///< bytes c_pp that one pipeline sends from a stage to the next in an iteration, one way
  double gradient_bytes = 0;  ///< bytes c_dp of the gradients of one stage's weights
  /// True: the cost of a message is that of its direction of the link. False, as in the paper: both directions of a
  /// link have the mean of their two latencies and the mean of their two rates.
  bool directed = false;
  std::vector<double> speeds;    ///< FLOP/s of each device; empty: compute time is not counted
  double stage_flops = 0;        ///< FLOPs of one stage of one pipeline in an iteration; 0: not counted
  std::vector<double> memories;  ///< bytes of memory of each device; empty: a stage fits on each
  double stage_bytes = 0;        ///< bytes of memory that one stage needs

  /// Returns the problem of the same model and batch with other numbers of stages and pipelines. The figures of a stage
  /// are scaled by D_PP / new_stages, those of a pipeline's share of the batch by D_DP / new_pipelines.
  [[nodiscard]] AllocationProblem in_shape(int new_stages, int new_pipelines) const;

  /// Throws OptionError, naming the first invalid field of the problem.
  void validate() const;
};

/// The search effort (number of rounds) of allocate() if neither an effort nor a time limit is given: some seconds for
/// 64 devices on two cores.
inline constexpr int default_effort = 20;

/// Options of allocate(): the effort of the search, and whether it chooses the numbers of stages and pipelines.
struct AllocationOptions {
  std::uint64_t seed = 0;
  int effort =
      -1;  ///< number of rounds of the search; -1: default_effort, or if there is a budget, as many as it allows
  Seconds budget = 0;      ///< time limit in seconds: the search stops at the last whole round within it; 0: no limit
  int threads = 0;         ///< threads of the search; 0: all cores. The number of threads does not change the result
  bool any_shape = false;  ///< true: the search chooses D_PP (stages) and D_DP (pipelines) too
  /// A function called after every finished round of the search, with its number and the least cost so far, in seconds.
  std::function<void(int, Seconds)> progress = {};
};

/// The cost of one iteration in seconds: Eq. 1 of arXiv 2206.01288, see allocation_cost.
struct AllocationCost {
  Seconds compute = 0;    ///< the compute seconds of the slowest device in use; 0 if no speeds are given
  Seconds datap = 0;      ///< seconds to reduce gradients in the slowest group (Eq. 2)
  Seconds pipelinep = 0;  ///< seconds of the messages between stages, from the first group to the last (Eq. 4)

  [[nodiscard]] Seconds total() const { return compute + datap + pipelinep; }
  friend bool operator==(const AllocationCost&, const AllocationCost&) = default;
};

/// A placement sigma of stages on devices: sigma[pipeline][stage] is a device's number; D_DP pipelines of D_PP devices,
/// none twice.
using Placement = std::vector<std::vector<int>>;

/// The result of allocate(): a placement of stages on devices, its cost, and a lower bound of the cost of all
/// placements.
struct Allocation {
  bool feasible = false;
  std::string why;  ///< the reason why no placement is feasible, if none is
  int stages = 0;
  int pipelines = 0;
  Placement sigma;
  AllocationCost cost;  ///< cost of the placement sigma
  Seconds lower_bound =
      0;  ///< lower bound in seconds of the cost of any placement; with any_shape, of those in tried shapes
  bool optimal = false;  ///< true: the cost equals lower_bound, so no placement costs less
  int effort = 0;        ///< number of finished rounds of the search
};

}  // namespace plan
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/plan/allocation.ipp>
#endif
