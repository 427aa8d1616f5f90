#include <reef/optim/acco_wp.hpp>
#include <reef/optim/adamw.hpp>

#include "run.hpp"

namespace reef_examples {

void run_acco_wp(const TrainOptions& options) {
  run<reef::optim::AccoWp<reef::optim::AdamW>>(options);
}

}  // namespace reef_examples
