#include <reef/optim/dpu.hpp>

#include "optim/recipe.hpp"

std::unique_ptr<reef_bench::Training> reef_bench::make_dpu_500(
    Setting setting, const reef::comm::Communicator& ranks) {
  return make_training<reef::optim::Dpu<reef::optim::AdamW, 500>>(std::move(setting), ranks);
}
