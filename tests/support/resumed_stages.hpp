#pragma once

#include <gtest/gtest.h>

#include <type_traits>
#include <utility>
#include <vector>

#include <reef/comm/communicator.hpp>
#include <reef/comm/mpi.hpp>
#include <reef/core/text.hpp>
#include <reef/pipeline/ordered.hpp>
#include <reef/trainer/checkpoint.hpp>

#include "ranks.hpp"
#include "small_gpt.hpp"

namespace reef::test {

/// A small GPT, whose embedding is its head, trains on all ranks as stages, then on two, then on one, by checkpoints: each
/// time to the bits of the undisturbed run of one process. `set` sets further options.
template <class Optim, class Set>
void expect_resumed_on_other_stages(const Set& set) {
  using Staged = Trainer<pipeline::Ordered, Optim>;
  using Whole = Trainer<Optim>;
  const comm::Communicator world;
  const comm::Communicator self = world.split(world.rank(), 0, "self");
  const SharedFolder folder("resumed");
  const auto make = [&](auto options, const comm::Communicator& ranks) {
    options.micro_batches = {3};
    options.learning_rate = {.peak = 0.01, .warmup = 0};
    options.device.threads = 1;
    set(options);
    using Tested = std::conditional_t<std::is_same_v<decltype(options), typename Staged::Options>, Staged, Whole>;
    return Tested(nn::gpt<device::Host, float>(small_config(), 1), small_source(), options, small_source(), ranks);
  };
  const auto losses = [](auto& trainer, int steps) {
    std::vector<double> result;
    for (int step = 0; step < steps; ++step) result.push_back(trainer.step().loss);
    result.push_back(trainer.evaluate(1));
    return result;
  };
  auto whole = make(typename Whole::Options{}, self);
  bool first = true;
  for (const auto& [stages, schedule] : {std::pair{world.size(), "zb-v"}, {2, "1f1b"}, {1, "gpipe"}}) {
    SCOPED_TRACE(concat(stages, " stages"));
    const comm::Communicator ranks = world.split(world.rank() < stages ? 0 : 1, world.rank(), "stages");
    const std::vector<double> undisturbed = losses(whole, 2);
    if (world.rank() < stages) {
      typename Staged::Options options;
      options.topology = run::Topology(1, stages);
      options.pipeline.schedule = schedule;
      Staged trainer = make(options, ranks);
      EXPECT_EQ(checkpoint::resume(trainer, folder.path()).has_value(), !first);
      EXPECT_EQ(losses(trainer, 2), undisturbed);
      checkpoint::save(trainer, folder.path());
    }
    first = false;
    MPI_Barrier(MPI_COMM_WORLD);
  }
}

template <class Optim>
void expect_resumed_on_other_stages() {
  expect_resumed_on_other_stages<Optim>([](auto&) {});
}

}  // namespace reef::test
