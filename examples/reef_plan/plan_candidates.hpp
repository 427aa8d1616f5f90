#pragma once

#include <optional>
#include <tuple>
#include <vector>

#include "plan_search.hpp"
#include "recipe_case.hpp"

// Which recipes a search of plans looks at.

namespace reef_examples {

/// The recipes over so many stages that are looked at first.
std::vector<RecipeCase> recipes_of_stages(const PlanProblem& problem, int stages);

/// The same recipe, but that its phases take as many micro-batches as there is time for; nothing where a bound leaves none, or
/// nothing is sent meanwhile.
std::optional<RecipeCase> adaptive(RecipeCase one, const PlanProblem& problem);

/// What differs from a recipe by one change; with as many samples as are asked for, or may be.
std::vector<RecipeCase> neighbours_of(const RecipeCase& one, const PlanProblem& problem);

/// The recipe with the codecs of the other.
RecipeCase with_codecs_of(RecipeCase one, const RecipeCase& other);

/// What differs of two candidates.
inline auto key_of(const RecipeCase& one) {
  return std::tuple(one.recipe, one.stages, one.model.batch, one.micro_batches, one.pipeline, one.layout, one.unit, one.rank_at,
                    one.compress, one.adapt_ratios, one.accumulate());
}

}  // namespace reef_examples
