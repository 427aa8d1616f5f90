#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include <reef/comm/mpi.hpp>
#include <reef/optim/sgd.hpp>
#include <reef/trainer/checkpoint.hpp>

#include "../laws/overlapping.hpp"

namespace reef::test {

using OverlappingAdamW = testing::Types<OverlappingCase<optim::Dpu<optim::AdamW, 1>, 2>,
                                        OverlappingCase<optim::DpuPredicted<optim::AdamW>, 1>,
                                        OverlappingCase<optim::AccoWp<optim::AdamW>, 1>,
                                        OverlappingCase<optim::Acco<optim::AdamW>, 1>>;
INSTANTIATE_TYPED_TEST_SUITE_P(AdamW, OverlappingLaws, OverlappingAdamW);

namespace {

/// The mean of x_i theta_i: its gradient does not depend on theta.
struct Dot {
  static constexpr std::string_view kind = "Dot";

  graph::Signature signature(const auto& call) const {
    call.expect_inputs(1);
    graph::Signature result;
    result.outputs = {call.sums(Shape{})};
    result.parameters = {{"theta", Shape{call.inputs[0].shape.last()}, graph::Init::ones(), true}};
    return result;
  }
  void forward(const auto& call) const {
    auto& loss = call.output_sums(0).data()[0];
    const auto x = call.input(0).span();
    const auto theta = call.parameter(0).span();
    loss = 0;
    for (std::size_t i = 0; i < x.size(); ++i) loss += sum(loss, x[i]) * sum(loss, theta[i]);
  }
  void backward(const auto& call) const {
    const auto weight = call.output_gradient_sums(0).data()[0];
    const auto x = call.input(0).span();
    const auto gradient = call.parameter_gradient(0).span();
    if (!call.accumulate_parameters) std::fill(gradient.begin(), gradient.end(), 0);
    for (std::size_t i = 0; i < x.size(); ++i) gradient[i] += weight * sum(weight, x[i]);
  }
  template <class Sum>
  static Sum sum(const Sum& /*type*/, auto value) {
    return static_cast<Sum>(value);
  }
};

/// Weights after each of five steps on a gradient that is always the same.
template <class Optim>
std::vector<std::vector<double>> weights_under_constant_gradients(int micro_batches) {
  using Tested = Trainer<Optim, precision::Fp64>;
  constexpr std::int64_t n = 10000;  // several shards
  graph::Graph<device::Host, double> model(1);
  const int x = model.input("x", {Shape{1, n}, Element::float64});
  model.loss(model.add("loss", Dot{}, {x}, {"theta"})[0]);
  const run::Source source = [](std::uint64_t, std::span<const AnyView> inputs) {
    double value = -1;
    for (double& at : inputs[0].as<double>().span()) at = value += 1.0 / 4096;
    return 1.0;
  };
  typename Tested::Options options;
  options.micro_batches = {micro_batches};
  options.device.threads = 1;
  options.learning_rate = {.peak = 0.01, .warmup = 3, .steps = 5};
  const comm::Communicator world;
  Tested trainer(std::move(model), source, options, {}, world);
  std::vector<std::vector<double>> weights;
  for (int step = 0; step < 5; ++step) {
    trainer.step();
    trainer.gather_committed_weights();
    weights.push_back(trainer.parameter("theta"));
  }
  return weights;
}

}  // namespace

TEST(Overlapping, constant_gradients_give_the_bits_of_ddp_in_every_step) {
  using Rule = optim::AdamW;
  const auto expected = weights_under_constant_gradients<optim::Ddp<Rule>>(2);
  EXPECT_NE(expected[3], expected[4]);
  EXPECT_EQ(weights_under_constant_gradients<optim::Dpu<Rule>>(2), expected);
  EXPECT_EQ(weights_under_constant_gradients<optim::AccoWp<Rule>>(2), expected);
  EXPECT_EQ(weights_under_constant_gradients<optim::DpuPredicted<Rule>>(2), expected);
  EXPECT_EQ(weights_under_constant_gradients<optim::Acco<Rule>>(1), expected);
}

TEST(Overlapping, a_warm_up_that_does_not_end_is_ddp) {
  // With dropout, clipping, and counts that differ from rank to rank.
  using Warm = Trainer<optim::Dpu<optim::AdamW, 4>>;
  using Ddp = Trainer<optim::Ddp<optim::AdamW>>;
  EXPECT_EQ(train<Warm>(uneven_options<Warm>()), train<Ddp>(uneven_options<Ddp>()));
}

TEST(Overlapping, an_estimate_at_rate_zero_is_the_weights_so_that_acco_is_ddp_in_the_next_step) {
  // Every second step has the rate 0: its estimate stays where it is, and so do the weights. In the
  // other steps both halves of the gradient are then exact.
  const auto run = [&]<class Tested>(Tested*, int phase) {
    auto options = small_options<Tested>();
    options.learning_rate = {};
    options.learning_rate.schedule = [](std::int64_t t) { return t % 2 == 0 ? 0.0 : 0.5; };
    return run_by_rank<Tested>(different_samples, phase, 4, options);
  };
  const auto acco = run(static_cast<Trainer<optim::Acco<optim::Sgd>>*>(nullptr), 1);
  const auto ddp = run(static_cast<Trainer<optim::Ddp<optim::Sgd>>*>(nullptr), 2);
  EXPECT_EQ(acco.weights, ddp.weights);
  EXPECT_EQ(acco.losses[1], ddp.losses[1]);
  EXPECT_EQ(acco.losses[3], ddp.losses[3]);
  EXPECT_NE(acco.losses[2], ddp.losses[2]) << "the step that does not count is no test otherwise";
}

/// A checkpoint after one step, whose weights are cut off.
template <class Tested>
void save_damaged(const SharedFolder& folder, const comm::Communicator& world) {
  Tested saved = small_trainer<Tested>(small_options<Tested>(), world);
  saved.step();
  checkpoint::save(saved, folder.path());
  MPI_Barrier(MPI_COMM_WORLD);
  if (world_rank() == 0)
    std::filesystem::resize_file(folder.path() / "step-000000001" / "model.safetensors", 9);
  MPI_Barrier(MPI_COMM_WORLD);
}

TEST(Overlapping, a_damaged_checkpoint_leaves_no_gradient_pending) {
  using Acco = Trainer<optim::Acco<optim::AdamW>>;
  const SharedFolder folder("damaged");
  const comm::Communicator world;
  save_damaged<Acco>(folder, world);
  Acco trainer = small_trainer<Acco>(small_options<Acco>(), world);
  EXPECT_THROW(checkpoint::resume(trainer, folder.path()), FileError);
  EXPECT_FALSE(trainer.pending());
}

TEST(Overlapping, a_checkpoint_that_is_refused_changes_nothing_between_steps) {
  using Predicted = Trainer<optim::DpuPredicted<optim::AdamW>>;
  const SharedFolder folder("refused");
  const comm::Communicator world;
  save_damaged<Predicted>(folder, world);
  const auto run = [&](bool tries) {
    Predicted trainer = small_trainer<Predicted>(small_options<Predicted>(), world);
    trainer.step();
    if (tries) {
      EXPECT_THROW(checkpoint::resume(trainer, folder.path()), FileError);
    }
    return outcome_of(trainer, 2);
  };
  EXPECT_EQ(run(true), run(false));
}

TEST(Overlapping, a_resume_by_another_optimizer_goes_on_from_weights_and_states_alone) {
  using Acco = Trainer<optim::Acco<optim::AdamW>>;
  using Predicted = Trainer<optim::DpuPredicted<optim::AdamW>>;
  using Zero1 = Trainer<optim::Zero1<optim::AdamW>>;
  const comm::Communicator world;
  const auto make = [&]<class Tested>(Tested*, int phase) {
    auto options = small_options<Tested>();
    options.micro_batches = {phase};
    return Tested(nn::gpt<device::Host, float>(unmasked_config(), 1),
                  by_rank(different_samples, world.size(), phase), options, {}, world);
  };
  const auto first_step = [&]<class Tested>(Tested* type, int phase, const SharedFolder& folder) {
    Tested trainer = make(type, phase);
    EXPECT_TRUE(checkpoint::resume(trainer, folder.path()));
    return outcome_of(trainer, 1);
  };
  const auto saved = [&]<class Tested>(Tested* type, const SharedFolder& folder) {
    Tested trainer = make(type, 2);
    trainer.step();
    trainer.step();
    checkpoint::save(trainer, folder.path());
  };
  // The gradient that was pending is of another round: all begin with one at the weights as they are, and
  // their first step is that of Zero1.
  const SharedFolder of_acco("of-acco");
  saved(static_cast<Acco*>(nullptr), of_acco);
  EXPECT_EQ(first_step(static_cast<Predicted*>(nullptr), 2, of_acco),
            first_step(static_cast<Zero1*>(nullptr), 2, of_acco));
  const SharedFolder of_predicted("of-predicted");
  saved(static_cast<Predicted*>(nullptr), of_predicted);
  EXPECT_EQ(first_step(static_cast<Acco*>(nullptr), 2, of_predicted),
            first_step(static_cast<Zero1*>(nullptr), 4, of_predicted));
}

TEST(Overlapping, a_resume_with_other_counts_or_gradients_goes_on_from_weights_and_states_alone) {
  using Predicted = Trainer<optim::DpuPredicted<optim::AdamW>>;
  using Rounding = Trainer<optim::DpuPredicted<optim::AdamW>, precision::Bf16Gradients<precision::Fp32>>;
  using Zero1 = Trainer<optim::Zero1<optim::AdamW>>;
  const comm::Communicator world;
  const SharedFolder folder("other-counts");
  const auto make = [&]<class Tested>(Tested*, int phase) {
    auto options = small_options<Tested>();
    options.micro_batches = {phase};
    return Tested(nn::gpt<device::Host, float>(unmasked_config(), 1), by_rank(different_samples, world.size(), phase), options,
                  {}, world);
  };
  {
    Predicted saved = make(static_cast<Predicted*>(nullptr), 3);
    saved.step();
    saved.step();
    checkpoint::save(saved, folder.path());
  }
  const auto is_pending = [&]<class Tested>(Tested* type, int phase) {
    Tested trainer = make(type, phase);
    EXPECT_TRUE(checkpoint::resume(trainer, folder.path()));
    return trainer.pending();
  };
  EXPECT_TRUE(is_pending(static_cast<Predicted*>(nullptr), 3)) << "nothing is another, and this no test otherwise";
  EXPECT_FALSE(is_pending(static_cast<Rounding*>(nullptr), 3)) << "the gradient that was saved is not rounded";
  for (const int phase : {1, 2, 4}) {
    EXPECT_FALSE(is_pending(static_cast<Predicted*>(nullptr), phase)) << "3 micro-batches before, now " << phase;
    const auto first_step = [&]<class Tested>(Tested* type) {
      Tested trainer = make(type, phase);
      EXPECT_TRUE(checkpoint::resume(trainer, folder.path()));
      return outcome_of(trainer, 1);
    };
    // It begins with a gradient at the weights as they are.
    EXPECT_EQ(first_step(static_cast<Predicted*>(nullptr)), first_step(static_cast<Zero1*>(nullptr)))
        << "3 micro-batches before, now " << phase;
  }
}

TEST(Overlapping, an_estimate_of_bytes_is_what_the_counters_show) {
  using Tested = Trainer<optim::Acco<optim::AdamW>>;
  auto options = small_options<Tested>();
  options.communication.transport = comm::Transport::messages;
  const comm::Communicator world;
  const auto model = nn::gpt<device::Host, float>(small_config(), 1);
  const StepEstimate estimate = Tested::estimate(model, options, world.size(), world.rank());
  auto trainer = small_trainer<Tested>(options, world);
  trainer.step();
  EXPECT_EQ(estimate.device_bytes, trainer.device().memory().peak);
  const comm::Cost before = trainer.progress().meter().operations();
  trainer.step();
  const comm::Cost sent = trainer.progress().meter().operations() - before;
  EXPECT_EQ(estimate.sent, sent.bytes);
  EXPECT_EQ(estimate.messages, sent.messages);
}

TEST(Overlapping, memory_per_parameter_is_what_the_table_says) {
  // Of parameters in whole blocks for every rank, and none tied: docs/design.md has the table.
  constexpr std::int64_t n = 24 * run::norm_block;
  const auto expect_bytes = [&]<class Tested, class T>(Tested*, T*, Bytes of_weight,
                                                       Bytes of_gradient) {
    graph::Graph<device::Host, T> model(1);
    const int x = model.input("x", {Shape{1, n}, element_of<T>});
    model.loss(model.add("loss", Dot{}, {x}, {"theta"})[0]);
    for (const int ranks : {1, 2, 3, 4}) {
      const StepEstimate estimate = Tested::estimate(model, {}, ranks, ranks - 1);
      const Bytes count = static_cast<Bytes>(n);
      EXPECT_EQ(estimate.weights, of_weight * count);
      EXPECT_EQ(estimate.gradients, of_gradient * count);
      EXPECT_EQ(estimate.comm_buffers, std::max(of_gradient, of_weight) * count);
      const Bytes counts = 3 * sizeof(double);  // of the pending gradient's micro-batches
      EXPECT_EQ(estimate.optimizer_state, 3 * 4 * count / static_cast<Bytes>(ranks) + counts);
    }
  };
  using Acco = optim::Acco<optim::AdamW>;
  auto* const wide = static_cast<float*>(nullptr);
  auto* const narrow = static_cast<Bfloat16*>(nullptr);
  using precision::Bf16Gradients;
  expect_bytes(static_cast<Trainer<Acco>*>(nullptr), wide, 4, 4);
  expect_bytes(static_cast<Trainer<Acco, precision::Bf16>*>(nullptr), narrow, 2, 4);
  expect_bytes(static_cast<Trainer<Acco, Bf16Gradients<>>*>(nullptr), narrow, 2, 2);
  expect_bytes(static_cast<Trainer<Acco, Bf16Gradients<precision::Fp32>>*>(nullptr), wide, 4, 2);
}

TEST(Overlapping, gradients_of_bf16_are_rounded_after_each_micro_batch_and_summed_in_fp32) {
  // The gradient is x, whatever the weights. The first step applies that of the prologue: of three
  // micro-batches of a rank, and then of the ranks.
  using Tested = Trainer<optim::Dpu<optim::Sgd>, precision::Bf16Gradients<precision::Fp32>>;
  constexpr std::int64_t n = 3 * run::norm_block + 5;  // shards of several sizes, and padding
  const comm::Communicator world;
  const auto x_at = [](std::uint64_t micro_batch, std::int64_t i) {
    return 1.0F + 0.001F * static_cast<float>(i % 997) + 0.1F * static_cast<float>(micro_batch);
  };
  graph::Graph<device::Host, float> model(1);
  const int x = model.input("x", {Shape{1, n}, Element::float32});
  model.loss(model.add("loss", Dot{}, {x}, {"theta"})[0]);
  const run::Source source = [&](std::uint64_t first, std::span<const AnyView> inputs) {
    const std::span<float> values = inputs[0].as<float>().span();
    for (std::int64_t i = 0; i < n; ++i) values[static_cast<std::size_t>(i)] = x_at(first % 24, i);
    return 1.0;
  };
  typename Tested::Options options;
  options.micro_batches = {3};
  options.device.threads = 1;
  options.clip_norm = 0;
  options.learning_rate = {};
  options.learning_rate.schedule = [](std::int64_t) { return 1.0; };
  Tested trainer(std::move(model), source, options, {}, world);
  trainer.step();

  const auto weights = trainer.parameter("theta");
  for (std::int64_t i = 0; i < n; ++i) {
    float sum = 0;
    for (int rank = 0; rank < world.size(); ++rank) {
      Bfloat16 own(0);
      for (int k = 0; k < 3; ++k) {
        const auto number = static_cast<std::uint64_t>(rank * 3 + k);
        own = Bfloat16(static_cast<float>(own) + x_at(number, i));
      }
      sum += static_cast<float>(own);
    }
    const auto scale = static_cast<float>(1.0 / (3 * world.size()));
    EXPECT_EQ(weights[static_cast<std::size_t>(i)], 1.0F - scale * sum) << i;
  }
}

TEST(Overlapping, weights_that_are_ahead_are_refused_until_the_committed_ones_are_gathered) {
  using Tested = Trainer<optim::AccoWp<optim::AdamW>>;
  const comm::Communicator world;
  auto trainer = small_trainer<Tested>(small_options<Tested>(), world);
  const std::string name = "transformer.wte.weight";
  EXPECT_NO_THROW(trainer.parameter(name));  // nothing is ahead yet
  trainer.step();
  EXPECT_THROW(trainer.parameter(name), OptionError);
  trainer.gather_committed_weights();
  const auto committed = trainer.parameter(name);
  trainer.gather_committed_weights();
  EXPECT_EQ(trainer.parameter(name), committed);
  EXPECT_TRUE(std::isfinite(trainer.evaluate(1)));
  EXPECT_EQ(trainer.parameter(name), committed);
}

template <class Tested>
void expect_a_step_that_is_not_finite_to_be_skipped() {
  auto options = small_options<Tested>();
  options.non_finite = optim::NonFinite::skip;
  const comm::Communicator world;
  auto trainer = small_trainer<Tested>(options, world);
  trainer.step();
  EXPECT_TRUE(trainer.pending());
  const std::string name = "transformer.h.1.mlp.c_proj.bias";
  const std::vector<float> whole = trainer.parameter(name);
  std::vector<float> broken = whole;
  broken[3] = std::numeric_limits<float>::quiet_NaN();
  trainer.set_parameter(name, broken);
  const auto before = trainer.parameter("transformer.wte.weight");
  const StepResult second = trainer.step();
  EXPECT_FALSE(second.committed);
  EXPECT_NE(second.not_finite.find("the loss on rank 0"), std::string::npos) << second.not_finite;
  EXPECT_FALSE(trainer.pending());
  EXPECT_EQ(trainer.parameter("transformer.wte.weight"), before);
  trainer.set_parameter(name, whole);
  EXPECT_TRUE(trainer.step().committed);
  EXPECT_NE(trainer.parameter("transformer.wte.weight"), before);
}

TEST(Overlapping, a_step_that_is_not_finite_is_skipped_and_the_next_begins_anew) {
  using Acco = optim::Acco<optim::AdamW>;
  expect_a_step_that_is_not_finite_to_be_skipped<Trainer<Acco>>();
  using Rounding = precision::Bf16Gradients<precision::Fp32>;
  expect_a_step_that_is_not_finite_to_be_skipped<Trainer<Acco, Rounding>>();
}

}  // namespace reef::test
