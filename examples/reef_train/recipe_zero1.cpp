#include <reef/optim/adamw.hpp>
#include <reef/optim/zero1.hpp>

#include "run.hpp"

namespace reef_examples {

void run_zero1(const TrainOptions& options) {
  Run<reef::Trainer<reef::optim::Zero1<reef::optim::AdamW>>>(options).train();
}

}  // namespace reef_examples
