#include <reef/optim/zero1.hpp>

#include "optim/recipe.hpp"

std::unique_ptr<reef_bench::Training> reef_bench::make_zero1(
    Setting setting, const reef::comm::Communicator& ranks) {
  return make_training<reef::optim::Zero1<reef::optim::AdamW>>(std::move(setting), ranks);
}
