#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <ranges>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <reef/comm/functions.hpp>
#include <reef/comm/mpi.hpp>
#include <reef/nn/cross_entropy.hpp>
#include <reef/nn/embedding.hpp>
#include <reef/nn/linear.hpp>
#include <reef/pipeline/one_f_one_b.hpp>
#include <reef/trainer/checkpoint.hpp>

#include "../support/overlapping_trainers.hpp"
#include "../support/ranks.hpp"

// A Trainer of whose ranks one is late, or does not do what the others do. Signs of life have as long as they may need;
// what an operation may take is short, as it only counts where nobody is at work.

namespace reef::test {

namespace {

using testing::AnyOf;
using testing::HasSubstr;
using testing::Not;
using Plain = Trainer<optim::Ddp<optim::AdamW>>;
using Pipelined = Trainer<pipeline::OneFOneB<>, optim::Ddp<optim::AdamW>>;
using Overlapped = Trainer<optim::Acco<optim::AdamW>>;

constexpr std::int64_t vocabulary = 7;
constexpr Seconds of_operation = 2;
constexpr std::chrono::seconds long_work{7};

/// y = x, which takes long once.
struct Pause {
  static constexpr std::string_view kind = "Pause";
  std::chrono::seconds time{};
  std::shared_ptr<bool> paused = std::make_shared<bool>(false);

  graph::Signature signature(const auto& call) const {
    call.expect_inputs(1);
    graph::Signature result;
    result.outputs = {call.inputs[0]};
    return result;
  }

  void forward(const auto& call) const {
    if (!std::exchange(*paused, true)) std::this_thread::sleep_for(time);
    std::ranges::copy(call.input(0).span(), call.output(0).data());
  }

