#include <reef/torch/described_module.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include <reef/comm/communicator.hpp>
#include <reef/graph/graph_json.hpp>
#include <reef/graph/hash.hpp>
#include <reef/nn/registry.hpp>

#include "../support/small_gpt.hpp"

// Files that name libtorch modules beside native operators.

namespace torch_modules {

/// x + dropout(gelu(linear(x))). It does not print how much it drops.
struct ResidualImpl : torch::nn::Module {
  ResidualImpl(std::int64_t channels, double dropout) : rate(dropout) {
    TORCH_CHECK(rate >= 0 && rate < 1, "a dropout of ", rate);
    linear = register_module("linear", torch::nn::Linear(channels, channels));
  }
  torch::Tensor forward(const torch::Tensor& x) { return x + torch::dropout(torch::gelu(linear(x)), rate, is_training()); }
  torch::nn::Linear linear{nullptr};
  double rate;
};
TORCH_MODULE(Residual);

}  // namespace torch_modules

/// A kind of module: its name in files, its attributes, and how one is made.
struct ResidualBlock {
  static constexpr std::string_view kind = "ResidualBlock";
  std::int64_t channels = 0;
  double dropout = 0;

  static constexpr auto attributes() {
    using namespace reef::graph;
    return std::tuple(required_attribute("channels", &ResidualBlock::channels, "of input and output"),
                      optional_attribute("dropout", &ResidualBlock::dropout, "the part that is dropped"));
  }
  auto module() const { return torch_modules::Residual(channels, dropout); }
};

namespace reef::test {
namespace {

using testing::HasSubstr;
using FileTrainer = Trainer<optim::Ddp<optim::AdamW>>;
using FileGraph = graph::Graph<device::Host, float>;
using FileModel = graph::Model<device::Host, float>;

constexpr std::string_view model_file = R"({
  "inputs": [{"name": "tokens", "shape": [2, 11], "element": "int32"}, {"name": "targets", "shape": [2, 11], "element": "int32"}],
  "nodes": [
    {"name": "embedding", "kind": "Embedding", "inputs": ["tokens"], "attributes": {"vocabulary": 37, "positions": 11, "channels": 21}},
    {"name": "block", "kind": "ResidualBlock", "inputs": ["embedding"], "attributes": {"channels": 21, "dropout": 0.25},
     "parameters": {"linear.weight": {"name": "block.weight"}}},
    {"name": "act", "kind": "Gelu", "inputs": ["block"]},
    {"name": "last", "kind": "ResidualBlock", "inputs": ["act"], "attributes": {"channels": 21}},
    {"name": "head", "kind": "Linear", "inputs": ["last"], "attributes": {"features": 37}},
    {"name": "loss", "kind": "CrossEntropy", "inputs": ["head", "targets"]}],
  "loss": "loss"})";

auto registry_with_modules() {
  auto registry = nn::registry<device::Host, float>();
  registry.add<torch::DescribedModule<ResidualBlock>>();
  return registry;
}

FileModel model_of(const io::Json& json) {
  ::torch::manual_seed(4);
  return graph::from_json(json, "model.json", registry_with_modules(), 1);
}

/// The same model, in C++.
FileGraph built() {
  ::torch::manual_seed(4);
  FileGraph g(1);
  const int tokens = g.input("tokens", {{2, 11}, Element::int32});
  const int targets = g.input("targets", {{2, 11}, Element::int32});
  const auto add = [&](const char* name, auto op, int x) { return g.add(name, std::move(op), {x})[0]; };
  int x = add("embedding", nn::Embedding{37, 11, 21}, tokens);
  x = g.add("block", torch::DescribedModule(ResidualBlock{21, 0.25}), {x}, {"block.weight", "block.linear.bias"})[0];
  x = add("act", nn::Gelu{}, x);
  x = add("last", torch::DescribedModule(ResidualBlock{21}), x);
  x = add("head", nn::Linear{37}, x);
  g.loss(g.add("loss", nn::CrossEntropy{}, {x, targets})[0]);
  return g;
}

Outcome<float> outcome_of_file(FileGraph model, const comm::Communicator& ranks) {
  FileTrainer trainer(std::move(model), small_source(), small_options<FileTrainer>(), small_source(), ranks);
  return outcome_of(trainer, 3);
}

TEST(TorchInAFile, trains_to_the_bits_of_the_same_graph_in_cpp) {
  const comm::Communicator world;
  const Outcome<float> wanted = outcome_of_file(built(), world);
  EXPECT_NE(wanted.losses[0], wanted.losses[2]);
  FileModel model = model_of(io::parse_json(model_file, "model.json"));
  EXPECT_EQ(graph::hash_of(model.graph.dag()), graph::hash_of(built().dag()));
  const io::Json again = graph::to_json(model.graph, registry_with_modules());
  EXPECT_EQ(outcome_of_file(std::move(model.graph), world), wanted);
  EXPECT_EQ(outcome_of_file(model_of(again).graph, world), wanted);
}

TEST(TorchInAFile, is_the_same_file_again) {
  const io::Json file = io::parse_json(model_file, "model.json");
  const io::Json written = graph::to_json(model_of(file).graph, registry_with_modules());
  EXPECT_EQ(written["nodes"], file["nodes"]);
  EXPECT_EQ(graph::to_json(model_of(written).graph, registry_with_modules()), written);
}

TEST(TorchInAFile, of_other_attributes_is_another_model) {
  io::Json file = io::parse_json(model_file, "model.json");
  const auto before = graph::hash_of(model_of(file).graph.dag());
  file["nodes"][1]["attributes"]["dropout"] = 0.5;
  EXPECT_NE(graph::hash_of(model_of(file).graph.dag()), before);
}

TEST(TorchInAFile, is_refused_by_name_where_a_module_has_no_such_attributes) {
  const auto refusal = [](const char* attribute, const io::Json& value) -> std::string {
    io::Json file = io::parse_json(model_file, "model.json");
    file["nodes"][1]["attributes"][attribute] = value;
    try {
      model_of(file);
    } catch (const DecodeError& error) {
      return error.what();
    }
    return "none";
  };
  EXPECT_THAT(refusal("chanels", 21), testing::AllOf(HasSubstr("'block'"), HasSubstr("chanels"), HasSubstr("channels")));
  EXPECT_THAT(refusal("channels", "wide"), testing::AllOf(HasSubstr("'block'"), HasSubstr("channels")));
  EXPECT_THAT(refusal("channels", 20), testing::AllOf(HasSubstr("'block'"), HasSubstr("torch_modules::ResidualImpl: "), HasSubstr("fix: ")));
  EXPECT_THAT(refusal("dropout", 1.5), HasSubstr("the node 'block': no module of kind ResidualBlock can be made of its attributes: a dropout of 1.5"));
}

}  // namespace
}  // namespace reef::test
