#include <reef/optim/ddp.hpp>

#include "optim/recipe.hpp"

std::unique_ptr<reef_bench::Training> reef_bench::make_ddp(Setting setting,
                                                           const reef::comm::Communicator& ranks) {
  return make_training<reef::optim::Ddp<reef::optim::AdamW>>(std::move(setting), ranks);
}
