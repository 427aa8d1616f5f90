// Models that are swapped through the device under further optimizers and precisions: the bits of those
// that stay there.

#include <type_traits>

#include <gtest/gtest.h>

#include <reef/graph/estimate.hpp>
#include <reef/optim/acco.hpp>
#include <reef/optim/adamw.hpp>
#include <reef/optim/diloco.hpp>
#include <reef/optim/zero1.hpp>
#include <reef/run/costs.hpp>
#include <reef/schedule/simulate.hpp>
#include <reef/swap/atom.hpp>
#include <reef/swap/layer_streaming.hpp>

#include "../support/small_gpt.hpp"

namespace reef::test {
namespace {

template <class Tested>
auto left_by(Activations activations, bool adapts = false, int stays = 0) {
  auto options = small_options<Tested>();
  options.micro_batches = {3};
  options.activations = {activations};
  options.device.link_bytes_per_second = 4e9;
  options.device.poison_freed = true;
  if (stays > 0)
    options.swapping = run::SwapSchedule{.weight_slots = 3, .resident_segments = stays};
  if (adapts) options.accumulation = Accumulation::adaptive();
  nn::GptConfig config = small_config();
  config.layers = 5;
  config.dropout = 0.2F;
  Tested trainer(nn::gpt<device::Host, typename Tested::T>(config, 1), small_source(), options,
                 small_source());
  return outcome_of(trainer, 4);
}

template <class... Policies>
void expect_the_bits_of_a_model_that_stays() {
  const auto expected = left_by<Trainer<Policies...>>(Activations::keep);
  using Atom = Trainer<swap::Atom<>, Policies...>;
  EXPECT_EQ(left_by<Atom>(Activations::recompute), expected);
  EXPECT_EQ(left_by<Atom>(Activations::stash), expected);
  EXPECT_EQ(left_by<Atom>(Activations::keep, false, 2), expected) << "two segments stay";
  EXPECT_EQ((left_by<Trainer<swap::LayerStreaming, Policies...>>(Activations::keep)), expected);
}

TEST(SwapPolicies, shards_of_what_is_updated) {
  expect_the_bits_of_a_model_that_stays<optim::Zero1<optim::AdamW>>();
}

TEST(SwapPolicies, ranks_that_step_on_their_own) {
  expect_the_bits_of_a_model_that_stays<optim::DiLoCo<optim::AdamW>>();
}

TEST(SwapPolicies, gradients_that_are_rounded_after_each_micro_batch) {
  expect_the_bits_of_a_model_that_stays<optim::Acco<optim::AdamW>, precision::Bf16Gradients<>>();
}

TEST(SwapPolicies, phases_that_take_micro_batches_while_they_communicate) {
  using Adaptive = Trainer<swap::Atom<>, optim::Acco<optim::AdamW>>;
  const auto outcome = left_by<Adaptive>(Activations::recompute, true);
  EXPECT_LT(outcome.losses.back(), outcome.losses.front());
}

TEST(SwapPolicies, plans_of_loops_are_judged_without_their_turns) {
  // A candidate is as fast as its step, whatever micro-batches it may take beside it.
  const auto planned = []<class Tested>(std::type_identity<Tested>, bool adapts) {
    nn::GptConfig config = small_config();
    config.layers = 5;
    auto options = small_options<Tested>();
    options.micro_batches = {1};
    options.device.link_bytes_per_second = 1e9;
    options.device.memory_bytes = 550'000;
    if (adapts) options.accumulation = Accumulation::adaptive();
    const auto model = nn::gpt<device::Host, float>(config, 1);
    options.profile = graph::estimate(model.dag(), {1e10, 1e10, 1e9});
    const auto programs = Tested::programs(model, options, 1);
    const auto world = schedule::World::uniform(1, run::machine_of(*options.profile), {});
    return schedule::simulate(programs, world, 1).total;
  };
  using Tested = Trainer<swap::Atom<>, optim::Acco<optim::AdamW>>;
  EXPECT_LE(planned(std::type_identity<Tested>(), true),
            1.01 * planned(std::type_identity<Tested>(), false));
}

/// What sums move: each of `reads` is read, and so is what they are added to; that is written.
template <class Tested>
void expect_bytes_of_sums(const char* kind) {
  auto options = small_options<Tested>();
  options.virtual_ranks = 2;
  options.micro_batches = {1, 1};
  const auto programs =
      Tested::programs(nn::gpt<device::Host, typename Tested::T>(small_config(), 1), options, 1);
  const schedule::Program& program = programs.front();
  const auto bytes_of = [&](const schedule::Value& value) {
    return program.storages[value.storage].bytes;
  };
  int copies = 0;
  int sums = 0;
  for (const schedule::Instruction& i : program.round) {
    if (i.kind != kind) continue;
    Bytes expected = 2 * bytes_of(i.reads.front());  // it, and the sum that it comes to
    if (!i.accumulates.empty()) expected += bytes_of(i.accumulates.front());
    for (std::size_t further = 1; further < i.reads.size(); ++further) {
      expected += 3 * bytes_of(i.reads[further]);
    }
    EXPECT_EQ(i.cost.bytes, expected) << i.text();
    ++(i.accumulates.empty() && i.reads.size() == 1 ? copies : sums);
  }
  EXPECT_GT(copies, 0);
  EXPECT_GT(sums, 0);
}

TEST(SwapPolicies, programs_say_what_sums_over_ranks_move) {
  expect_bytes_of_sums<Trainer<swap::Atom<>, optim::Zero1<optim::AdamW>>>("FoldRank");
  expect_bytes_of_sums<Trainer<swap::Atom<>, optim::Acco<optim::AdamW>>>("HandOver");
}

}  // namespace
}  // namespace reef::test
