#include <reef/optim/adamw.hpp>
#include <reef/optim/diloco.hpp>

#include "run.hpp"

namespace reef_examples {

int run_diloco(const TrainOptions& options, const reef::comm::StopRequest& stop) {
  return run<reef::optim::DiLoCo<reef::optim::AdamW>>(options, stop);
}

}  // namespace reef_examples
