// Models from files train to the bits of those that C++ builds.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <reef/core/random.hpp>
#include <reef/graph/graph_json.hpp>
#include <reef/nn/registry.hpp>
#include <reef/optim/adamw.hpp>
#include <reef/optim/ddp.hpp>
#include <reef/optim/zero1.hpp>
#include <reef/trainer/checkpoint.hpp>

#include "../support/small_gpt.hpp"

namespace reef::test {
namespace {

using Zero1Trainer = Trainer<optim::Zero1<optim::AdamW>>;
using DdpTrainer = Trainer<optim::Ddp<optim::AdamW>>;
using Graph = graph::Graph<device::Host, float>;

constexpr const char* mlp_file = R"({
  "inputs": [{"name": "x", "shape": [16, 8]}, {"name": "labels", "shape": [16], "element": "int32"}],
  "nodes": [
    {"name": "hidden", "kind": "Linear", "inputs": ["x"], "attributes": {"features": 24},
     "parameters": {"weight": {"init": 0.3}}},
    {"name": "act", "kind": "Gelu", "inputs": ["hidden"]},
    {"name": "logits", "kind": "Linear", "inputs": ["act"], "attributes": {"features": 4, "deviation": 0.3}},
    {"name": "loss", "kind": "CrossEntropy", "inputs": ["logits", "labels"]}],
  "loss": "loss"})";

/// Points in eight dimensions, labelled by which of four coordinates is the largest.
double fill_points(std::uint64_t first, std::span<const AnyView> inputs) {
  const auto x = inputs[0].as<float>().span();
  const auto labels = inputs[1].as<std::int32_t>().span();
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<float>(random_bits({7, first, 0, 0}, i) % 1000) / 500.0F - 1;
  }
  for (std::size_t row = 0; row < labels.size(); ++row) {
    for (std::size_t k = 1, best = 0; k < 4; ++k) {
      if (x[8 * row + k] > x[8 * row + best]) best = k;
      labels[row] = static_cast<std::int32_t>(best);
    }
  }
  return 1;
}

template <class TrainerType>
Outcome<float> train_on(Graph model, const run::Source& source, int steps) {
  const comm::Communicator world;
  auto options = small_options<TrainerType>();
  options.learning_rate = {.peak = 0.02};
  TrainerType trainer(std::move(model), source, options, {}, world);
  return outcome_of(trainer, steps);
}

TEST(GraphFile, of_an_mlp_learns_with_the_bits_of_the_mlp_that_cpp_builds) {
  const auto model = graph::from_json(io::parse_json(mlp_file, "mlp.json"), "mlp.json", nn::registry<device::Host, float>(), 1);
  Graph built(1);
  const int x = built.input("x", {{16, 8}, Element::float32});
  const int labels = built.input("labels", {{16}, Element::int32});
  const int hidden = built.add("hidden", nn::Linear{.features = 24, .deviation = 0.3}, {x})[0];
  const int act = built.add("act", nn::Gelu{}, {hidden})[0];
  const int logits = built.add("logits", nn::Linear{.features = 4, .deviation = 0.3}, {act})[0];
  built.loss(built.add("loss", nn::CrossEntropy{}, {logits, labels})[0]);
  const auto learned = train_on<Zero1Trainer>(model.graph, fill_points, 60);
  EXPECT_EQ(learned, train_on<Zero1Trainer>(built, fill_points, 60));
  EXPECT_NEAR(learned.losses.front(), std::log(4.0), 0.4);
  EXPECT_GT(std::abs(learned.losses.front() - std::log(4.0)), 1e-3) << "that of logits that are all alike";
  EXPECT_LT(learned.losses.back(), 0.5 * learned.losses.front());
}

TEST(GraphFile, of_a_gpt_trains_with_the_bits_of_nn_gpt) {
  const auto registry = nn::registry<device::Host, float>();
  const Graph gpt = nn::gpt<device::Host, float>(small_config(), 1);
  const std::string text = graph::text_of_model(graph::to_json(gpt, registry));
  const auto model = graph::from_json(io::parse_json(text, "gpt.json"), "gpt.json", registry, 1);
  EXPECT_EQ(train_on<Zero1Trainer>(model.graph, small_source(), 4), train_on<Zero1Trainer>(gpt, small_source(), 4));
  EXPECT_EQ(train_on<DdpTrainer>(model.graph, small_source(), 4), train_on<DdpTrainer>(gpt, small_source(), 4));
}

TEST(GraphFile, resumes_to_the_bits_of_an_undisturbed_run_and_refuses_the_checkpoint_of_another) {
  const auto registry = nn::registry<device::Host, float>();
  io::Json json = graph::to_json(nn::gpt<device::Host, float>(small_config(), 1), registry);
  const comm::Communicator world;
  const auto trainer_of = [&] {
    return Zero1Trainer(graph::from_json(json, "gpt.json", registry, 1).graph, small_source(), small_options<Zero1Trainer>(), {}, world);
  };
  const SharedFolder folder("graph_file");
  auto saved = trainer_of();
  outcome_of(saved, 2);
  checkpoint::save(saved, folder.path());
  const auto rest = outcome_of(saved, 2);
  auto resumed = trainer_of();
  ASSERT_TRUE(checkpoint::resume(resumed, folder.path()).has_value());
  EXPECT_EQ(outcome_of(resumed, 2), rest);
  for (io::Json& node : json["nodes"]) {
    if (node["kind"] == "LayerNorm") node["attributes"]["epsilon"] = 1e-3;
  }
  auto other = trainer_of();
  EXPECT_THROW(checkpoint::resume(other, folder.path()), Error);
}

}  // namespace
}  // namespace reef::test
