#include <reef/optim/dpu.hpp>

#include "optim/recipe.hpp"

std::unique_ptr<reef_bench::Training> reef_bench::make_dpu(Setting setting,
                                                           const reef::comm::Communicator& ranks) {
  return make_training<reef::optim::Dpu<reef::optim::AdamW>>(std::move(setting), ranks);
}
