#include <reef/optim/adamw.hpp>
#include <reef/optim/ddp.hpp>

#include "run.hpp"

namespace reef_examples {

int run_ddp(const TrainOptions& options, const reef::comm::StopRequest& stop) {
  return run<reef::optim::Ddp<reef::optim::AdamW>>(options, stop);
}

}  // namespace reef_examples
