#include <reef/optim/adamw.hpp>
#include <reef/optim/dpu.hpp>

#include "run.hpp"

namespace reef_examples {

int run_dpu(const TrainOptions& options, const reef::comm::StopRequest& stop) {
  return run<reef::optim::Dpu<reef::optim::AdamW>>(options, stop);
}

}  // namespace reef_examples
