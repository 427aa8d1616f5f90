// Models with the ranks of their nodes, read from JSON: what is read, and what is refused by name.

#include <reef/graph/placed_dag.hpp>

#include <functional>
#include <string>
#include <tuple>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reef/core/error.hpp>
#include <reef/core/text.hpp>
#include <reef/graph/remote_messages.hpp>
#include <reef/io/json.hpp>

namespace reef::test {
namespace {

using testing::HasSubstr;

/// A node h makes y, and a node y makes h: names of nodes are no names of tensors.
io::Json small_placed() {
  return io::parse_json(R"({
    "name": "small", "ranks": 2, "loss": "loss",
    "inputs": [{"name": "tokens", "bytes": 12, "kind": "int"}, {"name": "text", "bytes": 7, "kind": "int"}],
    "parameters": [{"name": "E", "bytes": 64}, {"name": "unused", "bytes": 4}],
    "nodes": [
      {"name": "y", "rank": 0, "inputs": ["tokens", "text"], "parameters": ["E"],
       "outputs": [{"name": "h", "bytes": 32, "kind": "float"}, {"name": "y.0", "bytes": 8, "kind": "int"}]},
      {"name": "h", "rank": 1, "inputs": ["h", "y.0", "h"], "outputs": [{"name": "y", "bytes": 16, "kind": "float"}]},
      {"name": "?", "rank": 1, "inputs": ["y"], "parameters": ["E"],
       "outputs": [{"name": "loss", "bytes": 4, "kind": "float"}]}],
    "expected": {"whatever": 1}})",
                        "small");
}

TEST(PlacedDag, has_the_names_sizes_and_ranks_of_the_case) {
  const graph::PlacedDag model = graph::placed_dag_from_json(small_placed(), "case");
  const graph::Dag& dag = model.dag;
  EXPECT_EQ(model.ranks, 2);
  EXPECT_EQ(model.rank_of_node, (std::vector<int>{0, 1, 1}));
  std::string names;
  for (const graph::Tensor& tensor : dag.tensors) {
    names += concat(tensor.name, " ", tensor.spec.text(), tensor.differentiable ? " d; " : "; ");
  }
  EXPECT_EQ(names,
            "tokens (3) int32; text (7) uint8; h (8) fp32 d; y.0 (2) int32; y (4) fp32 d; "
            "loss (1) fp32 d; ");
  EXPECT_EQ(dag.node_at(1).name, "h");
  EXPECT_EQ(dag.node_at(1).inputs, (std::vector<int>{2, 3, 2}));
  ASSERT_EQ(dag.parameters.size(), 1U) << "what no node uses is nobody's";
  EXPECT_EQ(dag.parameter_at(0).name, "E");
  EXPECT_EQ(dag.parameter_at(0).spec.bytes(), 64U);
  EXPECT_EQ(dag.parameter_at(0).uses.size(), 2U);
  EXPECT_EQ(dag.loss, dag.tensor("loss"));
}

