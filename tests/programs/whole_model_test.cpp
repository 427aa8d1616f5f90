#include "../../examples/support/whole_model.hpp"

#include <gtest/gtest.h>

#include "support/ranks.hpp"
#include "support/small_gpt.hpp"
#include "support/trainers.hpp"

// What an example computes in one process with the weights that all ranks have trained.

namespace reef::test {

using WholeTrainer = Trainer<optim::Ddp<optim::AdamW>>;

TEST(WholeModel, has_the_loss_of_an_evaluation_on_all_ranks) {
  const comm::Communicator world(MPI_COMM_WORLD);
  WholeTrainer trainer = small_trainer<WholeTrainer>(small_options<WholeTrainer>(), world);
  for (int step = 0; step < 3; ++step) trainer.step();
  const double loss = reef_examples::loss_in_one_process(trainer, small_source(), 2 * world.size());
  const double on_all = trainer.evaluate(2);
  EXPECT_NEAR(loss, trainer.rank() == 0 ? on_all : 0, 1e-6 * on_all);
}

TEST(WholeModel, is_that_of_the_weights_as_they_are_now) {
  const comm::Communicator world(MPI_COMM_WORLD);
  WholeTrainer trainer = small_trainer<WholeTrainer>(small_options<WholeTrainer>(), world);
  const double before = reef_examples::loss_in_one_process(trainer, small_source(), 2);
  for (int step = 0; step < 5; ++step) trainer.step();
  const double after = reef_examples::loss_in_one_process(trainer, small_source(), 2);
  EXPECT_TRUE(trainer.rank() != 0 || after < before) << after << " and before " << before;
}

}  // namespace reef::test
