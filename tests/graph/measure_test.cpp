#include <reef/graph/measure.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include <reef/device/host.hpp>
#include <reef/nn/gpt.hpp>
#include <reef/nn/host.hpp>

#include "test_operators.hpp"

namespace {

using namespace reef;
using device::Host;

nn::GptConfig small() {
  nn::GptConfig config;
  config.layers = 2;
  config.heads = 4;
  config.channels = 64;
  config.vocabulary = 256;
  config.context = 64;
  config.batch = 2;
  return config;
}

TEST(Workload, saved_bytes_of_all_operators_are_those_of_the_whole) {
  for (const float dropout : {0.0F, 0.1F}) {
    nn::GptConfig config = small();
    config.dropout = dropout;
    const auto g = nn::gpt<Host, float>(config, 2);
    Bytes sum = 0;
    for (const auto& entry : graph::workload(g.dag()).operators) sum += entry.saved_bytes;
    EXPECT_EQ(sum, graph::plan_segment(g.dag()).saved_bytes);
  }
}

TEST(Estimate, counts_the_operations_of_a_gpt_as_the_literature_does) {
  const auto g = nn::gpt<Host, float>(small(), 1);
  const profile::Profile p = graph::estimate(g.dag(), 1e9);
  // 2 (12 L C^2 + V C) a token for the products, 2 T C a token and layer for the causal scores.
  const double tokens = 128;
  const double products = 2.0 * (12 * 2 * 64 * 64 + 256 * 64);
  const double scores = 2 * 2.0 * 64 * 64;
  EXPECT_NEAR(p.forward_flops(), tokens * (products + scores), 0.05 * p.forward_flops());
  EXPECT_NEAR(p.backward_flops() / p.forward_flops(), 2.0, 0.1);
  EXPECT_DOUBLE_EQ(p.forward_s(), p.forward_flops() / 1e9);
  EXPECT_FALSE(p.measured);
  EXPECT_EQ(p.at("transformer.h.1.mlp.c_fc").forward_flops, 2.0 * 128 * 64 * 256);
  EXPECT_EQ(p.at("lm_head").parameter_bytes, 256U * 64 * 4);
}

TEST(Estimate, takes_the_slower_of_operations_and_memory) {
  const auto g = nn::gpt<Host, float>(small(), 1);
  const auto add = graph::estimate(g.dag(), {1e15, 1e9}).at("transformer.h.0.attn.residual");
  EXPECT_DOUBLE_EQ(add.forward_s, 3.0 * 128 * 64 * 4 / 1e9);
  EXPECT_THROW(graph::estimate(g.dag(), 0), OptionError);
  EXPECT_THROW(graph::estimate(g.dag(), {1, -1}), OptionError);
}

TEST(Estimate, a_backward_moves_twice_what_its_forward_moves_whichever_of_both_memory_bounds) {
  const auto g = nn::gpt<Host, float>(small(), 1);
  const graph::Dag& dag = g.dag();
  for (const graph::Speed& speed : {graph::Speed{1e15, 1e9}, graph::Speed{1e9, 1e15}, graph::Speed{4e9, 1e9},
                                    graph::Speed{2e10, 1e9}, graph::Speed{1e9, 0}}) {
    const profile::Profile p = graph::estimate(dag, speed);
    bool has_a_backward = false;
    for (const graph::Node& node : dag.nodes) {
      const profile::OperatorProfile& entry = p.at(node.name);
      // Of the operator's own shapes: what it reads and writes once.
      double bytes = 0;
      for (const int id : node.inputs) bytes += static_cast<double>(dag.tensor_at(id).spec.bytes());
      for (const int id : node.outputs) bytes += static_cast<double>(dag.tensor_at(id).spec.bytes());
      for (const int use : node.uses) bytes += static_cast<double>(dag.parameter_at(dag.use_at(use).parameter).spec.bytes());
      const double memory = speed.bytes_per_second > 0 ? bytes / speed.bytes_per_second : 0;
      SCOPED_TRACE(node.name);
      EXPECT_DOUBLE_EQ(entry.forward_s, std::max(entry.forward_flops / speed.flops_per_second, memory));
      if (entry.backward_flops == 0) continue;
      has_a_backward = true;
      EXPECT_DOUBLE_EQ(entry.backward_s, std::max(entry.backward_flops / speed.flops_per_second, 2 * memory));
    }
    EXPECT_TRUE(has_a_backward);
  }
}

TEST(Measure, times_every_operator_and_gives_its_memory_back) {
  Host device({.threads = 2});
  const auto g = nn::gpt<Host, float>(small(), 2);
  const auto begin = std::chrono::steady_clock::now();
  const profile::Profile p = graph::measure(device, g, {.repeats = 3, .classes = 256});
  const std::chrono::duration<double> all = std::chrono::steady_clock::now() - begin;
  EXPECT_TRUE(p.measured);
  EXPECT_EQ(p.device, "host");
  EXPECT_EQ(p.threads, 2);
  ASSERT_EQ(p.operators.size(), g.dag().nodes.size());
  for (const auto& entry : p.operators) {
    EXPECT_GT(entry.forward_s, 0) << entry.name;
    EXPECT_GT(entry.backward_s, 0) << entry.name;
  }
  EXPECT_LE(2 * (p.forward_s() + p.backward_s()), all.count())
      << "two of three runs take the median or longer, in seconds";
  EXPECT_EQ(device.memory().used, 0U);
  EXPECT_THROW(graph::measure(device, g, {.repeats = 0}), OptionError);
}

TEST(Measure, does_not_count_the_first_call_of_anything) {
  int calls = 0;
  const auto [time, other] = graph::detail::medians_of(3, [&] {
    const Seconds taken = calls++ == 0 ? 1000 : calls;  // 1000, then 2, 3, 4
    return std::array{taken, 10 * taken};
  });
  EXPECT_EQ(calls, 4);
  EXPECT_EQ(time, 3);
  EXPECT_EQ(other, 30);
  calls = 0;
  EXPECT_EQ(graph::detail::medians_of(
                1, [&] { return std::array<Seconds, 1>{calls++ == 0 ? 9.0 : 2.0}; })[0],
            2);
}

/// Does nothing, and says what it was called for.
struct Counted {
  static constexpr std::string_view kind = "Counted";
  std::vector<std::string>* calls;

