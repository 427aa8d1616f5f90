#include <reef/optim/acco_wp.hpp>
#include <reef/optim/adamw.hpp>

#include "run.hpp"

namespace reef_examples {

int run_acco_wp(const TrainOptions& options, const reef::comm::StopRequest& stop) {
  return run<reef::optim::AccoWp<reef::optim::AdamW>>(options, stop);
}

}  // namespace reef_examples
