#include <reef/optim/diloco.hpp>

#include "optim/recipe.hpp"

// Both take an outer step of every weight once in 20 steps: all at once while nobody computes, or
// one of two fragments every 10 steps beside the next step.

namespace {

using DiLoCo = reef::optim::DiLoCo<reef::optim::AdamW>;

}  // namespace

std::unique_ptr<reef_bench::Training> reef_bench::make_diloco(
    Setting setting, const reef::comm::Communicator& ranks) {
  return make_training<DiLoCo>(std::move(setting), ranks, DiLoCo::Options{.every = 20});
}

std::unique_ptr<reef_bench::Training> reef_bench::make_diloco_mix(
    Setting setting, const reef::comm::Communicator& ranks) {
  return make_training<DiLoCo>(
      std::move(setting), ranks,
      DiLoCo::Options{.every = 20, .fragments = 2, .overlap = DiLoCo::Overlap::mix});
}
