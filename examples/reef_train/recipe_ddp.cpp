#include <reef/optim/adamw.hpp>
#include <reef/optim/ddp.hpp>

#include "run.hpp"

namespace reef_examples {

void run_ddp(const TrainOptions& options) {
  Run<reef::Trainer<reef::optim::Ddp<reef::optim::AdamW>>>(options).train();
}

}  // namespace reef_examples
