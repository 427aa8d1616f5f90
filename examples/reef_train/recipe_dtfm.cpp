#include <reef/optim/adamw.hpp>
#include <reef/optim/zero1.hpp>
#include <reef/pipeline/ordered.hpp>

#include "run.hpp"

namespace reef_examples {

int run_dtfm(const TrainOptions& options, const reef::comm::StopRequest& stop) {
  return run<reef::pipeline::Ordered, reef::optim::Zero1<reef::optim::AdamW>>(options, stop);
}

}  // namespace reef_examples
