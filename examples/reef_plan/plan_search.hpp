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
};

/// A recipe, and what it is foreseen to take.
struct Candidate {
  RecipeCase recipe;
  Foreseen foreseen;
};

/// What is searched.
struct PlanProblem {
  RecipeCase machines;  ///< and the model; its micro-batches are those of the job
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

/// Recipes whose steps have the same samples, simulated.
///
/// | first     | every number of stages that divides the ranks and leaves each replica micro-batches, with each recipe and |
/// |           | codec that is allowed, by GPipe and 1F1B; those that swap where a device has a limit. Where none fits, the |
/// |           | same of micro-batches of half as many samples                                                             |
/// | then      | the fastest of the three best recipes, changed in one thing at a time for as long as that is worth        |
/// |           | something: micro-batches of twice or half as many samples, another schedule, layout, unit or codec        |
/// | placement | plan::allocate, of stages that have unlike links                                                           |
/// | cost      | about a second for 64 ranks and each that is simulated, on all cores                                       |
/// | budget    | those that swap come last, since each is a search of its own; one that has begun is ended, and one is     |
/// |           | simulated whatever the budget                                                                              |
/// | order     | deterministic without a budget                                                                             |
Searched search(const PlanProblem& problem);

/// What is simulated of one recipe; what no Trainer takes is an answer too.
Candidate foreseen_of(const RecipeCase& recipe, const std::string& file);

}  // namespace reef_examples
