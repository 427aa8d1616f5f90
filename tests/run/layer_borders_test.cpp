#include <reef/run/chunk_bounds.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <reef/nn/gpt.hpp>
#include <reef/nn/host.hpp>

namespace reef::test {
namespace {

/// The slowest chunk of the best cuts before nodes that begin a layer or its second half, or follow the last layer: by
/// trying all.
Seconds best_between_layers(const std::vector<Seconds>& times, const std::vector<int>& borders,
                            std::size_t from, int first, int chunks) {
  const Seconds rest = std::accumulate(times.begin() + first, times.end(), 0.0);
  if (chunks == 1) return rest;
  Seconds best = rest;
  for (std::size_t b = from; b + static_cast<std::size_t>(chunks) <= borders.size() + 1; ++b) {
    const Seconds here = std::accumulate(times.begin() + first, times.begin() + borders[b], 0.0);
    if (here >= best) break;
    best = std::min(
        best, std::max(here, best_between_layers(times, borders, b + 1, borders[b], chunks - 1)));
  }
  return best;
}

TEST(LayerBorders, stages_of_a_gpt_end_between_residual_branches_where_one_tensor_crosses) {
  for (const std::int64_t channels : {16, 64}) {
    for (const int layers : {2, 3, 4, 5, 6, 8}) {
      const nn::GptConfig config{.layers = layers,
                                 .heads = 2,
                                 .channels = channels,
                                 .vocabulary = 256,
                                 .context = 32,
                                 .batch = 4};
      const graph::Dag dag = nn::gpt<device::Host, float>(config, 1).dag();
      const std::vector<Seconds> times = run::node_times(dag, nullptr);
      const std::vector<Bytes> crossing = graph::crossing_bytes(dag);
      const Bytes one_tensor = 4 * 32 * static_cast<Bytes>(channels) * sizeof(float);
      std::vector<int> borders;
      for (int node = 1; node < dag.node_count(); ++node) {
        const std::string& name = dag.node_at(node).name;
        if (name.ends_with("ln_1") || name.ends_with("ln_2") || name.ends_with("ln_f"))
          borders.push_back(node);
      }
      ASSERT_EQ(borders.size(), 2 * static_cast<std::size_t>(layers) + 1);
      for (int stages = 2; stages <= std::min(layers + 1, 6); ++stages) {
        const std::string where = std::to_string(layers) + " layers of " +
                                  std::to_string(channels) + " channels over " +
                                  std::to_string(stages) + " stages";
        const std::vector<int> bounds = run::chunk_bounds(dag, times, stages);
        Seconds slowest = 0;
        for (std::size_t i = 0; i + 1 < bounds.size(); ++i) {
          slowest = std::max(slowest, std::accumulate(times.begin() + bounds[i],
                                                      times.begin() + bounds[i + 1], 0.0));
          if (i == 0) continue;
          EXPECT_EQ(crossing[static_cast<std::size_t>(bounds[i])], one_tensor)
              << where << ": a stage begins with " << dag.node_at(bounds[i]).name;
        }
        EXPECT_LE(slowest, best_between_layers(times, borders, 0, 0, stages) * (1 + 1e-9)) << where;
      }
    }
  }
}

}  // namespace
}  // namespace reef::test
