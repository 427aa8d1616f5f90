#pragma once

#include <CLI/CLI.hpp>

#include "options.hpp"

namespace reef_examples {

/// Declares what can be given, and where it goes. Both must outlive `app`'s parsing.
void add_options(CLI::App& app, TrainOptions& options);

/// Parses the command line; of --plan FILE also the options that the file has and the command line has not. Throws
/// OptionError for a file that is no plan.
void parse(CLI::App& app, TrainOptions& options, int argc, const char* const* argv);

}  // namespace reef_examples
