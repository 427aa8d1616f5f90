#include <reef/graph/segment.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <reef/core/random.hpp>
#include <reef/graph/detail/placement.hpp>

namespace {

using namespace reef;
using graph::Dag;
using graph::Segment;
using graph::Signature;
using graph::TensorSpec;
using Place = graph::Location::Place;

const TensorSpec ten_rows{{10, 8}, Element::float32};  // 320 bytes
constexpr Bytes row_bytes = 320;

/// x -> a -> b -> c -> d, and a skips to d. Each reads its inputs in backward and has a parameter.
Dag with_skip() {
  Dag dag;
  Signature one;
  one.outputs = {ten_rows};
  one.parameters = {{"weight", {8}, graph::Init::ones(), true}};
  const auto add = [&](const std::string& name, std::vector<int> inputs) {
    return dag.node_at(dag.add_node(name, "Op", std::move(inputs), one)).outputs[0];
  };
  const int x = dag.add_input("x", ten_rows);
  const int a = add("a", {x});
  const int b = add("b", {a});
  const int c = add("c", {b});
  add("d", {c, a});
  return dag;
}

TEST(Segment, names_what_crosses_its_boundary) {
  const Dag dag = with_skip();
  const auto id = [&](const char* name) { return dag.tensor(name); };
  const Segment middle = graph::plan_segment(dag, 1, 3);
  EXPECT_EQ(middle.boundary_inputs, std::vector<int>{id("a")});
  EXPECT_EQ(middle.boundary_outputs, std::vector<int>{id("c")});
  EXPECT_EQ(middle.backward_reads, std::vector<int>{id("a")});
  EXPECT_EQ(middle.output_gradients, std::vector<int>{id("c")});
  EXPECT_EQ(middle.input_gradients, std::vector<int>{id("a")});
  EXPECT_EQ(middle.input_gradient_accumulates, std::vector<bool>{true}) << "d wrote it before";
  EXPECT_EQ(middle.parameters, (std::vector<int>{1, 2}));
  EXPECT_EQ(middle.uses, (std::vector<int>{1, 2}));

  const Segment last = graph::plan_segment(dag, 3, 4);
  EXPECT_EQ(last.boundary_inputs, (std::vector<int>{id("a"), id("c")}));
  EXPECT_EQ(last.boundary_outputs, std::vector<int>{id("d")}) << "a result, since nobody reads it";
  EXPECT_EQ(last.input_gradients, (std::vector<int>{id("a"), id("c")}));
  EXPECT_EQ(last.input_gradient_accumulates, (std::vector<bool>{false, false}));

  const Segment first = graph::plan_segment(dag, 0, 1);
  EXPECT_TRUE(first.input_gradients.empty()) << "x is not differentiable";
}

TEST(Segment, counts_its_memory_exactly) {
  const Dag dag = with_skip();
  const Segment whole = graph::plan_segment(dag);
  EXPECT_EQ(whole.saved_bytes, 3 * row_bytes) << "a, b and c; d is the caller's";
  EXPECT_EQ(whole.forward_workspace_bytes, 0U);
  EXPECT_EQ(whole.inference_workspace_bytes, 3 * row_bytes) << "a lives beside b and c";
  EXPECT_EQ(whole.backward_workspace_bytes, 3 * row_bytes) << "the gradients of a, c and b";
  EXPECT_EQ(whole.gradient[static_cast<std::size_t>(dag.tensor("a"))].place, Place::workspace);
}

TEST(Segment, inference_reuses_memory_by_lifetime) {
  Dag dag;
  Signature one;
  one.outputs = {ten_rows};
  int x = dag.add_input("x", ten_rows, true);
  for (int n = 0; n < 9; ++n) {
    x = dag.node_at(dag.add_node("n" + std::to_string(n), "Op", {x}, one)).outputs[0];
  }
  const Segment segment = graph::plan_segment(dag);
  EXPECT_EQ(segment.saved_bytes, 8 * row_bytes);
  EXPECT_EQ(segment.inference_workspace_bytes, 2 * row_bytes) << "one is read, one is written";
  EXPECT_EQ(segment.backward_workspace_bytes, 2 * row_bytes);
}

TEST(Segment, what_runs_in_place_needs_no_memory_of_its_own) {
  Dag dag;
  Signature in_place;
  in_place.outputs = {ten_rows};
  in_place.backward_reads_inputs = false;
  in_place.forward_shares = {{0, 0}};
  in_place.gradient_shares = {{0, 0}};
  int x = dag.add_input("x", ten_rows, true);
  for (int n = 0; n < 9; ++n) {
    x = dag.node_at(dag.add_node("n" + std::to_string(n), "Op", {x}, in_place)).outputs[0];
  }
  const Segment segment = graph::plan_segment(dag);
  EXPECT_EQ(segment.saved_bytes, 0U);
  EXPECT_EQ(segment.forward_workspace_bytes, 0U) << "all lie in the result";
  EXPECT_EQ(segment.backward_workspace_bytes, row_bytes) << "that of the result is only read";
  const Segment middle = graph::plan_segment(dag, 3, 6);
  EXPECT_EQ(middle.backward_workspace_bytes, 0U) << "gradients that arrive are used up";
}

TEST(Segment, an_inner_node_without_a_path_to_the_loss_has_no_backward) {
  Dag dag = with_skip();
  Signature scalar;
  scalar.outputs = {{{}, Element::float32}};
  dag.set_loss(dag.node_at(dag.add_node("loss", "Mean", {dag.tensor("b")}, scalar)).outputs[0]);
  const Segment segment = graph::plan_segment(dag);
  EXPECT_TRUE(segment.plan(dag.node("a")).active);
  EXPECT_TRUE(segment.plan(dag.node("b")).active);
  EXPECT_FALSE(segment.plan(dag.node("c")).active);
  EXPECT_FALSE(segment.plan(dag.node("d")).active);
  EXPECT_EQ(segment.uses.size(), 4U) << "their gradients are zero, and are still written";
  EXPECT_EQ(segment.output_gradients, std::vector<int>{dag.loss});
}

TEST(Segment, the_empty_segment_has_nothing) {
  const Dag dag = with_skip();
  const Segment empty = graph::plan_segment(dag, 2, 2);
  EXPECT_TRUE(empty.boundary_inputs.empty());
  EXPECT_TRUE(empty.boundary_outputs.empty());
  EXPECT_EQ(empty.saved_bytes, 0U);
}

TEST(Segment, a_range_outside_the_graph_is_refused) {
  const Dag dag = with_skip();
  EXPECT_THROW(graph::plan_segment(dag, -1, 2), OptionError);
  EXPECT_THROW(graph::plan_segment(dag, 3, 2), OptionError);
  EXPECT_THROW(graph::plan_segment(dag, 0, 5), OptionError);
}

TEST(Placement, never_lets_two_that_live_together_overlap_and_stays_near_the_peak) {
  using graph::detail::Interval;
  for (std::uint32_t seed = 0; seed < 200; ++seed) {
    std::uint64_t draws = 0;
    const auto draw = [&](std::uint32_t below) {
      return static_cast<int>(random_bits({seed, 0, 0, 0}, draws++) % below);
    };
    std::vector<Interval> intervals;
    for (int i = 0; i < 40; ++i) {
      const int first = draw(30);
      intervals.push_back({static_cast<Bytes>(draw(5000)), first, first + draw(8), 0});
    }
    const Bytes total = graph::detail::place(intervals);
    Bytes peak = 0;
    for (int t = 0; t < 40; ++t) {
      Bytes live = 0;
      for (const Interval& a : intervals) {
        if (a.first <= t && t <= a.last) live += round_up(a.bytes, 64);
      }
      peak = std::max(peak, live);
    }
    EXPECT_GE(total, peak);
    EXPECT_LE(total, peak + peak / 2);
    for (std::size_t i = 0; i < intervals.size(); ++i) {
      const Interval& a = intervals[i];
      EXPECT_EQ(a.offset % 64, 0U);
      EXPECT_LE(a.offset + a.bytes, total);
      for (std::size_t j = 0; j < i; ++j) {
        const Interval& b = intervals[j];
        const bool together = a.first <= b.last && b.first <= a.last;
        const bool apart = a.offset + a.bytes <= b.offset || b.offset + b.bytes <= a.offset;
        EXPECT_TRUE(!together || apart || a.bytes == 0 || b.bytes == 0);
      }
    }
  }
}

TEST(Placement, intervals_of_one_size_are_placed_in_the_order_in_which_they_are_given) {
  std::vector<graph::detail::Interval> intervals(40, {.bytes = 64, .first = 0, .last = 1});
  EXPECT_EQ(graph::detail::place(intervals), 40U * 64);
  for (std::size_t i = 0; i < intervals.size(); ++i) EXPECT_EQ(intervals[i].offset, 64 * i);
}

// If each tensor is compared with all others, this is minutes, and the test's time is over.
TEST(Segment, plans_a_chain_of_two_hundred_thousand_nodes_at_once) {
  Dag dag;
  Signature signature;
  signature.outputs = {{{16}, Element::float32}};
  int x = dag.add_input("x", {{16}, Element::float32}, true);
  for (int n = 0; n < 200'000; ++n) x = dag.node_at(dag.add_node(concat("n", n), "Scale", {x}, signature)).outputs[0];
  const graph::Segment segment = graph::plan_segment(dag, 0, dag.node_count());
  EXPECT_EQ(segment.inference_workspace_bytes, 128U);  // one that is read and one that is written
}

}  // namespace
