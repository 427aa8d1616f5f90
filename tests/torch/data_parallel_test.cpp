#include <reef/torch/data_parallel.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include <reef/comm/communicator.hpp>
#include <reef/trainer/checkpoint.hpp>

#include "../support/small_gpt.hpp"

namespace reef::test {
namespace {

using testing::HasSubstr;
namespace rt = reef::torch;
using Net = ::torch::nn::SequentialImpl;
using Ddp = optim::Ddp<optim::AdamW>;
using Zero1 = optim::Zero1<optim::AdamW>;

std::shared_ptr<Net> small_net(std::uint64_t seed = 5) {
  namespace nn = ::torch::nn;
  ::torch::manual_seed(seed);
  return nn::Sequential(nn::Linear(12, 24), nn::GELU(), nn::LayerNorm(nn::LayerNormOptions({24})), nn::Dropout(0.1),
                        nn::Linear(24, 24), nn::ReLU(), nn::Linear(24, 5))
      .ptr();
}

/// Numbers and classes that follow from the number of the micro-batch alone: (6, 12) and (6,).
rt::Tensors batch_of(std::uint64_t micro_batch) {
  const at::Tensor x = (at::arange(72, at::kFloat).view({6, 12}) * (0.3 + 0.1 * static_cast<double>(micro_batch % 7))).sin();
  return {x, (x.sum(1) * 3).floor().to(at::kLong).remainder(5)};
}

at::Tensor loss_of(const at::Tensor& output, const rt::Tensors& batch) { return ::torch::nn::functional::cross_entropy(output, batch[1]); }

template <class... Policies>
rt::DataParallelOptions<Policies...> options_of(int micro_batches = 1) {
  rt::DataParallelOptions<Policies...> options;
  static_cast<typename Trainer<Policies...>::Options&>(options) = small_options<Trainer<Policies...>>();
  options.micro_batches = {micro_batches};
  options.node_bytes = 1;
  return options;
}

template <class DataParallel>
auto outcome_after(DataParallel& training, int steps) {
  std::vector<double> losses;
  for (int i = 0; i < steps; ++i) losses.push_back(training.step(batch_of).loss);
  std::vector<std::vector<float>> weights;
  for (const auto& entry : training.state_dict()) {
    const at::Tensor values = entry.value().contiguous();
    weights.emplace_back(values.template data_ptr<float>(), values.template data_ptr<float>() + values.numel());
  }
  return std::pair(losses, weights);
}

TEST(DataParallel, has_the_bits_of_one_process) {
  const comm::Communicator world;
  const comm::Communicator self = world.split(world.rank(), 0, "self");
  auto options = options_of<Ddp>(2);
  auto alone_options = options;
  alone_options.virtual_ranks = world.size();
  auto alone = rt::data_parallel(small_net(), loss_of, batch_of(0), alone_options, &self);
  auto spread = rt::data_parallel(small_net(), loss_of, batch_of(0), options, &world);
  const auto wanted = outcome_after(alone, 3);
  EXPECT_NE(wanted.first[0], wanted.first[1]);
  EXPECT_EQ(outcome_after(spread, 3), wanted);
}

}  // namespace
}  // namespace reef::test
