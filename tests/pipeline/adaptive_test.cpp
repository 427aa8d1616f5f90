// Phases that take extra micro-batches over the stages of a pipeline, for as long as they communicate.

#include <gtest/gtest.h>

#include <mpi.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <reef/comm/gather.hpp>
#include <reef/pipeline/ordered.hpp>
#include <reef/pipeline/three_slot.hpp>
#include <reef/schedule/simulate.hpp>
#include <reef/schedule/verify.hpp>
#include <reef/trainer/checkpoint.hpp>

#include "../support/overlapping_trainers.hpp"
#include "../support/rank_source.hpp"
#include "../support/same_bits.hpp"
#include "../support/temporary_folder.hpp"

namespace reef::test {
namespace {

using Piped = Trainer<pipeline::Ordered, optim::Acco<optim::AdamW>>;
constexpr int unit = 2;    // what an iteration takes
constexpr int phases = 2;  // of a step

/// Replicas and stages: all that so many ranks make, with at least two stages.
std::vector<run::Topology> topologies() {
  std::vector<run::Topology> result;
  for (int stages = 2; stages <= world_size(); ++stages) {
    if (world_size() % stages == 0) result.emplace_back(world_size() / stages, stages);
  }
  return result;
}

Piped::Options options_of(const run::Topology& topology, const std::string& schedule,
                          Accumulation accumulation = Accumulation::adaptive()) {
  auto options = small_options<Piped>();
  options.topology = topology;
  options.pipeline.schedule = schedule;
  options.micro_batches = {unit};
  options.accumulation = accumulation;
  return options;
}

nn::GptConfig config() {
  nn::GptConfig result = unmasked_config();
  result.layers = 3;
  return result;
}

Piped trainer_of(const Piped::Options& options, const RankSource& fill, int phase = 1) {
  return Piped(nn::gpt<device::Host, float>(config(), 1), by_rank(fill, options.topology->replicas, phase), options, {},
               comm::Communicator{});
}

/// What replicas exchange takes far longer than a micro-batch.
Piped::Options slow_network(Piped::Options options) {
  const run::Topology& topology = *options.topology;
  std::vector<Seconds> latencies;
  for (int from = 0; from < world_size(); ++from) {
    for (int to = 0; to < world_size(); ++to) {
      latencies.push_back(topology.replica_of(from) == topology.replica_of(to) ? 1e-5 : 0.03);
    }
  }
  const std::vector<double> rates(latencies.size(), 1e9);
  options.communication.network = profile::Network{.devices = world_size(), .latencies = latencies, .rates = rates};
  return options;
}

/// Micro-batches of a replica in phase s of the job, of which 0 is the prologue.
int count_of(int replica, int s) { return s == 0 ? unit : unit * (1 + (replica + s) % 3); }

/// The counts of count_of in phases of three units, of which the rest have no weight.
RankSource padded_samples() {
  return [](int replica, std::uint64_t n, std::span<const AnyView> inputs) {
    const int phase = static_cast<int>(n / (3 * unit));
    const int in_phase = static_cast<int>(n % (3 * unit));
    int number = std::min(in_phase, count_of(replica, phase) - 1);
    for (int s = 0; s < phase; ++s) number += count_of(replica, s);
    different_samples(replica, static_cast<std::uint64_t>(number), inputs);
    return in_phase < count_of(replica, phase) ? 1.0 : 0.0;
  };
}

std::vector<int> extra_of(const Piped& trainer) {
  return {trainer.extra_micro_batches().begin(), trainer.extra_micro_batches().end()};
}

/// The same on all stages of a replica, and counted by all.
void expect_alike(Piped& trainer) {
  const run::Topology& topology = trainer.plan().topology;
  for (int s = 0; s < phases; ++s) {
    const auto all = comm::gather_numbers(trainer.progress(), "extra", extra_of(trainer).at(static_cast<std::size_t>(s)));
    for (int rank = 0; rank < world_size(); ++rank) {
      const int first = topology.rank(topology.replica_of(rank), 0);
      EXPECT_EQ(all[static_cast<std::size_t>(rank)], all[static_cast<std::size_t>(first)]) << "rank " << rank;
      EXPECT_EQ(all[static_cast<std::size_t>(rank)] % unit, 0);
    }
  }
}

void expect_bits_of_fixed_counts(const run::Topology& topology, const std::string& schedule) {
  SCOPED_TRACE(concat(schedule, ", ", topology.replicas, " x ", topology.stages));
  constexpr int steps = 3;
  auto options = options_of(topology, schedule, Accumulation::fixed());
  options.micro_batches = {3 * unit};
  auto fixed = trainer_of(options, padded_samples(), 3 * unit);
  const auto expected = outcome_of(fixed, steps);

  auto trainer = trainer_of(options_of(topology, schedule), different_samples);
  Outcome<float> outcome;
  int phase = 0;
  for (int step = 0; step < steps; ++step) {
    std::vector<int> extra;
    for (int s = 0; s < phases; ++s) extra.push_back(count_of(topology.replica_of(world_rank()), ++phase) - unit);
    trainer.replay(extra);
    const auto one = outcome_of(trainer, 1);
    outcome.losses.push_back(one.losses[0]);
    outcome.norms.push_back(one.norms[0]);
    outcome.weights = one.weights;
    EXPECT_EQ(extra_of(trainer), extra);
  }
  EXPECT_TRUE(same_bits(outcome, expected));
}

TEST(AdaptivePipeline, counts_that_are_given_have_the_bits_of_fixed_ones) {
  for (const run::Topology& topology : topologies()) {
    for (const char* const schedule : {"1f1b", "gpipe", "zb-h1"}) expect_bits_of_fixed_counts(topology, schedule);
  }
}

TEST(AdaptivePipeline,
     counts_that_are_given_have_the_bits_of_fixed_ones_in_orders_of_several_chunks) {
  if (world_size() % 2 != 0) GTEST_SKIP() << "two stages";
  const run::Topology two(world_size() / 2, 2);
  for (const char* const schedule : {"interleaved", "interleaved-zb", "looped-bfs", "zb-h2", "zb-v", "v-half", "v-min", "dualpipe-v", "searched"}) {
    expect_bits_of_fixed_counts(two, schedule);
  }
}

TEST(AdaptivePipeline, may_have_a_barrier_behind_its_forwards_and_transfers_that_are_held) {
  using Tested = Trainer<pipeline::ThreeSlot, optim::Acco<optim::AdamW>>;
  auto options = small_options<Tested>();
  options.topology = run::Topology(2, 3);
  options.micro_batches = {unit};
  options.accumulation = Accumulation::adaptive();
  options.pipeline.held = options.pipeline.barrier = true;
  auto network = schedule::World::uniform(6, {.flops_per_second = 1e9}, {.latency = 1e-3, .bytes_per_second = 1e8});
  for (std::size_t from = 0; from < 6; ++from) {
    for (std::size_t to = 0; to < 6; ++to) {
      const bool inside = options.topology->replica_of(static_cast<int>(from)) == options.topology->replica_of(static_cast<int>(to));
      network.links[6 * from + to].bytes_per_second = inside ? 1e8 : 1e5;
    }
  }
  const auto programs = Tested::programs(nn::gpt<device::Host, float>(config(), 1), options, 6);
  schedule::verify(programs);
  for (const std::vector<int>& counts : schedule::simulate(programs, network).trip_counts) {
    for (const int units : counts) EXPECT_GT(units, 0) << "the barrier waits for no reduction";
  }
}

/// All stages draw the masks of dropout by the numbers of the samples, also those that read none.
TEST(AdaptivePipeline, has_the_bits_of_one_stage) {
  nn::GptConfig masked = config();
  masked.dropout = 0.2F;
  for (const run::Topology& topology : topologies()) {
    SCOPED_TRACE(concat(topology.replicas, " x ", topology.stages));
    const int replica = topology.replica_of(world_rank());
    const std::vector<std::vector<int>> extra{{unit * replica, unit}, {2 * unit, 0}, {unit, unit * (1 + replica)}};
    const auto trained = [&](auto trainer) {
      Outcome<float> outcome;
      for (const std::vector<int>& counts : extra) {
        trainer.replay(counts);
        const StepResult result = trainer.step();
        outcome.losses.push_back(result.loss);
        outcome.norms.push_back(result.gradient_norm);
      }
      outcome.weights = outcome_of(trainer, 0).weights;
      return outcome;
    };
    const auto model = [&] { return nn::gpt<device::Host, float>(masked, 1); };
    const auto source = by_rank(different_samples, topology.replicas, 1);
    const auto spread = trained(Piped(model(), source, options_of(topology, "1f1b"), {}, comm::Communicator{}));

    using Alone = Trainer<optim::Acco<optim::AdamW>>;
    const comm::Communicator world;
    const comm::Communicator stage = world.split(topology.stage_of(world_rank()), replica, "stage");
    auto options = small_options<Alone>();
    options.micro_batches = {unit};
    options.accumulation = Accumulation::adaptive();
    EXPECT_TRUE(same_bits(spread, trained(Alone(model(), source, options, {}, stage))));
  }
}

TEST(AdaptivePipeline, a_phase_takes_units_until_all_stages_have_communicated) {
  for (const run::Topology& topology : topologies()) {
    SCOPED_TRACE(concat(topology.replicas, " x ", topology.stages));
    constexpr int steps = 3;
    auto trainer = trainer_of(slow_network(options_of(topology, "1f1b")), different_samples);
    Outcome<float> outcome;
    std::vector<std::vector<int>> log;
    for (int step = 0; step < steps; ++step) {
      const StepResult result = trainer.step();
      outcome.losses.push_back(result.loss);
      outcome.norms.push_back(result.gradient_norm);
      log.push_back(extra_of(trainer));
      expect_alike(trainer);
      for (const int count : log.back()) {
        EXPECT_TRUE(count > 0 || topology.replicas == 1) << "replicas wait for each other longer than a phase takes";
      }
    }
    outcome.weights = outcome_of(trainer, 0).weights;

    auto again = trainer_of(options_of(topology, "1f1b"), different_samples);
    Outcome<float> replayed;
    for (const std::vector<int>& extra : log) {
      again.replay(extra);
      const StepResult result = again.step();
      replayed.losses.push_back(result.loss);
      replayed.norms.push_back(result.gradient_norm);
    }
    replayed.weights = outcome_of(again, 0).weights;
    EXPECT_TRUE(same_bits(replayed, outcome));
  }
}

TEST(AdaptivePipeline, a_bound_is_of_the_first_micro_batches_too) {
  for (const run::Topology& topology : topologies()) {
    for (const int cap : {2 * unit, 2 * unit + 1, 5 * unit, 6 * unit - 1}) {
      SCOPED_TRACE(concat(topology.replicas, " x ", topology.stages, ", at most ", cap));
      const auto options = options_of(topology, "1f1b", Accumulation::capped(cap));
      int loops = 0;
      for (const schedule::Program& program :
           Piped::programs(nn::gpt<device::Host, float>(config(), 1), options, world_size())) {
        for (const schedule::Repeat& loop : program.repeats) {
          EXPECT_EQ(loop.max, (cap - unit) / unit) << "rank " << program.rank;
          ++loops;
        }
      }
      EXPECT_EQ(loops, phases * world_size()) << "one in each phase, on each rank";
    }
  }
}

TEST(AdaptivePipeline, a_bound_is_kept_where_a_phase_would_take_more) {
  if (topologies().front().replicas == 1) GTEST_SKIP() << "nobody waits for another replica";
  for (const run::Topology& topology : topologies()) {
    if (topology.replicas == 1) continue;
    auto trainer = trainer_of(slow_network(options_of(topology, "1f1b", Accumulation::capped(2 * unit + 1))), different_samples);
    for (int step = 0; step < 2; ++step) {
      trainer.step();
      EXPECT_EQ(extra_of(trainer), std::vector<int>(phases, unit));
    }
  }
}

// Bodies are of a replica's own count: 4 and 5 leave the second replica none, and the first one.
TEST(AdaptivePipeline, a_bound_may_leave_one_replica_no_unit) {
  if (world_size() != 4) GTEST_SKIP() << "two replicas of two stages";
  for (const int cap : {4, 5, 8}) {
    auto options = slow_network(options_of(run::Topology(2, 2), "1f1b", Accumulation::capped(cap)));
    const int replica = options.topology->replica_of(world_rank());
    options.micro_batches = {unit * (1 + replica)};
    auto trainer = trainer_of(options, different_samples);
    for (int step = 0; step < 2; ++step) {
      EXPECT_TRUE(trainer.step().committed);
      const int expected = replica == 0 ? (cap - unit) / unit * unit : (cap - 2 * unit) / (2 * unit) * 2 * unit;
      EXPECT_EQ(extra_of(trainer), std::vector<int>(expected > 0 ? phases : extra_of(trainer).size(), expected)) << cap;
    }
  }
}

TEST(AdaptivePipeline, ranks_of_unequal_speed_do_not_wait_in_a_circle) {
  for (const run::Topology& topology : topologies()) {
    for (const int slow : {0, world_size() - 1}) {
      SCOPED_TRACE(concat(topology.replicas, " x ", topology.stages, ", rank ", slow, " is slow"));
      auto options = slow_network(options_of(topology, "1f1b"));
      if (world_rank() == slow) options.device.slowdown = 6;
      auto trainer = trainer_of(options, different_samples);
      std::uint64_t taken = 0;
      for (int step = 0; step < 3; ++step) {
        EXPECT_TRUE(trainer.step().committed);
        expect_alike(trainer);
        for (const int extra : extra_of(trainer)) taken += static_cast<std::uint64_t>(unit + extra);
      }
      EXPECT_EQ(trainer.taken(), taken + unit) << "with the prologue's, on every stage";
    }
  }
}

TEST(AdaptivePipeline, sends_what_its_programs_say_as_often_as_they_run) {
  for (const run::Topology& topology : topologies()) {
    auto options = options_of(topology, "1f1b");
    options.communication.transport = comm::Transport::messages;
    auto trainer = trainer_of(options, different_samples);
    EXPECT_EQ(Piped::estimate(trainer.model(), options, world_size(), world_rank()).device_bytes,
              trainer.device().memory().peak);
    trainer.step();
    for (const int units : {0, 1, 3}) {
      const comm::Cost before = trainer.progress().meter().operations();
      trainer.replay(std::vector<int>(phases, unit * units));
      trainer.step();
      const comm::Cost sent = trainer.progress().meter().operations() - before;
      const schedule::Program& program = trainer.program();
      const std::vector<std::uint32_t> loops = schedule::loop_by_instruction(program);
      Bytes bytes = 0;
      std::uint64_t messages = 0;
      for (std::size_t i = 0; i < program.round.size(); ++i) {
        const auto times = static_cast<std::uint64_t>(loops[i] == schedule::no_loop ? 1 : units);
        for (const schedule::Message& message : program.round[i].sends) {
          bytes += times * message.bytes;
          messages += times * message.pieces;
        }
      }
      EXPECT_EQ(sent.bytes, bytes) << units;
      EXPECT_EQ(sent.messages, messages) << units;
    }
  }
}

TEST(AdaptivePipeline, a_resume_goes_on_with_what_was_pending) {
  const run::Topology topology = topologies().front();
  const SharedFolder folder("adaptive-pipeline-resume");
  const auto step = [](Piped& trainer, int units) {
    trainer.replay(std::vector<int>(phases, unit * units));
    return outcome_of(trainer, 1);
  };
  Outcome<float> expected;
  {
    auto trainer = trainer_of(options_of(topology, "1f1b"), different_samples);
    step(trainer, 1);
    step(trainer, 2);
    checkpoint::save(trainer, folder.path());
    expected = step(trainer, 1);
  }
  auto resumed = trainer_of(options_of(topology, "1f1b"), different_samples);
  ASSERT_TRUE(checkpoint::resume(resumed, folder.path()));
  EXPECT_TRUE(resumed.pending());
  EXPECT_TRUE(same_bits(step(resumed, 1), expected));
}

TEST(AdaptivePipeline, names_what_is_not_finite_in_whichever_unit_it_is) {
  const run::Topology topology = topologies().back();
  auto options = options_of(topology, "1f1b");
  options.non_finite = optim::NonFinite::skip;
  const int broken = 3 * unit + 1;  // the prologue, the phase, a unit more, and one
  const RankSource fill = [](int replica, std::uint64_t n, std::span<const AnyView> inputs) {
    different_samples(replica, n, inputs);
    return n == static_cast<std::uint64_t>(3 * unit + 1) ? 1e30 : 1.0;
  };
  auto trainer = trainer_of(options, fill);
  const std::string name = "transformer.ln_f.weight";  // what is large already becomes infinite
  std::vector<float> large = trainer.gather_parameter(name);
  std::fill(large.begin(), large.end(), 1e20F);
  trainer.set_parameter(name, large);
  trainer.replay({2 * unit, unit});
  const StepResult result = trainer.step();
  EXPECT_FALSE(result.committed);
  EXPECT_NE(result.not_finite.find(concat("in its micro-batch ", broken)), std::string::npos) << result.not_finite;
}

TEST(AdaptivePipeline, refuses_counts_that_stages_cannot_take) {
  auto trainer = trainer_of(options_of(topologies().back(), "1f1b"), different_samples);
  EXPECT_THROW(trainer.replay({unit, unit + 1}), OptionError);
  trainer.replay(std::vector<int>(phases, world_rank() == 0 ? unit : 2 * unit));
  try {
    trainer.step();
    ADD_FAILURE() << "stages took different numbers of micro-batches";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("not on all ranks that share it"), std::string::npos) << error.what();
  }
}

TEST(AdaptivePipeline, is_refused_where_stages_could_not_agree) {
  const auto refusal = [](const auto& change) -> std::string {
    auto options = options_of(run::Topology(1, 2), "1f1b");
    change(options);
    try {
      static_cast<void>(Piped::programs(nn::gpt<device::Host, float>(config(), 1), options, 2));
    } catch (const OptionError& error) {
      return error.what();
    }
    return "nothing";
  };
  EXPECT_EQ(refusal([](auto&) {}), "nothing");
  EXPECT_NE(refusal([](auto& o) { o.accumulation = Accumulation::adaptive(Accumulation::Order::shared); }).find("a shared order"),
            std::string::npos);
}

}  // namespace
}  // namespace reef::test
