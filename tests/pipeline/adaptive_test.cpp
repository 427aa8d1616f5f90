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
#include <reef/trainer/checkpoint.hpp>

#include "../laws/overlapping.hpp"

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

/// Each message takes far longer than a micro-batch.
Piped::Options slow_network(Piped::Options options) {
  options.communication.network = comm::NetworkShape::uniform(world_size(), 0.01, 1e9);
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
  EXPECT_EQ(outcome, expected);
}

TEST(AdaptivePipeline, counts_that_are_given_have_the_bits_of_fixed_ones) {
  for (const run::Topology& topology : topologies()) {
    for (const char* const schedule : {"1f1b", "gpipe"}) expect_bits_of_fixed_counts(topology, schedule);
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
    EXPECT_EQ(replayed, outcome);
  }
}

}  // namespace
}  // namespace reef::test
