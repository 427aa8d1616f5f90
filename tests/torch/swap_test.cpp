#include <reef/torch/module.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>

#include <reef/comm/communicator.hpp>
#include <reef/core/text.hpp>
#include <reef/nn.hpp>
#include <reef/swap/atom.hpp>
#include <reef/swap/layer_streaming.hpp>

#include "../support/small_gpt.hpp"
#include "gpt_block.hpp"

// Libtorch modules that are swapped through the device: the bits of those that stay there.

namespace reef::test {
namespace {

using Stays = Trainer<optim::Ddp<optim::AdamW>>;
using Swapped = Trainer<swap::Atom<>, optim::Ddp<optim::AdamW>>;
using Streamed = Trainer<swap::LayerStreaming, optim::Ddp<optim::AdamW>>;

/// A small GPT of four layers of torch between native operators; counts the forwards of the layers.
struct DeepModel {
  explicit DeepModel(bool keeps) {
    const nn::GptConfig config = small_config();
    const std::int64_t C = config.channels;
    ::torch::manual_seed(3);
    const int tokens = graph.input("tokens", {{config.batch, config.context}, Element::int32});
    const int targets = graph.input("targets", {{config.batch, config.context}, Element::int32});
    int x = graph.add("embedding", nn::Embedding{config.vocabulary, config.context, C}, {tokens}, {"wte", "wpe"})[0];
    for (int layer = 0; layer < 4; ++layer) {
      const auto function = [calls = calls](torch_modules::GptBlockImpl& block, const torch::Tensors& in) {
        ++*calls;
        return torch::Tensors{block.forward(in[0])};
      };
      const torch_modules::GptBlock block(C, config.heads, 0.2);
      x = graph.add(concat("block.", layer), torch::Module(block.ptr(), function, {.keeps_graph = keeps}), {x})[0];
    }
    x = graph.add("ln_f", nn::LayerNorm{}, {x})[0];
    const int logits = graph.add("head", nn::Linear{config.vocabulary, false, nn::Transpose::yes}, {x}, {"wte"})[0];
    graph.loss(graph.add("loss", nn::CrossEntropy{}, {logits, targets})[0]);
    *calls = 0;
  }

  graph::Graph<device::Host, float> graph = graph::Graph<device::Host, float>(1);
  std::shared_ptr<int> calls = std::make_shared<int>(0);
};

/// What three steps leave behind, and an evaluation; and how often they call a layer forward.
template <class TrainerType>
auto left_by_modules(const typename TrainerType::Options& options, bool keeps) {
  const comm::Communicator world;
  DeepModel model(keeps);
  TrainerType trainer(std::move(model.graph), small_source(), options, small_source(), world);
  const auto outcome = outcome_of(trainer, 3);
  const int calls = *model.calls;
  return std::pair(std::pair(outcome, trainer.evaluate(2)), calls);
}

/// Each module in a segment of its own.
template <class TrainerType>
typename TrainerType::Options swap_options(int micro_batches, Activations activations) {
  auto options = small_options<TrainerType>();
  options.micro_batches = {micro_batches};
  options.cuts = {1, 2, 3, 4, 5};
  options.activations = {activations};
  options.device.link_bytes_per_second = 4e9;
  options.device.poison_freed = true;
  return options;
}

template <class TrainerType>
void expect_the_bits_of_modules_that_stay(int micro_batches) {
  const auto wanted = left_by_modules<Stays>(swap_options<Stays>(micro_batches, Activations::keep), false).first;
  EXPECT_NE(wanted.first.losses[0], wanted.first.losses[1]);
  for (const Activations activations : run::all_activations) {
    for (const bool keeps : {false, true}) {
      SCOPED_TRACE(concat(micro_batches, " micro-batches, activations ", static_cast<int>(activations), keeps ? ", graphs are kept" : ""));
      EXPECT_EQ(left_by_modules<TrainerType>(swap_options<TrainerType>(micro_batches, activations), keeps).first, wanted);
    }
  }
}

TEST(TorchSwapped, modules_give_the_bits_of_those_that_stay) {
  expect_the_bits_of_modules_that_stay<Swapped>(1);
  expect_the_bits_of_modules_that_stay<Swapped>(3);
}

TEST(TorchSwapped, modules_that_are_streamed_give_the_bits_of_those_that_stay) { expect_the_bits_of_modules_that_stay<Streamed>(2); }

/// What is stashed comes back to another place: the module is called again. Weights come back to their slots.
TEST(TorchSwapped, graphs_that_are_kept_serve_where_inputs_and_weights_are_back_in_their_place) {
  const auto calls = []<class TrainerType>(std::type_identity<TrainerType>, Activations activations) {
    return left_by_modules<TrainerType>(swap_options<TrainerType>(1, activations), true).second;
  };
  const int forwards = 3 * 4;  // of a layer in a step
  EXPECT_EQ(calls(std::type_identity<Stays>(), Activations::keep), forwards);
  EXPECT_EQ(calls(std::type_identity<Swapped>(), Activations::keep), forwards);
  EXPECT_GT(calls(std::type_identity<Swapped>(), Activations::stash), forwards);
}

}  // namespace
}  // namespace reef::test
