#include <reef/graph/hash.hpp>

#include <cstdint>
#include <set>

#include <gtest/gtest.h>

#include <reef/nn/gpt.hpp>
#include <reef/nn/host.hpp>

namespace reef::test {

namespace {

std::uint64_t hash_of(const nn::GptConfig& config) {
  return graph::hash_of(nn::gpt<device::Host, float>(config, 1).dag());
}

TEST(GraphHash, is_that_of_the_model_whatever_the_batch) {
  const nn::GptConfig base{.layers = 2, .heads = 2, .channels = 16, .vocabulary = 11, .context = 8};
  nn::GptConfig larger = base;
  larger.batch = 7;
  larger.sequence = 4;
  EXPECT_EQ(hash_of(base), hash_of(larger));

  std::set<std::uint64_t> hashes{hash_of(base)};
  const auto differs = [&](auto change) {
    nn::GptConfig config = base;
    change(config);
    return hashes.insert(hash_of(config)).second;
  };
  EXPECT_TRUE(differs([](nn::GptConfig& c) { c.heads = 4; }));  // no shape of a parameter differs
  EXPECT_TRUE(differs([](nn::GptConfig& c) { c.dropout = 0.1F; }));
  EXPECT_TRUE(differs([](nn::GptConfig& c) { c.layers = 3; }));
  EXPECT_TRUE(differs([](nn::GptConfig& c) { c.channels = 32; }));
  EXPECT_TRUE(differs([](nn::GptConfig& c) { c.bias = false; }));
}

TEST(GraphHash, differs_with_each_fact_of_a_parameter) {
  const auto of = [](const char* name, const Shape& shape, Element element, bool decays) {
    graph::Dag dag;
    dag.element = element;
    const int x = dag.add_input("x", {{4}, element});
    graph::Signature signature;
    signature.outputs = {{Shape{}, element}};
    signature.parameters = {{name, shape, graph::Init::zeros(), decays}};
    dag.set_loss(dag.node_at(dag.add_node("loss", "Op", {x}, signature)).outputs[0]);
    return graph::hash_of(dag);
  };
  graph::Dag dag;
  const int x = dag.add_input("x", {{4}, Element::float32});
  graph::Signature signature;
  signature.outputs = {{Shape{4}, Element::float32}};
  signature.parameters = {{"w", {6}, graph::Init::zeros(), false}};
  dag.add_node("node", "Op", {x}, signature);
  const std::uint64_t trained = graph::hash_of(dag);
  dag.freeze("node.w");
  EXPECT_NE(graph::hash_of(dag), trained);
  const std::set<std::uint64_t> hashes{of("w", {6}, Element::float32, true), of("w", {6}, Element::float32, false),
                                       of("w", {2, 3}, Element::float32, true), of("w", {3, 2}, Element::float32, true),
                                       of("w", {6}, Element::float64, true), of("v", {6}, Element::float32, true)};
  EXPECT_EQ(hashes.size(), 6U) << "decay, shape, element, name: two models have one hash";
}

TEST(GraphHash, of_given_values_is_that_of_each_of_them_and_of_no_model_without) {
  const nn::GptConfig config{.layers = 1, .heads = 1, .channels = 4, .vocabulary = 5, .context = 4};
  auto model = nn::gpt<device::Host, float>(config, 1);
  const std::uint64_t before = graph::hash_of(model.dag());
  EXPECT_EQ(graph::hash_of_given(model.dag()), std::nullopt);
  const auto of = [&](double last) {
    model.initialise("transformer.ln_f.bias", graph::Init::given([last](std::int64_t i) { return i == 3 ? last : 0; }));
    return graph::hash_of_given(model.dag());
  };
  EXPECT_TRUE(of(1));
  EXPECT_EQ(of(1), of(1));
  EXPECT_NE(of(1), of(2));
  EXPECT_EQ(graph::hash_of(model.dag()), before);
  EXPECT_THROW(model.initialise("transformer.ln_f.bias", {graph::Init::Law::given}), OptionError);
}

}  // namespace

}  // namespace reef::test
