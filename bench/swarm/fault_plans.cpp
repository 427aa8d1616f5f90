// The laws of a job of peers that come and go, in drawn fault plans: as many as one has time for.
//
//   build/release/bench/swarm_fault_plans_bench FILE [PLANS]
//
// Simulates the plans drawn from the seeds 1 to PLANS (1000000), on all cores, and writes a line to FILE for each
// 10000. Begun again with the same FILE, it goes on behind the last line. Ends with 1, and prints the plan and the
// shortest one that shows the same, when a law is broken (swarm::core::simulate lists the laws). Delete FILE when the
// protocol has changed.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <iostream>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <reef/core/numbers.hpp>
#include <reef/swarm/core/simulation.hpp>

namespace {

using namespace reef::swarm::core;

constexpr std::uint64_t plans_of_a_line = 10'000;

/// What the plans of a line did.
struct Line {
  std::uint64_t first = 0, last = 0;  ///< seeds
  SimulationResult sum{};
  double seconds = 0;
};

/// Returns the seed of the last plan of a file's last line, 0 without one.
std::uint64_t last_seed_of(const std::string& file) {
  std::ifstream in(file);
  std::uint64_t last = 0;
  for (std::string line; std::getline(in, line);) {
    std::istringstream fields(line);
    std::uint64_t first = 0, next = 0;
    if (fields >> first >> next) last = next;
  }
  return last;
}

/// Simulates the plans from `first` to `last`. False: one breaks a law, and is printed.
bool simulate_all(Line& line) {
  const auto began = std::chrono::steady_clock::now();
  std::atomic<std::uint64_t> next{line.first};
  std::atomic<bool> holds{true};
  std::mutex mutex;
  std::vector<std::jthread> threads;
  for (unsigned i = 0; i < (std::max)(1U, std::thread::hardware_concurrency()); ++i) {
    threads.emplace_back([&] {
      SimulationResult own;
      for (std::uint64_t seed = next++; seed <= line.last && holds; seed = next++) {
        const FaultPlan plan = drawn_plan(seed);
        const SimulationResult result = simulate(plan);
        if (!result.violation.empty() && holds.exchange(false)) std::cerr << report_of_violation(plan) << "\n";
        own += result;
      }
      const std::scoped_lock lock(mutex);
      line.sum += own;
    });
  }
  threads.clear();
  line.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  return holds;
}

std::string text_of(const Line& line) {
  std::ostringstream out;
  const SimulationResult& sum = line.sum;
  out << line.first << " " << line.last;
  for (const std::int64_t value : {static_cast<std::int64_t>(sum.events), sum.rounds, sum.views, sum.excluded,
                                   sum.rollbacks, sum.ignored, sum.retried, sum.quarantined}) {
    out << " " << value;
  }
  out << " " << static_cast<std::int64_t>(sum.at) << " " << static_cast<std::int64_t>(line.seconds);
  return out.str();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || argc > 3) {
    std::cerr << "usage: " << argv[0] << " FILE [PLANS]\n";
    return 2;
  }
  const std::string file = argv[1];
  const auto plans = reef::parse_number<std::uint64_t>(argc == 3 ? argv[2] : "1000000");
  if (!plans || *plans == 0) {
    std::cerr << argv[0] << ": PLANS is '" << argv[2] << "'.\n  fix: a whole number from 1 on.\n";
    return 2;
  }
  std::uint64_t done = last_seed_of(file);
  std::ofstream out(file, std::ios::app);
  if (done == 0) {
    out << "# first and last seed, events, rounds, views, excluded, rollbacks, ignored entries, retried, quarantined, "
           "virtual s, s\n";
  }
  const auto is_written = [&] {
    if (out.flush()) return true;
    std::cerr << argv[0] << ": '" << file
              << "' cannot be written.\n  fix: a file in a folder that is there, with room.\n";
    return false;
  };
  if (!is_written()) return 1;
  while (done < *plans) {
    Line line{.first = done + 1, .last = (std::min)(done + plans_of_a_line, *plans)};
    if (!simulate_all(line)) return 1;
    out << text_of(line) << "\n";
    if (!is_written()) return 1;
    done = line.last;
    std::cout << done << " of " << *plans << " plans, no law broken" << std::endl;
  }
  return 0;
}