  graph::Signature signature(const auto& call) const {
    graph::Signature result;
    result.outputs = {call.inputs[0]};
    return result;
  }
  void forward(const auto& /*call*/) const { calls->push_back("forward"); }
  void backward(const auto& /*call*/) const { calls->push_back("backward"); }
};

TEST(Measure, calls_an_operator_once_before_it_counts) {
  Host device({.threads = 1});
  std::vector<std::string> calls;
  graph::Graph<Host, float> g;
  const int x = g.input("x", {Shape{4}, Element::float32}, true);
  const int y = g.add("counted", Counted{&calls}, {x})[0];
  g.loss(g.add("loss", test::MeanSquare{}, {y})[0]);
  graph::measure(device, g, {.repeats = 2});
  const std::vector<std::string> once{"forward", "backward"};
  std::vector<std::string> thrice;
  for (int i = 0; i < 3; ++i) thrice.insert(thrice.end(), once.begin(), once.end());
  EXPECT_EQ(calls, thrice);
}

TEST(Measure, says_what_memory_and_link_give_also_of_a_small_device) {
  const auto g = nn::gpt<Host, float>(small(), 1);
  Host here({.threads = 1});
  const profile::Profile p = graph::measure(here, g, {.repeats = 1, .classes = 256});
  EXPECT_GT(p.memory_bytes_per_second, 0);
  EXPECT_EQ(p.host_bytes_per_second, 0) << "it is the same memory";
  EXPECT_EQ(p.copy_bytes_per_second, 0) << "there is no link";
  EXPECT_EQ(p.slowdown, 1);
  Host behind({.memory_bytes = 4 << 20,
               .link_bytes_per_second = 1e9,
               .link_latency = 1e-4,
               .slowdown = 1.5,
               .threads = 1});
  const profile::Profile q = graph::measure(behind, g, {.repeats = 1, .classes = 256});
  EXPECT_GT(q.memory_bytes_per_second, 0);
  EXPECT_GT(q.host_bytes_per_second, 0);
  EXPECT_GT(q.copy_bytes_per_second, 0);
  EXPECT_GE(q.copy_latency, 0);
  EXPECT_EQ(q.link_bytes_per_second, 1e9);
  EXPECT_EQ(q.link_latency, 1e-4);
  EXPECT_EQ(q.slowdown, 1.5);
  EXPECT_EQ(behind.memory().used, 0U);
}

/// Has a parameter, and notes the memory in use while its backward runs.
struct NotesMemory {
  static constexpr std::string_view kind = "NotesMemory";

  const Host* device;
  Bytes* used;

  graph::Signature signature(const auto& call) const {
    graph::Signature result;
    result.outputs = {call.inputs[0]};
    result.parameters = {{"w", {call.inputs[0].shape.last()}, graph::Init::ones(), false}};
    return result;
  }
  void forward(const auto&) const {}
  void backward(const auto&) const { *used = device->memory().used; }
};

TEST(Measure, gradients_of_parameters_in_bf16_have_room_for_fp32) {
  constexpr Bytes features = 1000;
  Host device({.threads = 1});
  Bytes used = 0;
  graph::Graph<Host, Bfloat16> g(1);
  g.add("node", NotesMemory{&device, &used}, {g.input("in", {{1, features}, Element::bfloat16}, true)});
  graph::measure(device, g, {.repeats = 1});
  EXPECT_GE(used, features * (4 * 2 + 2 + 4)) << "input, output and their gradients; w; its gradient in fp32";
  EXPECT_LT(used, features * (4 * 2 + 2 + 4) + features) << "nothing else that could hide it";
}

TEST(Measure, an_operator_that_does_not_fit_is_refused_by_the_device) {
  Host device({.memory_bytes = 4096, .threads = 1});
  const auto g = nn::gpt<Host, float>(small(), 1);
  EXPECT_THROW(graph::measure(device, g), MemoryError);
}

}  // namespace
