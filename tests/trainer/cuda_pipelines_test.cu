// Models over several stages on GPUs: the bits of one process, whatever the order, with backwards whole and in halves.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include <reef/nn/cuda.cuh>
#include <reef/optim/adamw.hpp>
#include <reef/optim/zero1.hpp>
#include <reef/pipeline/ordered.hpp>
#include <reef/trainer/trainer.hpp>

#include "../support/small_gpt.hpp"

namespace reef::test {
namespace {

using device::Cuda;
using Zero1 = optim::Zero1<optim::AdamW>;
using Piped = Trainer<Cuda, pipeline::Ordered, Zero1>;
using Whole = Trainer<Cuda, Zero1>;

class CudaPipelines : public testing::TestWithParam<const char*> {
protected:
  void SetUp() override {
    std::string why;
    if (!device::cuda_available(&why)) GTEST_SKIP() << why;
  }
};

template <class Tested>
std::vector<double> train_three_steps(typename Tested::Options options, const comm::Communicator& ranks) {
  options.micro_batches = {3};
  options.device.poison_freed = true;
  Tested trainer = small_trainer<Tested>(options, ranks);
  std::vector<double> numbers;
  for (int step = 0; step < 3; ++step) {
    const StepResult result = trainer.step();
    numbers.push_back(result.loss);
    numbers.push_back(result.gradient_norm);
  }
  numbers.push_back(trainer.evaluate(1));
  for (const graph::Parameter& parameter : trainer.model().dag().parameters) {
    for (const float value : trainer.gather_parameter(parameter.name)) numbers.push_back(value);
  }
  return numbers;
}

TEST_P(CudaPipelines, train_to_the_bits_of_one_process) {
  const comm::Communicator world;
  const comm::Communicator self = world.split(world.rank(), 0, "self");
  for (const Activations activations : {Activations::keep, Activations::recompute}) {
    auto options = small_options<Piped>();
    options.topology = run::Topology(1, world.size());
    options.pipeline.schedule = GetParam();
    options.activations = {activations};
    const auto alone = train_three_steps<Whole>(small_options<Whole>(), self);
    EXPECT_EQ(train_three_steps<Piped>(options, world), alone);
  }
}

/// With two versions of the weights all stages are one update behind, as one stage is.
TEST(CudaAsynchronous, trains_to_the_bits_of_one_stage) {
  std::string why;
  if (!device::cuda_available(&why)) GTEST_SKIP() << why;
  const comm::Communicator world;
  const comm::Communicator self = world.split(world.rank(), 0, "self");
  const auto trained = [](const comm::Communicator& ranks) {
    auto options = small_options<Piped>();
    options.topology = run::Topology(1, ranks.size());
    options.pipeline.schedule = "2bw";
    options.pipeline.micro_batches_per_update = 4;
    options.micro_batches = {12};
    options.non_finite = optim::NonFinite::ignore;
    options.clip_norm = 0;
    options.device.poison_freed = true;
    Piped trainer = small_trainer<Piped>(options, ranks);
    trainer.step();
    std::vector<float> weights;
    for (const graph::Parameter& parameter : trainer.model().dag().parameters) {
      for (const float value : trainer.gather_parameter(parameter.name)) weights.push_back(value);
    }
    return weights;
  };
  EXPECT_EQ(trained(world), trained(self));
}

INSTANTIATE_TEST_SUITE_P(Schedules, CudaPipelines,
                         testing::Values("gpipe", "1f1b", "1f1b-eager", "interleaved", "looped-bfs", "zb-h1", "zb-h2",
                                         "interleaved-zb", "zb-v", "v-half", "v-min", "dualpipe-v"));

}  // namespace
}  // namespace reef::test
