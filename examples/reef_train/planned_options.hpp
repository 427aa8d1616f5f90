#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "options.hpp"

namespace reef_examples {

/// An option and what a plan gives it.
using PlannedOption = std::pair<std::string, std::string>;

/// What a plan adds to a command line, but for options that are `given`: these are told in `otherwise`. Throws OptionError or
/// DecodeError for a file that is no plan.
std::vector<std::string> options_of_plan(const std::string& file, TrainOptions& to,
                                         const std::function<bool(const std::string&)>& given,
                                         std::vector<PlannedOption>& otherwise);

}  // namespace reef_examples
