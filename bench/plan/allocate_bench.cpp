// What placements cost, and how long it takes to find them: a Markdown table on standard output, and with --svg FILE
// the least cost so far against time, as in DT-FM's figure 4.
//
//   build/release/bench/plan_allocate_bench --svg plan_allocate.svg > plan_allocate.md
//
//   random         random partitions, each with its best order and matchings
//   genetic        the published hybrid genetic search, with a new seed after each 5000 evaluations
//   Kernighan-Lin  the same with Kernighan and Lin's gain
//   ours           allocate
//
// All have the same time on two threads: rivals are two searches of different seeds. --only TEXT chooses networks
// by name, --scale F multiplies all times.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <functional>
#include <limits>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <reef/core/text.hpp>
#include <reef/plan/allocate.hpp>
#include <reef/plan/detail/arrangement.hpp>
#include <reef/plan/detail/draws.hpp>
#include <reef/plan/detail/link_weights.hpp>
#include <reef/plan/genetic_allocation.hpp>

#include "plan/allocation_networks.hpp"
#include "plan/cost_curves.hpp"

namespace {

using namespace reef;
using reef_bench::Curve;
using reef_bench::NamedNetwork;

constexpr int threads = 2;

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// The least cost so far of several threads, against time.
class Progress {
public:
  explicit Progress(double limit) : limit_(limit) {}

  /// Whether there is time left.
  bool operator()(Seconds cost) {
    const std::lock_guard lock(guard_);
    const double now = seconds() - start_;
    if (now > limit_) return false;
    if (points_.empty() || cost < points_.back().second) points_.emplace_back(now, cost);
    return true;
  }

