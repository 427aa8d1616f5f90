#include <reef/torch/data_parallel.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>

#include <reef/comm/communicator.hpp>
#include <reef/comm/mpi.hpp>
#include <reef/trainer/checkpoint.hpp>

#include "small_net.hpp"

namespace torch_modules {

/// Two inputs that cross, a weight that is used twice, one that is frozen, and a count of calls.
struct PairedImpl : torch::nn::Module {
  PairedImpl() {
    mixed = register_module("mixed", torch::nn::Linear(4, 4));
    frozen = register_module("frozen", torch::nn::Linear(4, 2));
    for (at::Tensor& tensor : frozen->parameters()) tensor.set_requires_grad(false);
    scale = register_buffer("scale", torch::full({1}, 0.5));
  }
  at::Tensor loss(const at::Tensor& a, const at::Tensor& b) {
    ++calls;
    if (calls == fails_at) throw std::runtime_error("the pair has come apart");
    return (frozen(torch::tanh(mixed(a)) * mixed(b)) * scale).pow(2).mean();
  }
  torch::nn::Linear mixed{nullptr}, frozen{nullptr};
  at::Tensor scale;
  int calls = 0;
  int fails_at = -1;
};

}  // namespace torch_modules

namespace reef::test {
namespace {

using testing::HasSubstr;
using torch_modules::PairedImpl;
using Ddp = optim::Ddp<optim::AdamW>;
using Zero1 = optim::Zero1<optim::AdamW>;

template <class Options>
auto net_training(const Options& options, const comm::Communicator& ranks, double dropout = 0, std::uint64_t seed = 5) {
  return rt::data_parallel(small_net(dropout, seed), loss_of, batch_of(0), options, &ranks);
}

NetOutcome wanted_of(const comm::Communicator& self, int ranks, int micro_batches, double dropout) {
  auto options = net_options<Ddp>(micro_batches);
  options.virtual_ranks = ranks;
  options.module.keeps_graph = false;
  auto alone = net_training(options, self, dropout);
  return outcome_after(alone, 3);
}

/// Random numbers are by sample: with them too ranks, the sharding of the state and a graph that is kept change no bit.
TEST(DataParallel, has_the_bits_of_one_process_that_calls_each_forward_twice) {
  const comm::Communicator world;
  const comm::Communicator self = world.split(world.rank(), 0, "self");
  const NetOutcome wanted = wanted_of(self, world.size(), 2, 0.1);
  EXPECT_NE(wanted.losses[0], wanted.losses[1]);
  auto replicas = net_training(net_options<Ddp>(2), world, 0.1);
  EXPECT_GT(replicas.trainer().model().dag().node_count(), 2);
  EXPECT_EQ(outcome_after(replicas, 3), wanted);
  auto shards = net_training(net_options<Zero1>(2), world, 0.1);
  EXPECT_EQ(outcome_after(shards, 3), wanted);
}

TEST(DataParallel, parts_of_a_sequential_change_no_bit) {
  const comm::Communicator self = comm::Communicator().split(world_rank(), 0, "self");
  auto options = net_options<Ddp>();
  auto in_parts = net_training(options, self);
  options.node_bytes = 1_GiB;
  auto whole = net_training(options, self);
  EXPECT_EQ(whole.trainer().model().dag().node_count(), 1);
  EXPECT_EQ(in_parts.trainer().model().dag().node_count(), 4);
  EXPECT_EQ(outcome_after(in_parts, 2), outcome_after(whole, 2));
}

/// Dropout and a batch norm in evaluation mode stay in it, whatever is evaluated between steps.
TEST(DataParallel, keeps_the_modes_that_submodules_were_given_in) {
  namespace nn = ::torch::nn;
  const comm::Communicator self = comm::Communicator().split(world_rank(), 0, "self");
  const auto outcome = [&](bool evaluates) {
    ::torch::manual_seed(5);
    nn::BatchNorm1d norm(24);
    nn::Dropout dropout(0.5);
    const nn::Sequential net(nn::Linear(12, 24), norm, dropout, nn::Linear(24, 5));
    norm->eval();
    dropout->eval();
    auto training = rt::data_parallel(net.ptr(), loss_of, batch_of(0), net_options<Ddp>(), &self);
    NetOutcome result;
    for (int i = 0; i < 3; ++i) {
      result.losses.push_back(training.step(batch_of(7)).loss);
      if (evaluates) static_cast<void>(training.evaluate(batch_of));
    }
    result.tensors = {std::vector<float>(norm->running_mean.data_ptr<float>(), norm->running_mean.data_ptr<float>() + 24)};
    return result;
  };
  const NetOutcome without = outcome(false);
  EXPECT_EQ(without.tensors[0], std::vector<float>(24, 0.0F));
  EXPECT_EQ(outcome(true), without);
}

rt::Tensors pair_of(std::uint64_t micro_batch) {
  const at::Tensor x = (at::arange(24, at::kFloat) * (0.2 + 0.1 * static_cast<double>(micro_batch))).sin();
  return {x.slice(0, 0, 12).view({3, 4}), x.slice(0, 12, 24).view({3, 4})};
}

at::Tensor pair_loss(PairedImpl& module, const rt::Tensors& batch) { return module.loss(batch[0], batch[1]); }

std::shared_ptr<PairedImpl> paired() {
  ::torch::manual_seed(2);
  return std::make_shared<PairedImpl>();
}

/// Plain SGD without clipping, as libtorch does it.
TEST(DataParallel, takes_the_steps_of_libtorch) {
  const comm::Communicator world;
  rt::DataParallelOptions<optim::Ddp<optim::Sgd>> options;
  options.learning_rate = {.peak = 0.1};
  options.clip_norm = 0;
  options.device.threads = 1;
  auto training = rt::data_parallel(paired(), pair_loss, pair_of(0), options, &world);

  const auto plain = paired();
  ::torch::optim::SGD optimizer(plain->mixed->parameters(), ::torch::optim::SGDOptions(0.1));
  const auto ranks = static_cast<std::uint64_t>(world.size());
  for (std::uint64_t step = 0; step < 3; ++step) {
    const double loss = training.step(pair_of(step * ranks + static_cast<std::uint64_t>(world.rank()))).loss;
    optimizer.zero_grad();
    at::Tensor sum = at::zeros({});
    for (std::uint64_t r = 0; r < ranks; ++r) sum = sum + pair_loss(*plain, pair_of(step * ranks + r));
    const at::Tensor mean = sum / static_cast<double>(ranks);
    mean.backward();
    optimizer.step();
    EXPECT_NEAR(loss, mean.item<double>(), 1e-6);
  }
  const auto trained = training.module();
  for (const auto& entry : plain->named_parameters()) {
    EXPECT_TRUE(at::allclose(trained->named_parameters()[entry.key()], entry.value(), 1e-5, 1e-6)) << entry.key();
  }
  EXPECT_FALSE(at::equal(trained->mixed->weight, paired()->mixed->weight));
}

TEST(DataParallel, calls_a_forward_once_a_micro_batch_where_its_graph_is_kept) {
  const comm::Communicator self = comm::Communicator().split(world_rank(), 0, "self");
  const auto calls = [&](const rt::ModuleOptions& options_of_module) {
    auto options = net_options<Ddp>(3);
    options.module = options_of_module;
    const auto module = paired();
    auto training = rt::data_parallel(module, pair_loss, pair_of(0), options, &self);
    module->calls = 0;
    training.step(pair_of);
    return module->calls;
  };
  EXPECT_EQ(calls({}), 3);
  EXPECT_EQ(calls({.heap_bytes = 1_GiB}), 3);  // to say something else does not turn it off
  EXPECT_EQ(calls({.keeps_graph = true}), 3);
  EXPECT_EQ(calls({.keeps_graph = false}), 6);
}

TEST(DataParallel, evaluates_in_evaluation_mode_the_weights_that_the_module_is_given) {
  const comm::Communicator world;
  auto training = net_training(net_options<Zero1>(), world, 0.5);
  training.step(batch_of);
  const double loss = training.evaluate(batch_of, 2);
  training.step(batch_of);
  EXPECT_NE(training.evaluate(batch_of, 2), loss);

  const double again = training.evaluate(batch_of, 2);
  const auto net = training.module();
  for (const auto& part : net->modules()) EXPECT_TRUE(part->is_training()) << part->name();
  net->eval();
  const ::torch::NoGradGuard no_gradients;
  double sum = 0;
  const auto count = static_cast<std::uint64_t>(2 * world.size());
  for (std::uint64_t i = 0; i < count; ++i) sum += loss_of(net->forward(batch_of(i)[0]), batch_of(i)).item<double>();
  EXPECT_NEAR(again, sum / static_cast<double>(count), 1e-6);
}

TEST(DataParallel, goes_on_from_a_state_dict_and_from_what_torch_saves) {
  const comm::Communicator world;
  auto first = net_training(net_options<Zero1>(), world);
  const NetOutcome learnt = outcome_after(first, 2);
  auto second = net_training(net_options<Zero1>(), world, 0, 6);
  EXPECT_NE(values_of(second.state_dict()), learnt.tensors);
  second.load_state_dict(first.state_dict());
  EXPECT_EQ(values_of(second.state_dict()), learnt.tensors);
  EXPECT_EQ(first.evaluate(batch_of), second.evaluate(batch_of));

  std::stringstream file;
  ::torch::save(first.module(), file);
  auto loaded = small_net(0, 7);
  ::torch::load(loaded, file);
  auto third = rt::data_parallel(loaded, loss_of, batch_of(0), net_options<Ddp>(), &world);
  EXPECT_EQ(values_of(third.state_dict()), learnt.tensors);
}

TEST(DataParallel, gives_a_state_dict_and_leaves_the_module_as_it_is) {
  const comm::Communicator world;
  const auto net = small_net();
  const at::Tensor before = net->parameters()[0].detach().clone();
  auto training = rt::data_parallel(net, loss_of, batch_of(0), net_options<Zero1>(), &world);
  training.step(batch_of);
  const rt::StateDict learnt = training.state_dict();
  EXPECT_TRUE(at::equal(net->parameters()[0], before));
  EXPECT_FALSE(at::equal(learnt["0.weight"], before));
  training.module();
  EXPECT_TRUE(at::equal(learnt["0.weight"], net->parameters()[0]));
}

/// One weight under two names.
struct TiedNet : ::torch::nn::Module {
  TiedNet() {
    first = register_module("first", ::torch::nn::Linear(::torch::nn::LinearOptions(12, 12).bias(false)));
    second = register_parameter("second", first->weight);
  }
  at::Tensor forward(const at::Tensor& x) { return first(x).matmul(second).slice(1, 0, 5); }
  ::torch::nn::Linear first{nullptr};
  at::Tensor second;
};

TEST(DataParallel, takes_a_parameter_of_two_names_by_either_and_refuses_two_values) {
  const comm::Communicator self = comm::Communicator().split(world_rank(), 0, "self");
  auto training = rt::data_parallel(std::make_shared<TiedNet>(), loss_of, batch_of(0), net_options<Ddp>(), &self);
  EXPECT_EQ(training.state_dict().size(), 2U);
  const auto tensors = [](std::initializer_list<std::pair<const char*, double>> values) {
    rt::StateDict result;
    for (const auto& [name, value] : values) result.insert(name, at::full({12, 12}, value));
    return result;
  };
  training.load_state_dict(tensors({{"second", 0.5}}));
  EXPECT_TRUE(at::equal(training.state_dict()["first.weight"], at::full({12, 12}, 0.5)));
  training.load_state_dict(tensors({{"first.weight", 0.25}, {"second", 0.25}}));
  expect_error<OptionError>([&] { training.load_state_dict(tensors({{"first.weight", 1}, {"second", 2}})); },
                            "'second' is the parameter 'first.weight' by another name, with other values");
  EXPECT_TRUE(at::equal(training.state_dict()["second"], at::full({12, 12}, 0.25)));
}

TEST(DataParallel, refuses_tensors_that_are_not_the_modules) {
  const comm::Communicator self = comm::Communicator().split(world_rank(), 0, "self");
  auto training = rt::data_parallel(paired(), pair_loss, pair_of(0), net_options<Ddp>(), &self);
  const rt::StateDict before = training.state_dict();
  EXPECT_EQ(before.size(), 5U);  // two parameters, two that are frozen, a buffer
  const auto changed = [&](const std::string& name, const at::Tensor& value) {
    rt::StateDict tensors;
    for (const auto& entry : before) {
      if (entry.key() != name) tensors.insert(entry.key(), at::zeros_like(entry.value()).copy_(entry.value()));
    }
    if (value.defined()) tensors.insert(name, value);
    return tensors;
  };
  const auto load = [&](const rt::StateDict& tensors) { return [&training, tensors] { training.load_state_dict(tensors); }; };
  expect_error<OptionError>(load(changed("mixed.bias", {})), "'mixed.bias' is missing");
  expect_error<OptionError>(load(changed("mixed.bias", at::zeros({5}))), "'mixed.bias' is Float[5], the module's Float[4]");
  expect_error<OptionError>(load(changed("other", at::zeros({5}))), "'other' is no tensor of the module");
  expect_error<OptionError>(load(changed("scale", at::ones({1}))), "'scale' is a constant of the module, with other values");
  EXPECT_EQ(values_of(training.state_dict()), values_of(before));
  training.load_state_dict(changed("mixed.bias", at::ones({4})));
  EXPECT_TRUE(at::equal(training.state_dict()["mixed.bias"], at::ones({4})));
}

TEST(DataParallel, refuses_batches_that_are_not_as_the_example) {
  const comm::Communicator self = comm::Communicator().split(world_rank(), 0, "self");
  const auto error_of = [&](const rt::Tensors& batch, const std::string& text) {
    auto options = net_options<Ddp>();
    options.communication.abort_on_deadline = false;
    auto training = net_training(options, self);
    expect_error<Error>([&] { training.step(batch); }, text);
  };
  const rt::Tensors good = batch_of(0);
  error_of({good[0]}, "a batch of 1 tensors, where the example has 2");
  error_of({good[0].slice(0, 0, 4), good[1]}, "tensor 0 of a batch is Float[4, 12], that of the example was Float[6, 12]");
  error_of({good[0], good[1].to(at::kFloat)}, "tensor 1 of a batch is Float[6]");
  error_of({good[0], good[1] + (std::int64_t{1} << 40)}, "integers travel as int32");
  error_of({good[0]}, "on rank 0, for micro-batch 0");
  expect_error<OptionError>([&] { rt::data_parallel(small_net(), loss_of, {}, net_options<Ddp>(), &self); }, "the example has no tensors");
  expect_error<OptionError>([&] { rt::data_parallel(std::shared_ptr<Net>(), loss_of, good, net_options<Ddp>(), &self); }, "there is no module");
}

TEST(DataParallel, says_that_a_step_takes_more_batches_than_it_was_given) {
  const comm::Communicator self = comm::Communicator().split(world_rank(), 0, "self");
  auto training = net_training(net_options<Ddp>(2), self);
  expect_error<Error>([&] { training.step(batch_of(0)); }, "step(next), with a function that gives one batch after another");
}

TEST(DataParallel, tells_all_ranks_what_a_module_throws_on_one) {
  if (world_size() < 2) GTEST_SKIP() << "there is nobody to be told";
  const comm::Communicator world;
  auto options = net_options<Ddp>(2);
  options.communication.abort_on_deadline = false;
  const auto module = paired();
  auto training = rt::data_parallel(module, pair_loss, pair_of(0), options, &world);
  training.step(pair_of);
  MPI_Barrier(MPI_COMM_WORLD);  // else the failure may overtake the end of the first step elsewhere
  const bool fails = world_rank() == 1;
  if (fails) module->fails_at = module->calls + 2;
  try {
    training.step(pair_of);
    ADD_FAILURE() << "no exception";
  } catch (const std::exception& error) {
    EXPECT_THAT(error.what(), HasSubstr("the pair has come apart"));
    EXPECT_THAT(error.what(), HasSubstr("micro-batch 1"));
    EXPECT_EQ(dynamic_cast<const comm::PeerError*>(&error) == nullptr, fails);
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

TEST(DataParallel, resumes_to_the_bits_of_the_undisturbed_run) {
  const comm::Communicator world;
  const SharedFolder folder("data_parallel");
  auto undisturbed = net_training(net_options<Zero1>(), world, 0.1);
  auto first = net_training(net_options<Zero1>(), world, 0.1);
  outcome_after(undisturbed, 2);
  outcome_after(first, 2);
  checkpoint::save(first.trainer(), folder.path());
  auto second = net_training(net_options<Zero1>(), world, 0.1, 9);
  EXPECT_TRUE(checkpoint::resume(second.trainer(), folder.path()).has_value());
  EXPECT_EQ(outcome_after(second, 2), outcome_after(undisturbed, 2));
}

}  // namespace
}  // namespace reef::test
