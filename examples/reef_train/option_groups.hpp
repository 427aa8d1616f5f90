#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace reef_examples {

/// The groups of --help. They come in the order of their first options.
void set_groups(CLI::App& app);

/// Of `--help RECIPE`: takes RECIPE out of the arguments, and leaves in the help the options that are of it. Throws CLI::ValidationError for
/// a word that is no recipe.
void take_recipe_of_help(CLI::App& app, std::vector<std::string>& arguments,
                         const std::vector<std::string>& known);

}  // namespace reef_examples
