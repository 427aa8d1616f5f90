#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include <reef/device/host.hpp>
#include <reef/nn/add.hpp>
#include <reef/nn/causal_attention.hpp>
#include <reef/nn/cross_entropy.hpp>
#include <reef/nn/gelu.hpp>
#include <reef/nn/gpt.hpp>
#include <reef/nn/host.hpp>
#include <reef/nn/kernels.hpp>
#include <reef/nn/layer_norm.hpp>
#include <reef/nn/linear.hpp>
#include <reef/torch.hpp>

#include "../laws/graph_runner.hpp"
#include "gpt_block.hpp"

// What a module may be, what is refused with its reason, and a GPT block beside the native one.

namespace torch_modules {

/// Two inputs, one of them integers, and two outputs.
struct ScaleImpl : torch::nn::Module {
  ScaleImpl() { weight = register_parameter("weight", torch::full({3}, 2.0)); }
  std::tuple<torch::Tensor, torch::Tensor> forward(const torch::Tensor& x, const torch::Tensor& which) {
    return {x * weight.index_select(0, which).unsqueeze(1), (x * x).sum()};
  }
  torch::Tensor weight;
};
TORCH_MODULE(Scale);

/// Keeps a count that it adds.
struct CountingImpl : torch::nn::Module {
  torch::Tensor forward(const torch::Tensor& x) { return x + ++calls; }
  int calls = 0;
};
TORCH_MODULE(Counting);

struct InPlaceImpl : torch::nn::Module {
  torch::Tensor forward(const torch::Tensor& x) {
    at::Tensor own = x.detach();
    own.mul_(2);
    return own + 0;
  }
};
TORCH_MODULE(InPlace);

/// Gives others time to come between what it draws and what it reads.
struct PatientImpl : torch::nn::Module {
  PatientImpl() { linear = register_module("linear", torch::nn::Linear(4, 4)); }
  torch::Tensor forward(const torch::Tensor& x) {
    const auto drawn = torch::rand_like(x);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return linear(x) + drawn * torch::rand_like(x);
  }
  torch::nn::Linear linear{nullptr};
};
TORCH_MODULE(Patient);

/// Reads neither its second input nor one of its parameters.
struct IgnoringImpl : torch::nn::Module {
  IgnoringImpl() {
    used = register_parameter("used", torch::ones({4}));
    unused = register_parameter("unused", torch::ones({4}));
  }
  torch::Tensor forward(const torch::Tensor& x, const torch::Tensor& /*y*/) { return x * used; }
  torch::Tensor used, unused;
};
TORCH_MODULE(Ignoring);

struct IntegersImpl : torch::nn::Module {
  torch::Tensor forward(const torch::Tensor& x) { return x.argmax(-1); }
};
TORCH_MODULE(Integers);

/// Misbehaves in one of many ways.
struct WrongImpl : torch::nn::Module {
  enum class Way { undefined, five_axes, integer, error_of_reef };
  explicit WrongImpl(Way how) : way(how) {}
  torch::Tensor forward(const torch::Tensor& x) {
    switch (way) {
      case Way::undefined: return {};
      case Way::five_axes: return x.view({3, 4, 1, 1, 1}) * 1;
      case Way::integer: throw 42;
      case Way::error_of_reef: throw reef::OptionError("a word of the module's own");
    }
    return x * 1;
  }
  Way way;
};
TORCH_MODULE(Wrong);

struct SharedWeightImpl : torch::nn::Module {
  SharedWeightImpl() {
    first = register_module("first", torch::nn::Linear(torch::nn::LinearOptions(4, 4).bias(false)));
    second = register_parameter("second", first->weight);
  }
  torch::Tensor forward(const torch::Tensor& x) { return first(x) + x.matmul(second); }
  torch::nn::Linear first{nullptr};
  torch::Tensor second;
};
TORCH_MODULE(SharedWeight);

struct NoForwardImpl : torch::nn::Module {
  torch::Tensor twice(const torch::Tensor& x) { return 2 * x; }
};

}  // namespace torch_modules

