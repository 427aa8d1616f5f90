// Graphs from files and to files: the same graph again, of native operators and of one's own, and errors with the
// file, the node and the fix.

#include <reef/graph/graph_json.hpp>

#include <functional>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reef/graph/hash.hpp>
#include <reef/nn/gelu.hpp>
#include <reef/nn/gpt.hpp>
#include <reef/nn/host.hpp>
#include <reef/nn/kernels.hpp>
#include <reef/nn/linear.hpp>
#include <reef/nn/registry.hpp>

#include "../support/gpt_config.hpp"
#include "test_operators.hpp"

namespace reef::test {
namespace {

using testing::HasSubstr;
using Graph = graph::Graph<device::Host, float>;
using Registry = graph::Registry<device::Host, float>;

/// With an attribute of every type that a file can have.
struct Everything : Scale {
  static constexpr std::string_view kind = "Everything";
  std::int64_t count = 3;
  float rate = 0.1F;
  double factor = 0.25;
  bool yes = true;
  nn::Transpose turned = nn::Transpose::no;
  std::string text = "usual";
  std::vector<int> sizes{1, 2};

  static constexpr auto attributes() {
    return std::tuple(graph::required_attribute("count", &Everything::count, "how many"),
                      graph::optional_attribute("rate", &Everything::rate, "a"),
                      graph::optional_attribute("factor", &Everything::factor, "b"),
                      graph::optional_attribute("yes", &Everything::yes, "c"),
                      graph::optional_attribute("turned", &Everything::turned, "d"),
                      graph::optional_attribute("text", &Everything::text, "e"),
                      graph::optional_attribute("sizes", &Everything::sizes, "f"));
  }
};

/// One that is made by a function, and has no default.
struct Powers : Scale {
  static constexpr std::string_view kind = "Powers";
  explicit Powers(int n) : exponent(n) {}
  int exponent;
};

Registry with_own() {
  Registry registry = nn::registry<device::Host, float>();
  registry.add<Fork>();  // two outputs
  registry.add<Everything>();
  registry.add<Powers>([](const io::Json& attributes, std::string_view source) { return Powers(io::require<int>(attributes, "exponent", source)); },
                       [](const Powers& op) { return io::Json{{"exponent", op.exponent}}; });
  return registry;
}

graph::Model<device::Host, float> read(const io::Json& json) { return graph::from_json(json, "file.json", with_own(), 1); }

void expect_same(const graph::Dag& a, const graph::Dag& b) {
  EXPECT_EQ(graph::hash_of(a), graph::hash_of(b));
  ASSERT_EQ(a.tensors.size(), b.tensors.size());
  for (std::size_t t = 0; t < a.tensors.size(); ++t) {
    EXPECT_EQ(a.tensors[t].name, b.tensors[t].name);
    EXPECT_EQ(a.tensors[t].spec, b.tensors[t].spec) << a.tensors[t].name;
    EXPECT_EQ(a.tensors[t].differentiable, b.tensors[t].differentiable) << a.tensors[t].name;
  }
  ASSERT_EQ(a.parameters.size(), b.parameters.size());
  for (std::size_t p = 0; p < a.parameters.size(); ++p) {
    EXPECT_EQ(a.parameters[p].name, b.parameters[p].name);
    EXPECT_EQ(a.parameters[p].init, b.parameters[p].init) << a.parameters[p].name;
    EXPECT_EQ(a.parameters[p].uses, b.parameters[p].uses) << a.parameters[p].name;
  }
  EXPECT_EQ(a.loss, b.loss);
}

TEST(GraphJson, gives_a_gpt_that_was_written_again) {
  const auto registry = nn::registry<device::Host, float>();
  nn::GptConfig plain = small_config();
  plain.dropout = 0;
  plain.bias = false;
  plain.padded_vocabulary = 64;
  for (const nn::GptConfig& config : {small_config(), tiny_config(), plain}) {
    const Graph gpt = nn::gpt<device::Host, float>(config, 1);
    const io::Json json = graph::to_json(gpt, registry);
    const auto again = graph::from_json(io::parse_json(graph::text_of_model(json), "gpt.json"), "gpt.json", registry, 1);
    expect_same(again.graph.dag(), gpt.dag());
    EXPECT_EQ(graph::to_json(again.graph, registry), json);
    EXPECT_EQ(again.graph.workspaces(), gpt.workspaces());
  }
}

TEST(GraphJson, is_of_every_precision) {
  const io::Json json = graph::to_json(nn::gpt<device::Host, float>(small_config(), 1), nn::registry<device::Host, float>());
  const auto read = [&]<class T>(T) {
    const auto registry = nn::registry<device::Host, T>();
    const auto gpt = nn::gpt<device::Host, T>(small_config(), 1);
    const auto again = graph::from_json(json, "gpt.json", registry, 1);
    expect_same(again.graph.dag(), gpt.dag());
    EXPECT_EQ(graph::to_json(gpt, registry), json);
  };
  read(double{});
  read(Bfloat16{});
}

/// A fork and a join.
io::Json small_graph() {
  return io::parse_json(R"({
    "inputs": [{"name": "x", "shape": [4, 6]}, {"name": "labels", "shape": [4], "element": "int32"}],
    "nodes": [
      {"name": "fork", "kind": "Fork", "inputs": ["x"]},
      {"name": "left", "kind": "Linear", "inputs": ["fork.0"], "attributes": {"features": 6},
       "parameters": {"weight": {"init": 0.5}, "bias": {"init": "ones"}}},
      {"name": "right", "kind": "Linear", "inputs": ["fork.1"], "attributes": {"features": 6, "transpose": true},
       "parameters": {"weight": {"name": "left.weight"}}, "optimizer": {"learning_rate": 0.5}},
      {"name": "join", "kind": "Add", "inputs": ["left", "right"], "outputs": ["sum"]},
      {"name": "odd", "kind": "Everything", "inputs": ["sum"], "attributes": {"count": -7, "rate": 0.3, "turned": true,
       "text": "other", "sizes": []}},
      {"name": "third", "kind": "Powers", "inputs": ["odd"], "attributes": {"exponent": 3}},
      {"name": "loss", "kind": "CrossEntropy", "inputs": ["third", "labels"]}],
    "loss": "loss", "version": 1})",
                        "small");
}

