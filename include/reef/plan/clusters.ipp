#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <utility>

#include <reef/core/finite.hpp>
#include <reef/core/inline.hpp>
#include <reef/plan/clusters.hpp>
#include <reef/plan/detail/draws.hpp>
#include <reef/plan/detail/louvain.hpp>
#include <reef/plan/detail/structural_order.hpp>

namespace reef {
inline namespace v0 {
namespace plan {

REEF_INLINE std::vector<double> cluster_weights(const std::vector<double>& bandwidths, int devices,
                                                ClusterWeights kind) {
  const auto n = static_cast<std::size_t>((std::max)(devices, 0));
  if (devices < 1 || devices > max_clustered_devices || bandwidths.size() != n * n) {
    throw OptionError("reef::plan::cluster_weights: ", devices, " devices have ", bandwidths.size(),
                      " bandwidths.\n  fix: 1 to ", max_clustered_devices,
                      " devices, and a bandwidth for each two.");
  }
  for (std::size_t at = 0; at < bandwidths.size(); ++at) {
    const double bandwidth = bandwidths[at];
    if (at / n == at % n || within(bandwidth, 0, 0) || within(bandwidth, 1e-30, 1e30)) continue;
    throw OptionError("reef::plan::cluster_weights: the bandwidth from ", at / n, " to ", at % n,
                      " is ", bandwidth, ".\n  fix: from 1e-30 to 1e30, or 0 where no link is.");
  }
  std::vector<double> weights(n * n, 0);
  double least = (std::numeric_limits<double>::max)();
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      if (i == j) continue;
      const double slower = (std::min)(bandwidths[i * n + j], bandwidths[j * n + i]);
      weights[i * n + j] = slower;
      if (slower > 0) least = (std::min)(least, slower);
    }
  }
  if (kind == ClusterWeights::log) {
    for (double& weight : weights) weight = std::log2(1 + weight / least);
  }
  return weights;
}

REEF_INLINE Clusters clusters(const std::vector<double>& weights, int devices, double resolution) {
  const auto n = static_cast<std::size_t>((std::max)(devices, 0));
  if (devices < 1 || devices > max_clustered_devices || weights.size() != n * n) {
    throw OptionError("reef::plan::clusters: ", devices, " devices have ", weights.size(),
                      " weights.\n  fix: 1 to ", max_clustered_devices,
                      " devices, and a weight for each two.");
  }
  if (!within(resolution, 1e-6, 1e6)) {
    throw OptionError("reef::plan::clusters: the resolution is ", resolution,
                      ".\n  fix: from 1e-6 to 1e6; 1 is modularity as it is known.");
  }
  std::vector<double> own(n * n, 0);
  double total = 0;
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      if (i == j) continue;
      const double weight = weights[i * n + j];
      if (!within(weight, 0, 1e100) || weight != weights[j * n + i]) {
        throw OptionError("reef::plan::clusters: the weight of ", i, " and ", j, " is ", weight,
                          ", that of ", j, " and ", i, " ", weights[j * n + i],
                          ".\n  fix: one weight for both, 0 or more.");
      }
      own[i * n + j] = weight;
      total += weight;
    }
  }
  Clusters result;
  result.labels.resize(n);
  if (!(total > 0)) {  // every device is a cluster: nothing holds two together
    std::iota(result.labels.begin(), result.labels.end(), 0);
    result.count = devices;
    result.optimal = true;
    return result;
  }

  // All that follows is done on devices in an order that does not depend on the one they came in.
  std::vector<std::uint64_t> links(n * n);
  std::transform(own.begin(), own.end(), links.begin(),
                 [](double weight) { return std::bit_cast<std::uint64_t>(weight + 0.0); });
  const std::vector<int> canonical =
      detail::StructuralOrder(std::vector<std::uint64_t>(n, 0), std::move(links)).order();
  std::vector<double> sorted(n * n);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      sorted[i * n + j] =
          own[static_cast<std::size_t>(canonical[i]) * n + static_cast<std::size_t>(canonical[j])];
    }
  }

  constexpr int max_in_all = 14;
  const detail::Louvain graph(sorted, devices, resolution);
  detail::Louvain::Labels best;
  if (devices <= max_in_all) {
    best = graph.best_of_all();
    result.optimal = true;
  } else {
    best = detail::louvain_from_many(graph, n);
  }
  result.modularity = graph.modularity(best);
  for (std::size_t i = 0; i < n; ++i)
    result.labels[static_cast<std::size_t>(canonical[i])] = best[i];
  // A device without links adds nothing wherever it is.
  for (std::size_t i = 0; i < n; ++i) {
    const auto row = own.begin() + static_cast<std::ptrdiff_t>(i * n);
    if (std::all_of(row, row + devices, [](double weight) { return weight == 0; }))
      result.labels[i] = devices + static_cast<int>(i);
  }
  result.count = detail::Louvain::number(result.labels);
  return result;
}

}  // namespace plan
}  // namespace v0
}  // namespace reef
