// Models as files, without their operators: what is read, in which order nodes come, and what is refused by name.

#include <reef/graph/model_file.hpp>

#include <functional>
#include <string>
#include <tuple>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reef/core/error.hpp>
#include <reef/core/text.hpp>
#include <reef/io/json.hpp>

namespace reef::test {
namespace {

using testing::HasSubstr;

io::Json small_file() {
  return io::parse_json(R"({
    "version": 1, "about": "a fork and a join", "loss": "loss",
    "inputs": [{"name": "x", "shape": [4, 3]}, {"name": "y", "shape": [4], "element": "int32"},
               {"name": "z", "shape": [], "element": "fp32", "differentiable": true}],
    "nodes": [
      {"name": "fork", "kind": "Fork", "inputs": ["x"], "note": "NODE.0 and NODE.1 are its outputs"},
      {"name": "left", "kind": "Linear", "inputs": ["fork.0"], "attributes": {"features": 5, "nested": {"a": [1]}},
       "parameters": {"weight": {"name": "w.1", "init": 0.5}, "bias": {"init": "ones"}},
       "optimizer": {"rule": "sgd", "learning_rate": 0.25, "weight_decay": 0}},
      {"name": "join", "kind": "Add", "inputs": ["left", "fork.1"], "outputs": ["sum"]},
      {"name": "last", "kind": "Loss", "inputs": ["sum", "y", "z"], "outputs": ["loss"]}]})",
                        "small");
}

std::string names_of(const graph::ModelFile& model) {
  std::string names;
  for (const graph::NodeEntry& node : model.nodes) names += node.name + " ";
  return names;
}

TEST(ModelFile, has_what_the_file_says) {
  const graph::ModelFile model = graph::read_model(small_file(), "small");
  ASSERT_EQ(model.inputs.size(), 3U);
  EXPECT_EQ(model.inputs[0].shape, (Shape{4, 3}));
  EXPECT_FALSE(model.inputs[0].element.has_value());
  EXPECT_EQ(model.inputs[1].element, Element::int32);
  EXPECT_EQ(model.inputs[2].shape, Shape{});
  EXPECT_TRUE(model.inputs[2].differentiable);
  EXPECT_EQ(names_of(model), "fork left join last ");
  EXPECT_EQ(model.loss, "loss");
  const graph::NodeEntry& left = model.nodes[1];
  EXPECT_EQ(left.kind, "Linear");
  EXPECT_EQ(left.inputs, std::vector<std::string>{"fork.0"});
  EXPECT_EQ(left.attributes.at("nested").at("a").at(0), 1);
  EXPECT_EQ(left.parameters.at("weight").name, "w.1");
  EXPECT_EQ(left.parameters.at("weight").init, graph::Init::normal(0.5));
  EXPECT_EQ(left.parameters.at("bias").name, "");
  EXPECT_EQ(left.parameters.at("bias").init, graph::Init::ones());
  EXPECT_EQ(left.optimizer, (graph::OperatorOptimizer{"sgd", 0.25, 0.0}));
  EXPECT_FALSE(model.nodes[0].optimizer.has_value());
  EXPECT_EQ(model.nodes[2].outputs, std::vector<std::string>{"sum"});
}

TEST(ModelFile, is_written_as_it_was_read_in_lines_that_people_read) {
  const io::Json json = graph::json_of(graph::read_model(small_file(), "small"));
  const std::string text = graph::text_of_model(json);
  EXPECT_EQ(io::parse_json(text, "text"), json);
  EXPECT_THAT(text, HasSubstr("\n  {\"name\":\"fork\",\"kind\":\"Fork\",\"inputs\":[\"x\"]},\n"));
  EXPECT_EQ(graph::json_of(graph::read_model(json, "again")), json);
  io::Json expected = small_file();
  expected.erase("about");
  expected["nodes"][0].erase("note");
  EXPECT_EQ(json, expected);
}

TEST(ModelFile, brings_nodes_into_an_order_that_keeps_that_of_the_file_where_it_can) {
  io::Json json = small_file();
  EXPECT_EQ(names_of(graph::read_model(json, "")), "fork left join last ");
  std::swap(json["nodes"][0], json["nodes"][3]);
  EXPECT_EQ(names_of(graph::read_model(json, "")), "fork left join last ");
  json["nodes"].push_back({{"name", "aside"}, {"kind", "Gelu"}, {"inputs", {"x"}}});
  EXPECT_EQ(names_of(graph::read_model(json, "")), "fork left join last aside ");
  std::swap(json["nodes"][1], json["nodes"][4]);
  EXPECT_EQ(names_of(graph::read_model(json, "")), "aside fork left join last ");
}