TEST(GraphJson, makes_branches_ties_inits_and_own_operators_and_writes_them_again) {
  const auto model = read(small_graph());
  const graph::Dag& dag = model.graph.dag();
  EXPECT_EQ(dag.parameter_at(dag.parameter("left.weight")).uses.size(), 2U);
  EXPECT_EQ(dag.parameter_at(dag.parameter("left.weight")).init, graph::Init::normal(0.5));
  EXPECT_EQ(dag.parameter_at(dag.parameter("left.bias")).init, graph::Init::ones());
  EXPECT_EQ(dag.parameter_at(dag.parameter("right.bias")).init, graph::Init::zeros());
  EXPECT_EQ(dag.loss, dag.tensor("loss"));
  EXPECT_FALSE(model.optimizers[1].has_value());
  EXPECT_EQ(model.optimizers[2], graph::OperatorOptimizer{.learning_rate = 0.5});
  const auto* const odd = model.graph.operator_as<Everything>(4);
  ASSERT_NE(odd, nullptr);
  EXPECT_EQ(odd->count, -7);
  EXPECT_EQ(odd->rate, 0.3F);
  EXPECT_EQ(odd->factor, 0.25);
  EXPECT_EQ(odd->turned, nn::Transpose::yes);
  EXPECT_EQ(odd->sizes, std::vector<int>{});
  EXPECT_EQ(model.graph.operator_as<Powers>(5)->exponent, 3);
  EXPECT_EQ(model.graph.operator_as<Scale>(5), nullptr);
  EXPECT_EQ(graph::to_json(model.graph, with_own(), model.optimizers), small_graph());
}

TEST(GraphJson, square_weights_that_are_read_the_other_way_are_another_model) {
  io::Json json = small_graph();
  const std::uint64_t hash = graph::hash_of(read(json).graph.dag());
  json["nodes"][2]["attributes"].erase("transpose");
  EXPECT_NE(graph::hash_of(read(json).graph.dag()), hash);
}

