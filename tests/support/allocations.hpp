#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <limits>
#include <numeric>
#include <ostream>
#include <random>
#include <vector>

#include <reef/plan/allocation.hpp>

namespace reef::plan {

/// What GoogleTest prints.
inline void PrintTo(const AllocationCost& cost, std::ostream* out) {
  *out << cost.compute << " s of computation, " << cost.datap << " of gradients, " << cost.pipelinep
       << " of activations";
}

}  // namespace reef::plan

namespace reef::test {

/// A network of random links. With few `values` many links are equal, and devices interchangeable.
inline plan::AllocationProblem random_allocation(std::mt19937_64& random, int devices, int stages,
                                                 int pipelines, int values, bool symmetric) {
  plan::AllocationProblem problem;
  problem.stages = stages;
  problem.pipelines = pipelines;
  problem.activation_bytes = 4e8;
  problem.gradient_bytes = 6e8;
  problem.network.devices = devices;
  const auto n = static_cast<std::size_t>(devices);
  problem.network.latencies.resize(n * n);
  problem.network.rates.resize(n * n);
  const auto draw = [&] { return static_cast<double>(random() % static_cast<unsigned>(values)); };
  for (std::size_t a = 0; a < n; ++a) {
    for (std::size_t b = 0; b < n; ++b) {
      const bool mirror = symmetric && b < a;
      problem.network.latencies[a * n + b] =
          mirror ? problem.network.latencies[b * n + a] : 0.2 * draw() / values;
      problem.network.rates[a * n + b] =
          mirror ? problem.network.rates[b * n + a] : 4e7 + 8e8 * draw() / values;
    }
  }
  return problem;
}

/// The same problem with its devices in another order: new device i is old device order[i].
inline plan::AllocationProblem reordered(const plan::AllocationProblem& problem,
                                         const std::vector<int>& order) {
  plan::AllocationProblem result = problem;
  const std::size_t n = order.size();
  for (std::size_t a = 0; a < n; ++a) {
    for (std::size_t b = 0; b < n; ++b) {
      result.network.latencies[a * n + b] = problem.network.latency(order[a], order[b]);
      result.network.rates[a * n + b] = problem.network.rate(order[a], order[b]);
    }
    const auto old = static_cast<std::size_t>(order[a]);
    if (!problem.speeds.empty()) result.speeds[a] = problem.speeds[old];
    if (!problem.memories.empty()) result.memories[a] = problem.memories[old];
  }
  return result;
}

/// Eq. 1 to 4 as they are written, pair by pair.
class WrittenCost {
public:
  explicit WrittenCost(const plan::AllocationProblem& problem) : problem_(problem) {
    const int n = problem.network.devices;
    for (int a = 0; a < n; ++a) {
      for (int b = 0; b < n; ++b) {
        dp_.push_back(time(a, b, problem.gradient_bytes / problem.pipelines));
        pp_.push_back(time(a, b, problem.activation_bytes));
      }
    }
  }

  double operator()(const plan::Placement& sigma) const {
    double compute = 0;
    double datap = 0;
    double path = 0;
    for (std::size_t j = 0; j < static_cast<std::size_t>(problem_.stages); ++j) {
      double slowest = 0;
      for (const std::vector<int>& pipeline : sigma) {
        double sum = 0;
        for (const std::vector<int>& other : sigma) {
          if (other[j] != pipeline[j]) sum += dp_[cell(pipeline[j], other[j])];
        }
        datap = std::max(datap, sum);
        if (j > 0) slowest = std::max(slowest, pp_[cell(pipeline[j - 1], pipeline[j])]);
        if (problem_.stage_flops > 0) {
          const auto device = static_cast<std::size_t>(pipeline[j]);
          compute = std::max(compute, problem_.stage_flops / problem_.speeds[device]);
        }
      }
      path += slowest;
    }
    return compute + datap + path;
  }

private:
  [[nodiscard]] std::size_t cell(int a, int b) const {
    return static_cast<std::size_t>(a) * static_cast<std::size_t>(problem_.network.devices) +
           static_cast<std::size_t>(b);
  }

  [[nodiscard]] double time(int a, int b, double bytes) const {
    const profile::Network& net = problem_.network;
    if (a == b) return 0;
    if (problem_.directed) {
      return net.latency(a, b) + bytes / net.rate(a, b) + net.latency(b, a) +
             bytes / net.rate(b, a);
    }
    const double alpha = (net.latency(a, b) + net.latency(b, a)) / 2;
    const double beta = (net.rate(a, b) + net.rate(b, a)) / 2;
    return 2 * (alpha + bytes / beta);
  }

  const plan::AllocationProblem& problem_;
  std::vector<double> dp_;
  std::vector<double> pp_;
};

/// The least cost of all sigma: pipelines in any order are one, so their first devices ascend.
inline double enumerated_cost(const plan::AllocationProblem& problem) {
  const auto stages = static_cast<std::size_t>(problem.stages);
  const auto pipelines = static_cast<std::size_t>(problem.pipelines);
  plan::Placement sigma(pipelines, std::vector<int>(stages, -1));
  std::vector<char> used(static_cast<std::size_t>(problem.network.devices), 0);
  const WrittenCost cost(problem);
  double best = std::numeric_limits<double>::infinity();
  const std::function<void(std::size_t)> place = [&](std::size_t cell) {
    if (cell == stages * pipelines) {
      best = std::min(best, cost(sigma));
      return;
    }
    const std::size_t j = cell / pipelines;
    const std::size_t i = cell % pipelines;
    for (int d = 0; d < problem.network.devices; ++d) {
      const auto at = static_cast<std::size_t>(d);
      if (used[at] != 0 || (j == 0 && i > 0 && d < sigma[i - 1][0])) continue;
      if (!problem.memories.empty() && problem.memories[at] < problem.stage_bytes) continue;
      used[at] = 1;
      sigma[i][j] = d;
      place(cell + 1);
      used[at] = 0;
    }
  };
  place(0);
  return best;
}

}  // namespace reef::test