TEST(ModelFile, reads_ten_thousand_nodes_in_any_order_at_once) {
  io::Json json = small_file();
  json["nodes"] = io::Json::array();
  json["loss"] = "n0";
  for (int n = 0; n < 10'000; ++n) {
    json["nodes"].push_back({{"name", concat("n", n)}, {"kind", "Gelu"}, {"inputs", {n == 9'999 ? "x" : concat("n", n + 1)}}});
  }
  EXPECT_EQ(graph::read_model(json, "").nodes.front().name, "n9999");
}

std::string file_refusal(const io::Json& json) {
  try {
    graph::read_model(json, "file.json");
    return "none";
  } catch (const DecodeError& error) {
    return error.what();
  }
}

TEST(ModelFile, refuses_what_cannot_be_with_the_file_the_member_and_the_fix) {
  using Change = std::function<void(io::Json&)>;
  const std::string long_name(201, 'n');
  const std::vector<std::tuple<const char*, Change>> cases{
      {"file.json must be an object", [](io::Json& j) { j = io::Json::array(); }},
      {"'version' is 2", [](io::Json& j) { j["version"] = 2; }},
      {"nothing reads the key 'node'; did you mean 'nodes'", [](io::Json& j) { j["node"] = 1; }},
      {"'inputs' is missing", [](io::Json& j) { j.erase("inputs"); }},
      {"'inputs' has 0 entries", [](io::Json& j) { j["inputs"] = io::Json::array(); }},
      {"'nodes' is no array", [](io::Json& j) { j["nodes"] = 3; }},
      {"'inputs.0' must be an object", [](io::Json& j) { j["inputs"][0] = "x"; }},
      {"'inputs.0.name' is missing", [](io::Json& j) { j["inputs"][0].erase("name"); }},
      {"'inputs.0.name' has 0 bytes", [](io::Json& j) { j["inputs"][0]["name"] = ""; }},
      {"'nodes.1.name' has 201 bytes", [&](io::Json& j) { j["nodes"][1]["name"] = long_name; }},
      {"'inputs.1.name' is 'x', which inputs.0.name is too", [](io::Json& j) { j["inputs"][1]["name"] = "x"; }},
      {"'inputs.0.shape' is [4,0]", [](io::Json& j) { j["inputs"][0]["shape"] = {4, 0}; }},
      {"'inputs.0.shape' is [-1]", [](io::Json& j) { j["inputs"][0]["shape"] = {-1}; }},
      {"'inputs.0.shape' is [1,1,1,1,1]", [](io::Json& j) { j["inputs"][0]["shape"] = {1, 1, 1, 1, 1}; }},
      {"at most 2^40 elements", [](io::Json& j) { j["inputs"][0]["shape"] = {1 << 20, 1 << 20, 2}; }},
      {"at most 2^40 elements", [](io::Json& j) { j["inputs"][0]["shape"] = {9'000'000'000'000'000'000, 9'000'000'000'000'000'000}; }},
      {"'inputs.0.shape' must be an array", [](io::Json& j) { j["inputs"][0]["shape"] = {1.5}; }},
      {"'inputs.1.element' is 'int64'", [](io::Json& j) { j["inputs"][1]["element"] = "int64"; }},
      {"did you mean 'inputs.1.element'", [](io::Json& j) { j["inputs"][1]["elements"] = "int32"; }},
      {"did you mean 'nodes.1.attributes'", [](io::Json& j) { j["nodes"][1]["attribute"] = {}; }},
      {"'nodes.1.kind' is missing", [](io::Json& j) { j["nodes"][1].erase("kind"); }},
      {"'nodes.1.inputs' must be an array, each element a string", [](io::Json& j) { j["nodes"][1]["inputs"] = "x"; }},
      {"'nodes.1.attributes' must be an object", [](io::Json& j) { j["nodes"][1]["attributes"] = 7; }},
      {"'nodes.3.name' is 'left', as nodes.1.name is", [](io::Json& j) { j["nodes"][3]["name"] = "left"; }},
      {"'nodes.2.outputs.0' is 'x', which inputs.0.name is too", [](io::Json& j) { j["nodes"][2]["outputs"] = {"x"}; }},
      {"'nodes.1.name' is 'x', which inputs.0.name is too", [](io::Json& j) { j["nodes"][1]["name"] = "x"; }},
      {"'nodes.1.inputs.0' is 'fork.a', and there is no such tensor; perhaps 'fork' is meant.",
       [](io::Json& j) { j["nodes"][1]["inputs"] = {"fork.a"}; }},
      {"perhaps 'labels' is meant", [](io::Json& j) { j["inputs"][1]["name"] = "labels"; j["inputs"][2]["name"] = "l"; j["nodes"][3]["inputs"][1] = "lables"; }},
      {"'nodes.3.inputs.0' is 'join', and there is no such tensor", [](io::Json& j) { j["nodes"][3]["inputs"][0] = "join"; }},
      {"fix: the name of an output of that node, as 'sum'", [](io::Json& j) { j["nodes"][3]["inputs"][0] = "join"; }},
      {"'nodes.3.inputs.0' is 'join.0', and there is no such tensor", [](io::Json& j) { j["nodes"][3]["inputs"][0] = "join.0"; }},
      {"'loss' is 'los', and there is no such tensor; perhaps 'loss' is meant.", [](io::Json& j) { j["loss"] = "los"; }},
      {"'nodes.0' is in a cycle: 'fork' reads 'join' reads 'left' reads 'fork'", [](io::Json& j) { j["nodes"][0]["inputs"] = {"sum"}; }},
      {"'nodes.1' is in a cycle: 'left' reads 'left'", [](io::Json& j) { j["nodes"][1]["inputs"] = {"left"}; }},
      {"'nodes.1.parameters.weight' must be an object", [](io::Json& j) { j["nodes"][1]["parameters"]["weight"] = "w"; }},
      {"'nodes.1.parameters.weight.init' is '-1", [](io::Json& j) { j["nodes"][1]["parameters"]["weight"]["init"] = -1; }},
      {"frozen", [](io::Json& j) { j["nodes"][1]["parameters"]["weight"]["frozen"] = 1; }},
      {"\"zeros\", \"ones\", or the deviation", [](io::Json& j) { j["nodes"][1]["parameters"]["weight"]["init"] = "twos"; }},
      {"'nodes.1.parameters.weight.name' has 0 bytes", [](io::Json& j) { j["nodes"][1]["parameters"]["weight"]["name"] = ""; }},
      {"'nodes.1.optimizer' must be an object", [](io::Json& j) { j["nodes"][1]["optimizer"] = "sgd"; }},
      {"did you mean 'nodes.1.optimizer.learning_rate'", [](io::Json& j) { j["nodes"][1]["optimizer"]["lr"] = 1; j["nodes"][1]["optimizer"]["learning-rate"] = 1; j["nodes"][1]["optimizer"].erase("lr"); }},
      {"'nodes.1.optimizer.learning_rate' is -1", [](io::Json& j) { j["nodes"][1]["optimizer"]["learning_rate"] = -1; }},
      {"'nodes.1.optimizer.weight_decay' is 1001", [](io::Json& j) { j["nodes"][1]["optimizer"]["weight_decay"] = 1001; }},
  };
  for (const auto& [expected, change] : cases) {
    io::Json json = small_file();
    change(json);
    const std::string told = file_refusal(json);
    EXPECT_THAT(told, HasSubstr(expected));
    EXPECT_THAT(told, HasSubstr("file.json"));
    EXPECT_THAT(told, HasSubstr("\n  fix: "));
  }
}

TEST(ModelFile, refuses_more_than_a_file_may_have) {
  const auto with = [](const char* list, std::size_t count) {
    io::Json json = small_file();
    const io::Json entry = json[list][0];
    json[list] = std::vector<io::Json>(count, entry);
    return file_refusal(json);
  };
  EXPECT_THAT(with("inputs", 1'001), HasSubstr("'inputs' has 1001 entries"));
  EXPECT_THAT(with("nodes", 10'001), HasSubstr("'nodes' has 10001 entries"));
  io::Json json = small_file();
  json["nodes"][1]["inputs"] = std::vector<std::string>(1'001, "x");
  EXPECT_THAT(file_refusal(json), HasSubstr("'nodes.1.inputs' has 1001 names"));
}

TEST(ModelFile, tells_a_model_from_other_cases) {
  EXPECT_TRUE(graph::is_model(small_file()));
  EXPECT_FALSE(graph::is_model(io::parse_json(R"({"nodes": [{"name": "a", "rank": 0}]})", "")));
  EXPECT_FALSE(graph::is_model(io::parse_json("[1]", "")));
  EXPECT_FALSE(graph::is_model(io::parse_json(R"({"nodes": []})", "")));
}

}  // namespace
}  // namespace reef::test