TEST(GraphJson, another_loss_is_another_model) {
  io::Json json = small_graph();
  json["nodes"].push_back({{"name", "other"}, {"kind", "CrossEntropy"}, {"inputs", {"sum", "labels"}}});
  const std::uint64_t hash = graph::hash_of(read(json).graph.dag());
  json["loss"] = "other";
  EXPECT_NE(graph::hash_of(read(json).graph.dag()), hash);
}

TEST(GraphJson, refuses_with_the_file_the_node_and_the_fix) {
  using Change = std::function<void(io::Json&)>;
  const std::vector<std::tuple<const char*, const char*, Change>> cases{
      {"there is no operator of kind 'Liner'; did you mean 'Linear'?", "nodes.1, 'left'", [](io::Json& j) { j["nodes"][1]["kind"] = "Liner"; }},
      {"fix: one of Add, CausalAttention, CrossEntropy, Dropout, Embedding, Everything, ExactGelu, Fork, Gelu, GroupedAttention, LayerNorm, Linear, MeanSquaredError, Powers, Relu, RmsNorm, Rotary, Silu, SplitHeads, SwiGlu, TokenEmbedding; or add yours",
       "nodes.1, 'left'", [](io::Json& j) { j["nodes"][1]["kind"] = "Convolution"; }},
      {"'features' is missing", "nodes.1, 'left'", [](io::Json& j) { j["nodes"][1]["attributes"] = io::Json::object(); }},
      {"'features' must be an integer", "nodes.1, 'left'", [](io::Json& j) { j["nodes"][1]["attributes"]["features"] = "6"; }},
      {"'features' must be an integer", "nodes.1, 'left'", [](io::Json& j) { j["nodes"][1]["attributes"]["features"] = 1e30; }},
      {"did you mean 'attributes.features'", "nodes.1, 'left'", [](io::Json& j) { j["nodes"][1]["attributes"]["feature"] = 6; }},
      {"its features is 0", "nodes.1, 'left'", [](io::Json& j) { j["nodes"][1]["attributes"]["features"] = 0; }},
      {"has more elements than any memory holds", "nodes.1, 'left'", [](io::Json& j) { j["nodes"][1]["attributes"]["features"] = std::int64_t{1} << 60; }},
      {"more than 2^40 elements", "nodes.1, 'left'", [](io::Json& j) { j["nodes"][1]["attributes"]["features"] = std::int64_t{1} << 40; }},
      {"'transpose' must be true or false", "nodes.2, 'right'", [](io::Json& j) { j["nodes"][2]["attributes"]["transpose"] = "yes"; }},
      {"a number that fp32 has", "nodes.4, 'odd'", [](io::Json& j) { j["nodes"][4]["attributes"]["rate"] = 1e300; }},
      {"'exponent' is missing", "nodes.5, 'third'", [](io::Json& j) { j["nodes"][5].erase("attributes"); }},
      {"takes 2 inputs, 1 were given", "nodes.3, 'join'", [](io::Json& j) { j["nodes"][3]["inputs"] = {"left"}; }},
      {"its input 1, 'labels', is (4) int32", "nodes.3, 'join'", [](io::Json& j) { j["nodes"][3]["inputs"] = {"left", "labels"}; }},
      {"'fork' is no output of the node 'fork' of kind Fork.\n  fix: 'fork.0', 'fork.1'", "nodes.1, 'left'", [](io::Json& j) { j["nodes"][1]["inputs"] = {"fork"}; }},
      {"'fork.2' is no output", "nodes.1, 'left'", [](io::Json& j) { j["nodes"][1]["inputs"] = {"fork.2"}; }},
      {"'left.0' is no output of the node 'left' of kind Linear.\n  fix: 'left'.", "nodes.3, 'join'", [](io::Json& j) { j["nodes"][3]["inputs"][0] = "left.0"; }},
      {"has 1 outputs, and 2 names for them", "nodes.3, 'join'", [](io::Json& j) { j["nodes"][3]["outputs"] = {"sum", "more"}; }},
      {"has no parameter 'wieght'.\n  fix: weight, bias.", "nodes.1, 'left'", [](io::Json& j) { j["nodes"][1]["parameters"]["wieght"] = {{"name", "w"}}; }},
      {"it has none", "nodes.3, 'join'", [](io::Json& j) { j["nodes"][3]["parameters"]["w"] = {{"name", "w"}}; }},
      {"shares the parameter 'left.weight' as (6, 2), but it is (6, 6)", "nodes.2, 'right'", [](io::Json& j) { j["nodes"][2]["attributes"] = {{"features", 2}}; }},
      {"which the node 'left' has too", "nodes.2, 'right'", [](io::Json& j) { j["nodes"][2]["parameters"]["weight"]["init"] = "zeros"; }},
      {"is frozen, which the node 'left' has too", "nodes.2, 'right'", [](io::Json& j) { j["nodes"][2]["parameters"]["weight"]["frozen"] = true; }},
      {"has an optimizer, and no parameters", "nodes.3, 'join'", [](io::Json& j) { j["nodes"][3]["optimizer"] = io::Json::object(); }},
      {"the dropout rate is 2", "nodes.3, 'join'", [](io::Json& j) { j["nodes"][3] = {{"name", "join"}, {"kind", "Dropout"}, {"inputs", {"left"}}, {"outputs", {"sum"}}, {"attributes", {{"rate", 2}}}}; }},
      {"the loss 'sum' is (4, 6) fp32", "loss", [](io::Json& j) { j["loss"] = "sum"; }},
      {"'fork' is no output of the node 'fork'", "loss", [](io::Json& j) { j["loss"] = "fork"; }},
      {"holds int32, which has no gradient", "file.json", [](io::Json& j) { j["inputs"][1]["differentiable"] = true; }},
      {"a tensor 'fork.1' exists already", "nodes.0, 'fork'", [](io::Json& j) { j["inputs"].push_back({{"name", "fork.1"}, {"shape", {1}}}); }},
  };
  for (const auto& [expected, node, change] : cases) {
    io::Json json = small_graph();
    change(json);
    try {
      read(json);
      ADD_FAILURE() << "no error: " << expected;
    } catch (const DecodeError& error) {
      EXPECT_THAT(error.what(), HasSubstr(expected));
      EXPECT_THAT(error.what(), HasSubstr(node));
      EXPECT_THAT(error.what(), HasSubstr("file.json"));
      EXPECT_THAT(error.what(), HasSubstr("\n  fix: "));
    }
  }
}

