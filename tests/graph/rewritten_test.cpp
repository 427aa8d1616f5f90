// Models out of the nodes of others.

#include <reef/graph/rewritten.hpp>

#include <vector>

#include <gtest/gtest.h>

#include <reef/device/host.hpp>
#include <reef/graph/hash.hpp>
#include <reef/nn/exact_gelu.hpp>
#include <reef/nn/gelu.hpp>
#include <reef/nn/gpt.hpp>

namespace reef::test {
namespace {

using device::Host;

graph::Graph<Host, float> model() {
  auto g = nn::gpt<Host, float>({.layers = 2, .heads = 2, .channels = 8, .vocabulary = 11, .context = 6}, 1);
  g.freeze("*.ln_1.*");
  g.initialise("transformer.wpe.weight", graph::Init::normal(0.5));
  return g;
}

TEST(Rewritten, of_copies_alone_is_the_model_itself) {
  const auto before = model();
  const auto after = graph::rewritten(before, [](auto&, int) { return std::vector<int>{}; });
  EXPECT_EQ(graph::hash_of(after.dag()), graph::hash_of(before.dag()));
  ASSERT_EQ(after.dag().tensors.size(), before.dag().tensors.size());
  for (std::size_t i = 0; i < before.dag().tensors.size(); ++i) {
    EXPECT_EQ(after.dag().tensors[i].name, before.dag().tensors[i].name);
    EXPECT_EQ(after.dag().tensors[i].differentiable, before.dag().tensors[i].differentiable);
  }
  ASSERT_EQ(after.dag().parameters.size(), before.dag().parameters.size());
  for (std::size_t p = 0; p < before.dag().parameters.size(); ++p) {
    EXPECT_EQ(after.dag().parameters[p].name, before.dag().parameters[p].name);
    EXPECT_EQ(after.dag().parameters[p].init, before.dag().parameters[p].init);
    EXPECT_EQ(after.dag().parameters[p].frozen, before.dag().parameters[p].frozen);
    EXPECT_EQ(after.dag().parameters[p].uses.size(), before.dag().parameters[p].uses.size());
  }
  EXPECT_EQ(after.dag().loss, before.dag().loss);
}

TEST(Rewritten, has_what_its_function_adds_in_place_of_a_node) {
  const auto before = model();
  int replaced = 0;
  const auto after = graph::rewritten(before, [&](auto& to, int n) {
    if (to.model.template operator_as<nn::Gelu>(n) == nullptr) return std::vector<int>{};
    ++replaced;
    return to.result.add(to.model.dag().node_at(n).name, nn::ExactGelu{}, to.inputs_of(n));
  });
  EXPECT_EQ(replaced, 2);
  ASSERT_EQ(after.dag().node_count(), before.dag().node_count());
  for (int n = 0; n < after.dag().node_count(); ++n) {
    const graph::Node& node = before.dag().node_at(n);
    EXPECT_EQ(after.dag().node_at(n).name, node.name);
    EXPECT_EQ(after.dag().node_at(n).kind, node.kind == "Gelu" ? "ExactGelu" : node.kind);
    EXPECT_EQ(after.dag().node_at(n).inputs, node.inputs);
  }
}

}  // namespace
}  // namespace reef::test
