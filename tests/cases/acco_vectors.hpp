#pragma once

#include <gtest/gtest.h>

#include <mpi.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <reef/io/json.hpp>
#include <reef/optim/adamw.hpp>
#include <reef/optim/momentum.hpp>
#include <reef/optim/sgd.hpp>
#include <reef/trainer/trainer.hpp>

#include "case_file.hpp"

/// Trains as a case of acco_vectors.json says: two workers, six weights, fp64. Counts of micro-batches
/// change from phase to phase, so every rank has the most that any phase needs, and those that a
/// phase lacks have the weight 0.
namespace reef::test {

/// The mean over rows of (x . theta - y)^2 / 2.
struct LeastSquares {
  static constexpr std::string_view kind = "LeastSquares";

  graph::Signature signature(const auto& call) const {
    call.expect_inputs(2);
    graph::Signature result;
    result.outputs = {call.tensor(Shape{})};
    result.parameters = {{"theta", Shape{call.inputs[0].shape.last()}, graph::Init::zeros(), true}};
    return result;
  }
  void forward(const auto& call) const {
    call.output(0).data()[0] = 0;
    each_row(call, [&](auto error, auto) { call.output(0).data()[0] += error * error / 2; });
    call.output(0).data()[0] /= static_cast<double>(call.input(0).shape()[0]);
  }
  void backward(const auto& call) const {
    const auto gradient = call.parameter_gradient(0).span();
    if (!call.accumulate_parameters) std::fill(gradient.begin(), gradient.end(), 0);
    std::vector<double> sum(gradient.size(), 0);
    each_row(call, [&](auto error, auto row) {
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += error * row[i];
    });
    const double scale =
        call.output_gradient(0).data()[0] / static_cast<double>(call.input(0).shape()[0]);
    for (std::size_t i = 0; i < sum.size(); ++i) gradient[i] += scale * sum[i];
  }
  static void each_row(const auto& call, const auto& visit) {
    const auto x = call.input(0);
    const auto theta = call.parameter(0).span();
    for (std::int64_t r = 0; r < x.shape()[0]; ++r) {
      const auto row = x.span().subspan(static_cast<std::size_t>(r) * theta.size(), theta.size());
      double error = -call.input(1).data()[r];
      for (std::size_t i = 0; i < theta.size(); ++i) error += row[i] * theta[i];
      visit(error, row);
    }
  }
};

struct Vectors {
  io::Json file;

  Vectors() {
    file = read_case_file("acco_vectors.json");
  }

