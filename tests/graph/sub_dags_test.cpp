// The parts of a Dag on places: who holds, receives and sends what.

#include <reef/graph/sub_dags.hpp>

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reef/core/error.hpp>
#include <reef/graph/remote_messages.hpp>

#include "random_dag.hpp"

namespace reef::test {
namespace {

using testing::HasSubstr;

graph::Signature makes(std::vector<Shape> outputs, std::vector<graph::ParameterSpec> parameters = {}) {
  graph::Signature signature;
  for (const Shape& shape : outputs) signature.outputs.push_back({shape, Element::float32});
  signature.parameters = std::move(parameters);
  signature.forward_flops = 1e9;
  signature.backward_flops = 2e9;
  return signature;
}

/// A fork whose branches meet again: embed feeds left, right and join; the head shares the embedding's weights.
graph::Dag branches() {
  graph::Dag dag;
  const int tokens = dag.add_input("tokens", {{8}, Element::int32});
  const int targets = dag.add_input("targets", {{8}, Element::int32});
  const auto node = [&](const char* name, std::vector<int> inputs, graph::Signature signature, std::vector<std::string> names = {}) {
    return dag.node_at(dag.add_node(name, "node", std::move(inputs), std::move(signature), std::move(names))).outputs[0];
  };
  const graph::ParameterSpec table{"w", {32, 4}, graph::Init::ones(), true};
  const int x = node("embed", {tokens}, makes({{8, 4}}, {table}), {"table"});
  const int left = node("left", {x}, makes({{8, 4}}, {{"w", {4, 4}, graph::Init::ones(), true}}));
  const int right = node("right", {x}, makes({{8, 16}}));
  const int join = node("join", {left, right, x}, makes({{8, 4}}));
  const int head = node("head", {join}, makes({{8, 32}}, {table}), {"table"});
  dag.set_loss(node("loss", {head, targets}, makes({{}})));
  return dag;
}

std::string text_of(const graph::Dag& dag, const std::vector<graph::RemoteMessage>& messages, bool parameters = false) {
  std::string text;
  for (const auto& m : messages) {
    text += concat(parameters ? dag.parameter_at(m.of).name : dag.tensor_at(m.of).name, " ", m.from, ">", m.to, " ", m.bytes, "; ");
  }
  return text;
}

TEST(SubDags, say_what_each_place_holds_receives_and_sends) {
  const graph::Dag dag = branches();
  const auto parts = graph::sub_dags(dag, std::vector<int>{0, 1, 2, 2, 3, 3}, 4);
  ASSERT_EQ(parts.size(), 4U);
  EXPECT_EQ(parts[2].nodes, (std::vector<int>{2, 3}));
  EXPECT_EQ(parts[0].inputs, std::vector<int>{dag.tensor("tokens")});
  EXPECT_EQ(parts[3].inputs, std::vector<int>{dag.tensor("targets")});
  EXPECT_EQ(parts[1].parameter_bytes, 64U);
  EXPECT_EQ(parts[3].parameter_bytes, 512U);
  EXPECT_EQ(parts[2].forward_flops, 2e9);
  EXPECT_EQ(text_of(dag, parts[0].forward.sends), "embed 0>1 128; embed 0>2 128; ");
  EXPECT_EQ(text_of(dag, parts[0].forward.receives), "");
  EXPECT_EQ(text_of(dag, parts[2].forward.receives), "embed 0>2 128; left 1>2 128; ");
  EXPECT_EQ(text_of(dag, parts[2].forward.sends), "join 2>3 128; ");
  EXPECT_EQ(text_of(dag, parts[3].backward.sends), "join 3>2 128; ");
  EXPECT_EQ(text_of(dag, parts[2].backward.sends), "embed 2>1 128; left 2>1 128; ") << "the sum visits place 1 on its way";
  EXPECT_EQ(text_of(dag, parts[0].backward.receives), "embed 1>0 128; ");
  EXPECT_EQ(text_of(dag, parts[3].gradients.sends, true), "table 3>0 512; ");
  EXPECT_EQ(text_of(dag, parts[3].weights.receives, true), "table 0>3 512; ");
  EXPECT_EQ(parts[0].forward.sent(), 256U);
  EXPECT_EQ(parts[0].backward.received(), 128U);
}

TEST(SubDags, are_written_as_a_table) {
  const graph::Dag dag = branches();
  const std::string table = graph::text_of_sub_dags(dag, graph::sub_dags(dag, std::vector<int>{0, 1, 2, 2, 3, 3}, 4));
  EXPECT_THAT(table, HasSubstr("rank 2: 2 operators, 0 B of parameters, 2 + 4 GFLOP a micro-batch\n"
                               "  operators right, join\n"
                               "  forward, receives 256 B, sends 128 B\n"
                               "    receives embed (8, 4) fp32 from rank 0, 128 B\n"
                               "    receives left (8, 4) fp32 from rank 1, 128 B\n"
                               "    sends    join (8, 4) fp32 to rank 3, 128 B\n"
                               "  backward, receives 128 B, sends 256 B\n"
                               "    receives gradient of join (8, 4) fp32 from rank 3, 128 B\n"));
  EXPECT_THAT(table, HasSubstr("    sends    gradient of table (32, 4) to rank 0, 512 B\n"));
}

TEST(SubDags, have_every_message_of_the_model_once_at_both_ends) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    Draws draws(seed);
    const graph::Dag dag = random_dag(draws, 5 + draws.below(12));
    std::vector<int> places;
    for (std::size_t n = 0; n < dag.nodes.size(); ++n) places.push_back(static_cast<int>((seed * 31 + n * n) % 3));
    const auto parts = graph::sub_dags(dag, places, 3);
    std::multiset<std::string> sent, received;
    std::map<std::pair<int, int>, Bytes> forward;
    std::size_t nodes = 0;
    for (const graph::SubDag& part : parts) {
      nodes += part.nodes.size();
      for (const auto* way : {&part.forward, &part.backward, &part.gradients, &part.weights}) {
        for (const auto& m : way->sends) {
          EXPECT_EQ(m.from, part.place);
          sent.insert(text_of(dag, {m}, way == &part.gradients || way == &part.weights));
        }
        for (const auto& m : way->receives) {
          EXPECT_EQ(m.to, part.place);
          received.insert(text_of(dag, {m}, way == &part.gradients || way == &part.weights));
        }
      }
      for (const auto& m : part.forward.sends) forward[{m.from, m.to}] += m.bytes;
    }
    EXPECT_EQ(nodes, dag.nodes.size());
    EXPECT_EQ(sent, received);
    std::map<std::pair<int, int>, Bytes> expected;
    for (const auto& m : graph::remote_messages(dag, places).forward) expected[{m.from, m.to}] += m.bytes;
    EXPECT_EQ(forward, expected);
  }
}

TEST(SubDags, refuse_places_that_are_not_there) {
  const graph::Dag dag = branches();
  EXPECT_THROW(graph::sub_dags(dag, std::vector<int>{0, 1}, 2), OptionError);
  try {
    graph::sub_dags(dag, std::vector<int>{0, 0, 2, 0, 0, 0}, 2);
    ADD_FAILURE() << "no error";
  } catch (const OptionError& error) {
    EXPECT_THAT(error.what(), HasSubstr("the node 'right' is on place 2, of 2"));
  }
}

}  // namespace
}  // namespace reef::test