  [[nodiscard]] const std::vector<std::pair<double, double>>& points() const { return points_; }

private:
  double limit_;
  double start_ = seconds();
  std::mutex guard_;
  std::vector<std::pair<double, double>> points_;
};

using Search = std::function<bool(std::uint64_t seed, Progress&)>;

/// Runs the search with seed after seed on two threads, until its time is over.
Curve curve_of(const std::string& name, double limit, const Search& search) {
  Progress progress(limit);
  std::vector<std::thread> workers;
  for (std::uint64_t t = 0; t < threads; ++t) {
    workers.emplace_back([&, t] {
      for (std::uint64_t seed = t; search(seed, progress); seed += threads) {
      }
    });
  }
  for (std::thread& worker : workers) worker.join();
  return {name, progress.points()};
}

Search genetic(const plan::AllocationProblem& problem, plan::GeneticGain gain) {
  return [&problem, gain](std::uint64_t seed, Progress& progress) {
    plan::GeneticOptions options;
    options.seed = seed;
    options.gain = gain;
    bool goes_on = true;
    options.progress = [&](int, Seconds cost) { return goes_on = progress(cost); };
    plan::genetic_allocation(problem, options);
    return goes_on;
  };
}

Search random_partitions(const plan::AllocationProblem& problem) {
  return [&problem](std::uint64_t seed, Progress& progress) {
    const plan::detail::LinkWeights weights = plan::detail::link_weights(problem);
    plan::detail::Draws draws(seed, 7);
    std::vector<int> groups(static_cast<std::size_t>(weights.size));
    for (std::size_t d = 0; d < groups.size(); ++d) groups[d] = static_cast<int>(d);
    do {
      draws.shuffle(groups);
    } while (progress(
        plan::detail::arrange(weights, problem.stages, problem.pipelines, groups).cost.total()));
    return false;
  };
}

/// The mean of random sigma.
double random_mean(const plan::AllocationProblem& problem) {
  const plan::detail::LinkWeights weights = plan::detail::link_weights(problem);
  plan::detail::Draws draws(0, 8);
  std::vector<int> at(static_cast<std::size_t>(weights.size));
  for (std::size_t d = 0; d < at.size(); ++d) at[d] = static_cast<int>(d);
  double sum = 0;
  for (int i = 0; i < 100; ++i) {
    draws.shuffle(at);
    sum += plan::detail::cost_of(weights, problem.stages, problem.pipelines, at).total();
  }
  return sum / 100;
}

struct Trial {
  NamedNetwork network;
  double limit;
  bool plotted;
};

std::vector<Trial> trials() {
  std::vector<Trial> result;
  for (NamedNetwork& network : reef_bench::paper_networks())
    result.push_back({std::move(network), 2, false});
  result[1].plotted = true;
  for (std::uint64_t seed = 0; seed < 2; ++seed) {
    result.push_back(
        {reef_bench::worldwide_network(concat("uneven, 64 at random, ", seed), 8, 8, 0, seed), 20,
         seed == 0});
  }
  for (std::uint64_t seed = 0; seed < 2; ++seed) {
    result.push_back(
        {reef_bench::noisy_case_5(concat("5 with noise 0.3, ", seed), 0.3, seed), 20, seed == 0});
  }
  result.push_back(
      {reef_bench::worldwide_network("worldwide 64 = 8 x 8", 8, 8, 0.2, 64), 20, false});
  result.push_back(
      {reef_bench::worldwide_network("worldwide 256 = 16 x 16", 16, 16, 0.2, 256), 30, true});
  result.push_back(
      {reef_bench::worldwide_network("worldwide 1024 = 32 x 32", 32, 32, 0.2, 1024), 60, true});
  return result;
}

/// "31.6342 at 0.01 s": the least cost, and when it was found; what came after the limit does not count.
std::string cell(const Curve& curve) {
  if (curve.points.empty()) return "none in time";
  char text[64];
  std::snprintf(text, sizeof text, "%.4f at %.2f s", curve.points.back().second,
                curve.points.back().first);
  return text;
}

void run(const std::string& svg, const std::string& only, double scale) {
  std::printf(
      "| network | time | random sigma | random | Kernighan-Lin | genetic | ours | bound |\n");
  std::printf("|---|--:|--:|--:|--:|--:|--:|--:|\n");
  std::vector<reef_bench::Panel> panels;
  for (const Trial& trial : trials()) {
    if (trial.network.name.find(only) == std::string::npos) continue;
    const plan::AllocationProblem& problem = trial.network.problem;
    const double limit = trial.limit * scale;
    const Curve random = curve_of("random", limit, random_partitions(problem));
    const Curve lin =
        curve_of("Kernighan-Lin", limit, genetic(problem, plan::GeneticGain::kernighan_lin));
    const Curve published =
        curve_of("genetic", limit, genetic(problem, plan::GeneticGain::published));
    Progress progress(limit);
    plan::AllocationOptions options;
    options.budget = limit;
    options.threads = threads;
    options.progress = [&](int, Seconds cost) { progress(cost); };
    const plan::Allocation found = plan::allocate(problem, options);
    const Curve ours{"ours", progress.points()};
    std::printf("| %s | %g s | %.2f | %s | %s | %s | %s | %s%.2f |\n", trial.network.name.c_str(),
                limit, random_mean(problem), cell(random).c_str(), cell(lin).c_str(),
                cell(published).c_str(), cell(ours).c_str(), found.optimal ? "proven, " : "",
                found.lower_bound);
    std::fflush(stdout);
    if (trial.plotted)
      panels.push_back({trial.network.name, limit, {random, lin, published, ours}});
  }
  if (svg.empty()) return;
  std::ofstream file(svg);
  reef_bench::draw(file, panels);
  file.flush();
  if (!file) throw FileError("cannot write ", svg, ".\n  fix: another --svg.");
}

}  // namespace

int main(int argc, char** argv) {
  std::string svg;
  std::string only;
  double scale = 1;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string option = argv[i];
    if (option == "--svg") svg = argv[i + 1];
    if (option == "--only") only = argv[i + 1];
    if (option == "--scale") scale = std::atof(argv[i + 1]);
  }
  try {
    run(svg, only, scale);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "plan_allocate_bench: %s\n", error.what());
    return 1;
  }
  return 0;
}
