#include <reef/torch/data_parallel.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include <reef/comm/communicator.hpp>

#include "counting_allocator.hpp"
#include "small_net.hpp"

// How a module and its loss become nodes: which parts of a Sequential are one, what their graphs take, and what is refused.

namespace torch_modules {

struct SplitImpl : torch::nn::Module {
  std::tuple<at::Tensor, at::Tensor> forward(const at::Tensor& x) { return {x, x.tanh()}; }
};
TORCH_MODULE(Split);

struct MergeImpl : torch::nn::Module {
  MergeImpl() { linear = register_module("linear", torch::nn::Linear(24, 24)); }
  at::Tensor forward(const std::tuple<at::Tensor, at::Tensor>& both) { return linear(std::get<0>(both)) + std::get<1>(both); }
  torch::nn::Linear linear{nullptr};
};
TORCH_MODULE(Merge);

/// x *= scale.
struct ScaleInPlaceImpl : torch::nn::Module {
  ScaleInPlaceImpl() { scale = register_parameter("scale", torch::full({24}, 0.5)); }
  at::Tensor forward(at::Tensor x) { return x.mul_(scale); }
  at::Tensor scale;
};
TORCH_MODULE(ScaleInPlace);

/// (B, 24) to five axes.
struct FiveAxesImpl : torch::nn::Module {
  at::Tensor forward(const at::Tensor& x) { return x.view({-1, 2, 2, 3, 2}); }
};
TORCH_MODULE(FiveAxes);

/// The place of the largest: integers.
struct LargestImpl : torch::nn::Module {
  at::Tensor forward(const at::Tensor& x) { return x.argmax(1); }
};
TORCH_MODULE(Largest);

}  // namespace torch_modules

