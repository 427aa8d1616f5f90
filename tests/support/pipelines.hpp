#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <random>
#include <vector>

#include <reef/plan/pipeline_problem.hpp>

/// Random pipelines to plan, and the best plan by trying all.
namespace reef::test {

struct PipelineKind {
  int devices = 6;
  int operators = 8;
  std::int64_t micro_batches = 4;
  bool tight = false;       ///< memory bounds what goes where
  bool asymmetric = false;  ///< links differ by direction
  bool alike = false;       ///< devices and links of a cluster do not differ
};

/// Devices in clusters: links are of 0.5 to 10 Gbit/s inside, of 8 to 200 Mbit/s across.
inline plan::PipelineProblem random_pipeline(std::mt19937_64& random, const PipelineKind& kind) {
  const auto between = [&](double least, double most) {
    return least + (most - least) * static_cast<double>(random() >> 11) * 0x1p-53;
  };
  const auto n = static_cast<std::size_t>(kind.devices);
  plan::PipelineProblem problem;
  problem.cut.push_back(0);
  double needed = 0;
  for (int o = 0; o < kind.operators; ++o) {
    problem.flops.push_back(between(1e12, 3e12));
    problem.memory.push_back(static_cast<Bytes>(between(5e8, 1.5e9)));
    problem.cut.push_back(o % 3 == 1 ? between(1e7, 2e7) : between(4e6, 6e6));
    needed += static_cast<double>(problem.memory.back());
  }
  problem.cut.back() = 0;
  const std::size_t clusters = n < 8 ? 2 : n / 4;
  std::vector<std::size_t> cluster(n);
  for (std::size_t x = 0; x < n; ++x) {
    cluster[x] = random() % clusters;
    const bool copies = kind.alike && x > 0 && random() % 2 == 0;
    problem.speed.push_back(copies ? problem.speed[x - 1] : between(2e13, 7.5e13));
    problem.capacity.push_back(copies ? problem.capacity[x - 1]
                               : kind.tight
                                   ? static_cast<Bytes>(needed / kind.devices * between(0.9, 1.7))
                                   : static_cast<Bytes>(needed * between(0.3, 1.2)));
  }
  problem.links.devices = kind.devices;
  problem.links.latencies.assign(n * n, 0);
  problem.links.rates.assign(n * n, 0);
  for (std::size_t a = 0; a < n; ++a) {
    for (std::size_t b = 0; b < n; ++b) {
      if (a == b) continue;
      const bool inside = cluster[a] == cluster[b];
      double latency = inside ? between(2e-4, 1e-3) : between(5e-3, 4e-2);
      double rate = (inside ? between(0.5e9, 1e10) : between(8e6, 2e8)) / 8;
      if (kind.alike) {
        latency = inside ? 5e-4 : 2e-2;
        rate = inside ? 1e9 : 1e7;
      } else if (!kind.asymmetric && b < a) {
        latency = problem.links.latencies[b * n + a];
        rate = problem.links.rates[b * n + a];
      }
      problem.links.latencies[a * n + b] = latency;
      problem.links.rates[a * n + b] = rate;
    }
  }
  problem.micro_batches = kind.micro_batches;
  return problem;
}

inline constexpr double no_plan = std::numeric_limits<double>::max();

/// The least T over all orders of devices and all cuts, or those that `may_follow(device, next)` allows, -1 before
/// the first; no_plan where nothing fits.
inline double least_time(const plan::PipelineProblem& problem,
                         const std::function<bool(int, int)>& may_follow = {}) {
  const auto more = static_cast<double>(problem.micro_batches - 1);
  double best = no_plan;
  std::vector<char> used(problem.speed.size(), 0);
  const std::function<void(int, int, double, double)> extend = [&](int last, int at, double sum,
                                                                   double longest) {
    if (sum + more * longest >= best) return;
    if (at == problem.operators()) {
      if (!may_follow || may_follow(last, problem.devices())) best = sum + more * longest;
      return;
    }
    for (int device = 0; device < problem.devices(); ++device) {
      const auto x = static_cast<std::size_t>(device);
      if (used[x] != 0 || (may_follow && !may_follow(last, device))) continue;
      const double receives =
          at == 0 ? 0 : problem.links.time(last, device, problem.cut[static_cast<std::size_t>(at)]);
      double flops = 0;
      Bytes bytes = 0;
      used[x] = 1;
      for (int end = at + 1; end <= problem.operators(); ++end) {
        flops += problem.flops[static_cast<std::size_t>(end) - 1];
        bytes += problem.memory[static_cast<std::size_t>(end) - 1];
        if (bytes > problem.capacity[x]) break;
        const double computes = flops / problem.speed[x];
        extend(device, end, sum + computes + receives, std::max({longest, computes, receives}));
      }
      used[x] = 0;
    }
  };
  extend(-1, 0, 0, 0);
  return best;
}

}  // namespace reef::test
