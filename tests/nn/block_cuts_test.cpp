// Where graphs are cut into blocks: at each place one tensor goes over.

#include <reef/nn/block_cuts.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reef/core/error.hpp>

namespace {

using namespace reef;
using testing::ElementsAre;
using testing::HasSubstr;

/// A chain of nodes of these names, each of which reads the output of the one before it; `also`: a tensor that the node
/// of that number reads besides, the output of node `from`.
graph::Dag chain_of_names(const std::vector<std::string>& names, int also = -1, int from = -1) {
  graph::Dag dag;
  dag.tensors.push_back({});
  dag.tensors[0].name = "tokens";
  dag.tensors[0].spec = {{1, 1}, Element::int32};
  dag.tensors[0].producer = -1;
  dag.inputs.push_back(0);
  for (std::size_t n = 0; n < names.size(); ++n) {
    graph::Node node;
    node.name = names[n];
    node.inputs = {static_cast<int>(n)};
    if (static_cast<int>(n) == also) node.inputs.push_back(from + 1);
    node.outputs = {static_cast<int>(n) + 1};
    dag.nodes.push_back(node);
    graph::Tensor tensor;
    tensor.name = names[n];
    tensor.spec = {{1, 1, 4}, Element::float32};
    tensor.producer = static_cast<int>(n);
    dag.tensors.push_back(tensor);
  }
  return dag;
}

std::string refusal_of_cuts(const graph::Dag& dag) {
  try {
    nn::block_cuts(dag);
    return "";
  } catch (const OptionError& error) {
    return error.what();
  }
}

TEST(BlockCuts, are_before_the_first_node_of_each_block_and_behind_the_last) {
  const nn::BlockCuts cuts = nn::block_cuts(chain_of_names({"wte", "drop", "h.0.a", "h.0.b", "h.1.a", "norm", "head"}));
  EXPECT_EQ(cuts.count(), 2);
  EXPECT_THAT(cuts.nodes, ElementsAre(2, 4, 5));
  EXPECT_THAT(cuts.tensors, ElementsAre(2, 4, 5));
}

TEST(BlockCuts, of_other_graphs_are_refused) {
  EXPECT_THAT(refusal_of_cuts(chain_of_names({"wte", "norm"})), HasSubstr("no node has a block's number"));
  EXPECT_THAT(refusal_of_cuts(chain_of_names({"wte", "h.0.a", "h.2.a", "norm"})), HasSubstr("'h.2.a'"));
  EXPECT_THAT(refusal_of_cuts(chain_of_names({"wte", "h.0.a", "norm", "h.1.a", "head"})), HasSubstr("'h.1.a'"));
  EXPECT_THAT(refusal_of_cuts(chain_of_names({"wte", "h.0.a", "h.1.a", "norm"}, 3, 1)), HasSubstr("2 tensors go over"));
}

}  // namespace
