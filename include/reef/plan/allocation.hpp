#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/finite.hpp>
#include <reef/core/units.hpp>
#include <reef/profile/network.hpp>

namespace reef::inline v0::plan {

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
  [[nodiscard]] AllocationProblem in_shape(int new_stages, int new_pipelines) const {
    AllocationProblem result = *this;
    const double stage = static_cast<double>(stages) / new_stages;
    const double share = static_cast<double>(pipelines) / new_pipelines;
    result.stages = new_stages;
    result.pipelines = new_pipelines;
    result.activation_bytes *= share;
    result.gradient_bytes *= stage;
    result.stage_flops *= stage * share;
    result.stage_bytes *= stage;
    return result;
  }

  /// Throws OptionError, naming the field.
  void validate() const {
    network.validate();
    const auto refuse = [](const auto&... what) {
      throw OptionError("reef::plan::allocate: ", what...);
    };
    if (network.devices > most_allocated_devices) {
      refuse("there are ", network.devices, " devices.\n  fix: at most ", most_allocated_devices,
             ".");
    }
    if (stages < 1) refuse("D_PP is ", stages, ".\n  fix: at least 1 stage.");
    if (pipelines < 1) refuse("D_DP is ", pipelines, ".\n  fix: at least 1 pipeline.");
    const auto check = [&](const char* name, double value, double least) {
      if (within(value, least, 1e21)) return;
      refuse(name, " is ", value, ".\n  fix: a number from ", least, " to 1e21.");
    };
    check("c_pp_bytes", activation_bytes, 0);
    check("c_dp_bytes", gradient_bytes, 0);
    check("stage_flops", stage_flops, 0);
    check("stage_bytes", stage_bytes, 0);
    const auto check_all = [&](const char* name, const std::vector<double>& values, double least) {
      if (!values.empty() && values.size() != static_cast<std::size_t>(network.devices)) {
        refuse(name, " has ", values.size(), " numbers for ", network.devices,
               " devices.\n  fix: one for each.");
      }
      for (const double value : values) check(name, value, least);
    };
    check_all("speed", speeds, 1);
    check_all("cap", memories, 0);
    if (stage_flops > 0 && speeds.empty()) {
      refuse("stage_flops is given without speed.\n  fix: FLOP/s of each device.");
    }
    if (stage_bytes > 0 && memories.empty()) {
      refuse("stage_bytes is given without cap.\n  fix: the memory of each device.");
    }
  }
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

}  // namespace reef::inline v0::plan
