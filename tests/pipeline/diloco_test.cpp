// Replicas over several stages that step on their own: those of as many ranks that have the whole model each.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <reef/comm/communicator.hpp>
#include <reef/comm/mpi.hpp>
#include <reef/core/text.hpp>
#include <reef/nn/cross_entropy.hpp>
#include <reef/nn/embedding.hpp>
#include <reef/nn/gelu.hpp>
#include <reef/nn/layer_norm.hpp>
#include <reef/nn/linear.hpp>
#include <reef/optim/adamw.hpp>
#include <reef/optim/diloco.hpp>
#include <reef/optim/nesterov.hpp>
#include <reef/pipeline/ordered.hpp>
#include <reef/trainer/trainer.hpp>

#include "../support/ranks.hpp"
#include "../support/resumed_stages.hpp"
#include "../support/trainers.hpp"

namespace reef::test::diloco_over_stages {
namespace {

using Outer = optim::DiLoCo<optim::AdamW, optim::Nesterov>;
using Overlap = run::OuterSchedule::Overlap;

/// So many that the embedding, which is the head too, is in two fragments.
constexpr int vocabulary = 300;

/// The first and the last layer are one, too.
graph::Graph<device::Host, float> layers() {
  graph::Graph<device::Host, float> g(1);
  const int tokens = g.input("tokens", {{2, 4}, Element::int32});
  const int targets = g.input("targets", {{2, 4}, Element::int32});
  int x = g.add("embedding", nn::Embedding{vocabulary, 4, 20}, {tokens})[0];
  for (int layer = 0; layer < 4; ++layer) {
    x = g.add(concat("norm", layer), nn::LayerNorm{}, {x})[0];
    const std::string weights = layer == 3 ? "w0" : concat("w", layer);
    x = g.add(concat("linear", layer), nn::Linear{20, false}, {x}, {weights})[0];
    x = g.add(concat("gelu", layer), nn::Gelu{}, {x})[0];
  }
  x = g.add("head", nn::Linear{vocabulary, false, nn::Transpose::yes}, {x}, {g.dag().parameters[0].name})[0];
  g.loss(g.add("loss", nn::CrossEntropy{}, {x, targets})[0]);
  return g;
}

double fill_tokens(std::uint64_t first, std::span<const AnyView> inputs) {
  std::uint64_t number = 5 * first;
  for (const AnyView& input : inputs) {
    for (std::int32_t& token : input.as<std::int32_t>().span()) {
      token = static_cast<std::int32_t>(number++ * 7 % vocabulary);
    }
  }
  return 1.0 + static_cast<double>(first % 3);
}

struct Trained {
  std::vector<double> numbers{};  ///< of this rank's replica, and of all
  std::map<std::string, std::vector<float>> weights{};
};

template <class Tested>
Trained train(typename Tested::Options options, Overlap overlap, const comm::Communicator& ranks) {
  options.micro_batches = {3};
  options.optim.every = 3;
  options.optim.fragments = overlap == Overlap::eager ? 1 : 2;
  options.optim.overlap = overlap;
  options.learning_rate = {.peak = 0.02, .warmup = 0};
  options.clip_norm = 0.5;
  options.device.threads = 1;
  Tested trainer(layers(), fill_tokens, options, run::Source(fill_tokens), ranks);
  Trained result;
  for (int step = 0; step < 8; ++step) {
    const StepResult done = trainer.step();
    result.numbers.push_back(done.loss);
    result.numbers.push_back(done.gradient_norm);
    if (step == 4) result.numbers.push_back(trainer.evaluate(2));
  }
  trainer.gather_committed_weights();
  for (const graph::Parameter& parameter : trainer.plan().dag->parameters) {
    result.weights[parameter.name] = trainer.gather_parameter(parameter.name);
  }
  return result;
}

TEST(PipelinedDiLoCo, replicas_over_stages_train_to_the_bits_of_as_many_whole_ones) {
  const comm::Communicator world;
  const int stages = world.size() == 4 ? 2 : world.size();
  const int replicas = world.size() / stages;
  const comm::Communicator few = world.split(world.rank() < replicas ? 0 : 1, world.rank(), "whole replicas");
  for (const Overlap overlap : {Overlap::none, Overlap::mix, Overlap::eager}) {
    for (const char* const schedule : {"1f1b", "zb-h1"}) {
      SCOPED_TRACE(concat(schedule, ", overlap ", static_cast<int>(overlap)));
      using Piped = Trainer<pipeline::Ordered, Outer>;
      Piped::Options options;
      options.topology = run::Topology(replicas, stages);
      options.pipeline.schedule = schedule;
      const Trained spread = train<Piped>(options, overlap, world);
      Trained whole;
      if (world.rank() < replicas) whole = train<Trainer<Outer>>({}, overlap, few);
      // Rank r of the whole ones has what replica r is to have.
      whole.numbers.resize(spread.numbers.size());
      const int replica = world.rank() / stages;
      std::vector<double> all(whole.numbers.size() * static_cast<std::size_t>(world.size()));
      const int count = static_cast<int>(whole.numbers.size());
      MPI_Allgather(whole.numbers.data(), count, MPI_DOUBLE, all.data(), count, MPI_DOUBLE, MPI_COMM_WORLD);
      EXPECT_EQ(spread.numbers, std::vector<double>(all.begin() + replica * count, all.begin() + (replica + 1) * count));
      for (const auto& [name, values] : whole.weights) EXPECT_EQ(spread.weights.at(name), values) << name;
    }
  }
}

TEST(PipelinedDiLoCo, goes_on_with_weights_that_are_set_within_a_round) {
  const comm::Communicator world;
  using Piped = Trainer<pipeline::Ordered, Outer>;
  Piped::Options options;
  options.topology = run::Topology(1, world.size());
  options.pipeline.schedule = "1f1b";
  options.micro_batches = {2};
  options.optim.every = 3;
  options.optim.overlap = Overlap::mix;
  options.device.threads = 1;
  Piped trainer(layers(), fill_tokens, options, {}, world);
  for (int step = 0; step < 4; ++step) trainer.step();
  trainer.gather_committed_weights();
  trainer.set_parameter("w0", trainer.gather_parameter("w0"));  // on two stages
  for (int step = 0; step < 4; ++step) EXPECT_TRUE(trainer.step().committed);
  EXPECT_THROW(trainer.set_parameter("w0", std::vector<float>(3)), ShapeError) << "on all stages alike";
}

TEST(PipelinedDiLoCo, is_resumed_on_other_stages_within_a_round) {
  for (const Overlap overlap : {Overlap::mix, Overlap::eager}) {
    SCOPED_TRACE(concat("overlap ", static_cast<int>(overlap)));
    expect_resumed_on_other_stages<Outer>([&](auto& options) {
      options.optim.every = 3;
      options.optim.overlap = overlap;
    });
  }
}

/// Its gradient is infinite in the second micro-batch of a step.
struct Bursts {
  static constexpr std::string_view kind = "Bursts";