namespace reef::test {
namespace {

namespace nn_of_torch = ::torch::nn;
using testing::HasSubstr;
using OfParts = optim::Ddp<optim::AdamW>;

const comm::Communicator& own_communicator() {
  static const comm::Communicator self = comm::Communicator().split(world_rank(), 0, "self");
  return self;
}

template <class M, class Loss>
auto parts_training(const std::shared_ptr<M>& net, const Loss& loss, Bytes node_bytes = 1, rt::ModuleOptions of_module = {}) {
  auto options = net_options<OfParts>();
  options.node_bytes = node_bytes;
  options.module = of_module;
  options.device.threads = 1;
  return rt::data_parallel(net, loss, batch_of(0), options, &own_communicator());
}

/// The net that `make` makes, in as many nodes as it allows, trains as one node does.
template <class Make>
void expect_nodes(const Make& make, int nodes) {
  const auto net = [&] {
    ::torch::manual_seed(8);
    return make().ptr();
  };
  auto in_parts = parts_training(net(), loss_of);
  EXPECT_EQ(in_parts.trainer().model().dag().node_count(), nodes);
  auto whole = parts_training(net(), loss_of, 1_GiB);
  EXPECT_EQ(whole.trainer().model().dag().node_count(), 1);
  const NetOutcome outcome = outcome_after(in_parts, 2);
  EXPECT_EQ(outcome, outcome_after(whole, 2));
  EXPECT_NE(outcome.losses[0], outcome.losses[1]);
}

using nn_of_torch::Linear;
using nn_of_torch::Sequential;

TEST(DataParallelParts, that_pass_each_other_a_tuple_are_one) {
  expect_nodes([] { return Sequential(Linear(12, 24), torch_modules::Split(), torch_modules::Merge(), Linear(24, 24), Linear(24, 5)); }, 3);
}

TEST(DataParallelParts, that_pass_each_other_five_axes_are_one) {
  expect_nodes([] { return Sequential(Linear(12, 24), Linear(24, 24), torch_modules::FiveAxes(), Linear(2, 2), nn_of_torch::Flatten(), Linear(24, 5)); }, 3);
}

TEST(DataParallelParts, that_pass_each_other_integers_are_one) {
  expect_nodes([] { return Sequential(Linear(12, 24), torch_modules::Largest(), nn_of_torch::Embedding(24, 24), Linear(24, 5)); }, 2);
}

TEST(DataParallelParts, of_which_one_writes_into_what_the_other_gives_are_one) {
  expect_nodes([] { return Sequential(Linear(12, 24), Linear(24, 24), torch_modules::ScaleInPlace(), Linear(24, 5)); }, 3);
  expect_nodes([] { return Sequential(Linear(12, 24), Linear(24, 24), torch_modules::ScaleInPlace()); }, 2);  // the last of them
}

TEST(DataParallelParts, that_are_refused_are_told_by_their_children) {
  const auto build = [](const Sequential& net) { return [net] { parts_training(net.ptr(), loss_of); }; };
  expect_error<ShapeError>(build(Sequential(Linear(12, 24), Linear(23, 8), Linear(8, 5))),
                           "node_bytes that make one node of it all. This is the part children.1 of the Sequential");
  expect_error<ShapeError>(build(Sequential(Linear(12, 24), nn_of_torch::BatchNorm1d(24), Linear(24, 5))), "changes its buffer '1.running_mean'");
  // Nothing is before the first, to which it might belong.
  expect_error<ShapeError>(build(Sequential(nn_of_torch::ReLU(nn_of_torch::ReLUOptions(true)), Linear(12, 24), Linear(24, 5))),
                           "writes to its input 0");
}

TEST(DataParallelParts, with_a_loss_that_cannot_be_trained_are_refused_with_the_reason) {
  using Loss = std::function<at::Tensor(const at::Tensor& output, const rt::Tensors& batch)>;
  const auto refused = [](const Loss& loss, const std::string& text) {
    for (const Bytes node_bytes : {Bytes{1}, 1_GiB}) {
      expect_error<ShapeError>([&] { parts_training(small_net(), loss, node_bytes); }, text);
    }
  };
  refused([](const at::Tensor&, const rt::Tensors&) { return at::Tensor(); }, "the node 'loss': the loss of torch::nn::SequentialImpl is undefined");
  refused([](const at::Tensor&, const rt::Tensors&) { return at::ones({}); }, "does not depend on any parameter that is trained");
  refused([](const at::Tensor&, const rt::Tensors& batch) { return batch[0].mean(); }, "does not depend on any parameter that is trained");
  refused([](const at::Tensor& y, const rt::Tensors& batch) { return loss_of(y.detach(), batch); }, "does not depend on any parameter that is trained");
  refused([](const at::Tensor& y, const rt::Tensors&) { return y.pow(2).mean(1); }, "the loss of torch::nn::SequentialImpl has 6 numbers");
  refused([](const at::Tensor& y, const rt::Tensors&) { return y.argmax(); }, "the loss of torch::nn::SequentialImpl is Long");
  refused([](const at::Tensor&, const rt::Tensors&) -> at::Tensor { throw 42; }, "torch::nn::SequentialImpl: it has thrown what is no std::exception");
}

/// What libtorch holds at most in a step.
template <class Training>
Bytes measured(Training& training) {
  training.step(batch_of(0));
  const rt::Tensors batch = batch_of(1);
  return torch_memory_of([&] { training.step(batch); });
}

/// A chain keeps the graph of each node until its backward: they add up, and the estimate knows.
TEST(DataParallelParts, take_no_more_memory_than_is_stated_for_the_whole_chain) {
  const auto deep = [] {
    Sequential net(Linear(12, 64));
    for (int i = 0; i < 6; ++i) {
      net->push_back(Linear(64, 64));
      net->push_back(nn_of_torch::GELU());
    }
    net->push_back(Linear(64, 5));
    return net.ptr();
  };
  const auto stated = [](auto& training) {
    return std::decay_t<decltype(training.trainer())>::estimate(training.trainer().model(), training.trainer().options()).heap_bytes;
  };
  auto keeps = parts_training(deep(), loss_of);
  ASSERT_EQ(keeps.trainer().model().dag().node_count(), 8);
  auto repeats = parts_training(deep(), loss_of, 1, {.keeps_graph = false});
  const Bytes taken = measured(keeps);
  EXPECT_LE(taken, stated(keeps));
  EXPECT_GT(2 * taken, stated(keeps));
  EXPECT_GT(taken, stated(repeats));  // of one node alone
  EXPECT_LE(measured(repeats), stated(repeats));
}

}  // namespace
}  // namespace reef::test
