#include <reef/torch/module.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <exception>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include <reef/core/units.hpp>
#include <reef/device/host.hpp>

#include "../laws/graph_runner.hpp"
#include "gpt_block.hpp"

// A module that keeps the graph of its last forward: the bits of one that calls the forward again.

namespace reef::test {
namespace {

using device::Host;

/// A GPT block that drops, and counts how often it is called.
struct Counted {
  /// as_made: the module's parameters have the type that the graph computes in.
  explicit Counted(bool keeps, Bytes heap_bytes = 0, bool of_that_type = true) : as_made(of_that_type) {
    ::torch::manual_seed(3);
    options = {.heap_bytes = heap_bytes, .keeps_graph = keeps};
  }
  template <real T>
  graph::Graph<Host, T> graph() {
    torch_modules::GptBlock block(8, 2, 0.2);
    if (as_made && std::is_same_v<T, double>) block->to(at::kDouble);
    graph::Graph<Host, T> g(1);
    const auto function = [calls = calls, more = more](torch_modules::GptBlockImpl& module, const torch::Tensors& in) {
      ++*calls;
      const torch::Tensors outputs{module.forward(in[0])};
      if (*more) static_cast<void>(at::empty({4096}));
      return outputs;
    };
    g.add("op", torch::Module(block.ptr(), function, options), {g.input("x", {{2, 3, 8}, element_of<T>}, true)});
    *calls = 0;
    return g;
  }

