#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include <reef/comm/mpi.hpp>
#include <reef/graph/estimate.hpp>
#include <reef/optim/adamw.hpp>
#include <reef/optim/ddp.hpp>
#include <reef/schedule/simulate.hpp>

#include "../support/small_gpt.hpp"

namespace reef::test {

namespace {

using PacedTrainer = Trainer<optim::Ddp<optim::AdamW>>;

PacedTrainer::Options options_of_device(const nn::GptConfig& config, Seconds step) {
  const auto model = nn::gpt<device::Host, float>(config, 1);
  PacedTrainer::Options options = small_options<PacedTrainer>();
  options.profile = graph::estimate(model.dag(), {1, 0, 0});
  const double flops = options.profile->forward_flops() + options.profile->backward_flops();
  options.profile = graph::estimate(model.dag(), {flops / step, 0, 0});
  return options;
}

}  // namespace

TEST(Paced, a_step_takes_what_the_profile_says_and_has_its_bits) {
  constexpr Seconds step = 0.1;
  const comm::Communicator world;
  PacedTrainer::Options options = options_of_device(small_config(), step);
  const auto trained = [&](bool paced) {
    options.paced = paced;
    PacedTrainer trainer(nn::gpt<device::Host, float>(small_config(), 1), small_source(), options, {}, world);
    const Seconds first = trainer.step().seconds;
    return std::pair(outcome_of(trainer, 1), first);
  };
  const auto [bits, seconds] = trained(true);
  EXPECT_GE(seconds, step - 1e-4);
  EXPECT_EQ(bits, trained(false).first);
  const auto model = nn::gpt<device::Host, float>(small_config(), 1);
  const auto programs = PacedTrainer::programs(model, options, world.size());
  EXPECT_NEAR(schedule::simulate(programs, schedule::World::uniform(world.size(), run::machine_of(*options.profile), {}), 3).step,
              step, 0.01 * step);
}

/// A busy machine is late in some steps; a device that is paced wrongly is in all.
TEST(Paced, a_step_takes_no_longer_than_the_profile_says) {
  constexpr Seconds step = 0.1;
  const comm::Communicator world;
  PacedTrainer::Options options = options_of_device(small_config(), step);
  options.paced = true;
  PacedTrainer trainer(nn::gpt<device::Host, float>(small_config(), 1), small_source(), options, {}, world);
  Seconds quickest = 1e9;
  int steps = 0;
  for (; steps < 40 && quickest > 1.5 * step; ++steps) {
    Seconds took = trainer.step().seconds;
    MPI_Allreduce(MPI_IN_PLACE, &took, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    quickest = std::min(quickest, took);
  }
  EXPECT_LE(quickest, 1.5 * step) << "seconds, the least of " << steps << " steps";
}

TEST(Paced, needs_a_profile) {
  PacedTrainer::Options options = small_options<PacedTrainer>();
  options.paced = true;
  EXPECT_THROW(options.validate(), OptionError);
}

}  // namespace reef::test
