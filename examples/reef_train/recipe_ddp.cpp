#include <reef/optim/adamw.hpp>
#include <reef/optim/ddp.hpp>

#include "run.hpp"

namespace reef_examples {

void run_ddp(const TrainOptions& options) {
  run<reef::optim::Ddp<reef::optim::AdamW>>(options);
}

}  // namespace reef_examples
