#pragma once

#include <cstdint>
#include <string>

#include <reef/io/json.hpp>

namespace reef_examples {

/// The command line of reef-plan.
struct PlanOptions {
  std::string file;
  std::string variant = "full";
  std::string trace;
  std::uint64_t seed = 0;  // for commands that search at random
  double budget = 0;       // seconds, for commands that search for as long as they are given
};

/// What each command answers; errors are exceptions.
reef::io::Json swap(const PlanOptions& options);
reef::io::Json simulate(const PlanOptions& options);

/// A case that names a recipe of reef-train.
reef::io::Json simulate_recipe(const reef::io::Json& test, const PlanOptions& options);

}  // namespace reef_examples
