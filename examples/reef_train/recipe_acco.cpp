#include <reef/optim/acco.hpp>
#include <reef/optim/adamw.hpp>

#include "run.hpp"

namespace reef_examples {

void run_acco(const TrainOptions& options) {
  run<reef::optim::Acco<reef::optim::AdamW>>(options);
}

}  // namespace reef_examples
