#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "foreseen.hpp"
#include "recipe_case.hpp"

namespace reef_examples {

/// What a plan may change of what is computed.
struct Allowed {
  bool late = false;   ///< gradients of earlier weights: acco, dpu, reef
  bool local = false;  ///< ranks that step on their own: diloco, sparse
  bool lossy = false;  ///< codecs
  bool adaptive = false;  ///< samples of a step by the clock, at least as many as are asked for: late recipes
};

/// A recipe, and what it is foreseen to take.
struct Candidate {
  RecipeCase recipe;
  Foreseen foreseen;

  /// Of the whole job, in a step.
  [[nodiscard]] std::int64_t samples() const { return foreseen.micro_batches * recipe.model.batch; }

  /// What candidates are compared by: steps may have more samples than are asked for.
  [[nodiscard]] reef::Seconds per_sample() const { return foreseen.step / static_cast<double>(samples()); }
};

/// What is searched.
struct PlanProblem {
  RecipeCase machines;           ///< and the model; its micro-batches are those of the job
  std::int64_t max_samples = 0;  ///< of the job in a step; 0: as many as are asked for, and no bound where counts adapt
  Allowed allowed;
  double ratio = 10;  ///< of top-k
  std::string file;
  std::uint64_t seed = 0;
  double budget = 0;  ///< seconds after which no further recipe is simulated; 0: none
  /// Is told what is under way, by one thread at a time; empty: nobody is.
  std::function<void(const std::string& line)> progress{};
};

/// What was looked at.
struct Searched {
  std::vector<Candidate> candidates;  ///< the fastest first, behind those what cannot be, by what it lacks
  std::size_t left_out = 0;           ///< recipes that the budget left no time for
};

/// Recipes whose steps have as many samples as are asked for, or up to max_samples; simulated, and compared by samples a second.
///
/// | first     | every number of stages that divides the ranks and leaves each replica micro-batches, with each recipe and |
/// |           | codec that is allowed, by GPipe and 1F1B; those that swap where a device has a limit. Where none fits, the |
/// |           | same of micro-batches of half as many samples                                                             |
/// | adaptive  | of these that fit, where counts may adapt                                                                 |
/// | then      | the fastest of the three best recipes, changed in one thing at a time for as long as that is worth        |
/// |           | something: micro-batches of twice or half as many samples, another schedule, layout, unit or codec, counts |
/// |           | that adapt or are fixed, twice as many micro-batches or as many as may be                                  |
/// | placement | plan::allocate, of stages that have unlike links                                                           |
/// | cost      | about a second for 64 ranks and each that is simulated, on all cores                                       |
/// | budget    | those that swap come last, since each is a search of its own; one that has begun is ended, and one is     |
/// |           | simulated whatever the budget                                                                              |
/// | order     | deterministic without a budget                                                                             |
Searched search(const PlanProblem& problem);

/// What is simulated of one recipe; what no Trainer takes is an answer too.
Candidate foreseen_of(const RecipeCase& recipe, const std::string& file);

}  // namespace reef_examples
