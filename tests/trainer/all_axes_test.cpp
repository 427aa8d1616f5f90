// All four axes in one Trainer: stages that swap their segments, send activations by AdaTopK, and reduce gradients beside
// their micro-batches. No pair of the four changes what another one does.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <reef/comm/communicator.hpp>
#include <reef/comm/mpi.hpp>
#include <reef/core/text.hpp>
#include <reef/optim/ddp.hpp>
#include <reef/pipeline/single.hpp>
#include <reef/schedule/simulate.hpp>
#include <reef/trainer/checkpoint.hpp>

#include "support/same_bits.hpp"
#include "all_axes.hpp"

namespace reef::test {
namespace {

namespace all_axes {

using namespace test::all_axes;
using Ddp = optim::Ddp<optim::AdamW>;
using swap::Atom;
using OneFOneB = pipeline::OneFOneB<>;
using compress::AdaTopK;

static_assert(composable<Atom<>, OneFOneB> && composable<Atom<>, AdaTopK> && composable<Atom<>, Acco>);
static_assert(composable<OneFOneB, AdaTopK> && composable<OneFOneB, Acco> && composable<AdaTopK, Acco>);
static_assert(composable<Atom<>, OneFOneB, AdaTopK> && composable<Atom<>, OneFOneB, Acco>);
static_assert(composable<Atom<>, AdaTopK, Acco> && composable<OneFOneB, AdaTopK, Acco>);
static_assert(composable<Atom<>, OneFOneB, AdaTopK, Acco>);
static_assert(composable<Atom<>, OneFOneB, AdaTopK, Ddp>);

constexpr int steps = 4;
constexpr double ratio = 4;

template <class TrainerType>
Outcome<float> trained(const typename TrainerType::Options& options) {
  return train<TrainerType>(options, steps, MPI_COMM_WORLD, config());
}

/// One process that stands for the replicas, one instruction at a time.
Alone::Options alone(int replicas) {
  auto options = alone_options<Alone>(counts_of(replicas));
  options.serial = true;
  return options;
}

/// What passes through the device, how, and for how many micro-batches at once.
struct Swapping {
  std::optional<run::SwapSchedule> schedule{};
  Activations activations{};
  int unit = 1;
};

All::Options swapped(int replicas, int stages, double shrunk, const Swapping& how = {}) {
  auto result = options<All>(replicas, stages, shrunk);
  result.swapping = how.schedule;
  result.activations = {how.activations};
  result.pipeline.unit = how.unit;
  return result;
}

const std::vector<Swapping> swappings{
    {.schedule = {}, .activations = Activations::keep, .unit = 1},
    {.schedule = run::SwapSchedule{.weight_slots = 3, .per_micro_batch = true, .stash_slots = 1},
     .activations = Activations::stash,
     .unit = 2},
    {.schedule = run::SwapSchedule{.weight_slots = 4, .resident_segments = 1},
     .activations = Activations::recompute_and_stash,
     .unit = 0}};

TEST(AllAxes, have_the_bits_of_stages_that_stay_on_their_devices) {
  for (const auto& [replicas, stages] : ways()) {
    const auto expected = trained<Stays>(options<Stays>(replicas, stages, ratio));
    EXPECT_EQ(expected == trained<Stays>(options<Stays>(replicas, stages, 1)), stages == 1) << "what is left out is missed";
    for (const Swapping& how : swappings) {
      EXPECT_TRUE(same_bits(trained<All>(swapped(replicas, stages, ratio, how)), expected))
          << replicas << " replicas of " << stages << " stages, units of " << how.unit;
    }
  }
}

TEST(AllAxes, have_the_bits_of_one_process_where_nothing_is_left_out) {
  for (const auto& [replicas, stages] : ways()) {
    const auto expected = train<Alone>(alone(replicas), steps, MPI_COMM_SELF, config());
    EXPECT_GT(*std::max_element(expected.norms.begin(), expected.norms.end()), 0.5) << "clipped";
    for (const Swapping& how : swappings) {
      EXPECT_TRUE(same_bits(trained<All>(swapped(replicas, stages, 1, how)), expected))
          << replicas << " replicas of " << stages << " stages, units of " << how.unit;
    }
  }
}

TEST(AllAxes, have_the_bits_of_one_process_where_every_rank_has_the_whole_model) {
  const auto expected = train<Alone>(alone(world_size()), steps, MPI_COMM_SELF, config());
  for (const Swapping& how : swappings) {
    EXPECT_TRUE(same_bits(trained<All>(swapped(world_size(), 1, ratio, how)), expected)) << "no edge has a ratio";
  }
}

TEST(AllAxes, have_the_same_bits_by_any_transport) {
  const auto [replicas, stages] = ways().front();
  auto changed = swapped(replicas, stages, ratio, swappings[1]);
  const auto expected = trained<All>(changed);
  changed.communication.transport = comm::Transport::messages;
  changed.communication.piece_bytes = 512;
  EXPECT_TRUE(same_bits(trained<All>(changed), expected));
}

TEST(AllAxes, go_on_with_their_bits_after_a_resume) {
  const comm::Communicator world;
  for (const auto& [replicas, stages] : ways()) {
    const SharedFolder folder("all-axes");
    const auto undisturbed = trained<All>(swapped(replicas, stages, ratio));
    auto trainer = small_trainer<All>(swapped(replicas, stages, ratio), world, config());
    outcome_of(trainer, steps / 2);
    const double loss = trainer.evaluate(2);
    EXPECT_EQ(loss, trainer.evaluate(2));
    checkpoint::save(trainer, folder.path());
    auto resumed = small_trainer<All>(swapped(replicas, stages, ratio, swappings[2]), world, config());
    ASSERT_TRUE(checkpoint::resume(resumed, folder.path()).has_value());
    EXPECT_EQ(resumed.evaluate(2), loss);
    const auto rest = outcome_of(trainer, steps / 2);
    EXPECT_TRUE(std::equal(rest.losses.begin(), rest.losses.end(), undisturbed.losses.begin() + steps / 2));
    EXPECT_TRUE(same_bits(rest.weights, undisturbed.weights));
    EXPECT_TRUE(same_bits(outcome_of(resumed, steps / 2), rest));
  }
}

TEST(AllAxes, are_resumed_by_one_process) {
  const comm::Communicator world;
  const auto [replicas, stages] = ways().front();
  const SharedFolder folder("all-axes-alone");
  {
    auto trainer = small_trainer<All>(swapped(replicas, stages, 1, swappings[1]), world, config());
    outcome_of(trainer, steps / 2);
    checkpoint::save(trainer, folder.path());
  }
  if (world_rank() > 0) return;
  const comm::Communicator self(MPI_COMM_SELF);
  auto undisturbed = small_trainer<Alone>(alone(replicas), self, config());
  outcome_of(undisturbed, steps / 2);
  auto resumed = small_trainer<Alone>(alone(replicas), self, config());
  ASSERT_TRUE(checkpoint::resume(resumed, folder.path()).has_value());
  EXPECT_TRUE(same_bits(outcome_of(resumed, steps / 2), outcome_of(undisturbed, steps / 2)));
}

/// Of every rank, as it was said beforehand.
TEST(AllAxes, take_the_device_memory_that_was_estimated) {
  const comm::Communicator world;
  const auto model = nn::gpt<device::Host, float>(config(), 1);
  for (const auto& [replicas, stages] : ways()) {
    const std::vector<int> counts = counts_of(replicas);
    const StepEstimate stays =
        Stays::estimate(model, options<Stays>(replicas, stages, ratio), world.size(), world.rank(), counts);
    for (const Swapping& how : swappings) {
      const auto set = swapped(replicas, stages, ratio, how);
      const StepEstimate estimate = All::estimate(model, set, world.size(), world.rank(), counts);
      auto trainer = small_trainer<All>(set, world, config());
      trainer.step();
      EXPECT_EQ(trainer.device().memory().peak, estimate.device_bytes) << "units of " << how.unit;
      if (how.unit == 1) {
        EXPECT_LT(estimate.device_bytes, stays.device_bytes);
      }
    }
  }
}

TEST(AllAxes, train_in_memory_that_would_not_hold_them) {
  const comm::Communicator world;
  nn::GptConfig deep = config();
  deep.layers = world.size() + 2;
  const auto model = nn::gpt<device::Host, float>(deep, 1);
  auto stays = options<Stays>(1, world.size(), ratio);
  auto how = swapped(1, world.size(), ratio, {.activations = Activations::recompute_and_stash, .unit = 0});
  stays.micro_batches = how.micro_batches = {5};
  stays.pipeline.unit = 0;
  Bytes least = std::numeric_limits<Bytes>::max();
  for (int rank = 0; rank < world.size(); ++rank) {
    least = std::min(least, Stays::estimate(model, stays, world.size(), rank).device_bytes);
  }
  const auto expected = train<Stays>(stays, 2, MPI_COMM_WORLD, deep);
  how.device.memory_bytes = stays.device.memory_bytes = least * 2 / 3;
  EXPECT_THROW(Stays(model, small_source(), stays, {}, world), Error) << "on every rank";
  how = All::planned(model, how, world.size());
  auto trainer = small_trainer<All>(how, world, deep);
  EXPECT_TRUE(same_bits(outcome_of(trainer, 2), expected));
  EXPECT_LE(trainer.device().memory().peak, how.device.memory_bytes);
  EXPECT_EQ(trainer.device().memory().peak, All::estimate(model, how, world.size(), world.rank()).device_bytes);
}

TEST(AllAxes, send_what_their_programs_say_and_no_more) {
  const comm::Communicator world;
  for (const auto& [replicas, stages] : ways()) {
    auto how = swapped(replicas, stages, ratio);
    how.communication.transport = comm::Transport::messages;
    auto trainer = small_trainer<All>(how, world, config());
    trainer.step();
    const run::LinkTable links_before = trainer.links();
    const comm::Cost before = trainer.progress().meter().operations();
    trainer.step();
    const comm::Cost sent = trainer.progress().meter().operations() - before;
    const run::LinkTable links = trainer.links() - links_before;
    comm::Cost said, counted;
    Bytes left_out = 0;  // of edges, at least
    for (const schedule::Instruction& i : trainer.program().round) {
      for (const schedule::Message& message : i.sends) {
        said.messages += message.pieces;
        said.bytes += message.bytes;
        if (!schedule::is_between_stages(i.traffic) || trainer.plan().wire_of(i.traffic).ratio(i.index) <= 1) continue;
        const auto& edge = trainer.plan().remote_edges[static_cast<std::size_t>(i.index)];
        left_out += trainer.plan().dag->tensor_at(edge.tensor).spec.bytes() - message.bytes;
      }
    }
    for (const auto& [link, use] : links.uses) counted = counted + use.sent;
    EXPECT_EQ(counted, sent);
    EXPECT_EQ(sent.messages, said.messages);
    EXPECT_LE(sent.bytes, said.bytes);
    const StepEstimate estimate =
        All::estimate(trainer.model(), how, world.size(), world.rank(), counts_of(replicas));
    EXPECT_EQ(estimate.messages, said.messages);
    EXPECT_EQ(estimate.sent, said.bytes);
    if (world_rank() == 0) {
      EXPECT_GT(left_out, 0U) << "the slow link";
      EXPECT_GT(links.of(schedule::Traffic::activation).ratio(), 1.5);
    }
    EXPECT_EQ(links.of(schedule::Traffic::gradient).sent.messages > 0, replicas > 1 || world_rank() == stages - 1)
        << "of replicas, and of the head, which is the embedding of the first stage";
  }
}

/// The estimate commits nothing, and nor does a step that is skipped: the next one begins anew, as where the model stays.
TEST(AllAxes, skip_a_step_that_is_not_finite) {
  const comm::Communicator world;
  const auto [replicas, stages] = ways().front();
  const auto spoilt = [](std::uint64_t first, std::span<const AnyView> inputs) {
    const double weight = small_source()(first, inputs);
    return first / 4 == 5 ? 1e300 : weight;  // no fp32 has that
  };
  const auto left = [&](auto how, auto make) {
    how.non_finite = optim::NonFinite::skip;
    auto trainer = make(how);
    int skipped = 0;
    for (int step = 0; step < steps; ++step) skipped += trainer.step().committed ? 0 : 1;
    EXPECT_GT(skipped, 0);
    EXPECT_LT(skipped, steps);
    return outcome_of(trainer, 1);
  };
  const auto model = [] { return nn::gpt<device::Host, float>(config(), 1); };
  const auto expected = left(options<Stays>(replicas, stages, ratio), [&](const Stays::Options& how) {
    return Stays(model(), spoilt, how, small_source(), world);
  });
  const auto tested = left(swapped(replicas, stages, ratio, swappings[1]), [&](const All::Options& how) {
    return All(model(), spoilt, how, small_source(), world);
  });
  EXPECT_TRUE(same_bits(tested, expected));
}

/// Some steps with given numbers of extra micro-batches, multiples of what a replica takes at once.
template <class TrainerType>
auto adapted(typename TrainerType::Options how, int replica, const comm::Communicator& ranks) {
  how.accumulation = Accumulation::adaptive();
  auto trainer = small_trainer<TrainerType>(how, ranks, config());
  const int unit = count_of(replica);
  Outcome<float> outcome;
  for (int step = 0; step < 3; ++step) {
    trainer.replay({unit * ((replica + step) % 3), unit * (step % 2)});
    const auto one = outcome_of(trainer, 1);
    outcome.losses.push_back(one.losses[0]);
    outcome.norms.push_back(one.norms[0]);
    outcome.weights = one.weights;
  }
  EXPECT_EQ(trainer.device().memory().peak, TrainerType::estimate(trainer.model(), how, ranks.size(), ranks.rank(), trainer.plan().micro_batches).device_bytes);
  return outcome;
}

TEST(AllAxes, adapt_together_and_have_the_bits_of_stages_that_stay_and_of_one_stage) {
  const comm::Communicator world;
  for (const auto& [replicas, stages] : ways()) {
    const run::Topology topology(replicas, stages);
    const int replica = topology.replica_of(world_rank());
    const auto expected = adapted<Stays>(options<Stays>(replicas, stages, ratio), replica, world);
    for (const Swapping& how : swappings) {
      EXPECT_TRUE(same_bits(adapted<All>(swapped(replicas, stages, ratio, how), replica, world), expected))
          << replicas << " replicas of " << stages << " stages, units of " << how.unit;
    }
    const comm::Communicator stage = world.split(topology.stage_of(world_rank()), replica, "stage");
    auto one = small_options<Alone>();
    one.micro_batches = {count_of(replica)};
    EXPECT_TRUE(same_bits(adapted<All>(swapped(replicas, stages, 1, swappings[1]), replica, world), adapted<Alone>(one, replica, stage)));
  }
}

TEST(AllAxes, adapt_in_memory_that_would_not_hold_them) {
  const comm::Communicator world;
  nn::GptConfig deep = config();
  deep.layers = world.size() + 2;
  const auto model = nn::gpt<device::Host, float>(deep, 1);
  auto stays = options<Stays>(1, world.size(), ratio);
  auto how = swapped(1, world.size(), ratio, {.activations = Activations::recompute_and_stash, .unit = 0});
  stays.accumulation = how.accumulation = Accumulation::adaptive();
  Bytes least = std::numeric_limits<Bytes>::max();
  for (int rank = 0; rank < world.size(); ++rank) {
    least = std::min(least, Stays::estimate(model, stays, world.size(), rank).device_bytes);
  }
  how.device.memory_bytes = least * 3 / 4;
  how = All::planned(model, how, world.size());
  auto trainer = small_trainer<All>(how, world, deep);
  trainer.replay({count_of(0), 2 * count_of(0)});
  EXPECT_TRUE(trainer.step().committed);
  EXPECT_LE(trainer.device().memory().peak, how.device.memory_bytes);
}

TEST(AllAxes, adapt_in_virtual_time_as_long_as_replicas_exchange) {
  auto how = swapped(1, 1, ratio);
  how.topology = run::Topology(2, 3);
  how.micro_batches = {2};
  how.accumulation = Accumulation::adaptive();
  how.network = profile::Network::uniform(6, 1e-3, 1e8);
  for (std::size_t from = 0; from < 6; ++from) {
    for (std::size_t to = 0; to < 6; ++to) {  // slow between replicas
      if (how.topology->replica_of(static_cast<int>(from)) == how.topology->replica_of(static_cast<int>(to))) continue;
      how.network->rates[6 * from + to] = 1e5;
    }
  }
  schedule::World network = schedule::World::of(*how.network);
  for (schedule::Machine& machine : network.machines) machine.flops_per_second = 1e9;
  const auto programs = All::programs(nn::gpt<device::Host, float>(config(), 1), how, 6);
  schedule::verify(programs);
  const schedule::Simulation adapted = schedule::simulate(programs, network);
  for (int rank = 0; rank < 6; ++rank) {
    const int first = how.topology->rank(how.topology->replica_of(rank), 0);
    EXPECT_EQ(adapted.trip_counts[static_cast<std::size_t>(rank)], adapted.trip_counts[static_cast<std::size_t>(first)]);
    for (const int units : adapted.trip_counts[static_cast<std::size_t>(rank)]) EXPECT_GT(units, 0);
  }
  how.accumulation = {};
  const auto fixed = schedule::simulate(All::programs(nn::gpt<device::Host, float>(config(), 1), how, 6), network);
  EXPECT_GT(adapted.utilisation[0], 2 * fixed.utilisation[0]);
}

/// Before there is one of these ranks.
TEST(AllAxes, are_simulated_on_ranks_that_nobody_has) {
  auto how = swapped(1, 1, ratio);
  how.topology = run::Topology(2, 3);
  how.micro_batches = {2};
  how.network = profile::Network::uniform(6, 0.01, 1e6);
  const auto step = [&](double shrunk) {
    how.compress.activation.ratio = shrunk;
    const auto programs = All::programs(nn::gpt<device::Host, float>(config(), 1), how, 6);
    return schedule::simulate(programs, schedule::World::of(*how.network)).step;
  };
  EXPECT_LT(step(8), step(1));
}

TEST(AllAxes, refuse_by_name_what_they_cannot_do) {
  const auto model = nn::gpt<device::Host, float>(config(), 1);
  const auto refusal = [&](const auto& change) -> std::string {
    auto how = swapped(1, 1, ratio);
    how.topology = run::Topology(1, 2);
    how.network = profile::Network::uniform(2, 0, profile::Network::max_rate);
    change(how);
    try {
      static_cast<void>(All::programs(model, how, 2));
    } catch (const OptionError& error) {
      return error.what();
    }
    return "nothing";
  };
  EXPECT_EQ(refusal([](auto&) {}), "nothing");
  EXPECT_EQ(refusal([](auto& o) { o.accumulation = Accumulation::adaptive(); }), "nothing");
  EXPECT_NE(refusal([](auto& o) { o.serial = true; }).find("one instruction is to run at a time"), std::string::npos);
  EXPECT_NE(refusal([](auto& o) { o.network.reset(); }).find("there is no network"), std::string::npos);
}

}  // namespace all_axes

}  // namespace
}  // namespace reef::test
