#include <reef/torch/data_parallel.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <reef/comm/communicator.hpp>
#include <reef/core/precision.hpp>
#include <reef/optim/sgd.hpp>
#include <reef/trainer/checkpoint.hpp>

#include "small_net.hpp"

// A libtorch module that is trained in fp64, and in bf16.

namespace reef::test {
namespace {

using OfDouble = rt::DataParallelOptions<optim::Ddp<optim::Sgd>, precision::Fp64>;
using OfBfloat16 = rt::DataParallelOptions<optim::Ddp<optim::AdamW>, precision::Bf16>;

/// small_net, whose values are of this type.
std::shared_ptr<Net> net_of(at::ScalarType type, double dropout = 0, std::uint64_t seed = 5) {
  auto net = small_net(dropout, seed);
  net->to(type);
  return net;
}

rt::Tensors double_batch_of(std::uint64_t micro_batch) {
  const rt::Tensors batch = batch_of(micro_batch);
  return {batch[0].to(at::kDouble), batch[1]};
}

OfDouble double_options() {
  OfDouble options;
  options.learning_rate = {.peak = 0.1};
  options.clip_norm = 0;
  options.device.threads = 1;
  options.micro_batches = {2};
  return options;
}

/// What differs from a sum in another order: some ulps of numbers of about 1, over three steps.
constexpr double tolerance = 1e-13;

/// In fp64 whatever the module's values are of: those of fp32 are converted for a call, and no graph is kept.
TEST(DataParallelInFp64, takes_the_steps_of_libtorch) {
  const comm::Communicator world;
  for (const at::ScalarType type : {at::kDouble, at::kFloat}) {
    SCOPED_TRACE(c10::toString(type));
    auto training = rt::data_parallel(net_of(type), loss_of, double_batch_of(0), double_options(), &world);
    const auto plain = net_of(type);
    plain->to(at::kDouble);
    ::torch::optim::SGD optimizer(plain->parameters(), ::torch::optim::SGDOptions(0.1));
    const auto batches = static_cast<std::uint64_t>(2 * world.size());
    for (std::uint64_t step = 0; step < 3; ++step) {
      optimizer.zero_grad();
      at::Tensor sum = at::zeros({}, at::kDouble);
      for (std::uint64_t i = step * batches; i < (step + 1) * batches; ++i) {
        sum = sum + loss_of(plain->forward(double_batch_of(i)[0]), double_batch_of(i));
      }
      const at::Tensor mean = sum / static_cast<double>(batches);
      mean.backward();
      optimizer.step();
      EXPECT_NEAR(training.step(double_batch_of).loss, mean.item<double>(), tolerance);
    }
    for (const graph::Parameter& parameter : training.trainer().model().dag().parameters) {
      const std::vector<double> learnt = training.trainer().parameter(parameter.name);
      const at::Tensor wanted = plain->named_parameters()[parameter.name].detach().flatten();
      ASSERT_EQ(static_cast<std::int64_t>(learnt.size()), wanted.numel());
      for (std::size_t i = 0; i < learnt.size(); ++i) {
        EXPECT_NEAR(learnt[i], wanted.data_ptr<double>()[i], tolerance) << parameter.name;
      }
    }
    EXPECT_EQ(training.state_dict()["0.weight"].scalar_type(), type);
  }
}

/// Losses of three steps, and an evaluation of what they have learnt.
template <class DataParallel>
std::vector<double> losses_after(DataParallel& training) {
  std::vector<double> losses;
  for (int step = 0; step < 3; ++step) losses.push_back(training.step(batch_of).loss);
  losses.push_back(training.evaluate(batch_of, 2));
  return losses;
}

/// The bits of one process that keeps no graph, also after a resume. `options`: of two micro-batches.
template <class Options>
void expect_the_bits_of_one_process(Options options, at::ScalarType type) {
  const comm::Communicator world;
  const comm::Communicator self = world.split(world.rank(), 0, "self");
  const SharedFolder folder("data_parallel_precision");
  const auto training = [&](const comm::Communicator& ranks, std::uint64_t seed = 5) {
    const at::Tensor x = batch_of(0)[0].to(type);
    return rt::data_parallel(net_of(type, 0.1, seed), loss_of, {x, batch_of(0)[1]}, options, &ranks);
  };
  auto spread = training(world);
  auto resumed = training(world, 9);
  options.virtual_ranks = world.size();
  options.module.keeps_graph = false;
  auto alone = training(self);
  const auto first = losses_after(alone);
  EXPECT_NE(first[0], first[1]);
  EXPECT_EQ(losses_after(spread), first);
  checkpoint::save(spread.trainer(), folder.path());
  EXPECT_TRUE(checkpoint::resume(resumed.trainer(), folder.path()).has_value());
  EXPECT_EQ(losses_after(resumed), losses_after(alone));
}

TEST(DataParallelInFp64, has_the_bits_of_one_process_and_resumes) { expect_the_bits_of_one_process(double_options(), at::kDouble); }

OfBfloat16 bfloat16_options() {
  auto options = net_options<optim::Ddp<optim::AdamW>, precision::Bf16>(2);
  options.learning_rate = {.peak = 0.01};
  return options;
}

TEST(DataParallelInBf16, has_the_bits_of_one_process_and_resumes) { expect_the_bits_of_one_process(bfloat16_options(), at::kFloat); }

TEST(DataParallelInBf16, learns_as_in_fp32) {
  const comm::Communicator world;
  auto training = rt::data_parallel(small_net(), loss_of, batch_of(0), bfloat16_options(), &world);
  auto options = net_options<optim::Ddp<optim::AdamW>>(2);
  options.learning_rate = bfloat16_options().learning_rate;
  auto in_fp32 = rt::data_parallel(small_net(), loss_of, batch_of(0), options, &world);
  const double before = training.evaluate(batch_of, 4);
  const double wanted = in_fp32.evaluate(batch_of, 4);
  EXPECT_NEAR(before, wanted, 0.01 * wanted);
  EXPECT_NE(before, wanted);
  for (int step = 0; step < 40; ++step) {
    training.step(batch_of);
    in_fp32.step(batch_of);
  }
  const double after = training.evaluate(batch_of, 4);
  EXPECT_LT(after, before / 2);
  EXPECT_NEAR(after, in_fp32.evaluate(batch_of, 4), 0.01 * before);
  EXPECT_EQ(training.state_dict()["0.weight"].scalar_type(), at::kFloat);
}

}  // namespace
}  // namespace reef::test
