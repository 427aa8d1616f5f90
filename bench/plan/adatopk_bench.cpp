// Ratios of compression for the links of a chain over worldwide devices, r = 100, 8-byte indices, 32 MiB messages.
//
//   reading    adding up the times of the links: no planner is faster
//
// `sent` is how many of the values are sent, over all links, where one ratio for all links sends one in 300; both
// pipelines are as fast as their slowest link. `stage` is that with a slowest stage of 0.8 s, which no link need be
// faster than.

#include <cstddef>
#include <string>
#include <vector>

#include <reef/plan/adatopk.hpp>

#include "plan/allocation_networks.hpp"
#include "support/compare.hpp"

namespace {

using namespace reef;

double sent(const plan::AdaTopKRatios& found) {
  double share = 0;
  for (const double ratio : found.ratios) share += 1 / ratio;
  return share / static_cast<double>(found.ratios.size());
}

void register_all() {
  for (const int side : {8, 16, 32}) {
    const int devices = side * side;
    reef_bench::add(
        "adatopk/links:" + std::to_string(devices - 1), 9,
        [=](benchmark::State& state) {
          const auto network =
              reef_bench::worldwide_network("", side, side, 0.3, 1).problem.network;
          std::vector<plan::AdaTopKLink> links;
          for (int d = 0; d + 1 < devices; ++d)
            links.push_back({network.latency(d, d + 1), (32 << 20) / network.rate(d, d + 1)});
          const plan::AdaTopKOptions options{.ratio = 100};
          reef_bench::compare(
              state,
              reef_bench::repeated(
                  100, [&] { benchmark::DoNotOptimize(plan::adatopk(links, options)); }),
              {{"reading", reef_bench::repeated(100,
                                                [&] {
                                                  double sum = 0;
                                                  for (const auto& link : links) sum += link.time();
                                                  benchmark::DoNotOptimize(sum);
                                                })}},
              {});
          state.counters["sent"] = sent(plan::adatopk(links, options));
          state.counters["sent_stage"] = sent(plan::adatopk(links, {.ratio = 100, .compute = 0.8}));
          state.counters["sent_equal"] = 1 / (3 * options.ratio);
        },
        benchmark::kMicrosecond);
  }
}

}  // namespace

int main(int argc, char** argv) { return reef_bench::run(argc, argv, register_all); }
