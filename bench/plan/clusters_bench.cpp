// Clusters of devices that are strewn over ten cities, each link with noise of its own (log weights).
//
//   once       Louvain as it is published: one run from single devices, in the order of the case
//   reading    adding up the bandwidths: no planner is faster
//
// `modularity` is ours; beside it are those of the one run and of the cities.

#include <cstddef>
#include <numeric>
#include <string>
#include <vector>

#include <reef/plan/clusters.hpp>
#include <reef/plan/detail/louvain.hpp>

#include "plan/allocation_networks.hpp"
#include "support/compare.hpp"

namespace {

using namespace reef;

void register_all() {
  for (const int side : {8, 16, 32}) {
    const int devices = side * side;
    reef_bench::add("clusters/devices:" + std::to_string(devices), 5, [=](benchmark::State& state) {
      const auto problem = reef_bench::worldwide_network("", side, side, 0.3, 1).problem;
      std::vector<int> cities;
      for (int d = 0; d < devices; ++d) cities.push_back(reef_bench::city_of(1, d));
      const auto weights =
          plan::cluster_weights(problem.network.rates, devices, plan::ClusterWeights::log);
      const plan::detail::Louvain graph(weights, devices, 1);
      std::vector<int> order(static_cast<std::size_t>(devices));
      std::iota(order.begin(), order.end(), 0);
      const auto once = graph.run(order, graph.singletons());
      plan::Clusters found;
      reef_bench::compare(
          state, reef_bench::repeated(1, [&] { found = plan::clusters(weights, devices); }),
          {{"once",
            reef_bench::repeated(
                1, [&] { benchmark::DoNotOptimize(graph.run(order, graph.singletons())); })},
           {"reading", reef_bench::repeated(1,
                                            [&] {
                                              benchmark::DoNotOptimize(std::accumulate(
                                                  weights.begin(), weights.end(), 0.0));
                                            })}},
          {});
      state.counters["clusters"] = found.count;
      state.counters["modularity"] = found.modularity;
      state.counters["modularity_once"] = graph.modularity(once);
      state.counters["modularity_cities"] = graph.modularity(cities);
    });
  }
}

}  // namespace

int main(int argc, char** argv) { return reef_bench::run(argc, argv, register_all); }
