#pragma once

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
};

/// Recipes whose steps have the same samples, simulated: the fastest first, behind those what cannot be, by what it lacks.
///
/// | first     | every number of stages that divides the ranks and leaves each replica micro-batches, with each recipe and |
/// |           | codec that is allowed, by GPipe and 1F1B; those that swap where a device has a limit. Where none fits, the |
/// |           | same of micro-batches of half as many samples                                                             |
/// | then      | the fastest of the three best recipes, changed in one thing at a time for as long as that is worth        |
/// |           | something: micro-batches of twice or half as many samples, another schedule, layout, unit or codec        |
/// | placement | plan::allocate, of stages that have unlike links                                                           |
/// | cost      | about a second for 64 ranks and each that is simulated, on all cores                                       |
/// | order     | deterministic                                                                                              |
std::vector<Candidate> search(const PlanProblem& problem);

/// What is simulated of one recipe; what no Trainer takes is an answer too.
Candidate foreseen_of(const RecipeCase& recipe, const std::string& file);

}  // namespace reef_examples
