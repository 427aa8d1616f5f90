#include <reef/optim/adamw.hpp>
#include <reef/optim/ddp.hpp>
#include <reef/swap/atom.hpp>

#include "run.hpp"

namespace reef_examples {

void run_atom(const TrainOptions& options) {
  run<reef::swap::Atom<>, reef::optim::Ddp<reef::optim::AdamW>>(options);
}

}  // namespace reef_examples
