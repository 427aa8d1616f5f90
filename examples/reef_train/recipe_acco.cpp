#include <reef/optim/acco.hpp>
#include <reef/optim/adamw.hpp>

#include "run.hpp"

namespace reef_examples {

void run_acco(const TrainOptions& options) {
  TrainOptions adaptive = options;
  if (!adaptive.accumulation) adaptive.accumulation = reef::Accumulation::adaptive();
  run<reef::optim::Acco<reef::optim::AdamW>>(adaptive);
}

}  // namespace reef_examples
