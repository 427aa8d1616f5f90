#pragma once

#include <functional>
#include <span>
#include <string>

#include <reef/core/units.hpp>
#include <reef/schedule/program.hpp>
#include <reef/schedule/world.hpp>

#include "recipe_case.hpp"

namespace reef_examples {

/// What a step of a recipe comes to, simulated; of one whose steps differ (diloco) the mean of a period.
struct Foreseen {
  bool feasible = false;
  std::string why;  ///< it is not
  reef::Seconds step = 0;
  double utilisation = 1;  ///< of the rank that computes for the least of its time
  reef::Bytes wire = 0;    ///< of all ranks
  reef::Bytes peak = 0;    ///< of the device that needs most
};

/// Is shown what was simulated.
using Shown = std::function<void(std::span<const reef::schedule::Program>, const reef::schedule::Simulation&)>;

/// Throws DecodeError, with the file, for what cannot be asked.
Foreseen foresee(const RecipeCase& asked, const std::string& file, const Shown& shown = {});

}  // namespace reef_examples