  /// What worker w reads as its n-th micro-batch.
  void fill(int worker, int n, std::span<const AnyView> inputs) const {
    const io::Json& batch =
        file.at("workers").at(static_cast<std::size_t>(worker)).at(static_cast<std::size_t>(n));
    double* x = inputs[0].as<double>().data();
    for (const io::Json& row : batch.at("x")) {
      for (const io::Json& value : row) *x++ = value.get<double>();
    }
    double* y = inputs[1].as<double>().data();
    for (const io::Json& value : batch.at("y")) *y++ = value.get<double>();
  }
};

/// The rule's first state is m, its second v; a shard holds what it holds of them.
template <class TrainerType>
void expect_state(TrainerType& trainer, const io::Json& expected) {
  for (const auto& range : trainer.state_ranges()) {
    if (range.name != "state.0" && range.name != "state.1") continue;
    const io::Json& named = expected.at(range.name == "state.0" ? "m" : "v");
    const auto values = named.get<std::vector<double>>();
    const auto state = trainer.state(range);
    for (std::size_t i = 0; i < state.size(); ++i) {
      const std::size_t at = static_cast<std::size_t>(range.begin) + i;
      if (at >= values.size()) break;  // what lies behind the last parameter
      EXPECT_NEAR(state[i], values[at], 1e-12) << range.name;
    }
  }
  EXPECT_EQ(trainer.progress_state().committed, expected.at("t").get<std::int64_t>());
}

/// Follows a case round by round with the policy: the weights, and what the rule keeps.
template <class Optim>
void follow(const Vectors& vectors, const io::Json& test, typename Optim::Rule rule) {
  using Tested = Trainer<Optim, precision::Fp64>;
  const comm::Communicator world;
  const auto counts = test.at("counts").get<std::vector<std::vector<int>>>();
  const auto rates = test.at("lr").get<std::vector<double>>();
  int most = 1;
  for (const auto& phase : counts) most = std::max({most, phase[0], phase[1]});

  graph::Graph<device::Host, double> model(1);
  const int x = model.input("x", {Shape{2, 6}, Element::float64});
  const int y = model.input("y", {Shape{2}, Element::float64});
  model.loss(model.add("loss", LeastSquares{}, {x, y}, {"theta"})[0]);

  // Phase after phase, a prologue included; in each worker after worker, `most` micro-batches of
  // each.
  const run::Source source = [&](std::uint64_t first, std::span<const AnyView> inputs) {
    const auto m = static_cast<int>(first / 2);
    const auto phase = static_cast<std::size_t>(m / (2 * most));
    const int worker = m / most % 2;
    const int j = m % most;
    const auto w = static_cast<std::size_t>(worker);
    int consumed = 0;
    for (std::size_t s = 0; s < std::min(phase, counts.size()); ++s) consumed += counts[s][w];
    // What the last rounds take for rounds that the case does not have counts for nothing.
    const bool there = phase < counts.size() && j < counts[phase][w];
    vectors.fill(worker, there ? consumed + j : 0, inputs);
    return there ? 1.0 : 0.0;
  };
  typename Tested::Options options;
  options.micro_batches = {most};
  options.rule = rule;
  options.clip_norm = 0;
  options.device.threads = 1;
  options.learning_rate.schedule = [&](std::int64_t t) {
    return rates[std::min(static_cast<std::size_t>(t), rates.size() - 1)];
  };
  Tested trainer(std::move(model), source, options, {}, world);
  trainer.set_parameter("theta", vectors.file.at("theta0").get<std::vector<double>>());

  for (const io::Json& round : test.at("rounds")) {
    trainer.step();
    trainer.gather_committed_weights();
    const auto expected = round.at("theta").get<std::vector<double>>();
    const auto theta = trainer.parameter("theta");
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_NEAR(theta[i], expected[i], 1e-12) << "round " << round.at("round");
    }
    expect_state(trainer, round.at("opt"));
  }
}

/// With the case's update rule.
template <template <class> class Optim>
void follow_with(const Vectors& vectors, const io::Json& test) {
  const io::Json& o = test.at("optimizer");
  const auto kind = o.at("kind").get<std::string>();
  const double decay = io::value_or<double>(o, "wd", 0, "case");
  if (kind == "sgd") {
    follow<Optim<optim::Sgd>>(vectors, test, optim::Sgd({decay}));
  } else if (kind == "momentum") {
    follow<Optim<optim::Momentum>>(vectors, test,
                                   optim::Momentum({io::require<double>(o, "mu", "case"), decay}));
  } else if (kind == "adamw") {
    follow<Optim<optim::AdamW>>(vectors, test,
                                optim::AdamW({o.at("b1"), o.at("b2"), o.at("eps"), o.at("wd")}));
  } else {
    ADD_FAILURE() << "no update rule is called " << kind;
  }
}

// Each in a file of its own, since each is three Trainers.
void follow_ddp(const Vectors& vectors, const io::Json& test);
void follow_zero1(const Vectors& vectors, const io::Json& test);
void follow_dpu_w0(const Vectors& vectors, const io::Json& test);
void follow_dpu_w2(const Vectors& vectors, const io::Json& test);
void follow_acco_wp(const Vectors& vectors, const io::Json& test);
void follow_acco(const Vectors& vectors, const io::Json& test);

}  // namespace reef::test
