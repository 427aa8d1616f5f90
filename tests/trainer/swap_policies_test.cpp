// Models that are swapped through the device under further optimizers and precisions: the bits of those
// that stay there.

#include <gtest/gtest.h>

#include <reef/optim/acco.hpp>
#include <reef/optim/adamw.hpp>
#include <reef/optim/diloco.hpp>
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
  if (stays > 0) options.swapping = run::Swapping{.slots = 3, .stays = stays};
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

TEST(SwapPolicies, ranks_that_step_on_their_own) {
  expect_the_bits_of_a_model_that_stays<optim::DiLoCo<optim::AdamW>>();
}

TEST(SwapPolicies, gradients_that_are_rounded_after_each_micro_batch) {
  expect_the_bits_of_a_model_that_stays<optim::Acco<optim::AdamW>, precision::Bf16Gradients<>>();
}

TEST(SwapPolicies, stages_that_take_micro_batches_while_they_communicate) {
  using Adaptive = Trainer<swap::Atom<>, optim::Acco<optim::AdamW>>;
  const auto outcome = left_by<Adaptive>(Activations::recompute, true);
  EXPECT_LT(outcome.losses.back(), outcome.losses.front());
}

}  // namespace
}  // namespace reef::test
