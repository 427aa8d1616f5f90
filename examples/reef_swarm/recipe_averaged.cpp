#include <reef/optim/adamw.hpp>

#include "replay.hpp"
#include "train.hpp"

namespace reef_examples {

using AveragedTrainer = reef::Trainer<reef::swarm::Averaged<reef::optim::AdamW>>;

int run_train(const PeerOptions& options, const reef::comm::StopRequest& stop) {
  return Train<AveragedTrainer>(options, stop).run();
}
int run_replay(const JobOptions& options, const reef::comm::StopRequest& stop) {
  return replay<AveragedTrainer>(options, stop);
}

}  // namespace reef_examples
