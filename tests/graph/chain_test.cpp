#include <reef/graph/chain.hpp>

#include <algorithm>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reef/core/first_fit.hpp>
#include <reef/device/host.hpp>
#include <reef/graph/crossing.hpp>
#include <reef/graph/estimate.hpp>
#include <reef/graph/measure.hpp>
#include <reef/nn/gpt.hpp>
#include <reef/nn/host.hpp>
#include <reef/plan/partition_chain.hpp>
#include <reef/profile/profile_json.hpp>

#include "support/gpt_config.hpp"

namespace {

using namespace reef;
using device::Host;
using testing::HasSubstr;

nn::GptConfig narrow(int layers = 2) {
  nn::GptConfig config = test::small_config();
  config.layers = layers;
  config.dropout = 0;
  return config;
}

/// Of a tensor (B, T, C) of fp32.
constexpr Bytes one = Bytes{2} * 11 * 21 * 4;

TEST(OperatorChain, has_the_operators_of_the_graph_with_the_figures_of_the_profile) {
  const auto g = nn::gpt<Host, float>(narrow(), 1);
  const profile::Profile p = graph::estimate(g.dag(), {1e9, 1e9, 1e8});
  const plan::OperatorChain chain = graph::chain_of(g.dag(), p);
  ASSERT_EQ(chain.size(), g.dag().node_count());
  Bytes weights = 0;
  for (const auto& o : chain.operators) {
    weights += o.weights;
    EXPECT_EQ(o.gradients, o.weights) << "fp32";
    EXPECT_EQ(o.load, static_cast<plan::Ticks>(o.weights * 10)) << "ns at 0.1 GB/s";
    EXPECT_EQ(o.leave_forward, 0);
    EXPECT_EQ(o.leave_backward, o.load);
    EXPECT_GT(o.forward, 0);
  }
  // The head is tied to the embedding: both sub-models need it.
  EXPECT_EQ(weights, static_cast<Bytes>(g.dag().parameter_count()) * 4 + Bytes{37} * 21 * 4);
  const plan::OperatorChain back = graph::chain_of(g.dag(), p, {.writes_back = true});
  EXPECT_EQ(back.operators[0].leave_forward, back.operators[0].load);
  EXPECT_EQ(back.operators[0].leave_backward, 2 * back.operators[0].load);
}

TEST(Workload, says_what_an_operator_alone_has_in_memory) {
  const auto g = nn::gpt<Host, float>(narrow(), 1);
  const profile::Profile p = graph::workload(g.dag());
  const auto aligned = [](Bytes bytes) { return round_up(bytes, arena_alignment); };
  const auto& add = p.at("transformer.h.0.attn.residual");
  EXPECT_EQ(add.forward_set_bytes, 3 * aligned(one)) << "two inputs and their sum";
  EXPECT_EQ(add.backward_set_bytes, 3 * aligned(one)) << "the gradients of all three";
  EXPECT_EQ(add.gradient_bytes, 0U);
  const auto& linear = p.at("transformer.h.0.mlp.c_fc");
  EXPECT_EQ(linear.forward_set_bytes,
            aligned(one) + aligned(4 * one) + linear.forward_workspace_bytes);
  EXPECT_EQ(linear.backward_set_bytes,
            2 * aligned(one) + aligned(4 * one) + linear.backward_workspace_bytes)
      << "its input, and the gradients of both";
  EXPECT_EQ(linear.gradient_bytes, linear.parameter_bytes);
}

TEST(OperatorChain, gradients_of_bf16_weights_leave_as_the_wider_numbers_that_they_are) {
  const auto g = nn::gpt<Host, Bfloat16>(narrow(), 1);
  const auto p = graph::estimate(g.dag(), {1e9, 1e9, 1e8});
  const auto chain = graph::chain_of(g.dag(), p);
  EXPECT_EQ(chain.operators[0].gradients, 2 * chain.operators[0].weights);
  EXPECT_EQ(chain.operators[0].leave_backward, 2 * chain.operators[0].load);
}

TEST(OperatorChain, tensors_that_skip_operators_count_at_every_cut_that_they_cross) {
  const auto g = nn::gpt<Host, float>(narrow(), 1);
  const graph::Dag& dag = g.dag();
  const std::vector<Bytes> crossing = graph::crossing_bytes(dag);
  ASSERT_EQ(static_cast<int>(crossing.size()), dag.node_count() + 1);
  EXPECT_EQ(crossing.front(), 0U);
  EXPECT_EQ(crossing.back(), 0U);
  for (int c = 1; c < dag.node_count(); ++c) {
    const graph::Segment before = graph::plan_segment(dag, 0, c);
    Bytes expected = 0;
    for (const int id : before.boundary_outputs) {
      if (!dag.tensor_at(id).consumers.empty()) expected += dag.tensor_at(id).spec.bytes();
    }
    EXPECT_EQ(crossing[static_cast<std::size_t>(c)], expected) << "before " << dag.node_at(c).name;
  }
  // In a block what goes past it crosses, too; between blocks there is one tensor.
  EXPECT_GT(std::count(crossing.begin(), crossing.end(), one), 2);
  EXPECT_GE(*std::max_element(crossing.begin(), crossing.end()), 2 * one);
}

TEST(OperatorChain, a_model_that_does_not_fit_is_profiled_and_partitioned) {
  const auto g = nn::gpt<Host, float>(narrow(24), 1);
  const Bytes model = static_cast<Bytes>(g.dag().parameter_count()) * 4;
  Bytes largest = 0;
  for (const auto& o : graph::workload(g.dag()).operators) {
    largest = std::max(largest, o.parameter_bytes + o.gradient_bytes + o.backward_set_bytes);
  }
  Host device({.memory_bytes = 2 * largest, .link_bytes_per_second = 1e9, .threads = 1});
  ASSERT_GT(model, device.memory().budget) << "it would fit";
  const auto p = graph::measure(device, g, {.repeats = 1, .classes = 37});
  const auto again = profile::from_json(io::parse_json(profile::to_json(p).dump(), "text"));
  for (const auto& o : again.operators) {
    // The link takes its time; sleeping is never shorter.
    EXPECT_GE(o.load_s, static_cast<double>(o.parameter_bytes) / 1e9) << o.name;
    EXPECT_EQ(o.load_s > 0, o.parameter_bytes > 0) << o.name;
  }
  const auto chain = graph::chain_of(g.dag(), again);
  const auto best = plan::partition_chain(chain, {device.memory().budget, 1, plan::Variant::soft});
  EXPECT_TRUE(best.feasible) << best.why;
  EXPECT_GT(best.bounds.size(), 3U);
}

TEST(OperatorChain, a_profile_of_another_model_is_refused) {
  const auto g = nn::gpt<Host, float>(narrow(), 1);
  const auto refusal = [&](const profile::Profile& p) -> std::string {
    try {
      graph::require_profile_of(g.dag(), p);
    } catch (const OptionError& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_EQ(refusal(graph::estimate(g.dag(), 1e9)), "no error");
  const auto larger = nn::gpt<Host, float>(narrow(3), 1);
  EXPECT_THAT(refusal(graph::estimate(larger.dag(), 1e9)), HasSubstr("operators, the model "));
  auto config = narrow();
  config.channels = 42;
  const auto wider = nn::gpt<Host, float>(config, 1);
  EXPECT_THAT(refusal(graph::estimate(wider.dag(), 1e9)), HasSubstr("bytes of parameters"));
  config = narrow();
  config.batch = 2 * config.batch;
  const auto more = nn::gpt<Host, float>(config, 1);
  EXPECT_THAT(refusal(graph::estimate(more.dag(), 1e9)), HasSubstr("of outputs"));
  config = narrow();
  config.heads = 7;
  const auto split = nn::gpt<Host, float>(config, 1);
  EXPECT_THAT(refusal(graph::estimate(split.dag(), 1e9)),
              HasSubstr("'transformer.h.0.attn', saves"));
  auto p = graph::estimate(g.dag(), 1e9);
  p.operators[3].name = "another";
  EXPECT_THAT(refusal(p), HasSubstr("its operator 3 is"));
  p = graph::estimate(g.dag(), 1e9);
  p.operators[0].gradient_bytes += 4;
  EXPECT_THAT(refusal(p), HasSubstr("of gradients"));
}

}  // namespace
