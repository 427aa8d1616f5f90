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

/// How many devices allocate takes.
inline constexpr int most_allocated_devices = 4096;

/// Devices that are to train a model in D_DP pipelines of D_PP stages each.
///
/// Device d of stage j holds a copy of that stage's weights; the D_DP devices of a stage are a group,
/// which reduces gradients, and devices of neighbouring stages are matched into pipelines.
struct AllocationProblem {
  profile::Network network;  ///< N devices
  int stages = 0;            ///< D_PP
  int pipelines = 0;         ///< D_DP
  double activation_bytes =
      0;  ///< c_pp: between two stages of one pipeline, of an iteration, one way
  double gradient_bytes = 0;  ///< c_dp: of the weights of one stage
  /// Judges each message by the link in its own direction. Otherwise both directions of a link have the
  /// mean of their latencies and the mean of their rates, as the paper has it.
  bool directed = false;
  std::vector<double> speeds;    ///< FLOP/s of each device, or empty: they do not differ
  double stage_flops = 0;        ///< of one stage and one pipeline, of an iteration; 0: not counted
  std::vector<double> memories;  ///< bytes of each device, or empty: all have room
  double stage_bytes = 0;        ///< memory that one stage takes

  /// The same model and batch in another shape: a stage is D_PP / stages of what it was, a pipeline's
  /// share of the batch D_DP / pipelines.
  [[nodiscard]] AllocationProblem in_shape(int new_stages, int new_pipelines) const;

  /// Throws OptionError, naming the field.
  void validate() const;
};

/// Some seconds for 64 devices on two cores.
inline constexpr int default_effort = 20;

/// How long to search, and what for.
struct AllocationOptions {
  std::uint64_t seed = 0;
  int effort =
      -1;  ///< rounds of the search; -1: default_effort, or all that the budget has time for
  Seconds budget = 0;      ///< stops at the last whole round within it; 0: no limit
  int threads = 0;         ///< 0: all cores; they change no answer
  bool any_shape = false;  ///< chooses D_PP and D_DP too
  /// Is told of every effort that was finished: its number, and the least cost so far.
  std::function<void(int, Seconds)> progress = {};
};

/// Eq. 1: what one iteration communicates, in seconds.
struct AllocationCost {
  Seconds compute = 0;    ///< of the slowest device that is used; 0 where no speeds are given
  Seconds datap = 0;      ///< Eq. 2, of the slowest group
  Seconds pipelinep = 0;  ///< Eq. 4, along the path of groups

  [[nodiscard]] Seconds total() const { return compute + datap + pipelinep; }
  friend bool operator==(const AllocationCost&, const AllocationCost&) = default;
};

/// sigma[pipeline][stage] is a device: D_DP pipelines of D_PP devices, no device twice.
using Placement = std::vector<std::vector<int>>;

/// Where to put what, how good that is, and how good anything can be.
struct Allocation {
  bool feasible = false;
  std::string why;  ///< where it is not
  int stages = 0;
  int pipelines = 0;
  Placement sigma;
  AllocationCost cost;  ///< of sigma
  Seconds lower_bound =
      0;                 ///< no placement costs less; with any_shape, of the shapes that are tried
  bool optimal = false;  ///< proven: lower_bound is the cost
  int effort = 0;        ///< rounds that were finished
};

}  // namespace plan
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/plan/allocation.ipp>
#endif
