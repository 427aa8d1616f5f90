// Modules of libtorch on a GPU: in models beside native operators, and under data_parallel.

#include <reef/torch/data_parallel.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include <c10/cuda/CUDAFunctions.h>

#include <reef/comm/mpi.hpp>
#include <reef/nn/cuda.cuh>
#include <reef/optim/adamw.hpp>
#include <reef/optim/zero1.hpp>
#include <reef/pipeline/ordered.hpp>
#include <reef/swap/atom.hpp>
#include <reef/torch/cuda.hpp>
#include <reef/trainer/checkpoint.hpp>

#include "../support/small_gpt.hpp"
#include "mixed_model.hpp"
#include "small_net.hpp"

namespace torch_modules {

/// y = weight x frozen scale / count: a trained parameter, a frozen one, and buffers, one of integers. It counts its calls.
struct CountedImpl : torch::nn::Module {
  CountedImpl() {
    weight = register_parameter("weight", torch::ones({24}));
    frozen = register_parameter("frozen", torch::full({24}, 0.5), false);
    scale = register_buffer("scale", torch::full({24}, 4.0));
    count = register_buffer("count", torch::full({}, 2, torch::kLong));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    ++calls;
    was_deterministic = at::globalContext().deterministicAlgorithms();
    if (calls == fails_at) throw std::runtime_error("the fuse has blown");
    return weight * x * frozen * scale / count;
  }
  int calls = 0;
  int fails_at = -1;
  bool was_deterministic = false;
  torch::Tensor weight, frozen, scale, count;
};
TORCH_MODULE(Counted);

}  // namespace torch_modules

