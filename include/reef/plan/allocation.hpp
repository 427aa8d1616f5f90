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

/// The most devices that allocate takes.
inline constexpr int most_allocated_devices = 4096;

/// Devices that are to train a model in D_DP pipelines of D_PP stages each.
///
/// Device d of stage j holds a copy of that stage's weights; the D_DP devices of a stage are a group,
/// which reduces gradients, and devices of neighbouring stages are matched into pipelines.
struct AllocationProblem {
  profile::Network network;  ///< the N devices and their links
  int stages = 0;            ///< D_PP, the stages of a pipeline
  int pipelines = 0;         ///< D_DP, the number of pipelines
  double activation_bytes =
      0;  ///< c_pp: the bytes between two stages of one pipeline, in an iteration, one way
  double gradient_bytes = 0;  ///< c_dp: the bytes of the gradients of one stage's weights
  /// Judges each message by the link in its own direction. Otherwise both directions of a link have the
  /// mean of their latencies and the mean of their rates, as the paper has it.
  bool directed = false;
  std::vector<double> speeds;    ///< FLOP/s of each device, or empty: devices do not differ
  double stage_flops = 0;        ///< FLOPs of one stage of one pipeline in an iteration; 0: not counted
  std::vector<double> memories;  ///< bytes of each device, or empty: all have room
  double stage_bytes = 0;        ///< bytes of memory that one stage takes

  /// Returns the problem of the same model and batch in another shape: a stage is D_PP / new_stages of the old one, a
  /// pipeline's share of the batch D_DP / new_pipelines of the old one.
  [[nodiscard]] AllocationProblem in_shape(int new_stages, int new_pipelines) const;

  /// Throws OptionError, naming the first invalid field.
  void validate() const;
};

/// The effort where none is given: some seconds for 64 devices on two cores.
inline constexpr int default_effort = 20;

/// Options of allocate: the effort of the search, and its target.
struct AllocationOptions {
  std::uint64_t seed = 0;
  int effort =
      -1;  ///< rounds of the search; -1: default_effort, or as many as the budget has time for
  Seconds budget = 0;      ///< the time limit: the search stops at the last whole round within it; 0: no limit
  int threads = 0;         ///< threads of the search; 0: all cores. Their number changes no answer
  bool any_shape = false;  ///< the search chooses D_PP and D_DP too
  /// A function called after every finished effort, with its number and the least cost so far.
  std::function<void(int, Seconds)> progress = {};
};

/// Eq. 1: the cost of one iteration, in seconds.
struct AllocationCost {
  Seconds compute = 0;    ///< the compute time of the slowest device in use; 0 if no speeds are given
  Seconds datap = 0;      ///< Eq. 2: the time of data parallelism in the slowest group
  Seconds pipelinep = 0;  ///< Eq. 4: the time of pipeline parallelism along the path of groups

  [[nodiscard]] Seconds total() const { return compute + datap + pipelinep; }
  friend bool operator==(const AllocationCost&, const AllocationCost&) = default;
};

/// A placement sigma: sigma[pipeline][stage] is a device; D_DP pipelines of D_PP devices, no device twice.
using Placement = std::vector<std::vector<int>>;

/// The result of allocate: a placement, its cost, and a lower bound of all placements' cost.
struct Allocation {
  bool feasible = false;
  std::string why;  ///< the reason, if no placement is feasible
  int stages = 0;
  int pipelines = 0;
  Placement sigma;
  AllocationCost cost;  ///< the cost of sigma
  Seconds lower_bound =
      0;                 ///< no placement costs less; with any_shape, none of the shapes that are tried
  bool optimal = false;  ///< proven: lower_bound is the cost
  int effort = 0;        ///< the number of finished rounds
};

}  // namespace plan
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/plan/allocation.ipp>
#endif
