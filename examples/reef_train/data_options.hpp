#pragma once

#include <CLI/CLI.hpp>

#include "options.hpp"

namespace reef_examples {

/// Adds the options that say what is trained on, and in which form.
void add_data_options(CLI::App& app, TrainOptions& options);

}  // namespace reef_examples