namespace reef::test {
namespace {

using device::Cuda;
using testing::HasSubstr;
using Zero1 = optim::Zero1<optim::AdamW>;
using Whole = Trainer<Cuda, Zero1>;
using HostWhole = Trainer<Zero1>;
using Bf16 = Trainer<Cuda, Zero1, precision::Bf16>;
using Staged = Trainer<Cuda, pipeline::Ordered, Zero1>;
using Swapped = Trainer<Cuda, swap::Atom<>, Zero1>;

/// The GPU, as libtorch calls it.
at::Device gpu() { return c10::cuda::getDefaultCUDAStream().device(); }

class TorchOnCuda : public testing::Test {
protected:
  static void SetUpTestSuite() { setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", 0); }

  void SetUp() override {
    std::string why;
    if (!device::cuda_available(&why)) GTEST_SKIP() << why;
    if (c10::cuda::device_count() == 0) GTEST_SKIP() << "libtorch finds no GPU";
  }

  comm::Communicator world_;
  comm::Communicator self_ = world_.split(world_.rank(), 0, "self");
};

template <class Tested>
auto trained(const typename Tested::Options& options, const comm::Communicator& ranks, const MixedModel<typename Tested::Device>& model) {
  Tested trainer(model(), small_source(), options, small_source(), ranks);
  return outcome_of(trainer, 3);
}

template <class Tested>
typename Tested::Options of_three() {
  auto options = small_options<Tested>();
  options.micro_batches = {3};
  if constexpr (requires { options.device.poison_freed; }) options.device.poison_freed = true;
  return options;
}

TEST_F(TorchOnCuda, a_mixed_model_has_the_losses_of_the_host) {
  const auto host = trained<HostWhole>(uneven_options<HostWhole>(), world_, {.dropout = 0});
  const auto cuda = trained<Whole>(uneven_options<Whole>(), world_, {.dropout = 0});
  for (std::size_t i = 0; i < host.losses.size(); ++i) {
    EXPECT_NEAR(cuda.losses[i], host.losses[i], 1e-4 * host.losses[i]) << "step " << i;
    EXPECT_NEAR(cuda.norms[i], host.norms[i], 1e-3 * host.norms[i]) << "step " << i;
  }
  EXPECT_LT(cuda.losses.back(), cuda.losses.front());
}

TEST_F(TorchOnCuda, a_mixed_model_has_the_same_bits_however_it_is_trained) {
  const auto wanted = trained<Whole>(of_three<Whole>(), self_, {});
  EXPECT_FALSE(wanted == trained<Whole>(of_three<Whole>(), self_, {.dropout = 0}));
  auto recomputed = of_three<Whole>();
  recomputed.activations = {Activations::recompute};
  EXPECT_EQ(trained<Whole>(recomputed, self_, {}), wanted);
  EXPECT_EQ(trained<Whole>(of_three<Whole>(), self_, {.options = {.keeps_graph = true}}), wanted);
  EXPECT_EQ(trained<Swapped>(of_three<Swapped>(), self_, {}), wanted);
  auto staged = of_three<Staged>();
  staged.topology = run::Topology(1, world_.size());
  staged.cuts = {2, 6};
  staged.pipeline.schedule = "1f1b";
  EXPECT_EQ(trained<Staged>(staged, world_, {}), wanted);
}

TEST_F(TorchOnCuda, a_mixed_model_resumes_with_the_bits_of_the_undisturbed_run) {
  const SharedFolder folder("torch-cuda");
  Whole first(MixedModel<Cuda>{}(), small_source(), small_options<Whole>(), small_source(), world_);
  outcome_of(first, 2);
  checkpoint::save(first, folder.path());
  Whole second(MixedModel<Cuda>{.seed = 4}(), small_source(), small_options<Whole>(), small_source(), world_);
  EXPECT_TRUE(checkpoint::resume(second, folder.path()).has_value());
  EXPECT_EQ(outcome_of(second, 2), outcome_of(first, 2));
}

TEST_F(TorchOnCuda, a_mixed_model_in_bf16_has_about_the_losses_of_fp32) {
  auto options = small_options<Bf16>();
  Bf16 trainer(MixedModel<Cuda, Bfloat16>{.dropout = 0}(), small_source(), options, small_source(), world_);
  const auto narrow = outcome_of(trainer, 3);
  const auto wide = trained<Whole>(small_options<Whole>(), world_, {.dropout = 0});
  for (std::size_t i = 0; i < wide.losses.size(); ++i) EXPECT_NEAR(narrow.losses[i], wide.losses[i], 0.02 * wide.losses[i]) << "step " << i;
}

/// The module and its batches, wherever they lie.
template <class Tested>
NetOutcome outcome_of_net(at::Device module, at::Device batches, double dropout = 0) {
  const std::shared_ptr<Net> net = small_net(dropout);
  net->to(module);
  const auto moved = [&](std::uint64_t micro_batch) {
    rt::Tensors batch = batch_of(micro_batch);
    for (at::Tensor& tensor : batch) tensor = tensor.to(batches);
    return batch;
  };
  auto training = [&] {
    if constexpr (std::is_same_v<Tested, HostWhole>) {
      return rt::data_parallel(net, loss_of, moved(0), net_options<Zero1>());
    } else {
      return rt::data_parallel(net, loss_of, moved(0), net_options<Cuda, Zero1>());
    }
  }();
  NetOutcome outcome;
  for (int i = 0; i < 3; ++i) {
    outcome.losses.push_back(training.step(moved).loss);
    outcome.losses.push_back(training.evaluate(moved));
  }
  rt::StateDict tensors;
  for (const auto& entry : training.state_dict()) {
    EXPECT_EQ(entry.value().device(), module) << entry.key();
    tensors.insert(entry.key(), entry.value().cpu());
  }
  outcome.tensors = values_of(tensors);
  training.load_state_dict(training.state_dict());
  EXPECT_EQ(training.module()->parameters()[0].device(), module);
  EXPECT_TRUE(at::equal(training.module()->parameters()[0].cpu(), tensors.begin()->value()));
  return outcome;
}

TEST_F(TorchOnCuda, data_parallel_trains_a_module_that_lies_anywhere_to_the_same_bits) {
  const NetOutcome host = outcome_of_net<HostWhole>(at::kCPU, at::kCPU);
  const NetOutcome cuda = outcome_of_net<Whole>(gpu(), gpu());
  for (std::size_t i = 0; i < host.losses.size(); ++i) EXPECT_NEAR(cuda.losses[i], host.losses[i], 1e-4 * host.losses[i]);
  EXPECT_EQ(outcome_of_net<Whole>(at::kCPU, gpu()), cuda);
  EXPECT_EQ(outcome_of_net<Whole>(gpu(), at::kCPU), cuda);
  const NetOutcome dropped = outcome_of_net<Whole>(gpu(), gpu(), 0.2);
  EXPECT_FALSE(dropped == cuda);
  EXPECT_EQ(outcome_of_net<Whole>(at::kCPU, gpu(), 0.2), dropped);
}

auto counted_training(const torch_modules::Counted& counted, const torch::ModuleOptions& module = {}) {
  namespace nn = ::torch::nn;
  ::torch::manual_seed(5);
  nn::Sequential net(nn::Linear(12, 24), counted, nn::Linear(24, 5));
  net->to(counted->weight.device());
  auto options = net_options<Cuda, Zero1>();
  options.module = module;
  options.communication.abort_on_deadline = false;
  return rt::data_parallel(net, loss_of, batch_of(0), options);
}

TEST_F(TorchOnCuda, a_graph_is_kept_where_the_module_lies_on_the_gpu) {
  std::vector<double> losses;
  for (const bool keeps : {true, false}) {
    torch_modules::Counted counted;
    counted->to(gpu());
    auto training = counted_training(counted, {.keeps_graph = keeps});
    const int before = counted->calls;
    losses.push_back(training.step(batch_of(0)).loss);
    losses.push_back(training.step(batch_of(1)).loss);
    EXPECT_EQ(counted->calls - before, keeps ? 2 : 4);
  }
  EXPECT_EQ(losses[0], losses[2]);
  EXPECT_EQ(losses[1], losses[3]);
}

TEST_F(TorchOnCuda, constants_are_copied_to_the_gpu_and_stay_in_the_module) {
  torch_modules::Counted there;
  there->to(gpu());
  torch_modules::Counted here;
  auto on_gpu = counted_training(there);
  auto on_host = counted_training(here);
  for (int step = 0; step < 2; ++step) EXPECT_EQ(on_host.step(batch_of).loss, on_gpu.step(batch_of).loss);
  // The copies are made once, whatever lanes come.
  auto again = counted_training(here);
  EXPECT_EQ(again.step(batch_of).loss, counted_training(there).step(batch_of).loss);
  EXPECT_TRUE(here->scale.is_cpu());
  EXPECT_EQ(here->count.item<std::int64_t>(), 2);
  EXPECT_TRUE(here->weight.is_cpu());
}

TEST_F(TorchOnCuda, data_parallel_learns) {
  const std::shared_ptr<Net> net = small_net();
  net->to(gpu());
  auto training = rt::data_parallel(net, loss_of, batch_of(0), net_options<Cuda, Zero1>());
  const double first = training.step(batch_of(1)).loss;
  for (int step = 0; step < 8; ++step) training.step(batch_of(1));
  EXPECT_LT(training.step(batch_of(1)).loss, 0.8 * first);
}

TEST_F(TorchOnCuda, generators_and_settings_are_as_before_after_a_step) {
  at::Generator generator = at::globalContext().defaultGenerator(gpu());
  const std::shared_ptr<Net> net = small_net(0.5);
  auto training = rt::data_parallel(net, loss_of, batch_of(0), net_options<Cuda, Zero1>());
  const at::Tensor before = generator.get_state();
  const double first = training.step(batch_of).loss;
  EXPECT_TRUE(at::equal(generator.get_state(), before));
  static_cast<void>(at::rand({3}, gpu()));
  auto again = rt::data_parallel(small_net(0.5), loss_of, batch_of(0), net_options<Cuda, Zero1>());
  EXPECT_EQ(again.step(batch_of).loss, first);
}

TEST_F(TorchOnCuda, libtorch_is_told_to_be_deterministic_for_the_time_of_a_call) {
  for (const bool wanted : {true, false}) {
    torch_modules::Counted counted;
    counted_training(counted, {.deterministic = wanted}).step(batch_of);
    EXPECT_EQ(counted->was_deterministic, wanted && !gpu().is_cpu());
    EXPECT_FALSE(at::globalContext().deterministicAlgorithms());
  }
}

TEST_F(TorchOnCuda, without_the_workspaces_that_libtorch_wants_a_node_is_refused) {
  unsetenv("CUBLAS_WORKSPACE_CONFIG");
  torch_modules::Counted counted;
  expect_error<OptionError>([&] { counted_training(counted); }, "before the process first uses CUDA; or ModuleOptions::deterministic = false");
  EXPECT_NO_THROW(counted_training(counted, {.deterministic = false}));
  SetUpTestSuite();
}

TEST_F(TorchOnCuda, an_exception_of_a_module_names_it_and_ends_the_step_on_all_ranks) {
  torch_modules::Counted counted;
  auto training = counted_training(counted);
  training.step(batch_of);
  if (world_.rank() == world_.size() - 1) counted->fails_at = counted->calls + 1;
  MPI_Barrier(MPI_COMM_WORLD);  // else the failure may overtake the end of the step elsewhere
  try {
    training.step(batch_of);
    ADD_FAILURE() << "no exception";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("the fuse has blown"));
    EXPECT_THAT(error.what(), HasSubstr("micro-batch"));
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

TEST_F(TorchOnCuda, a_call_above_its_limit_is_refused) {
  torch_modules::Counted counted;
  counted->to(gpu());
  expect_error<graph::OperatorError>([&] { counted_training(counted, {.heap_bytes = 64}).step(batch_of); }, "above heap_bytes, 64 B");
}

class TorchsTensorsOnCuda : public TorchOnCuda {};

TEST_F(TorchsTensorsOnCuda, on_several_devices_or_below_a_graph_of_the_host_are_refused) {
  torch_modules::Counted counted;
  counted->to(gpu());
  graph::Graph<device::Host, float> host;
  const int x = host.input("x", {{6, 24}, Element::float32});
  expect_error<ShapeError>([&] { host.add("counted", torch::Module(counted), {x}); }, "and the graph computes on a host");
  counted->frozen.set_data(counted->frozen.cpu());
  expect_error<ShapeError>([&] { torch::Module op(counted); }, "the tensor 'frozen' of torch_modules::CountedImpl lies on cpu, the first on cuda:0");
}

}  // namespace
}  // namespace reef::test
