#pragma once

#include <string>
#include <vector>

#include <reef/comm/stop_request.hpp>

#include "options.hpp"

namespace reef_examples {

/// Trains by one composition of policies. Returns an exit status.
using Recipe = int (*)(const TrainOptions&, const reef::comm::StopRequest&);

/// The recipe of that name.
Recipe recipe_of(const std::string& name);

/// The names of all recipes, in alphabetical order.
std::vector<std::string> recipe_names();

}  // namespace reef_examples
