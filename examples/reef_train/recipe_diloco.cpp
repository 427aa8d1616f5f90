#include <reef/optim/adamw.hpp>
#include <reef/optim/diloco.hpp>

#include "run.hpp"

namespace reef_examples {

void run_diloco(const TrainOptions& options) {
  run<reef::optim::DiLoCo<reef::optim::AdamW>>(options);
}

}  // namespace reef_examples
