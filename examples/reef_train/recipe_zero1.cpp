#include <reef/optim/adamw.hpp>
#include <reef/optim/muon.hpp>
#include <reef/optim/zero1.hpp>

#include "run.hpp"

namespace reef_examples {

int run_zero1(const TrainOptions& options, const reef::comm::StopRequest& stop) {
  if (options.rule == "muon") return run<reef::optim::Zero1<reef::optim::Muon>>(options, stop);
  return run<reef::optim::Zero1<reef::optim::AdamW>>(options, stop);
}

}  // namespace reef_examples
