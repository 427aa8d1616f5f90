#pragma once

#include <CLI/CLI.hpp>

#include "options.hpp"

namespace reef_examples {

/// After the parsing: options that would be ignored, files that are in each other's way, and files that no run left
/// where one is to be written are a CLI::ValidationError. Fills in what a recipe stands for.
void require_sense(const CLI::App& app, TrainOptions& options);

}  // namespace reef_examples
