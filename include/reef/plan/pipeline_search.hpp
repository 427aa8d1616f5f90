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

/// A pipeline that has no order yet.
struct PipelineOrderProblem {
  int micro_batches = 0;
  std::vector<int> rank_of_chunk{};  ///< the rank of each chunk; each rank has one chunk at least
  PipelineTimes times{};
  std::vector<PipelineEdge> forward{};  ///< the forward edges; `backward` has the others, as in PipelineModel
  std::vector<PipelineEdge> backward{};
  std::vector<int>
      max_activations{};  ///< the most activations, by rank, as PipelineEstimate::peak_activations; empty: any
  bool splits = true;     ///< backwards may run in halves

  [[nodiscard]] int ranks() const;

  /// Returns the model of this problem with these tasks.
  [[nodiscard]] PipelineModel model(std::vector<std::vector<PipelineTask>> tasks) const;

  /// Throws OptionError, naming the invalid figure.
  void validate() const;
};

/// The most tasks that are searched, three for each chunk and micro-batch.
inline constexpr std::int64_t most_searched_tasks = std::int64_t{1} << 21;

/// Returns a lower bound of the makespan of all orders: the greater of two bounds.
///
/// | of a rank | its first forward cannot start before that of the chunk has come, its tasks take their time, and     |
/// |           | behind its last backward the gradient goes on to the first chunk; and what one micro-batch alone     |
/// |           | holds an activation for, times the activations, fits into its memory times the step                  |
/// | of tasks  | each begins as early as every single necessity allows: what it needs; its kind and its link in order; |
/// |           | W of j ahead of F of j + K, with room for K activations; and between any two tasks of a chunk all that |
/// |           | must run there, whatever the order                                                                   |
/// | errors    | OptionError of PipelineOrderProblem::validate()                                                      |
/// | cost      | O(chunks (chunks + edges + micro-batches))                                                           |
Seconds pipeline_lower_bound(const PipelineOrderProblem& problem);

/// Options of search_pipeline_order: the effort of the search.
struct PipelineSearchOptions {
  std::uint64_t seed = 0;
  int effort = -1;  ///< the rounds; fewer with a proof; -1: 40, or as many as the budget has time for
  Seconds budget = 0;  ///< the time limit: the search stops at the last whole round within it; 0: no limit
  /// A function called after every finished round, with its number and the least makespan so far.
  std::function<void(int, Seconds)> progress = {};
};

/// The result of search_pipeline_order: the best order found, and a lower bound of all orders.
struct PipelineSearch {
  bool feasible = false;
  std::string why{};  ///< the reason, if not feasible
  PipelineOrder order{};
  Seconds makespan = 0;
  Seconds lower_bound = 0;
  bool optimal = false;  ///< proven: the makespan is the bound, or all orders were tried
  std::string
      fixed{};  ///< the best known schedule that fits, as pipeline_schedule_names; empty: none does
  Seconds fixed_makespan = 0;
  int effort = 0;  ///< the number of finished rounds
};

/// Searches the order with the least makespan in the asynchronous model.
///
/// | starts | the known schedules that have this placement and fit the memory, and rules that let each rank run |
/// |        | what it has, with W where nothing else can run                                                    |
/// | search | annealing over legal orders: of the chain of tasks and messages that decides the makespan a task  |
/// |        | moves along its rank, since nothing else can shorten it                                           |
/// | exact  | small problems, of which all orders are tried; and where the bound is met                         |
/// | never  | worse than the best known schedule that fits                                                      |
/// | same   | for the same problem, seed and effort                                                             |
/// | cost   | some 30 ms a round, longer above 100,000 tasks; the starts are always finished                    |
/// | errors | OptionError, naming the invalid figure; memory that one micro-batch exceeds is an answer          |
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
