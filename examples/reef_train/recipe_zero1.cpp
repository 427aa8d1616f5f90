#include <reef/optim/adamw.hpp>
#include <reef/optim/zero1.hpp>

#include "run.hpp"

namespace reef_examples {

void run_zero1(const TrainOptions& options) {
  run<reef::optim::Zero1<reef::optim::AdamW>>(options);
}

}  // namespace reef_examples
