#include <reef/torch/data_parallel.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <reef/comm/communicator.hpp>
#include <reef/comm/mpi.hpp>
#include <reef/trainer/checkpoint.hpp>

#include "small_net.hpp"

// Where batches come from: what draws random numbers, what throws, and of which types tensors are.

namespace torch_modules {

/// Gives others time to come between what it draws and what it draws next.
struct SlowNoiseImpl : torch::nn::Module {
  SlowNoiseImpl() { linear = register_module("linear", torch::nn::Linear(12, 5)); }
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor drawn = torch::rand_like(x);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    return linear(x + drawn * torch::rand_like(x));
  }
  torch::nn::Linear linear{nullptr};
};

/// Two threads that wait for each other, until a deadline.
class Meeting {
public:
  /// Whether the other has come.
  bool arrive() {
    std::unique_lock lock(mutex_);
    ++here_;
    changed_.notify_all();
    return changed_.wait_until(lock, deadline_, [&] { return here_ == 2; });
  }

private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int here_ = 0;
  std::chrono::steady_clock::time_point deadline_ = std::chrono::steady_clock::now() + std::chrono::seconds(120);
};

/// Goes to a meeting in its next forward.
struct MeetingNetImpl : torch::nn::Module {
  MeetingNetImpl() { linear = register_module("linear", torch::nn::Linear(12, 5)); }
  at::Tensor forward(const at::Tensor& x) {
    if (meeting != nullptr) has_met = std::exchange(meeting, nullptr)->arrive();
    return linear(x);
  }
  torch::nn::Linear linear{nullptr};
  Meeting* meeting = nullptr;
  bool has_met = false;
};

}  // namespace torch_modules

