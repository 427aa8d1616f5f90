// What searched orders of pipelines are worth: a Markdown table on standard output.
//
//   build/release/bench/plan_pipeline_search_bench [--effort N] [--instances N] [--only TEXT] > pipeline_search.md
//
//   gain    what the searched order takes less than the best known schedule that fits the same memory
//   gap     what it takes more than the proven bound
//
// Random instances: f = b = w = 100 of an even stage; uneven stages are 0.6 to 2 times as long; a slow link is busy for 0.1
// to 1.5 f by a message, which then takes 0.2 to 6 f more. Memory is that of 1F1B on rank 0, or twice that, on every rank.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <reef/core/text.hpp>
#include <reef/plan/detail/draws.hpp>
#include <reef/plan/pipeline_search.hpp>

namespace {

using namespace reef;

struct Kind {
  const char* name;
  bool is_uneven, has_slow_links;
  int memory;  ///< of p activations
};

plan::PipelineOrderProblem instance(const Kind& kind, int ranks, int micro_batches, int seed) {
  plan::detail::Draws draws(static_cast<std::uint64_t>(seed),
                            static_cast<std::uint32_t>(1000 * ranks + micro_batches));
  const auto between = [&](double least, double most) {
    return std::round(100 * (least + (most - least) * draws.unit()));
  };
  plan::PipelineOrderProblem problem;
  problem.micro_batches = micro_batches;
  problem.times.world = schedule::World::uniform(ranks, {}, {0, 1});
  for (int c = 0; c < ranks; ++c) {
    problem.rank_of_chunk.push_back(c);
    const Seconds time = kind.is_uneven ? between(0.6, 2) : 100;
    problem.times.forward.push_back(time);
    problem.times.input_backward.push_back(time);
    problem.times.weight_backward.push_back(time);
    problem.max_activations.push_back(kind.memory * ranks);
    if (c == 0) continue;
    for (const bool back : {false, true}) {
      const int from = back ? c : c - 1;
      const int to = back ? c - 1 : c;
      const auto wire = static_cast<Bytes>(kind.has_slow_links ? between(0.1, 1.5) : 0);
      (back ? problem.backward : problem.forward).push_back({from, to, wire});
      problem.times.world.links[static_cast<std::size_t>(from * ranks + to)].latency =
          kind.has_slow_links ? between(0.2, 6) : 0;
    }
  }
  return problem;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return (values[(values.size() - 1) / 2] + values[values.size() / 2]) / 2;
}

void measure(const Kind& kind, int ranks, int micro_batches, int instances, int effort) {
  std::vector<double> gains;
  std::vector<double> gaps;
  std::vector<double> times;
  int proven = 0;
  for (int seed = 0; seed < instances; ++seed) {
    const auto problem = instance(kind, ranks, micro_batches, seed);
    const std::clock_t start = std::clock();
    const auto found = plan::search_pipeline_order(problem, {.effort = effort});
    times.push_back(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC);
    gains.push_back(100 * (1 - found.makespan / found.fixed_makespan));
    gaps.push_back(100 * (found.makespan / found.lower_bound - 1));
    proven += found.optimal ? 1 : 0;
  }
  const auto [least, most] = std::minmax_element(gains.begin(), gains.end());
  std::printf("| %s | %d | %d | %d p | %.1f (%.1f to %.1f) | %.1f | %d of %d | %.2f |\n", kind.name,
              ranks, micro_batches, kind.memory, median(gains), *least, *most, median(gaps), proven,
              instances, *std::max_element(times.begin(), times.end()));
  std::fflush(stdout);
}

int run(int argc, char** argv) {
  int effort = -1;
  int instances = 12;
  std::string only;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view option = argv[i];
    if (option == "--effort") effort = std::atoi(argv[i + 1]);
    if (option == "--instances") instances = std::atoi(argv[i + 1]);
    if (option == "--only") only = argv[i + 1];
  }
  std::printf(
      "| stages and links | p | m | memory | gain, %%, median (range) | gap, %%, median | proven | "
      "s of a core, at most |\n");
  std::printf("|---|---|---|---|---|---|---|---|\n");
  constexpr Kind kinds[] = {{"uneven stages, no links", true, false, 1},
                            {"even stages, slow links", false, true, 1},
                            {"uneven stages, slow links", true, true, 1},
                            {"uneven stages, slow links", true, true, 2}};
  for (const Kind& kind : kinds) {
    for (const auto& [ranks, micro_batches] :
         std::vector<std::pair<int, int>>{{4, 8}, {4, 16}, {8, 16}, {8, 32}, {16, 64}}) {
      const std::string cell = concat(kind.name, " p", ranks, " m", micro_batches);
      if (cell.find(only) == std::string::npos) continue;
      measure(kind, ranks, micro_batches, instances, effort);
    }
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