namespace {

TEST(TorchModule, stands_in_a_graph_as_its_page_shows) {
  namespace rt = reef::torch;  // not `using namespace reef`: `torch` would then have two meanings

  reef::graph::Graph<reef::device::Host, float> g;
  const int x = g.input("x", {{32, 64}, reef::Element::float32});
  const int labels = g.input("labels", {{32}, reef::Element::int32});
  const torch::nn::Sequential body(torch::nn::Linear(64, 64), torch::nn::GELU());
  const int h = g.add("body", rt::Module(body), {x})[0];
  const int y = g.add("head", reef::nn::Linear{.features = 10}, {h})[0];
  g.loss(g.add("loss", reef::nn::CrossEntropy{}, {y, labels})[0]);

  EXPECT_EQ(g.dag().parameter_count(), 64 * 65 + 65 * 10);
}

}  // namespace

namespace reef::test {
namespace {

using device::Host;
using testing::HasSubstr;
namespace nn_of_torch = ::torch::nn;

/// A graph of one node whose inputs are (3, 4).
template <real T = float>
graph::Graph<Host, T> alone(const torch::Module& module, bool differentiable = true, Shape shape = {3, 4}) {
  graph::Graph<Host, T> g(2);
  g.add("op", module, {g.input("x", {shape, element_of<T>}, differentiable)});
  return g;
}

std::string refusal(const torch::Module& module, Shape shape = {3, 4}) {
  try {
    alone(module, true, shape);
  } catch (const ShapeError& error) {
    return error.what();
  }
  return "none";
}

TEST(TorchModule, has_the_parameters_of_its_modules_with_their_names_and_values) {
  ::torch::manual_seed(5);
  const nn_of_torch::Sequential sequence(nn_of_torch::Linear(4, 6), nn_of_torch::LayerNorm(nn_of_torch::LayerNormOptions({6})));
  const auto g = alone(torch::Module(sequence));
  std::vector<std::string> names;
  for (const graph::Parameter& parameter : g.dag().parameters) names.push_back(parameter.name);
  EXPECT_THAT(names, testing::ElementsAre("op.0.weight", "op.0.bias", "op.1.weight", "op.1.bias"));
  const graph::Parameter& weight = g.dag().parameter_at(0);
  EXPECT_EQ(weight.spec.shape, Shape({6, 4}));
  EXPECT_TRUE(weight.decay && weight.linear);
  EXPECT_FALSE(g.dag().parameter_at(1).decay || g.dag().parameter_at(2).decay || g.dag().parameter_at(2).linear);
  std::vector<float> values(24);
  graph::initialise(weight, {}, values.data());
  const at::Tensor given = sequence->named_parameters()["0.weight"].contiguous();
  EXPECT_TRUE(std::equal(values.begin(), values.end(), given.data_ptr<float>()));
  EXPECT_EQ(g.dag().node_at(0).signature.forward_flops, 2.0 * 3 * 4 * 6);
  EXPECT_EQ(g.dag().node_at(0).signature.backward_flops, 3 * 2.0 * 3 * 4 * 6);
}

TEST(TorchModule, has_several_inputs_and_outputs_of_which_some_are_integers) {
  graph::Graph<Host, double> g(1);
  const int x = g.input("x", {{3, 4}, Element::float64}, true);
  const int which = g.input("which", {{3}, Element::int32});
  const std::vector<int> outputs = g.add("op", torch::Module(torch_modules::Scale()), {x, which});
  ASSERT_EQ(outputs.size(), 2U);
  EXPECT_EQ(g.dag().tensor_at(outputs[0]).spec, (graph::TensorSpec{{3, 4}, Element::float64}));
  EXPECT_EQ(g.dag().tensor_at(outputs[1]).spec, (graph::TensorSpec{{}, Element::float64}));
  Host host({.threads = 1});
  EXPECT_LT(gradient_error(host, g, 3, {}).first, 1e-7);
  const torch::Module with_function(std::make_shared<torch_modules::NoForwardImpl>(),
                                    [](torch_modules::NoForwardImpl& module, const torch::Tensors& in) {
                                      return torch::Tensors{module.twice(in[0]), in[0].sum()};
                                    });
  EXPECT_EQ(alone(with_function).dag().node_at(0).outputs.size(), 2U);
}

TEST(TorchModule, gives_what_it_does_not_read_a_gradient_of_zeros) {
  graph::Graph<Host, double> g(1);
  const graph::TensorSpec rows{{3, 4}, Element::float64};
  g.add("op", torch::Module(torch_modules::Ignoring()), {g.input("x", rows, true), g.input("y", rows, true)});
  Host host({.threads = 1});
  GraphRunner<Host, double> runner(host, g);
  const auto outcome = run_once(runner, Point<double>::make(g.dag(), 1));
  EXPECT_EQ(outcome.at("gradient of y"), std::vector<double>(12));
  EXPECT_EQ(outcome.at("gradient of use 1 of op.unused"), std::vector<double>(4));
  EXPECT_NE(outcome.at("gradient of use 0 of op.used"), std::vector<double>(4));
}

TEST(TorchModule, counts_a_parameter_with_two_names_once_and_what_is_frozen_not) {
  const auto tied = alone<double>(torch::Module(torch_modules::SharedWeight()));
  EXPECT_EQ(tied.dag().parameters.size(), 1U);
  Host host({.threads = 1});
  EXPECT_LT(gradient_error(host, tied, 1, {}).first, 1e-7);
  nn_of_torch::Linear frozen(4, 4);
  frozen->weight.set_requires_grad(false);
  const auto half = alone<double>(torch::Module(frozen));
  ASSERT_EQ(half.dag().parameters.size(), 1U);
  EXPECT_EQ(half.dag().parameter_at(0).name, "op.bias");
  EXPECT_LT(gradient_error(host, half, 1, {}).first, 1e-7);
  // What it is frozen at is a part of the model, as ranks and checkpoints compare it.
  nn_of_torch::Linear other(4, 4);
  {
    const ::torch::NoGradGuard no_gradients;
    other->weight.copy_(frozen->weight + 1);
    other->weight.set_requires_grad(false);
  }
  const auto attributes = [](const auto& g) { return g.dag().node_at(0).signature.attributes; };
  EXPECT_NE(attributes(alone<double>(torch::Module(other))), attributes(half));
}

TEST(TorchModule, leaves_the_module_the_generator_and_the_threads_as_they_were) {
  const nn_of_torch::Linear linear(4, 4);
  const at::Tensor before = linear->weight.detach().clone();
  const void* const address = linear->weight.data_ptr();
  const auto generator = at::detail::getDefaultCPUGenerator();
  const at::Tensor state = generator.get_state();
  at::set_num_threads(2);
  const auto g = alone(torch::Module(nn_of_torch::Sequential(linear, nn_of_torch::Dropout(0.5))));
  Host host({.threads = 1});
  GraphRunner<Host, float> runner(host, g);
  run_once(runner, Point<float>::make(g.dag(), 1));
  EXPECT_EQ(linear->weight.data_ptr(), address);
  EXPECT_TRUE(linear->weight.equal(before));
  EXPECT_TRUE(linear->weight.requires_grad());
  EXPECT_TRUE(generator.get_state().equal(state));
  EXPECT_EQ(at::get_num_threads(), 2);
}

TEST(TorchModule, drops_by_seed_sample_and_node_alone) {
  const auto g = alone(torch::Module(nn_of_torch::Dropout(0.5)));
  Host host({.threads = 1});
  GraphRunner<Host, float> runner(host, g);
  const auto point = Point<float>::make(g.dag(), 1);
  const auto dropped = [&](const DrawKey& key) { return run_once(runner, point, key); };
  const auto wanted = dropped({.seed = 1, .sample = 4});
  ::torch::manual_seed(77);
  ::torch::rand({5});
  EXPECT_EQ(dropped({.seed = 1, .sample = 4}), wanted);
  EXPECT_NE(dropped({.seed = 2, .sample = 4}), wanted);
  EXPECT_NE(dropped({.seed = 1, .sample = 8}), wanted);
}

TEST(TorchModule, that_several_lanes_call_at_once_gives_each_its_own_bits) {
  const auto g = alone(torch::Module(torch_modules::Patient()));
  const auto point = Point<float>::make(g.dag(), 1);
  Host host({.threads = 1});
  const auto of_sample = [&](std::uint64_t sample) {
    GraphRunner<Host, float> runner(host, g);
    auto own = point;
    for (auto& [id, values] : own.parameters) values[0] = static_cast<float>(sample);
    std::vector<Outcome<float>> outcomes;
    for (int i = 0; i < 4; ++i) outcomes.push_back(run_once(runner, own, {.seed = 1, .sample = sample}));
    return outcomes;
  };
  const std::vector<std::vector<Outcome<float>>> wanted{of_sample(0), of_sample(1), of_sample(2)};
  std::vector<std::vector<Outcome<float>>> got(3);
  {
    std::vector<std::jthread> threads;
    for (std::uint64_t s = 0; s < 3; ++s) threads.emplace_back([&, s] { got[s] = of_sample(s); });
  }
  EXPECT_EQ(got, wanted);
  EXPECT_NE(wanted[0], wanted[1]);
}

TEST(TorchModule, is_refused_with_its_reason) {
  EXPECT_THAT(refusal(torch::Module(nn_of_torch::BatchNorm1d(4))), HasSubstr("changes its buffer 'running_mean'"));
  EXPECT_THROW(alone<double>(torch::Module(nn_of_torch::InstanceNorm1d(nn_of_torch::InstanceNorm1dOptions(3).track_running_stats(true))), true, {2, 3, 4}), ShapeError);
  EXPECT_EQ(refusal(torch::Module(nn_of_torch::BatchNorm1d(nn_of_torch::BatchNorm1dOptions(4).track_running_stats(false)))), "none");
  EXPECT_THAT(refusal(torch::Module(torch_modules::Counting())), HasSubstr("other bits at a second call"));
  EXPECT_THAT(refusal(torch::Module(torch_modules::InPlace())), HasSubstr("writes to its input 0"));
  EXPECT_THAT(refusal(torch::Module(torch_modules::Integers())), HasSubstr("an output of torch_modules::IntegersImpl is Long"));
  const std::string shapes = refusal(torch::Module(nn_of_torch::Linear(5, 4)));
  EXPECT_THAT(shapes, HasSubstr("the node 'op' cannot be called with inputs of these shapes: torch::nn::LinearImpl: "));
  EXPECT_THAT(shapes, HasSubstr("mat1 and mat2 shapes cannot be multiplied"));
  EXPECT_THAT(shapes, testing::Not(HasSubstr("frame #")));
  const auto wrong = [](torch_modules::WrongImpl::Way way) { return refusal(torch::Module(torch_modules::Wrong(way))); };
  using Way = torch_modules::WrongImpl::Way;
  EXPECT_THAT(wrong(Way::undefined), HasSubstr("the node 'op': an output of torch_modules::WrongImpl is undefined"));
  EXPECT_THAT(wrong(Way::five_axes), HasSubstr("the node 'op': an output of torch_modules::WrongImpl has 5 axes"));
  EXPECT_THAT(wrong(Way::integer), HasSubstr("the node 'op' cannot be called with inputs of these shapes: torch_modules::WrongImpl: "
                                             "it has thrown what is no std::exception"));
  EXPECT_THAT(wrong(Way::error_of_reef), HasSubstr("the node 'op' cannot be called with inputs of these shapes: "
                                                   "torch_modules::WrongImpl: a word of the module's own"));
  graph::Graph<Host, float> g(1);
  const int x = g.input("x", {{3, 4}, Element::float32});
  EXPECT_THROW(g.add("op", torch::Module(nn_of_torch::Linear(4, 4)), {x, x}), ShapeError);
  EXPECT_THROW(torch::Module(nn_of_torch::Linear(4, 4), {.threads = 0}), OptionError);
  EXPECT_THROW(torch::Module(std::shared_ptr<torch_modules::CountingImpl>()), OptionError);
}

TEST(TorchModule, that_takes_more_memory_than_it_may_is_stopped) {
  const nn_of_torch::Sequential wide(nn_of_torch::Linear(4, 1000), nn_of_torch::ReLU(), nn_of_torch::Linear(1000, 4));
  const auto g = alone(torch::Module(wide));
  const Bytes needed = g.dag().node_at(0).signature.heap_bytes;
  EXPECT_GT(needed, 2 * 3 * 1000 * 4U);
  EXPECT_GT(alone<Bfloat16>(torch::Module(wide)).dag().node_at(0).signature.heap_bytes, needed + 2 * 4 * 4000 - 1);  // wide weights
  const auto run = [&](Bytes limit) {
    const auto limited = alone(torch::Module(wide, {.heap_bytes = limit}));
    Host host({.threads = 1});
    GraphRunner<Host, float> runner(host, limited);
    run_once(runner, Point<float>::make(limited.dag(), 1));
  };
  EXPECT_NO_THROW(run(needed));
  try {
    run(needed / 2);
    ADD_FAILURE() << "no exception";
  } catch (const graph::OperatorError& error) {
    EXPECT_THROW(std::rethrow_exception(error.cause()), MemoryError);
    EXPECT_THAT(error.what(), HasSubstr("took"));
  }
}

/// A GPT block of native operators, with the names of torch_modules::GptBlock.
template <real T>
graph::Graph<Host, T> native_block(std::int64_t C, std::int64_t heads, Shape shape) {
  graph::Graph<Host, T> g(1);
  const auto apply = [&](const char* name, auto op, int x) { return g.add(name, std::move(op), {x})[0]; };
  int x = g.input("x", {shape, element_of<T>}, true);
  int y = apply("ln_1", nn::LayerNorm{}, x);
  y = apply("c_attn", nn::Linear{3 * C, true, nn::Transpose::yes}, y);
  y = apply("attention", nn::CausalAttention{heads}, y);
  y = apply("c_proj", nn::Linear{C, true, nn::Transpose::yes}, y);
  x = g.add("residual", nn::Add{}, {x, y})[0];
  y = apply("ln_2", nn::LayerNorm{}, x);
  y = apply("c_fc", nn::Linear{4 * C, true, nn::Transpose::yes}, y);
  y = apply("act", nn::Gelu{}, y);
  y = apply("mlp_proj", nn::Linear{C, true, nn::Transpose::yes}, y);
  g.add("op", nn::Add{}, {x, y});
  return g;
}

/// Output, gradient of the input and of each parameter, by name, at one point.
template <real T>
std::map<std::string, std::vector<T>> results(const graph::Graph<Host, T>& g, const std::string& prefix) {
  Host host({.threads = 1});
  GraphRunner<Host, T> runner(host, g);
  const graph::Dag& dag = g.dag();
  runner.set(dag.tensor("x"), noise<T>(dag.tensor_at(dag.tensor("x")).spec.shape.size(), 1));
  std::map<std::string, int> parameters;
  for (std::size_t p = 0; p < dag.parameters.size(); ++p) {
    parameters[dag.parameters[p].name.substr(prefix.size())] = static_cast<int>(p);
  }
  std::uint32_t stream = 10;
  for (const auto& [name, p] : parameters) {
    runner.set_parameter(p, noise<T>(dag.parameter_at(p).spec.shape.size(), stream++));
  }
  runner.forward();
  runner.set_gradient(dag.tensor("op"), noise<T>(dag.tensor_at(dag.tensor("op")).spec.shape.size(), 2));
  std::map<std::string, std::vector<T>> result{{"output", runner.value(dag.tensor("op"))}};
  runner.backward();
  result["gradient of x"] = runner.gradient(dag.tensor("x"));
  for (const auto& [name, p] : parameters) result["gradient of " + name] = runner.parameter_gradient(p);
  return result;
}

/// The tolerance is in units of the rounding, of the largest element.
template <real T>
void expect_blocks_agree(double tolerance) {
  const std::int64_t C = 24, heads = 3;
  const Shape shape{2, 9, C};
  graph::Graph<Host, T> g(1);
  g.add("op", torch::Module(torch_modules::GptBlock(C, heads)), {g.input("x", {shape, element_of<T>}, true)});
  const auto torch = results(g, "op.");
  const auto native = results(native_block<T>(C, heads, shape), "");
  ASSERT_EQ(torch.size(), 14U);
  for (const auto& [name, values] : native) {
    EXPECT_LE(relative_error(torch.at(name), values), tolerance * std::numeric_limits<T>::epsilon()) << name;
  }
}

TEST(TorchModule, a_gpt_block_agrees_with_the_native_one_within_64_roundings_gradients_too) {
  expect_blocks_agree<float>(64);
  expect_blocks_agree<double>(64);
}

}  // namespace
}  // namespace reef::test
