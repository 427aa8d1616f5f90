#include <reef/optim/dpu_predicted.hpp>

#include "optim/recipe.hpp"

std::unique_ptr<reef_bench::Training> reef_bench::make_dpu_predicted(
    Setting setting, const reef::comm::Communicator& ranks) {
  return make_training<reef::optim::DpuPredicted<reef::optim::AdamW>>(std::move(setting), ranks);
}