namespace reef::test {
namespace {

using testing::HasSubstr;
using OneByOne = optim::Ddp<optim::AdamW>;

/// batch_of, after it has drawn some numbers for a while; notes the first of each micro-batch.
struct DrawingBatches {
  rt::Tensors operator()(std::uint64_t micro_batch) const {
    for (int i = 0; i < 4; ++i) {
      const at::Tensor drawn = at::rand({64});
      if (i == 0) (*first)[micro_batch] = drawn[0].item<float>();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return batch_of(micro_batch);
  }
  std::shared_ptr<std::map<std::uint64_t, float>> first = std::make_shared<std::map<std::uint64_t, float>>();
};

auto noisy_training(const comm::Communicator& ranks, int micro_batches, std::uint64_t seed = 11) {
  ::torch::manual_seed(5);
  auto options = net_options<OneByOne>(micro_batches);
  options.seed = seed;
  return rt::data_parallel(std::make_shared<torch_modules::SlowNoiseImpl>(), loss_of, batch_of(0), options, &ranks);
}

TEST(DataParallelBatches, that_draw_random_numbers_change_none_of_the_modules) {
  const comm::Communicator self = comm::Communicator().split(world_rank(), 0, "self");
  auto quiet = noisy_training(self, 6);
  auto drawing = noisy_training(self, 6);
  const at::Tensor state = at::detail::getDefaultCPUGenerator().get_state();
  for (int step = 0; step < 3; ++step) EXPECT_EQ(drawing.step(DrawingBatches()).loss, quiet.step(batch_of).loss);
  EXPECT_TRUE(at::detail::getDefaultCPUGenerator().get_state().equal(state));
}

TEST(DataParallelBatches, draw_by_seed_and_micro_batch_whatever_modules_and_ranks_there_are) {
  const comm::Communicator world;
  const comm::Communicator self = world.split(world.rank(), 0, "self");
  const auto drawn = [](const comm::Communicator& ranks, int micro_batches, std::uint64_t seed, bool evaluates) {
    auto training = noisy_training(ranks, micro_batches, seed);
    const DrawingBatches batches;
    evaluates ? static_cast<void>(training.evaluate(batches)) : static_cast<void>(training.step(batches));
    return *batches.first;
  };
  const auto wanted = drawn(self, world.size(), 11, false);
  EXPECT_EQ(wanted.size(), static_cast<std::size_t>(world.size()));
  const auto mine = drawn(world, 1, 11, false);
  ASSERT_EQ(mine.size(), 1U);
  EXPECT_EQ(mine.begin()->second, wanted.at(mine.begin()->first));
  EXPECT_NE(drawn(self, 1, 12, false).at(0), wanted.at(0));
  EXPECT_NE(drawn(self, 1, 11, true).at(0), wanted.at(0));
  if (world.size() > 1) {
    EXPECT_NE(wanted.at(1), wanted.at(0));
  }
}

rt::Tensors with_noise(const rt::Tensors& batch, const at::Tensor& noise) { return {batch[0] + 0.1 * noise, batch[1]}; }

rt::Tensors noisy_by_default(std::uint64_t micro_batch) { return with_noise(batch_of(micro_batch), at::randn({6, 12})); }

rt::Tensors noisy_by_generator(std::uint64_t micro_batch, at::Generator& random) {
  return with_noise(batch_of(micro_batch), at::randn({6, 12}, random));
}

TEST(DataParallelBatches, that_take_a_generator_draw_the_numbers_of_those_that_do_not) {
  const comm::Communicator self = comm::Communicator().split(world_rank(), 0, "self");
  const auto outcome = [&](const rt::NextBatch& next) {
    auto training = rt::data_parallel(small_net(0.1), loss_of, batch_of(0), net_options<OneByOne>(2), &self);
    const NetOutcome of_steps = outcome_after(training, 2, next);
    return std::pair(of_steps, training.evaluate(next, 2));
  };
  const auto wanted = outcome(noisy_by_default);
  EXPECT_EQ(outcome(noisy_by_generator), wanted);
  EXPECT_NE(outcome(batch_of), wanted);
}

TEST(DataParallelBatches, that_take_a_generator_give_the_same_run_on_any_ranks_and_after_a_resume) {
  const comm::Communicator world;
  const comm::Communicator self = world.split(world.rank(), 0, "self");
  const SharedFolder folder("data_parallel_batches");
  auto options = net_options<OneByOne>(2);
  const auto training = [&](const comm::Communicator& ranks) {
    return rt::data_parallel(small_net(0.1), loss_of, batch_of(0), options, &ranks);
  };
  auto spread = training(world);
  auto resumed = training(world);
  options.virtual_ranks = world.size();
  auto alone = training(self);
  EXPECT_EQ(outcome_after(spread, 2, noisy_by_generator), outcome_after(alone, 2, noisy_by_generator));
  checkpoint::save(spread.trainer(), folder.path());
  EXPECT_TRUE(checkpoint::resume(resumed.trainer(), folder.path()).has_value());
  EXPECT_EQ(outcome_after(resumed, 2, noisy_by_generator), outcome_after(alone, 2, noisy_by_generator));
}

TEST(DataParallelBatches, that_take_a_generator_are_made_while_a_module_is_called) {
  const comm::Communicator self = comm::Communicator().split(world_rank(), 0, "self");
  const auto net = std::make_shared<torch_modules::MeetingNetImpl>();
  auto training = rt::data_parallel(net, loss_of, batch_of(0), net_options<OneByOne>(2), &self);
  torch_modules::Meeting meeting;
  net->meeting = &meeting;
  bool has_met = false;
  training.step([&](std::uint64_t micro_batch, at::Generator& /*random*/) {
    if (micro_batch == 1) has_met = meeting.arrive();
    return batch_of(micro_batch);
  });
  EXPECT_TRUE(has_met) << "in 30 s no forward began while the function gave the second batch";
  EXPECT_TRUE(net->has_met) << "in 30 s the function did not give the second batch while the forward of the first went on";
}

static_assert(std::is_convertible_v<decltype(&noisy_by_default), rt::NextBatch>);
static_assert(std::is_convertible_v<decltype(&noisy_by_generator), rt::NextBatch>);
static_assert(!std::is_convertible_v<rt::Tensors, rt::NextBatch>);
static_assert(!std::is_convertible_v<rt::Tensors (*)(std::uint64_t, int&), rt::NextBatch>);

enum class Throws { std_exception, of_libtorch, integer };

void expect_to_be_told(Throws thrown, bool evaluates) {
  const comm::Communicator world;
  auto options = net_options<OneByOne>(2);
  options.communication.abort_on_deadline = false;
  auto training = rt::data_parallel(small_net(), loss_of, batch_of(0), options, &world);
  MPI_Barrier(MPI_COMM_WORLD);  // else the failure may overtake the end of the constructor elsewhere
  const int last = world.size() - 1;
  const auto number = static_cast<std::uint64_t>(2 * last + 1);  // of the last one's second micro-batch
  const auto next = [&](std::uint64_t micro_batch) {
    if (micro_batch != number) return batch_of(micro_batch);
    if (thrown == Throws::integer) throw 42;
    TORCH_CHECK(thrown != Throws::of_libtorch, "the file has gone");
    throw std::runtime_error("the file has gone");
  };
  const std::string words = concat("reef::torch::DataParallel::", evaluates ? "evaluate" : "step",
                                   ": the function that gives batches has failed on rank ", last, ", for micro-batch ", number, ": ",
                                   thrown == Throws::integer ? "it has thrown what is no std::exception" : "the file has gone");
  try {
    evaluates ? static_cast<void>(training.evaluate(next)) : static_cast<void>(training.step(next));
    ADD_FAILURE() << "no exception";
  } catch (const std::exception& error) {
    EXPECT_THAT(error.what(), HasSubstr(words));
    EXPECT_THAT(error.what(), testing::Not(HasSubstr("frame #")));
    const auto* const own = dynamic_cast<const rt::BatchError*>(&error);
    EXPECT_EQ(own != nullptr, world.rank() == last);
    EXPECT_EQ(dynamic_cast<const comm::PeerError*>(&error) != nullptr, world.rank() != last);
    if (own != nullptr && thrown == Throws::integer) {
      EXPECT_THROW(std::rethrow_exception(own->cause()), int);
    }
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

TEST(DataParallelBatches, whose_function_throws_end_the_step_on_all_ranks_with_the_rank_and_the_micro_batch) {
  expect_to_be_told(Throws::std_exception, false);
  expect_to_be_told(Throws::of_libtorch, false);
  expect_to_be_told(Throws::integer, false);
  expect_to_be_told(Throws::std_exception, true);
}

TEST(DataParallelBatches, whose_weight_throws_are_told_too) {
  const comm::Communicator self = comm::Communicator().split(world_rank(), 0, "self");
  auto options = net_options<OneByOne>();
  options.communication.abort_on_deadline = false;
  options.weight = [](const rt::Tensors& /*batch*/) -> double { throw std::runtime_error("no weight"); };
  auto training = rt::data_parallel(small_net(), loss_of, batch_of(0), options, &self);
  expect_error<rt::BatchError>([&] { training.step(batch_of(0)); }, "the weight of a batch has failed on rank 0, for micro-batch 0: no weight");
}

TEST(DataParallelBatches, are_held_one_at_a_time_in_an_evaluation) {
  const comm::Communicator self = comm::Communicator().split(world_rank(), 0, "self");
  auto training = rt::data_parallel(small_net(), loss_of, batch_of(0), net_options<OneByOne>(2), &self);
  std::vector<c10::weak_intrusive_ptr<at::TensorImpl, at::UndefinedTensorImpl>> given;
  std::ptrdiff_t most = 0;
  training.evaluate(
      [&](std::uint64_t micro_batch) {
        most = std::max(most, std::ranges::count_if(given, [](const auto& batch) { return !batch.expired(); }));
        const rt::Tensors batch = batch_of(micro_batch);
        given.emplace_back(batch[0].getIntrusivePtr());
        return batch;
      },
      3);
  EXPECT_EQ(given.size(), 6U);
  EXPECT_LE(most, 1);
}

TEST(DataParallelBatches, are_made_with_the_modules_threads_and_gradients) {
  const comm::Communicator self = comm::Communicator().split(world_rank(), 0, "self");
  auto options = net_options<OneByOne>();
  options.module.threads = 3;
  auto training = rt::data_parallel(small_net(), loss_of, batch_of(0), options, &self);
  const auto checked = [](std::uint64_t micro_batch) {
    EXPECT_EQ(at::get_num_threads(), 3);
    EXPECT_TRUE(at::GradMode::is_enabled());
    return batch_of(micro_batch);
  };
  training.step(checked);
  training.step([&](std::uint64_t micro_batch, const at::Generator& /*random*/) { return checked(micro_batch); });
}

/// Rows whose mask is true, and how often each counts.
at::Tensor masked_loss(::torch::nn::LinearImpl& module, const rt::Tensors& batch) {
  TORCH_CHECK(batch[1].scalar_type() == at::kBool && batch[2].scalar_type() == at::kByte, "of other types than the batch's");
  const at::Tensor rows = module.forward(batch[0]).masked_fill(~batch[1].unsqueeze(1), 0);
  return (rows * batch[2].to(at::kFloat).unsqueeze(1)).pow(2).mean();
}

TEST(DataParallelBatches, have_bools_and_bytes_as_the_module_wants_them_and_lose_no_number) {
  const comm::Communicator self = comm::Communicator().split(world_rank(), 0, "self");
  const at::Tensor x = batch_of(0)[0];
  const at::Tensor mask = at::arange(6).remainder(2).eq(0);
  const at::Tensor counts = at::arange(6).to(at::kByte);
  ::torch::manual_seed(5);
  ::torch::nn::Linear linear(12, 5);
  auto options = net_options<OneByOne>();
  options.communication.abort_on_deadline = false;
  auto training = rt::data_parallel(linear, masked_loss, {x, mask, counts}, options, &self);
  const double wanted = masked_loss(*linear, {x, mask, counts}).item<double>();
  EXPECT_NEAR(training.evaluate([&](std::uint64_t) { return rt::Tensors{x, mask, counts}; }), wanted, 1e-6 * wanted);
  // As numbers of another type that a byte has.
  EXPECT_NEAR(training.step({x, mask.to(at::kLong), counts.to(at::kLong)}).loss, wanted, 1e-6 * wanted);
  expect_error<Error>([&] { training.step({x, mask, counts.to(at::kLong) + 300}); },
                      "tensor 2 of a batch has the number 300, on rank 0, for micro-batch 1.\n  why: those of the example were bytes or bools");
}

}  // namespace
}  // namespace reef::test