  graph::Signature signature(const auto& call) const {
    graph::Signature result;
    result.outputs = {call.inputs[0]};
    result.parameters = {{"scale", {1}, graph::Init::ones(), false}};
    return result;
  }
  void forward(const auto& call) const {
    const auto in = call.input(0).span();
    std::copy(in.begin(), in.end(), call.output(0).data());
  }
  void backward(const auto& call) const {
    auto& gradient = call.parameter_gradient(0).data()[0];
    gradient = (call.accumulate_parameters ? gradient : 0) + (call.key.sample == 2 ? INFINITY : 0);
    if (!call.wants(0)) return;
    const auto d_out = call.output_gradient(0).span();
    const auto d_in = call.input_gradient(0).span();
    for (std::size_t i = 0; i < d_in.size(); ++i) d_in[i] = d_out[i] + (call.accumulates(0) ? d_in[i] : 0);
  }
};

TEST(PipelinedDiLoCo, names_what_is_not_finite_wherever_a_replica_finds_it) {
  const comm::Communicator world;
  const int stages = world.size();
  for (const char* const schedule : {"1f1b", "zb-h1"}) {
    for (const int at : {0, stages - 1}) {
      SCOPED_TRACE(concat(schedule, ", stage ", at));
      graph::Graph<device::Host, float> g(1);
      const int tokens = g.input("tokens", {{2, 4}, Element::int32});
      const int targets = g.input("targets", {{2, 4}, Element::int32});
      int x = g.add("embedding", nn::Embedding{vocabulary, 4, 20}, {tokens})[0];
      using Piped = Trainer<pipeline::Ordered, Outer>;
      Piped::Options options;
      for (int stage = 0; stage < stages; ++stage) {
        if (stage == at) x = g.add("bursts", Bursts{}, {x})[0];
        x = g.add(concat("linear", stage), nn::Linear{20}, {x})[0];
        if (stage + 1 < stages) options.cuts.push_back(g.dag().node_count());
      }
      x = g.add("head", nn::Linear{vocabulary}, {x})[0];
      g.loss(g.add("loss", nn::CrossEntropy{}, {x, targets})[0]);
      options.topology = run::Topology(1, stages);
      options.pipeline.schedule = schedule;
      options.micro_batches = {4};
      options.non_finite = optim::NonFinite::skip;
      options.device.threads = 1;
      Piped trainer(std::move(g), fill_tokens, options, {}, world);
      const StepResult result = trainer.step();
      EXPECT_NE(result.not_finite.find(concat("bursts.scale on rank ", at, ", in its micro-batch 1")),
                std::string::npos)
          << result.not_finite;
    }
  }
}

}  // namespace
}  // namespace reef::test::diloco_over_stages
