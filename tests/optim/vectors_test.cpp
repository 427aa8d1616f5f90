// Ddp and Zero1 against vectors with known answers: two workers, six weights, fp64. The number of
// micro-batches changes from round to round, so every rank has the most that any round needs, and
// those that a round lacks have the weight 0.

#include <gtest/gtest.h>

#include <mpi.h>

#include <algorithm>
#include <cstdlib>
#include <span>
#include <string>
#include <vector>

#include <reef/io/json.hpp>
#include <reef/optim/adamw.hpp>
#include <reef/optim/momentum.hpp>
#include <reef/optim/zero1.hpp>
#include <reef/trainer/trainer.hpp>

namespace reef::test {

namespace {

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
    const char* folder = std::getenv("REEF_CASES");
    file = io::read_json(std::string(folder != nullptr ? folder : "tests/data") +
                         "/acco_vectors.json");
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

template <class Optim>
void follow(const Vectors& vectors, const io::Json& test, typename Optim::Rule rule) {
  using Tested = Trainer<Optim, precision::Fp64>;
  const comm::Communicator world;
  const auto counts = test.at("counts").get<std::vector<std::vector<int>>>();
  const auto rates = test.at("lr").get<std::vector<double>>();
  int most = 1;
  for (const auto& round : counts) most = std::max({most, round[0], round[1]});

  graph::Graph<device::Host, double> model(1);
  const int x = model.input("x", {Shape{2, 6}, Element::float64});
  const int y = model.input("y", {Shape{2}, Element::float64});
  model.loss(model.add("loss", LeastSquares{}, {x, y}, {"theta"})[0]);

  const run::Source source = [&](std::uint64_t first, std::span<const AnyView> inputs) {
    const auto m = static_cast<int>(first / 2);
    const int round = m / (2 * most);
    const int worker = m / most % 2;
    const int j = m % most;
    const auto w = static_cast<std::size_t>(worker);
    int consumed = 0;
    for (int r = 0; r < round; ++r) consumed += counts[static_cast<std::size_t>(r)][w];
    const bool there = j < counts[static_cast<std::size_t>(round)][w];
    vectors.fill(worker, there ? consumed + j : 0, inputs);
    return there ? 1.0 : 0.0;
  };
  typename Tested::Options options;
  options.micro_batches = {most};
  options.rule = rule;
  options.clip_norm = 0;
  options.device.threads = 1;
  options.learning_rate.schedule = [&](std::int64_t t) {
    return rates[static_cast<std::size_t>(t)];
  };
  Tested trainer(std::move(model), source, options, {}, world);
  trainer.set_parameter("theta", vectors.file.at("theta0").get<std::vector<double>>());

  for (const io::Json& round : test.at("rounds")) {
    trainer.step();
    const auto expected = round.at("theta").get<std::vector<double>>();
    const auto theta = trainer.parameter("theta");
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_NEAR(theta[i], expected[i], 1e-12) << "round " << round.at("round");
    }
  }
}

template <template <class> class Optim>
void follow_with(const Vectors& vectors, const io::Json& test) {
  const io::Json& o = test.at("optimizer");
  const auto kind = o.at("kind").get<std::string>();
  if (kind == "sgd")
    follow<Optim<optim::Sgd>>(vectors, test,
                              optim::Sgd({io::value_or<double>(o, "wd", 0, "case")}));
  if (kind == "momentum") {
    follow<Optim<optim::Momentum>>(vectors, test,
                                   optim::Momentum({io::require<double>(o, "mu", "case"),
                                                    io::value_or<double>(o, "wd", 0, "case")}));
  }
  if (kind == "adamw") {
    follow<Optim<optim::AdamW>>(vectors, test,
                                optim::AdamW({o.at("b1"), o.at("b2"), o.at("eps"), o.at("wd")}));
  }
}

}  // namespace

TEST(SynchronousVectors, ddp_and_zero1_give_the_known_weights_to_1e_12) {
  const Vectors vectors;
  int cases = 0;
  for (const io::Json& test : vectors.file.at("cases")) {
    if (test.at("method") != "ddp") continue;
    ++cases;
    SCOPED_TRACE(test.at("optimizer").dump() + ", counts " + test.at("counts").dump());
    follow_with<optim::Ddp>(vectors, test);
    follow_with<optim::Zero1>(vectors, test);
  }
  EXPECT_GT(cases, 0);
}

}  // namespace reef::test
