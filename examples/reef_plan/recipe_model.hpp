#pragma once

#include <reef/device/host.hpp>
#include <reef/graph/graph.hpp>

#include "recipe_case.hpp"

namespace reef_examples {

/// The GPT that a case describes, or the model of the file that it names. Throws DecodeError, with that file.
reef::graph::Graph<reef::device::Host, float> build_model(const RecipeCase& asked);

}  // namespace reef_examples
