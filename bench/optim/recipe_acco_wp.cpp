#include <reef/optim/acco_wp.hpp>

#include "optim/recipe.hpp"

std::unique_ptr<reef_bench::Training> reef_bench::make_acco_wp(
    Setting setting, const reef::comm::Communicator& ranks) {
  return make_training<reef::optim::AccoWp<reef::optim::AdamW>>(std::move(setting), ranks);
}
