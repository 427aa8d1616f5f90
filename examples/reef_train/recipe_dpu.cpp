#include <reef/optim/adamw.hpp>
#include <reef/optim/dpu.hpp>

#include "run.hpp"

namespace reef_examples {

void run_dpu(const TrainOptions& options) {
  run<reef::optim::Dpu<reef::optim::AdamW>>(options);
}

}  // namespace reef_examples