TEST(Registry, has_each_kind_once_and_writes_only_its_own) {
  Registry registry = with_own();
  EXPECT_THROW(registry.add<nn::Gelu>(), OptionError);
  const auto& linear = registry.kind("Linear", "");
  ASSERT_EQ(linear.attributes.size(), 4U);
  EXPECT_EQ(linear.attributes[0].name, "features");
  EXPECT_EQ(linear.attributes[0].type, "integer");
  EXPECT_EQ(linear.attributes[0].otherwise, "");
  EXPECT_EQ(linear.attributes[3].otherwise, "0.02");
  try {
    graph::to_json(read(small_graph()).graph, nn::registry<device::Host, float>());
    ADD_FAILURE() << "no error";
  } catch (const OptionError& error) {
    EXPECT_THAT(error.what(), HasSubstr("the node 'fork' is of kind Fork, which the registry does not have"));
  }
}

TEST(Graph, begins_parameters_as_it_is_told) {
  Graph g(1);
  const int x = g.input("x", {{4, 6}, Element::float32});
  g.add("fc", nn::Linear{.features = 2}, {x});
  g.initialise("fc.weight", graph::Init::normal(3));
  EXPECT_EQ(g.dag().parameters[0].init, graph::Init::normal(3));
  EXPECT_THROW(g.initialise("fc.w", graph::Init::ones()), ShapeError);
  EXPECT_THROW(g.initialise("fc.weight", graph::Init::normal(-1)), OptionError);
  EXPECT_EQ(g.dag().parameters[0].init, graph::Init::normal(3));
}

}  // namespace
}  // namespace reef::test
