#include <reef/optim/acco.hpp>
#include <reef/optim/adamw.hpp>
#include <reef/pipeline/ordered.hpp>
#include <reef/swap/atom.hpp>

#include "run.hpp"

namespace reef_examples {

/// All axes at once: stages that swap, send by AdaTopK, and reduce beside their micro-batches.
int run_reef(const TrainOptions& options, const reef::comm::StopRequest& stop) {
  using namespace reef;
  return Run<Trainer<swap::Atom<>, pipeline::Ordered, AnyCodec, optim::Acco<optim::AdamW>>>(options, stop).train();
}

}  // namespace reef_examples
