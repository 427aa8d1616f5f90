#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/units.hpp>
#include <reef/plan/pipeline_model.hpp>
#include <reef/plan/pipeline_order.hpp>

/// \file
/// The search for the best order of a pipeline with measured times: uneven chunks, slow links, little memory.
///
/// \code
/// // given: const plan::PipelineTimes& measured
/// plan::PipelineOrderProblem problem{16, {0, 1, 2, 3}, measured};  // 16 micro-batches, a chunk on each of 4 ranks
/// problem.max_activations = {4, 4, 4, 4};
/// const plan::PipelineSearch found = plan::search_pipeline_order(problem);
/// const double gain = 1 - found.makespan / found.fixed_makespan;  // over the best known schedule that fits
/// \endcode

namespace reef {
inline namespace v0 {
namespace plan {

/// A pipeline whose order of tasks is to be searched.
struct PipelineOrderProblem {
  int micro_batches = 0;
  std::vector<int> rank_of_chunk{};  ///< the rank of each chunk (part of the model); each rank has one chunk at least
  PipelineTimes times{};
  /// The tensors that chunks hand forward, as PipelineModel::forward; `backward` likewise.
  std::vector<PipelineEdge> forward{};
  std::vector<PipelineEdge> backward{};
  /// The most activations that each rank may hold (PipelineEstimate::peak_activations); empty: any.
  std::vector<int> max_activations{};
  /// True: backwards may be split into the tasks I (gradient of inputs) and W (gradient of weights).
  bool splits = true;

  [[nodiscard]] int ranks() const;

  /// Returns the timed model of this pipeline in which each rank runs the given tasks in their order.
  [[nodiscard]] PipelineModel model(std::vector<std::vector<PipelineTask>> tasks) const;

  /// Throws OptionError, naming the invalid figure of the problem.
  void validate() const;
};

/// The most pipeline tasks of an order that is searched, counting three for each chunk and micro-batch.
inline constexpr std::int64_t max_searched_tasks = std::int64_t{1} << 21;

/// Returns a lower bound of the makespan of all orders of a pipeline's tasks, in seconds: the greater of two bounds.
///
/// | of ranks | each rank waits for its first input, runs all its tasks, and its last gradient then travels to the   |
/// |          | first chunk; and all its activations, each times the time for which one micro-batch alone holds it,  |
/// |          | fit into the rank's max_activations times the makespan                                               |
/// | of tasks | each task starts no earlier than any single rule allows: after its inputs; after earlier tasks of    |
/// |          | its kind and messages of its link; F of micro-batch j + K after W of j, with room for K activations; |
/// |          | and after all tasks of its chunk that must run between an earlier task and this one                  |
/// | errors   | OptionError of PipelineOrderProblem::validate()                                                      |
/// | cost     | O(chunks (chunks + edges + micro-batches))                                                           |
Seconds pipeline_lower_bound(const PipelineOrderProblem& problem);

/// Options of search_pipeline_order(), which searches an order of tasks: the effort of the search.
struct PipelineSearchOptions {
  std::uint64_t seed = 0;
  /// Number of rounds of the search, fewer if an order is proven best; -1: 40, or as the budget allows.
  int effort = -1;
  Seconds budget = 0;  ///< time limit in seconds: the search stops at the last whole round within it; 0: no limit
  /// A function called after every finished round of the search, with its number and the least makespan so far, in
  /// seconds.
  std::function<void(int, Seconds)> progress = {};
};

/// The result of search_pipeline_order(): the best order of tasks found, and a lower bound of the makespan of all
/// orders.
struct PipelineSearch {
  bool feasible = false;
  std::string why{};  ///< the reason why no order is feasible, if none is
  PipelineOrder order{};
  Seconds makespan = 0;
  Seconds lower_bound = 0;
  bool optimal = false;  ///< true: no order is faster, as the makespan equals lower_bound, or all orders were tried
  std::string
      fixed{};  ///< name of the best known schedule that fits the memory (pipeline_schedules); empty: none fits
  Seconds fixed_makespan = 0;  ///< the makespan of the schedule `fixed` in seconds
  int effort = 0;              ///< the number of finished rounds of the search
};

/// Searches the order of pipeline tasks with the least makespan if sends never block (see PipelineEstimate).
///
/// | starts | the known schedules that have this placement and fit the memory; greedy orders, in which a rank |
/// |        | runs any task that is ready, and W where no other task is                                       |
/// | search | simulated annealing over legal orders: each change moves a task of the critical path along its  |
/// |        | rank, since other changes cannot shorten the makespan                                           |
/// | exact  | for small problems, all of whose orders are tried, and if the makespan meets the lower bound    |
/// | never  | the result is never worse than the best known schedule that fits                                |
/// | same   | the result is the same for the same problem, seed and effort                                    |
/// | cost   | some 30 ms a round, longer above 100,000 tasks; the starts are always finished                  |
/// | errors | OptionError, naming the figure; if one micro-batch exceeds the memory, `feasible` is false      |
///
/// The nearest published work is Chen et al., CrossPipe, arXiv 2507.00217, which uses a solver or rules.
PipelineSearch search_pipeline_order(const PipelineOrderProblem& problem,
                                     const PipelineSearchOptions& options = {});

}  // namespace plan
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/plan/pipeline_search.ipp>
#endif
