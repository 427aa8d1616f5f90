// A small Llama that is trained on a GPU: whole, with frozen parameters and with adapters, resident and swapped, held against the
// host's Trainer.

#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <vector>

#include <reef/nn/cuda.cuh>
#include <reef/nn/llama.hpp>
#include <reef/nn/lora.hpp>
#include <reef/optim/adamw.hpp>
#include <reef/optim/zero1.hpp>
#include <reef/swap/atom.hpp>
#include <reef/trainer/trainer.hpp>

#include "../support/small_gpt.hpp"

namespace reef::test {
namespace {

using device::Cuda;
using device::Host;
using OnHost = Trainer<optim::Zero1<optim::AdamW>>;
using OnCuda = Trainer<Cuda, optim::Zero1<optim::AdamW>>;
using Swapped = Trainer<Cuda, swap::Atom<>, optim::Zero1<optim::AdamW>>;

/// The parts of a Llama that are trained.
enum class Trained { all, without_embedding_and_block, without_norms_and_biases, adapters };

constexpr Trained all_parts[] = {Trained::all, Trained::without_embedding_and_block, Trained::without_norms_and_biases,
                                 Trained::adapters};

/// A Llama of all that its fields can say, no size of which divides another; it reads what the small GPT reads.
template <class Device>
graph::Graph<Device, float> small_llama(Trained part) {
  nn::LlamaConfig config{.layers = 2, .heads = 4, .kv_heads = 2, .head_size = 6, .channels = 21, .hidden = 35, .vocabulary = 37};
  config.context = small_config().context;
  config.batch = small_config().batch;
  config.rotary = {100, 2, 16, 1, 4};
  config.window = 5;
  config.window_from = 1;
  config.query_bias = config.mlp_bias = config.norm_heads = true;
  config.tied = part != Trained::without_embedding_and_block;
  auto graph = nn::llama<Device, float>(config, 1);
  const auto freeze = [&](const std::vector<std::string>& patterns) {
    for (const std::string& pattern : patterns) graph.freeze(pattern);
  };
  switch (part) {
    case Trained::all: break;
    case Trained::without_embedding_and_block: freeze({"model.embed_tokens.weight", "model.layers.0.*"}); break;
    case Trained::without_norms_and_biases: freeze({"*norm.weight", "*.bias"}); break;
    case Trained::adapters: return nn::with_lora(graph, {.rank = 3, .alpha = 6, .targets = {"q_proj", "v_proj", "down_proj"}});
  }
  return graph;
}

template <class Tested>
Tested trainer_of(Trained part, const typename Tested::Options& options, const comm::Communicator& ranks) {
  return Tested(small_llama<typename Tested::Device>(part), small_source(), options, small_source(), ranks);
}

template <class Tested>
Outcome<float> trained(Trained part, const typename Tested::Options& options, MPI_Comm ranks = MPI_COMM_WORLD) {
  const comm::Communicator communicator(ranks);
  Tested trainer = trainer_of<Tested>(part, options, communicator);
  return outcome_of(trainer, 4);
}

class CudaLlamaTrainer : public testing::TestWithParam<Trained> {
protected:
  void SetUp() override {
    std::string why;
    if (!device::cuda_available(&why)) GTEST_SKIP() << why;
  }
};

TEST_P(CudaLlamaTrainer, has_the_losses_and_norms_of_the_host) {
  const auto host = trained<OnHost>(GetParam(), uneven_options<OnHost>());
  const auto cuda = trained<OnCuda>(GetParam(), uneven_options<OnCuda>());
  ASSERT_EQ(cuda.losses.size(), host.losses.size());
  EXPECT_NE(host.losses.front(), host.losses.back());
  // The same samples; only the order of sums differs.
  for (std::size_t i = 0; i < host.losses.size(); ++i) {
    EXPECT_NEAR(cuda.losses[i], host.losses[i], 1e-4 * host.losses[i]) << "step " << i;
    EXPECT_NEAR(cuda.norms[i], host.norms[i], 1e-3 * host.norms[i]) << "step " << i;
  }
}

TEST_P(CudaLlamaTrainer, moves_what_is_trained_and_leaves_the_bits_of_what_is_frozen) {
  const comm::Communicator world;
  OnCuda trainer = trainer_of<OnCuda>(GetParam(), uneven_options<OnCuda>(), world);
  const auto& parameters = trainer.model().dag().parameters;
  std::vector<std::vector<float>> before;
  for (const graph::Parameter& parameter : parameters) before.push_back(trainer.parameter(parameter.name));
  const auto after = outcome_of(trainer, 4).weights;
  for (std::size_t p = 0; p < before.size(); ++p) EXPECT_EQ(after[p] == before[p], parameters[p].frozen) << parameters[p].name;
}

TEST_P(CudaLlamaTrainer, on_p_ranks_has_the_bits_of_one_process_that_stands_for_p) {
  EXPECT_EQ(trained<OnCuda>(GetParam(), uneven_options<OnCuda>()),
            trained<OnCuda>(GetParam(), alone_options<OnCuda>(uneven_counts(world_size())), MPI_COMM_SELF));
}

TEST_P(CudaLlamaTrainer, swapped_has_the_bits_and_the_evaluation_of_one_that_stays) {
  const comm::Communicator world;
  auto options = uneven_options<Swapped>();
  options.device.poison_freed = true;
  Swapped swapped = trainer_of<Swapped>(GetParam(), options, world);
  OnCuda resident = trainer_of<OnCuda>(GetParam(), uneven_options<OnCuda>(), world);
  EXPECT_EQ(outcome_of(swapped, 4), outcome_of(resident, 4));
  EXPECT_EQ(swapped.evaluate(2), resident.evaluate(2));
}

std::string name_of(const testing::TestParamInfo<Trained>& info) {
  return std::vector<std::string>{"all", "without_embedding_and_block", "without_norms_and_biases",
                                  "adapters"}[static_cast<std::size_t>(info.param)];
}
INSTANTIATE_TEST_SUITE_P(Trained, CudaLlamaTrainer, testing::ValuesIn(all_parts), name_of);

}  // namespace
}  // namespace reef::test
