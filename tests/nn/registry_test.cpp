// The operators that a file can name: the page about files says the same, and the examples are what they say.

#include <reef/nn/registry.hpp>

#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reef/graph/graph_json.hpp>
#include <reef/graph/hash.hpp>
#include <reef/nn/gpt.hpp>
#include <reef/nn/host.hpp>

namespace reef::test {
namespace {

using testing::HasSubstr;

std::string file(const std::string& name) {
  std::ifstream in(REEF_ROOT "/" + name);
  EXPECT_TRUE(in) << name;
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(Registry, is_what_the_page_about_files_says) {
  const auto registry = nn::registry<device::Host, float>();
  const std::string page = file("docs/graph_files.md");
  std::string attributes = "| kind | attribute | is | default | what |\n|---|---|---|---|---|\n";
  std::string kinds;
  for (const auto& kind : registry.kinds()) {
    EXPECT_THAT(page, HasSubstr("\n| " + kind.name + " | ")) << "a row with inputs, outputs and parameters";
    kinds += concat(kinds.empty() ? "" : ", ", kind.name);
    for (const auto& attribute : kind.attributes) {
      attributes += concat("| ", kind.name, " | ", attribute.name, " | ", attribute.type, " | ",
                           attribute.otherwise.empty() ? "must be given" : attribute.otherwise, " | ", attribute.about, " |\n");
    }
  }
  EXPECT_THAT(page, HasSubstr("\n\n" + attributes + "\n")) << "the table of attributes is this";
  EXPECT_THAT(page, HasSubstr("fix: one of " + kinds + "; or add yours"));
}

TEST(Registry, has_the_parameters_that_the_page_about_files_says) {
  const std::string page = file("docs/graph_files.md");
  const auto row_of = [&](const std::string& kind) {
    const std::size_t begin = page.find("\n| " + kind + " | ");
    return page.substr(begin + 1, page.find('\n', begin + 1) - begin - 1);
  };
  const auto registry = nn::registry<device::Host, float>();
  const auto model = graph::from_json(io::parse_json(file("examples/graphs/gpt.json"), "gpt.json"), "gpt.json", registry, 1);
  for (const graph::Node& node : model.graph.dag().nodes) {
    if (node.signature.parameters.empty()) {
      EXPECT_THAT(row_of(node.kind), testing::EndsWith("| none |"));
    }
    for (const graph::ParameterSpec& parameter : node.signature.parameters) {
      EXPECT_THAT(row_of(node.kind), HasSubstr("`" + parameter.name + "`"));
    }
  }
}

TEST(Registry, reads_the_examples_and_the_gpt_among_them_is_that_of_nn_gpt) {
  const auto registry = nn::registry<device::Host, float>();
  const auto read = [&](const std::string& name) {
    return graph::from_json(io::parse_json(file("examples/graphs/" + name), name), name, registry, 1);
  };
  const auto gpt = nn::gpt<device::Host, float>(
      {.layers = 2, .heads = 4, .channels = 64, .vocabulary = 256, .context = 64, .batch = 8}, 1);
  const auto from_file = read("gpt.json");
  EXPECT_EQ(graph::hash_of(from_file.graph.dag()), graph::hash_of(gpt.dag()));
  EXPECT_EQ(graph::to_json(from_file.graph, registry), graph::to_json(gpt, registry));
  const auto branches = read("branches.json");
  const graph::Dag& dag = branches.graph.dag();
  EXPECT_EQ(dag.tensor_at(dag.tensor("norm")).consumers.size(), 2U);
  EXPECT_EQ(dag.tensor_at(dag.tensor("embedding")).consumers.size(), 2U);
  EXPECT_EQ(dag.parameter_at(dag.parameter("tokens.weight")).uses.size(), 2U);
}

}  // namespace
}  // namespace reef::test
