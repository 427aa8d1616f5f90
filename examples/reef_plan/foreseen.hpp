#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include <reef/core/units.hpp>
#include <reef/graph/dag.hpp>
#include <reef/io/json.hpp>
#include <reef/profile/profile.hpp>
#include <reef/run/topology.hpp>
#include <reef/schedule/program.hpp>
#include <reef/schedule/world.hpp>

#include "recipe_case.hpp"

namespace reef_examples {

/// What a step of a recipe comes to, simulated; of one whose steps differ (diloco) the mean of a period.
struct Foreseen {
  bool feasible = false;
  std::string why;  ///< it is not
  bool is_endless = false;  ///< nor is it simulated to its end: a phase takes more micro-batches than RecipeCase::max_simulated()
  reef::Seconds step = 0;
  double utilisation = 1;  ///< of the rank that computes for the least of its time
  reef::Bytes wire = 0;    ///< of all ranks
  reef::Bytes peak = 0;    ///< of the device that needs most
  std::int64_t micro_batches = 0;  ///< of all replicas; of phases that adapt, those that the last simulated step took
};

/// A model's operators, and what rank 0 needs for a step.
struct Estimated {
  reef::graph::Dag dag;
  reef::profile::Profile profile;
  reef::io::Json step;
};

/// Is shown what was simulated.
using Shown = std::function<void(std::span<const reef::schedule::Program>, const reef::schedule::Simulation&)>;

/// A recipe of reef-train: what a case of it is answered with. All throw DecodeError, with the file, for what cannot be asked.
struct Recipe {
  Foreseen (*foresee)(const RecipeCase& asked, const std::string& file, const Shown& shown);
  Estimated (*estimate)(const RecipeCase& asked, const std::string& file);
  reef::run::Topology (*topology)(const RecipeCase& asked, const std::string& file);  ///< with the bounds of a layout by op-fence
};

extern const Recipe recipe_ddp, recipe_zero1, recipe_atom;
extern const Recipe recipe_dpu, recipe_acco_wp, recipe_acco;
extern const Recipe recipe_diloco, recipe_sparse;
extern const Recipe recipe_dtfm, recipe_reef;

/// Throws DecodeError, with the file, for a name that is none.
const Recipe& recipe_named(const std::string& name, const std::string& file);

inline Foreseen foresee(const RecipeCase& asked, const std::string& file, const Shown& shown = {}) {
  return recipe_named(asked.recipe, file).foresee(asked, file, shown);
}

}  // namespace reef_examples
