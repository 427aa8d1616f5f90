#include <reef/optim/adamw.hpp>
#include <reef/swap/atom.hpp>

#include "replay.hpp"
#include "train.hpp"

namespace reef_examples {

using AveragedAtomTrainer = reef::Trainer<reef::swap::Atom<>, reef::swarm::Averaged<reef::optim::AdamW>>;

int run_train_atom(const PeerOptions& options, const reef::comm::StopRequest& stop) {
  return Train<AveragedAtomTrainer>(options, stop).run();
}
int run_replay_atom(const JobOptions& options, const reef::comm::StopRequest& stop) {
  return replay<AveragedAtomTrainer>(options, stop);
}

}  // namespace reef_examples
