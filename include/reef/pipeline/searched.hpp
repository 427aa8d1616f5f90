#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/hash.hpp>
#include <reef/pipeline/scheduled.hpp>
#include <reef/plan/pipeline_search.hpp>

namespace reef {
inline namespace v0 {
namespace pipeline {

/// The options of the pipeline Searched, given as TrainerOptions::pipeline.
struct SearchedOptions : ScheduledOptions {
  std::uint64_t seed = 0;
  int effort = 20;  ///< the number of rounds of the search, some 30 ms each
  /// Most activations that each stage holds, in units (ScheduledOptions::unit); empty: as many as 1F1B holds, p - r on
  /// stage r of p.
  std::vector<int> max_activations{};
  bool splits_backward = true;  ///< true: backwards may run in two halves, of which the second fills idle times

  /// Throws OptionError for an option outside its range.
  void validate() const {
    if (effort >= 0) return;
    throw OptionError("reef::pipeline::Searched: the effort is ", effort,
                      ".\n  why: all ranks are to find the same order.\n  fix: 0 rounds or more.");
  }
};

/// A pipeline whose order of tasks is searched when the Trainer is made: the fastest for the model's times, the
/// network's links and the stages' memory. It pays where stages are uneven or links slow; give it the network, and a
/// profile.
///
/// \code
/// using Searching = Trainer<pipeline::Searched, optim::Ddp<optim::AdamW>>;
/// Searching::Options options;
/// options.topology = run::Topology(1, 4);
/// options.network = profile::Network::uniform(4, 0.05, 1e7);
/// options.pipeline.max_activations = {6, 6, 4, 4};
/// \endcode
///
/// | time   | never more than the best known order that fits the memory (plan::search_pipeline_order) |
/// | errors | OptionError if no order fits: every stage needs room for at least one activation        |
struct Searched : Scheduled<Searched> {
  using Options = SearchedOptions;

  static plan::PipelineOrder order(const plan::PipelineModel& model, int micro_batches,
                                   const Options& options) {
    plan::PipelineOrderProblem problem;
    problem.micro_batches = micro_batches;
    problem.rank_of_chunk = model.order.rank_of_chunk;
    problem.times = model.times;
    problem.forward = model.forward;
    problem.backward = model.backward;
    problem.max_activations = options.max_activations;
    problem.splits = options.splits_backward;
    const int stages = problem.ranks();
    for (int stage = 0; stage < stages && options.max_activations.empty(); ++stage) {
      problem.max_activations.push_back((std::min)(micro_batches, stages - stage));
    }
    plan::PipelineSearch found = plan::search_pipeline_order(
        problem, {.seed = options.seed, .effort = options.effort});
    if (found.feasible) return std::move(found.order);
    throw OptionError("reef::pipeline::Searched: ", found.why);
  }

  static void hash(Hash& hash, const Options& options) {
    Scheduled::hash(hash, options);
    hash.add(options.seed).add(options.effort).add(options.splits_backward);
    for (const int most : options.max_activations) hash.add(most);
  }
};

static_assert(PipelinePolicy<Searched>);

}  // namespace pipeline
}  // namespace v0
}  // namespace reef