  bool as_made;
  torch::ModuleOptions options;
  std::shared_ptr<int> calls = std::make_shared<int>(0);
  std::shared_ptr<bool> more = std::make_shared<bool>(false);  ///< a call takes 16 KiB beside
};

constexpr DrawKey first{.seed = 1, .sample = 2};
constexpr DrawKey second{.seed = 1, .sample = 4};

template <real T>
Outcome<T> outcome_of(bool keeps, int calls, bool as_made = true) {
  Counted counted(keeps, 0, as_made);
  const auto g = counted.graph<T>();
  Host host({.threads = 1});
  GraphRunner<Host, T> runner(host, g);
  const Outcome<T> outcome = run_once(runner, Point<T>::make(g.dag(), 1), first);
  EXPECT_EQ(*counted.calls, calls);
  return outcome;
}

TEST(KeptGraph, has_the_bits_of_a_second_forward_and_calls_none) {
  EXPECT_EQ(outcome_of<float>(true, 1), outcome_of<float>(false, 2));
  EXPECT_EQ(outcome_of<double>(true, 1), outcome_of<double>(false, 2));
  EXPECT_EQ(outcome_of<Bfloat16>(true, 1), outcome_of<Bfloat16>(false, 2));
  EXPECT_EQ(outcome_of<double>(true, 2, false), outcome_of<double>(false, 2, false));
}

/// What a backward makes after something has come between it and its forward.
template <class Between>
void expect_same_bits_after(int calls, const Between& between) {
  Counted counted(true);
  const auto g = counted.graph<float>();
  Host host({.threads = 1});
  GraphRunner<Host, float> runner(host, g);
  GraphRunner<Host, float> other(host, g);
  const auto point = Point<float>::make(g.dag(), 1);
  point.apply(runner);
  runner.forward(first);
  between(runner, other, point);
  *counted.calls = 0;
  point.apply_seeds(runner);
  runner.backward(first);
  EXPECT_EQ(*counted.calls, calls);
  const Outcome<float> wanted = outcome_of<float>(false, 2);
  for (std::size_t use = 0; use < g.dag().uses.size(); ++use) {
    const auto& name = g.dag().parameter_at(g.dag().uses[use].parameter).name;
    EXPECT_EQ(runner.use_gradient(static_cast<int>(use)), wanted.at("gradient of use " + std::to_string(use) + " of " + name)) << name;
  }
}

TEST(KeptGraph, is_not_that_of_another_micro_batch) {
  expect_same_bits_after(1, [](auto& runner, auto& /*other*/, const auto& /*point*/) { runner.forward(second); });
}

TEST(KeptGraph, is_not_that_of_the_same_micro_batch_in_other_memory) {
  expect_same_bits_after(1, [](auto& /*runner*/, auto& other, auto point) {
    for (auto& [id, values] : point.parameters) {
      for (float& value : values) value += 0.25F;
    }
    point.apply(other);
    other.forward(first);
  });
}

TEST(KeptGraph, is_gone_after_an_evaluation) {
  expect_same_bits_after(1, [](auto& runner, auto& /*other*/, const auto& /*point*/) { runner.forward(first, false); });
}

TEST(KeptGraph, serves_one_backward) {
  Counted counted(true);
  const auto g = counted.graph<float>();
  Host host({.threads = 1});
  GraphRunner<Host, float> runner(host, g);
  const auto point = Point<float>::make(g.dag(), 1);
  const Outcome<float> once = run_once(runner, point, first);
  point.apply_seeds(runner);
  runner.backward(first);
  EXPECT_EQ(*counted.calls, 2);
  EXPECT_EQ(runner.use_gradient(0), once.at("gradient of use 0 of " + g.dag().parameter_at(g.dag().uses[0].parameter).name));
}

/// What is said of a micro-batch under a limit: nothing where it keeps it.
std::string refusal_under(Bytes limit, bool more = false) {
  Counted counted(true, limit);
  const auto g = counted.graph<float>();
  *counted.more = more;
  Host host({.threads = 1});
  GraphRunner<Host, float> runner(host, g);
  try {
    run_once(runner, Point<float>::make(g.dag(), 1), first);
  } catch (const graph::OperatorError& error) {
    EXPECT_THROW(std::rethrow_exception(error.cause()), MemoryError);
    return error.what();
  }
  return "";
}

/// The least limit that a forward keeps.
Bytes least_of_forward(bool more = false) {
  Bytes too_low = 1;
  Bytes enough = 1_MiB;
  while (enough - too_low > 1) {
    const Bytes limit = (too_low + enough) / 2;
    (refusal_under(limit, more).find("the tensors of a forward of") != std::string::npos ? too_low : enough) = limit;
  }
  return enough;
}

/// The backward of a graph that is kept allocates less than its forward has: it passes any limit of that, unless what is kept
/// counts too.
TEST(KeptGraph, counts_towards_the_limit_of_a_backward) {
  const Bytes needed = Counted(true).graph<float>().dag().node_at(0).signature.heap_bytes;
  EXPECT_EQ(refusal_under(needed), "");
  const Bytes of_forward = least_of_forward();
  EXPECT_THAT(refusal_under(of_forward - 1), testing::HasSubstr("the tensors of a forward of torch_modules::GptBlockImpl took"));
  EXPECT_THAT(refusal_under(of_forward), testing::HasSubstr("the tensors of a backward of torch_modules::GptBlockImpl took"));
}

TEST(KeptGraph, makes_no_room_under_the_limit_of_the_call_that_drops_it) {
  const Bytes limit = least_of_forward(true) - 1;
  ASSERT_GT(limit, least_of_forward());
  Counted counted(true, limit);
  const auto g = counted.graph<float>();
  Host host({.threads = 1});
  GraphRunner<Host, float> runner(host, g);
  Point<float>::make(g.dag(), 1).apply(runner);
  runner.forward(first);
  *counted.more = true;
  EXPECT_THROW(runner.forward(second), graph::OperatorError);
}

/// A graph may save the copies in fp32 that a call makes of its weights.
TEST(KeptGraph, is_stated_with_the_weights_that_a_call_converts) {
  const auto kept = []<real T>(T /*of*/) {
    torch_modules::GptBlock block(8, 2, 0.2);
    const torch::Module module(block.ptr(), torch::ModuleOptions{.keeps_graph = true});
    graph::Graph<Host, T> g(1);
    g.add("op", module, {g.input("x", {{2, 3, 8}, element_of<T>}, true)});
    Bytes weights = 0;
    for (const auto& parameter : module.parameters()) weights += parameter.original.nbytes();
    return std::pair(g.dag().node_at(0).signature.kept_heap_bytes, weights);
  };
  const auto [of_fp32, weights] = kept(float{});
  EXPECT_GT(of_fp32, 0U);
  EXPECT_EQ(kept(Bfloat16{}).first, of_fp32 + weights);
}

}  // namespace
}  // namespace reef::test