  void backward(const auto& call) const {
    const auto dy = call.output_gradient(0).span();
    const auto dx = call.input_gradient(0).span();
    for (std::size_t i = 0; i < dx.size(); ++i) dx[i] = (call.accumulates(0) ? dx[i] : 0) + dy[i];
  }
};

/// A bigram model that takes long once, in its middle.
Plain::Model model(std::chrono::seconds pause = {}) {
  Plain::Model g(1);
  const int tokens = g.input("tokens", {{2, 3}, Element::int32});
  const int targets = g.input("targets", {{2, 3}, Element::int32});
  int x = g.add("embedding", nn::Embedding{vocabulary, 3, 5}, {tokens})[0];
  x = g.add("pause", Pause{.time = pause}, {x})[0];
  x = g.add("head", nn::Linear{.features = vocabulary}, {x})[0];
  g.loss(g.add("loss", nn::CrossEntropy{}, {x, targets})[0]);
  return g;
}

double source(std::uint64_t first, std::span<const AnyView> inputs) {
  auto next = static_cast<std::int64_t>(first);
  for (const AnyView& input : inputs) {
    for (std::int32_t& token : input.as<std::int32_t>().span())
      token = static_cast<std::int32_t>(next++ % vocabulary);
  }
  return 1;
}

/// A source that takes long once, on rank 1.
run::Source slow_source() {
  return
      [paused = world_rank() != 1](std::uint64_t first, std::span<const AnyView> inputs) mutable {
        if (!std::exchange(paused, true)) std::this_thread::sleep_for(long_work);
        return source(first, inputs);
      };
}

template <class Tested>
typename Tested::Options options() {
  typename Tested::Options result;
  result.device.threads = 1;
  result.communication.deadline = 60;
  result.communication.heartbeat = 0.1;
  result.communication.operation_deadline = of_operation;
  result.communication.abort_on_deadline = false;
  return result;
}

/// As long as a rank computes it is late; where ranks wait for each other, it is known within seconds.
template <class Tested>
typename Tested::Options only_closed() {
  auto result = options<Tested>();
  result.communication.deadline = 5;
  result.communication.operation_deadline = 3600;
  return result;
}

/// What the steps say when they fail; "" if they do not.
template <class Tested>
std::string failure_of_steps(Tested& trainer, int steps = 3) {
  try {
    for (int step = 0; step < steps; ++step) trainer.step();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

// -- late --------------------------------------------------------------------------------------

TEST(LateRank, whose_source_takes_long_is_waited_for) {
  Plain trainer(model(), slow_source(), options<Plain>());
  EXPECT_EQ(failure_of_steps(trainer), "");
}

TEST(LateRank, whose_operator_takes_long_is_waited_for) {
  Plain trainer(model(world_rank() == 1 ? long_work : std::chrono::seconds{}), source,
                options<Plain>());
  EXPECT_EQ(failure_of_steps(trainer), "");
}

TEST(LateRank, of_a_pipeline_is_waited_for_by_receives_that_were_posted_long_before) {
  if (world_size() != 2) GTEST_SKIP() << "two stages";
  for (const int late : {0, 1}) {
    auto pipelined = options<Pipelined>();
    pipelined.topology = run::Topology(1, 2);
    pipelined.micro_batches = {4};
    // The model is the same on all ranks; the stage that has the operator is late.
    pipelined.topology->bounds = {0, late == 1 ? 1 : 2, 4};
    Pipelined trainer(model(long_work), source, pipelined);
    EXPECT_EQ(failure_of_steps(trainer, 2), "") << "stage " << late;
  }
}

TEST(LateRank, of_overlapped_rounds_is_waited_for) {
  Overlapped trainer(model(), slow_source(), options<Overlapped>());
  EXPECT_EQ(failure_of_steps(trainer), "");
}

TEST(LateRank, of_overlapped_rounds_that_adapt_is_waited_for) {
  auto adapts = options<Overlapped>();
  adapts.accumulation = Accumulation::adaptive();
  Overlapped trainer(model(), slow_source(), adapts);
  EXPECT_EQ(failure_of_steps(trainer), "");
}

TEST(LateRank, that_does_something_of_its_own_between_steps_may_say_so) {
  Plain trainer(model(), source, options<Plain>());
  EXPECT_EQ(failure_of_steps(trainer, 1), "");
  if (world_rank() == 1) {
    const comm::AtWork at_work(trainer.progress(), "sleeps");
    std::this_thread::sleep_for(long_work);
  }
  EXPECT_EQ(failure_of_steps(trainer), "");
}

// -- not late, but lost ------------------------------------------------------------------------

template <class Tested>
std::string text_where_rank_1_sets_a_weight(typename Tested::Options chosen) {
  Tested trainer(model(), source, chosen);
  std::string text = failure_of_steps(trainer, 1);
  EXPECT_EQ(text, "");
  const std::vector<float> ones(vocabulary, 1);
  if (world_rank() == 1) trainer.set_parameter("head.bias", ones);
  text = failure_of_steps(trainer);
  MPI_Barrier(MPI_COMM_WORLD);  // all have its report before a Trainer goes
  return text;
}

void expect_report_of_a_set_weight(const std::string& text) {
  EXPECT_THAT(text, HasSubstr("these ranks wait for each other"));
  EXPECT_THAT(
      text,
      HasSubstr("why: weights were set (parameter 'head.bias') before step 2, on rank 1 alone"));
}

TEST(LostRank, that_sets_weights_alone_is_named_with_what_it_set) {
  expect_report_of_a_set_weight(text_where_rank_1_sets_a_weight<Plain>(only_closed<Plain>()));
}

TEST(LostRank, is_found_also_by_ranks_that_compute_until_it_comes) {
  auto adapts = only_closed<Overlapped>();
  adapts.accumulation = Accumulation::adaptive();
  expect_report_of_a_set_weight(text_where_rank_1_sets_a_weight<Overlapped>(adapts));
}

TEST(LostRank, that_takes_a_step_less_is_named) {
  Plain trainer(model(), source, options<Plain>());
  const std::string text = failure_of_steps(trainer, world_rank() == 1 ? 1 : 2);
  if (world_rank() != 1) {
    EXPECT_THAT(text, HasSubstr("rank 1 is alive"));
    EXPECT_THAT(text, HasSubstr("did it leave this operation out?"));
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

TEST(LostRank, whose_source_waits_for_messages_of_a_rank_that_sends_none_is_found) {
  const auto chosen = only_closed<Plain>();
  comm::Progress* progress = nullptr;
  const auto waiting = [&](std::uint64_t first, std::span<const AnyView> inputs) {
    float one = 1;
    if (world_rank() == 0) comm::broadcast(*progress, "one", 0, std::span(&one, 1));
    return source(first, inputs);
  };
  Plain trainer(model(), waiting, chosen);
  progress = &trainer.progress();
  std::string text;
  try {
    trainer.step();
  } catch (const comm::MpiError& error) {  // not a SourceError: ranks have parted
    text = error.what();
  }
  EXPECT_THAT(text, AnyOf(HasSubstr("these ranks wait for each other"), HasSubstr("reported")));
  EXPECT_THAT(text, Not(HasSubstr("the source of rank")));
  MPI_Barrier(MPI_COMM_WORLD);
}

// -- sources -----------------------------------------------------------------------------------

/// Of rank 1 in its second step, and what the others hear of it.
void expect_failure_of_source(const run::Source& of_rank_1, const std::string& words) {
  const bool fails = world_rank() == 1;
  const int first = 2 * (world_size() + 1);  // of micro-batches of 2 samples
  const auto failing = [&](std::uint64_t sample, std::span<const AnyView> inputs) {
    return fails && sample >= static_cast<std::uint64_t>(first) ? of_rank_1(sample, inputs)
                                                                : source(sample, inputs);
  };
  Plain trainer(model(), failing, options<Plain>());
  const std::string told =
      concat("reef::run: the source of rank 1 has failed at micro-batch 0, samples from ", first,
             ": ", words);
  try {
    for (int step = 0; step < 3; ++step) trainer.step();
    ADD_FAILURE() << "no exception";
  } catch (const comm::MpiError& error) {
    EXPECT_FALSE(fails);
    EXPECT_THAT(error.what(), HasSubstr("rank 1 reported: " + told));
  } catch (const run::SourceError& error) {
    EXPECT_TRUE(fails);
    EXPECT_EQ(std::string(error.what()), told);
    EXPECT_NE(error.cause(), nullptr);
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

TEST(Source, that_throws_is_told_with_rank_micro_batch_and_sample) {
  expect_failure_of_source(
      [](std::uint64_t, std::span<const AnyView>) -> double {
        throw std::runtime_error("the disk is full");
      },
      "the disk is full");
  expect_failure_of_source([](std::uint64_t, std::span<const AnyView>) -> double { throw 3; },
                           "it threw what is no std::exception");
}

TEST(Source, that_takes_an_input_for_another_type_is_told_with_its_name) {
  expect_failure_of_source(
      [](std::uint64_t, std::span<const AnyView> inputs) -> double {
        inputs[1].as<float>().data()[0] = 1;
        return 1;
      },
      "input 'targets': reef::AnyView::as: the tensor holds int32, but is asked for as "
      "fp32.\n"
      "  fix: as<T>() with the T of int32.");
}

// -- threads -----------------------------------------------------------------------------------

TEST(TwoThreads, in_steps_of_one_trainer_are_refused_and_the_first_goes_on) {
  std::promise<void> in_step;
  std::promise<void> refused;
  auto may_go_on = refused.get_future();
  bool waits = true;
  const auto blocks = [&](std::uint64_t first, std::span<const AnyView> inputs) {
    if (std::exchange(waits, false)) {
      in_step.set_value();
      may_go_on.wait();
    }
    return source(first, inputs);
  };
  Plain trainer(model(), blocks, options<Plain>());
  double loss = 0;
  std::thread other([&] { loss = trainer.step().loss; });
  in_step.get_future().wait();
  const std::vector<std::pair<std::string, std::function<void()>>> calls{
      {"reef::Trainer::step", [&] { trainer.step(); }},
      {"reef::Trainer::set_parameter", [&] { trainer.set_parameter("head.bias", {}); }},
      {"reef::checkpoint::save", [&] { checkpoint::save(trainer, "none"); }},
      {"reef::checkpoint::resume", [&] { checkpoint::resume(trainer, "none"); }}};
  std::vector<std::string> texts;
  for (const auto& [name, call] : calls) {
    texts.emplace_back();
    try {
      call();
    } catch (const OptionError& error) {
      texts.back() = error.what();
    }
  }
  refused.set_value();
  other.join();
  for (std::size_t i = 0; i < calls.size(); ++i)
    EXPECT_THAT(texts[i], HasSubstr(calls[i].first + ": two threads are in calls of one object"));
  EXPECT_GT(loss, 0);
  EXPECT_EQ(failure_of_steps(trainer), "") << "it can be used on";
}

}  // namespace

}  // namespace reef::test
