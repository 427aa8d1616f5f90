#include "optim/recipes.hpp"

#include <algorithm>
#include <array>

#include <reef/core/error.hpp>

namespace reef_bench {

std::span<const Recipe> recipes() {
  static constexpr std::array all{
      Recipe{"ddp", 1, make_ddp},
      Recipe{"zero1", 1, make_zero1},
      Recipe{"dpu", 1, make_dpu},
      Recipe{"dpu-500", 1, make_dpu_500},  // with 500 steps of warm-up
      Recipe{"dpu-predicted", 1, make_dpu_predicted},
      Recipe{"acco-wp", 1, make_acco_wp},
      Recipe{"acco", 2, make_acco},
      Recipe{"diloco", 1, make_diloco},
      Recipe{"diloco-mix", 1, make_diloco_mix},
      Recipe{"sparse", 1, make_sparse},
      Recipe{"sparse-peers", 1, make_sparse_peers},
  };
  return all;
}

const Recipe& recipe_of(std::string_view name) {
  const auto all = recipes();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Recipe& one) { return one.name == name; });
  if (found != all.end()) return *found;
  std::string names;
  for (const Recipe& one : all) names += " " + std::string(one.name);
  throw reef::OptionError("reef_bench: no recipe is called '", name, "'.\n  fix: one of", names);
}

}  // namespace reef_bench
