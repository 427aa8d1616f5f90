#include <reef/graph/graph.hpp>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <reef/device/host.hpp>

#include "../laws/graph_runner.hpp"
#include "test_operators.hpp"

namespace {

using namespace reef;
using namespace reef::test;
using device::Host;
using HostGraph = graph::Graph<Host, double>;

static_assert(graph::operator_for<Scale, Host, float>);
static_assert(graph::operator_for<Fork, Host, double>);

const graph::TensorSpec doubles{{3, 4}, Element::float64};

std::vector<int> every_cut(const graph::Dag& dag) {
  std::vector<int> cuts;
  for (int cut = 1; cut < dag.node_count(); ++cut) cuts.push_back(cut);
  return cuts;
}

/// A DAG drawn by the seed: any operator on any earlier tensors, tied parameters, dead ends.
HostGraph random_graph(std::uint32_t seed) {
  std::uint64_t draws = 0;
  const auto draw = [&](std::size_t below) {
    return static_cast<std::size_t>(random_bits(DrawKey{seed, 0, 0, 0}, draws++)) % below;
  };
  HostGraph g(2);
  std::vector<int> pool = {g.input("a", doubles, true), g.input("b", doubles, true), g.input("c", doubles)};
  const auto pick = [&] {
    const std::size_t recent = pool.size() < 4 || draw(3) == 0 ? pool.size() : 4;
    return pool[pool.size() - 1 - draw(recent)];
  };
  const std::size_t nodes = 4 + draw(10);
  for (std::size_t n = 0; n < nodes; ++n) {
    const std::string name = "n" + std::to_string(n);
    std::vector<int> made;
    switch (draw(10)) {
      case 6: made = g.add(name, Exponential{}, {pick()}); break;
      case 7:
        made =
            g.add(name, SplitScale{}, {pick()},
                  draw(2) == 0 ? std::vector<std::string>{"shared"} : std::vector<std::string>{});
        break;
      case 0:
        made =
            g.add(name, Scale{}, {pick()},
                  draw(2) == 0 ? std::vector<std::string>{"shared"} : std::vector<std::string>{});
        break;
      case 1: made = g.add(name, Multiply{}, {pick(), pick()}); break;
      case 2: made = g.add(name, Fork{}, {pick()}); break;
      case 8: {
        const int twice = pick();
        made = g.add(name, Blend{}, draw(2) == 0 ? std::vector<int>{twice, twice} : std::vector<int>{twice, pick(), twice});
        break;
      }
      case 3: made = g.add(name, Square{}, {pick()}); break;
      default: made = g.add(name, Sum{}, {pick(), pick()}); break;
    }
    pool.insert(pool.end(), made.begin(), made.end());
  }
  if (draw(2) == 0) {
    g.loss(g.add("loss", MeanSquare{}, {pick()})[0]);
  }
  return g;
}

class RandomGraphs : public ::testing::TestWithParam<std::uint32_t> {};

TEST_P(RandomGraphs, have_the_gradients_of_finite_differences) {
  Host device({.threads = 2});
  const HostGraph g = random_graph(GetParam());
  const auto [error, whose] = gradient_error(device, g, 1);
  EXPECT_LT(error, 1e-7) << "the gradient of " << whose;
}

TEST_P(RandomGraphs, give_the_same_bits_however_they_are_cut) {
  Host device({.threads = 2});
  const HostGraph g = random_graph(GetParam());
  const Point<double> point = Point<double>::make(g.dag(), 1);
  GraphRunner<Host, double> apart(device, g, every_cut(g.dag()));
  const auto wanted = run_once(apart, point);
  GraphRunner<Host, double> whole(device, g);
  EXPECT_EQ(run_once(whole, point), wanted);
  for (const auto& [id, seed] : point.seeds) {
    if (g.dag().tensor_at(id).differentiable) {
      EXPECT_EQ(whole.gradient(id), seed) << "the gradient of a result was written";
    }
  }
  for (int cut = 1; cut < g.dag().node_count(); ++cut) {
    GraphRunner<Host, double> two(device, g, {cut});
    EXPECT_EQ(run_once(two, point), wanted) << "cut at " << cut;
  }
  GraphRunner<Host, double> thirds(device, g,
                                   {g.dag().node_count() / 3, 2 * g.dag().node_count() / 3});
  EXPECT_EQ(run_once(thirds, point), wanted);
}

TEST_P(RandomGraphs, give_the_same_bits_where_nothing_is_kept_and_all_is_computed_again) {
  Host device({.threads = 2});
  const HostGraph g = random_graph(GetParam());
  const Point<double> point = Point<double>::make(g.dag(), 1);
  GraphRunner<Host, double> whole(device, g);
  const auto wanted = run_once(whole, point);
  const int nodes = g.dag().node_count();
  for (const std::vector<int>& cuts :
       {std::vector<int>{}, std::vector<int>{nodes / 3, 2 * nodes / 3}, every_cut(g.dag())}) {
    GraphRunner<Host, double> again(device, g, cuts);
    again.recompute();
    EXPECT_EQ(run_once(again, point), wanted);
  }
}

TEST_P(RandomGraphs, give_the_same_bits_where_a_backward_has_halves) {
  Host device({.threads = 2});
  const HostGraph g = random_graph(GetParam());
  const Point<double> point = Point<double>::make(g.dag(), 1);
  GraphRunner<Host, double> whole(device, g);
  const int nodes = g.dag().node_count();
  for (const std::vector<int>& cuts :
       {std::vector<int>{}, std::vector<int>{nodes / 3, 2 * nodes / 3}, every_cut(g.dag())}) {
    GraphRunner<Host, double> halves(device, g, cuts, -1, graph::Halves::yes);
    for (const bool accumulate : {false, true}) {
      const auto wanted = run_once(whole, point, {}, accumulate);
      EXPECT_EQ(run_once(halves, point, {}, accumulate), wanted);
    }
    halves.recompute();
    EXPECT_EQ(run_once(halves, point), run_once(whole, point));
  }
}

TEST_P(RandomGraphs, have_the_gradients_of_the_others_where_parameters_are_frozen) {
  Host device({.threads = 2});
  const HostGraph g = random_graph(GetParam());
  HostGraph part = g;
  for (std::size_t p = GetParam() % 2; p < g.dag().parameters.size(); p += 2) part.freeze(g.dag().parameters[p].name);
  const Point<double> point = Point<double>::make(g.dag(), 1);
  GraphRunner<Host, double> of_all(device, g);
  const auto all = run_once(of_all, point);
  const int nodes = g.dag().node_count();
  for (const std::vector<int>& cuts :
       {std::vector<int>{}, std::vector<int>{nodes / 3, 2 * nodes / 3}, every_cut(g.dag())}) {
    for (const auto halves : {graph::Halves::no, graph::Halves::yes}) {
      for (const bool again : {false, true}) {
        GraphRunner<Host, double> runner(device, part, cuts, -1, halves);
        if (again) runner.recompute();
        for (const auto& [what, values] : run_once(runner, point)) EXPECT_EQ(values, all.at(what)) << what;
      }
    }
  }
}

TEST_P(RandomGraphs, infer_the_bits_of_training) {
  Host device({.threads = 2});
  const HostGraph g = random_graph(GetParam());
  const Point<double> point = Point<double>::make(g.dag(), 1);
  GraphRunner<Host, double> runner(device, g);
  const auto trained = run_once(runner, point);
  runner.forward({}, false);
  for (const auto& [id, seed] : point.seeds) {
    EXPECT_EQ(runner.value(id), trained.at("value of " + g.dag().tensor_at(id).name));
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomGraphs, ::testing::Range(0U, 40U));

TEST(Graph, a_thousand_drawn_graphs_give_the_same_bits_in_one_piece_and_node_by_node) {
  Host device({.threads = 1});
  for (std::uint32_t seed = 1000; seed < 2000; ++seed) {
    const HostGraph g = random_graph(seed);
    const Point<double> point = Point<double>::make(g.dag(), 1);
    GraphRunner<Host, double> apart(device, g, every_cut(g.dag()));
    GraphRunner<Host, double> whole(device, g);
    const auto wanted = run_once(whole, point);
    ASSERT_EQ(run_once(apart, point), wanted) << "seed " << seed;
    whole.recompute();
    ASSERT_EQ(run_once(whole, point), wanted) << "computed again, seed " << seed;
    GraphRunner<Host, double> halves(device, g, {}, -1, graph::Halves::yes);
    ASSERT_EQ(run_once(halves, point), wanted) << "in halves, seed " << seed;
  }
}

TEST(Graph, nodes_below_the_first_trained_parameter_have_no_backward) {
  HostGraph g(1);
  int x = g.add("first", Scale{}, {g.input("x", doubles)})[0];
  x = g.add("second", SplitScale{}, {x})[0];
  g.loss(g.add("loss", MeanSquare{}, {x})[0]);
  g.freeze("fir*");
  const graph::Segment whole = graph::plan_segment(g.dag());
  EXPECT_FALSE(whole.plan(0).active);
  EXPECT_TRUE(whole.plan(1).active);
  EXPECT_EQ(whole.uses, (std::vector<int>{1}));
  EXPECT_EQ(whole.parameters, (std::vector<int>{0, 1}));
  const graph::Segment below = graph::plan_segment(g.dag(), 0, 1);
  EXPECT_EQ(below.saved_bytes, 0U);
  EXPECT_EQ(below.backward_flops, 0);
  EXPECT_TRUE(below.output_gradients.empty());
  EXPECT_TRUE(graph::plan_segment(g.dag(), 1, 3).input_gradients.empty());
  g.freeze("*");
  for (const graph::NodePlan& node : graph::plan_segment(g.dag()).nodes) EXPECT_FALSE(node.active);
  EXPECT_THROW(g.freeze("third*"), OptionError);
}

TEST(Graph, a_segment_that_splits_has_no_whole_backward_and_one_that_does_not_has_no_halves) {
  HostGraph g(1);
  g.add("scale", SplitScale{}, {g.input("x", doubles, true)});
  const graph::Dag& dag = g.dag();
  const graph::SegmentBindings bindings(dag);
  Host device({.threads = 1});
  Host::Lane lane(device, "lane");
  const auto refuses = [&](graph::Halves halves, graph::BackwardPart part) {
    const graph::Segment segment = graph::plan_segment(dag, 0, 1, halves);
    EXPECT_THROW(g.backward(segment, bindings, lane, {}, false, part), OptionError);
  };
  refuses(graph::Halves::yes, graph::BackwardPart::all);
  refuses(graph::Halves::no, graph::BackwardPart::weight);
  refuses(graph::Halves::no, graph::BackwardPart::input);
  refuses(graph::Halves::yes, graph::BackwardPart::none);
}

TEST(Graph, an_output_that_nobody_uses_has_a_zero_gradient) {
  Host device({.threads = 1});
  HostGraph g(1);
  const int x = g.input("x", doubles, true);
  const int used = g.add("fork", Fork{}, {x})[1];
  g.loss(g.add("loss", MeanSquare{}, {used})[0]);
  GraphRunner<Host, double> runner(device, g);
  Point<double> point = Point<double>::make(g.dag(), 1);
  point.seeds[g.dag().loss] = {1.0};
  run_once(runner, point);
  const std::vector<double>& in = point.inputs.at(x);
  const std::vector<double> gradient = runner.gradient(x);
  for (std::size_t i = 0; i < in.size(); ++i) {
    EXPECT_NEAR(gradient[i], (in[i] / 2 + 0.25) / 12.0, 1e-15);
  }
}

TEST(Graph, a_parameter_without_a_path_to_the_loss_has_a_zero_gradient) {
  Host device({.threads = 1});
  HostGraph g(1);
  const int x = g.input("x", doubles, true);
  g.add("dead", Scale{}, {x});
  const int y = g.add("alive", Scale{}, {x})[0];
  g.loss(g.add("loss", MeanSquare{}, {y})[0]);
  GraphRunner<Host, double> runner(device, g);
  run_once(runner, Point<double>::make(g.dag(), 1));
  EXPECT_EQ(runner.use_gradient(0), std::vector<double>(4, 0.0));
  EXPECT_NE(runner.use_gradient(1), std::vector<double>(4, 0.0));
}

TEST(Graph, an_operator_that_reads_a_tensor_several_times_may_write_its_gradients_in_any_order) {
  // Whether x's gradient is begun by the operator itself, or by one behind it.
  for (const std::vector<bool>& reads_x :
       {std::vector<bool>{true, true}, {true, true, true}, {false, true, true}, {true, false, true}, {true, true, false}}) {
    for (const bool has_another_reader : {false, true}) {
      Host device({.threads = 1});
      HostGraph g(1);
      const int x = g.input("x", doubles, true);
      const int other = g.input("other", doubles, true);
      std::vector<int> inputs;
      double wanted = has_another_reader ? 1 : 0;
      for (std::size_t i = 0; i < reads_x.size(); ++i) {
        inputs.push_back(reads_x[i] ? x : other);
        if (reads_x[i]) wanted += static_cast<double>(i + 1) / 4;
      }
      int y = g.add("blend", Blend{}, inputs)[0];
      if (has_another_reader) y = g.add("sum", Sum{}, {y, x})[0];
      GraphRunner<Host, double> runner(device, g);
      runner.set(x, std::vector<double>(12, 3));
      runner.set(other, std::vector<double>(12, 5));
      runner.forward();
      runner.set_gradient(y, std::vector<double>(12, 1));
      runner.backward();
      EXPECT_EQ(runner.gradient(x), std::vector<double>(12, wanted))
          << "input " << testing::PrintToString(reads_x) << (has_another_reader ? ", and read once more" : "");
    }
  }
}

TEST(Graph, each_use_of_a_tied_parameter_has_its_own_gradient) {
  Host device({.threads = 1});
  HostGraph g(1);
  const int x = g.input("x", {{1, 1}, Element::float64}, true);
  const int y = g.add("first", Scale{}, {x}, {"w"})[0];
  g.add("second", Scale{}, {y}, {"w"});
  GraphRunner<Host, double> runner(device, g);
  runner.set(x, std::vector<double>{5});
  runner.set_parameter(0, {3});
  runner.forward();
  runner.set_gradient(g.dag().tensor("second"), {1});
  runner.backward();
  EXPECT_EQ(g.dag().parameters.size(), 1U);
  EXPECT_EQ(runner.use_gradient(0), std::vector<double>{15});  // d(x w w'')/dw at w = w'' = 3
  EXPECT_EQ(runner.use_gradient(1), std::vector<double>{15});
}

TEST(Graph, the_gradient_of_the_loss_is_only_read) {
  Host device({.threads = 1});
  HostGraph g(1);
  const graph::TensorSpec scalar{{}, Element::float64};
  const int a = g.input("a", scalar, true);
  const int same = g.add("same", Sum{}, {a, g.input("zero", scalar)})[0];
  const int squared = g.add("square", Square{}, {same})[0];
  // The gradient of `same` begins as the loss's, and is then added to.
  g.loss(g.add("sum", Sum{}, {same, squared})[0]);
  GraphRunner<Host, double> runner(device, g);
  runner.set(a, std::vector<double>{3});
  runner.set(g.dag().tensor("zero"), std::vector<double>{0});
  runner.forward();
  runner.set_gradient(g.dag().loss, {0.5});
  runner.backward();
  EXPECT_EQ(runner.gradient(a), std::vector<double>{2});
  EXPECT_EQ(runner.gradient(g.dag().loss), std::vector<double>{0.5});
}

TEST(Graph, a_lane_with_more_threads_than_planned_is_refused) {
  Host device({.threads = 3});
  HostGraph g(2);
  const int x = g.input("x", doubles, true);
  g.add("scale", Scale{}, {x});
  GraphRunner<Host, double> runner(device, g);
  EXPECT_THROW(runner.forward(), OptionError);
}

TEST(Graph, missing_bindings_are_named) {
  Host device({.threads = 1});
  HostGraph g(1);
  const int x = g.input("x", doubles, true);
  const int y = g.add("block.scale", Scale{}, {x})[0];
  const graph::Segment segment = graph::plan_segment(g.dag());
  graph::SegmentBindings bindings(g.dag());
  std::vector<double> memory(64);
  const auto message = [&] {
    Host::Lane lane(device, "test");
    lane.submit([&](Host::Lane& l) { g.forward(segment, bindings, l, {}, graph::Forward::keeps); });
    try {
      lane.synchronize();
    } catch (const OptionError& error) {
      EXPECT_NE(std::string(error.what()).find("\n  fix: "), std::string::npos) << error.what();
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_NE(message().find("parameter 'block.scale.weight'"), std::string::npos) << message();
  bindings.parameter(0) = memory.data();
  EXPECT_NE(message().find("value of the tensor 'x'"), std::string::npos) << message();
  bindings.tensor(x) = memory.data() + 16;
  EXPECT_NE(message().find("value of the tensor 'block.scale'"), std::string::npos) << message();
  bindings.tensor(y) = memory.data() + 32;
  EXPECT_EQ(message(), "no error");
}

TEST(Graph, workspaces_grow_to_what_is_asked_and_do_not_shrink) {
  HostGraph g(1);
  const int x = g.input("x", doubles, true);
  g.add("two", Square{}, g.add("one", Scale{}, {x}));
  const std::vector<Bytes> own = g.workspaces();
  ASSERT_EQ(own.size(), 4U);
  g.enlarge_workspaces(std::vector<Bytes>{0, 640, own[2] + 64, 0});
  EXPECT_EQ(g.workspaces(),
            (std::vector<Bytes>{own[0], std::max<Bytes>(own[1], 640), own[2] + 64, own[3]}));
  EXPECT_GE(graph::plan_segment(g.dag()).backward_workspace_bytes, 640U);
  EXPECT_THROW(g.enlarge_workspaces(std::vector<Bytes>{1, 2, 3}), OptionError);
}

/// Scale, which makes something when it is first asked for its signature, as a module draws its weights.
struct Drawn : Scale {
  static constexpr std::string_view kind = "Drawn";
  mutable bool is_drawn = false;
  int* draws = nullptr;

  graph::Signature signature(const auto& call) const {
    if (!is_drawn) ++*draws;
    is_drawn = true;
    return Scale::signature(call);
  }
};

TEST(Graph, an_operator_remembers_that_it_was_asked_for_its_signature) {
  HostGraph g(1);
  const int x = g.input("x", doubles);
  int draws = 0;
  Drawn op;
  op.draws = &draws;
  static_cast<void>(g.signature("drawn", op, {x}));
  g.add("drawn", op, {x});
  EXPECT_EQ(draws, 1) << "what a graph reads from a file asks first, to name parameters";
}

TEST(Graph, an_operator_refuses_inputs_with_its_name_and_both_shapes) {
  HostGraph g(1);
  const int x = g.input("x", doubles);
  const int y = g.input("y", {{4, 3}, Element::float64});
  try {
    g.add("sum", Sum{}, {x, y});
    FAIL();
  } catch (const ShapeError& error) {
    const std::string text = error.what();
    for (const char* part : {"'sum'", "Sum", "'y'", "(4, 3)", "\n  fix: give it", "(3, 4)"}) {
      EXPECT_NE(text.find(part), std::string::npos) << part << " is not in: " << text;
    }
  }
  EXPECT_THROW(g.add("sum", Sum{}, {x}), ShapeError);
  EXPECT_THROW(g.add("sum", Sum{}, {x, 17}), ShapeError);
  EXPECT_TRUE(g.dag().nodes.empty());
  EXPECT_TRUE(g.dag().tensor_at(x).consumers.empty());
}

}  // namespace
