#include <reef/optim/adamw.hpp>
#include <reef/optim/ddp.hpp>

#include "replay.hpp"
#include "train.hpp"

namespace reef_examples {

using OuterTrainer = reef::Trainer<reef::optim::Ddp<reef::optim::AdamW>>;

int run_train_outer(const PeerOptions& options, const reef::comm::StopRequest& stop) {
  return Train<OuterTrainer>(options, stop).run();
}
int run_replay_outer(const JobOptions& options, const reef::comm::StopRequest& stop) {
  return replay<OuterTrainer>(options, stop);
}

}  // namespace reef_examples
