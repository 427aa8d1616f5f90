#include <reef/optim/acco.hpp>

#include "optim/recipe.hpp"

std::unique_ptr<reef_bench::Training> reef_bench::make_acco(Setting setting,
                                                            const reef::comm::Communicator& ranks) {
  return make_training<reef::optim::Acco<reef::optim::AdamW>>(std::move(setting), ranks);
}