std::string refusal(const io::Json& test) {
  try {
    static_cast<void>(graph::placed_dag_from_json(test, "case"));
  } catch (const DecodeError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(PlacedDag, refuses_what_cannot_be_and_names_the_member) {
  const io::Json output{{"name", "h"}, {"bytes", 4}, {"kind", "float"}};
  const std::vector<std::tuple<const char*, io::Json, const char*>> wrong{
      {"/ranks", 0, "'ranks' is 0"},
      {"/ranks", 4'000'000'000, "'ranks' is 4000000000"},
      {"/ranks", 1, "'nodes.1.rank' is 1"},
      {"/ranks", "2", "'ranks'"},
      {"/rank", 2, "did you mean 'ranks'?"},
      {"/nodes", 3, "'nodes'"},
      {"/nodes/0", 3, "nodes.0"},
      {"/nodes/0/rank", -1, "'nodes.0.rank' is -1"},
      {"/nodes/0/rank", 1e300, "'nodes.0.rank'"},
      {"/nodes/0/ranks", 1, "'nodes.0.ranks'"},
      {"/nodes/0/name", "h", "'nodes.1.name' is 'h', as nodes.0.name is"},
      {"/nodes/0/name", "", "'nodes.0.name' has 0 bytes"},
      {"/nodes/0/name", std::string(201, 'x'), "'nodes.0.name' has 201 bytes"},
      {"/nodes/0/inputs/1", "txt", "'nodes.0.inputs.1' is 'txt', and there is no such tensor"},
      {"/nodes/0/inputs/1", "y", "'nodes.0.inputs.1' is 'y', which nodes.1 makes"},
      {"/nodes/0/inputs/1", "h", "'nodes.0.inputs.1' is 'h', which nodes.0 itself makes"},
      {"/nodes/0/inputs", "tokens", "'nodes.0.inputs'"},
      {"/nodes/0/parameters/0", "F", "'nodes.0.parameters.0' is 'F', which 'parameters' does not"},
      {"/nodes/0/parameters/1", "E", "'nodes.0.parameters.1' is 'E' once more"},
      {"/nodes/0/outputs/2", output,
       "'nodes.0.outputs.2.name' is 'h', as nodes.0.outputs.0.name is"},
      {"/nodes/0/outputs/1/name", "text",
       "'nodes.0.outputs.1.name' is 'text', as inputs.1.name is"},
      {"/nodes/0/outputs/0/bytes", 30, "'nodes.0.outputs.0.bytes' is 30"},
      {"/nodes/0/outputs/0/bytes", 0, "'nodes.0.outputs.0.bytes' is 0"},
      {"/nodes/0/outputs/0/bytes", 32.5, "'nodes.0.outputs.0.bytes'"},
      {"/nodes/0/outputs/0/kind", "bool", "'nodes.0.outputs.0.kind' is 'bool'"},
      {"/nodes/0/outputs/0/size", 3, "'nodes.0.outputs.0.size'"},
      {"/inputs/0/bytes", 9'000'000'000'000'000'000, "'inputs.0.bytes' is 9000000000000000000"},
      {"/inputs/1/name", "tokens", "'inputs.1.name' is 'tokens', as inputs.0.name is"},
      {"/parameters/0/bytes", 63, "'parameters.0.bytes' is 63"},
      {"/parameters/1/name", "E", "'parameters.1.name' is 'E', as parameters.0.name is"},
      {"/loss", "lost", "'loss' is 'lost', and there is no such tensor"},
      {"/loss", "tokens", "'loss' is 'tokens', an input of the graph"},
      {"/loss", "y.0", "'loss' is 'y.0', which is of kind int"},
      {"/loss", "y", "'loss' is 'y', which has 16 bytes"},
      {"/nodes/1/outputs/0/bytes", 4, "accepted"},
      {"/name", 5, "accepted"},
  };
  for (const auto& [at, value, text] : wrong) {
    io::Json test = small_placed();
    test[io::Json::json_pointer(at)] = value;
    EXPECT_THAT(refusal(test), HasSubstr(text)) << at;
  }
  io::Json read = small_placed();
  read["nodes"][1]["outputs"][0]["bytes"] = 4;
  read["loss"] = "y";
  EXPECT_THAT(refusal(read), HasSubstr("'loss' is 'y', which the node '?' reads"));
  for (const char* key : {"ranks", "inputs", "nodes", "loss"}) {
    io::Json test = small_placed();
    test.erase(key);
    EXPECT_THAT(refusal(test), HasSubstr(concat("'", key, "' is missing")));
  }
  io::Json bare = small_placed();
  bare["nodes"][1].erase("inputs");
  EXPECT_THAT(refusal(bare), HasSubstr("'nodes.1.inputs' is missing"));
  EXPECT_THAT(refusal(io::Json::array()), HasSubstr("an object"));
}

/// Each value of the case, and each object and list in it, becomes something else, or nothing.
TEST(PlacedDag, refuses_or_reads_whatever_stands_anywhere) {
  std::vector<std::string> places;
  const std::function<void(const io::Json&, const std::string&)> walk = [&](const io::Json& value,
                                                                            const std::string& at) {
    if (!at.empty()) places.push_back(at);
    if (!value.is_structured()) return;
    for (const auto& [key, inner] : value.items()) walk(inner, concat(at, "/", key));
  };
  walk(small_placed(), "");
  const io::Json others = io::parse_json(
      R"([null, true, -1, 0, 3, 18446744073709551615, 1e300, "", "h", "E", [], ["h"], {}, [[]]])",
      "others");
  int read = 0;
  for (const std::string& at : places) {
    for (const io::Json& other : others) {
      io::Json test = small_placed();
      test[io::Json::json_pointer(at)] = other;
      try {
        const graph::PlacedDag model = graph::placed_dag_from_json(test, "case");
        EXPECT_EQ(model.rank_of_node.size(), model.dag.nodes.size());
        EXPECT_NO_THROW(static_cast<void>(graph::remote_messages(model.dag, model.rank_of_node)));
        ++read;
      } catch (const DecodeError& error) {
        EXPECT_THAT(error.what(), HasSubstr("case: "));
      }
    }
  }
  EXPECT_GT(places.size(), 50U);
  EXPECT_GT(read, 50);
}

TEST(PlacedDag, refuses_more_than_a_case_may_have) {
  io::Json nodes = small_placed();
  for (std::size_t n = nodes["nodes"].size(); n <= graph::max_placed_nodes; ++n) {
    nodes["nodes"].push_back({});
  }
  EXPECT_THAT(refusal(nodes), HasSubstr("'nodes' makes 4097 nodes, at most 4096"));
  io::Json tensors = small_placed();
  for (std::size_t t = tensors["inputs"].size(); t <= graph::max_placed_tensors; ++t) {
    tensors["inputs"].push_back({{"name", concat("i", t)}, {"bytes", 1}, {"kind", "int"}});
  }
  EXPECT_THAT(refusal(tensors), HasSubstr("'inputs.8192' makes 8193 tensors, at most 8192"));
  io::Json readings = small_placed();
  for (std::size_t r = 0; r <= graph::max_placed_readings; ++r) {
    readings["nodes"][0]["inputs"].push_back("text");
  }
  EXPECT_THAT(refusal(readings), HasSubstr("'nodes.0.inputs' makes 32771 readings, at most 32768"));
}

}  // namespace
}  // namespace reef::test
