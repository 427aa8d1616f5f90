#include <reef/optim/adamw.hpp>
#include <reef/optim/ddp.hpp>
#include <reef/optim/muon.hpp>
#include <reef/swap/atom.hpp>

#include "run.hpp"

namespace reef_examples {

int run_atom(const TrainOptions& options, const reef::comm::StopRequest& stop) {
  if (options.rule == "muon") return run<reef::swap::Atom<>, reef::optim::Ddp<reef::optim::Muon>>(options, stop);
  return run<reef::swap::Atom<>, reef::optim::Ddp<reef::optim::AdamW>>(options, stop);
}

}  // namespace reef_examples
