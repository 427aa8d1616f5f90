#include <reef/optim/adamw.hpp>
#include <reef/optim/diloco.hpp>
#include <reef/optim/muon.hpp>

#include "run.hpp"

namespace reef_examples {

int run_diloco(const TrainOptions& options, const reef::comm::StopRequest& stop) {
  if (options.rule == "muon") return run<reef::optim::DiLoCo<reef::optim::Muon>>(options, stop);
  return run<reef::optim::DiLoCo<reef::optim::AdamW>>(options, stop);
}

}  // namespace reef_examples
