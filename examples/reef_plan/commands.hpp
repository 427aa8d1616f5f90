#pragma once

#include <string>

#include <reef/io/json.hpp>

namespace reef_examples {

/// The command line of reef-plan.
struct PlanOptions {
  std::string file;
  std::string variant = "full";
  std::string trace;
};

/// What each command answers; errors are exceptions.
reef::io::Json swap(const PlanOptions& options);
reef::io::Json simulate(const PlanOptions& options);

}  // namespace reef_examples
