#include <reef/optim/acco.hpp>
#include <reef/optim/adamw.hpp>

#include "run.hpp"

namespace reef_examples {

int run_acco(const TrainOptions& options, const reef::comm::StopRequest& stop) {
  TrainOptions adaptive = options;
  if (!adaptive.accumulation) adaptive.accumulation = reef::Accumulation::adaptive();
  return run<reef::optim::Acco<reef::optim::AdamW>>(adaptive, stop);
}

}  // namespace reef_examples
