#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/io/json.hpp>
#include <reef/plan/pipeline_model.hpp>

namespace reef {
inline namespace v0 {
namespace plan {

/// A pipeline as read from a file, and the name of its schedule unless the order is to be searched. All times are in
/// one unit, whichever.
struct PipelineCase {
  std::string schedule{};  ///< name of the schedule, one of pipeline_schedule_names; empty: to be searched
  int ranks = 0;
  int micro_batches = 0;
  int chunks_per_rank = 1;
  bool folds = false;          ///< true: chunks are placed in a V: rank r has the chunks r and 2 ranks - 1 - r
  /// The number of forwards that each rank runs first under 1f1b; empty: the schedule's own.
  std::vector<int> warm_up{};
  int group = 0;  ///< the micro-batches that interleaved schedules run through a chunk in turn; 0: the number of ranks
  PipelineTimes times{};
  /// Time for which a message occupies its link, at [from * ranks + to], in the unit of all times.
  std::vector<double> wires{};
  /// The most activations that each rank may hold at a time, one for each chunk and micro-batch; empty: any.
  std::vector<int> max_activations{};
  /// True: backwards may be split into the tasks I (gradient of inputs) and W (gradient of weights).
  bool splits = true;

  /// Returns the order of tasks on each rank by `schedule`. Throws OptionError if that does not allow chunks_per_rank
  /// chunks.
  [[nodiscard]] PipelineOrder order() const;

  /// Returns the rank of each chunk, as `folds` places them, or as `schedule` does if its placement differs.
  [[nodiscard]] std::vector<int> rank_of_chunk() const;

  /// Returns the timed model of an order of this pipeline's tasks, in which each chunk hands one tensor to the next.
  [[nodiscard]] PipelineModel model(PipelineOrder order) const;
};

/// The most ranks that a pipeline in a file may have.
inline constexpr int max_case_ranks = 1024;

/// Reads a pipeline, with its schedule or the limits of a search, from JSON.
///
/// | p, m, v         | ranks, micro-batches, chunks on each rank (1 if v is left out)         |
/// | schedule        | the schedule's name; may be left out where the order is to be searched |
/// | placement       | linear, loop or v; may be left out, since the schedule decides it      |
/// | t_f, t_b, t_w   | times of F, I and W, by chunk                                          |
/// | links           | {from, to, wire_us, latency_us}; links that are left out take no time  |
/// | warm_up, group  | the warm-up of 1f1b, by rank; the group of interleaved schedules       |
/// | max_activations | the most at a time, by rank; split: a backward may run as I and W      |
/// | errors          | DecodeError, naming the member                                         |
///
/// \code
/// const io::Json json = io::read_json("case.json");
/// const plan::PipelineCase asked = plan::pipeline_case_from_json(json, "case.json");
/// const plan::PipelineEstimate estimate = plan::estimate(asked.model(asked.order()));
/// \endcode
///
/// \code
/// const io::Json json = io::read_json("case.json");
/// const plan::PipelineCase read = plan::pipeline_case_from_json(json, "case.json");
/// const Seconds makespan = plan::estimate(read.model(read.order())).makespan;
/// \endcode
PipelineCase pipeline_case_from_json(const io::Json& json, std::string_view source);

}  // namespace plan
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/plan/pipeline_case_json.ipp>
#endif
