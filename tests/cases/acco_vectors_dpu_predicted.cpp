// There are no vectors of DpuPredicted: here they are made by loops over numbers, from the formulas
// that its comment states, on the data of the others.

#include <reef/optim/dpu_predicted.hpp>

#include <array>
#include <cmath>
#include <cstddef>
#include <vector>

#include "acco_vectors.hpp"

namespace reef::test {

namespace {

using Numbers = std::vector<double>;

constexpr double momentum = 0.9;
constexpr optim::AdamW::Options adamw{
    .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .weight_decay = 0};

/// The micro-batches of each worker in each phase, the prologue first, and the rates of the rounds.
const std::vector<std::array<int, 2>> counts{{1, 2}, {2, 1}, {1, 1}, {1, 2}, {1, 1}};
const Numbers rates{0.1, 0.05, 0.2, 0.1, 0.07};

/// The mean over the phase's micro-batches.
Numbers gradient_of(const Vectors& vectors, std::size_t phase, const Numbers& theta) {
  Numbers gradient(theta.size(), 0);
  int batches = 0;
  for (std::size_t worker = 0; worker < 2; ++worker) {
    int consumed = 0;
    for (std::size_t s = 0; s < phase; ++s) consumed += counts[s][worker];
    for (int j = 0; j < counts[phase][worker]; ++j, ++batches) {
      const io::Json& batch =
          vectors.file.at("workers").at(worker).at(static_cast<std::size_t>(consumed + j));
      const auto x = batch.at("x").get<std::vector<Numbers>>();
      const auto y = batch.at("y").get<Numbers>();
      for (std::size_t row = 0; row < y.size(); ++row) {
        double error = -y[row];
        for (std::size_t i = 0; i < theta.size(); ++i) error += x[row][i] * theta[i];
        for (std::size_t i = 0; i < theta.size(); ++i) {
          gradient[i] += error * x[row][i] / static_cast<double>(y.size());
        }
      }
    }
  }
  for (double& one : gradient) one /= batches;
  return gradient;
}

/// A case as those of the file are: `step` changes m, v and the weights, `move` the weights alone.
template <class Step, class Move>
io::Json case_of(const Vectors& vectors, const Step& step, const Move& move) {
  auto theta = vectors.file.at("theta0").get<Numbers>();
  Numbers m(theta.size(), 0);
  Numbers v(theta.size(), 0);
  Numbers ahead = theta;
  Numbers pending = gradient_of(vectors, 0, theta);
  io::Json rounds = io::Json::array();
  for (std::size_t t = 0; t + 1 < counts.size(); ++t) {
    const Numbers next = gradient_of(vectors, t + 1, ahead);
    for (std::size_t i = 0; i < theta.size(); ++i) {
      step(theta[i], m[i], v[i], pending[i], rates[t], static_cast<int>(t) + 1);
      ahead[i] = theta[i];
      move(ahead[i], m[i], v[i], rates[t + 1], static_cast<int>(t) + 1);
    }
    pending = next;
    rounds.push_back({{"round", t}, {"theta", theta}, {"opt", {{"m", m}, {"v", v}, {"t", t + 1}}}});
  }
  return {{"counts", counts}, {"lr", rates}, {"rounds", rounds}};
}

TEST(DpuPredicted, takes_gradients_where_momentum_alone_would_lead) {
  const Vectors vectors;
  const auto move = [](double& w, double m, double, double rate, int) { w -= rate * m; };
  const auto step = [&](double& w, double& m, double& v, double g, double rate, int t) {
    m = momentum * m + g;
    move(w, m, v, rate, t);
  };
  follow<optim::DpuPredicted<optim::Momentum>>(vectors, case_of(vectors, step, move),
                                               optim::Momentum({momentum, 0}));
}

TEST(DpuPredicted, of_adamw_moves_by_its_own_step) {
  const Vectors vectors;
  const auto move = [](double& w, double m, double v, double rate, int t) {
    const double mean = m / (1 - std::pow(adamw.beta1, t));
    const double square = v / (1 - std::pow(adamw.beta2, t));
    w -= rate * mean / (std::sqrt(square) + adamw.epsilon);
  };
  const auto step = [&](double& w, double& m, double& v, double g, double rate, int t) {
    m = adamw.beta1 * m + (1 - adamw.beta1) * g;
    v = adamw.beta2 * v + (1 - adamw.beta2) * g * g;
    move(w, m, v, rate, t);
  };
  follow<optim::DpuPredicted<optim::AdamW>>(vectors, case_of(vectors, step, move),
                                            optim::AdamW(adamw));
}

}  // namespace

}  // namespace reef::test
