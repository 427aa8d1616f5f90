#pragma once

#include <cstdint>
#include <vector>

#include <reef/core/error.hpp>

namespace reef {
inline namespace v0 {
namespace plan {

/// The most devices that clusters(), a partition by bandwidth, accepts.
inline constexpr int max_clustered_devices = 2048;

/// The weight of the edge between two devices: `raw` is its bandwidth, `log` is log2(1 + bandwidth / the least one),
/// which still separates slow clusters where another cluster is fast.
enum class ClusterWeights : std::uint8_t { log, raw };

/// A partition of devices into clusters with fast links inside.
struct Clusters {
  std::vector<int> labels;  ///< the number of each device's cluster; clusters are numbered by first occurrence
  int count = 0;
  double modularity = 0;
  bool optimal =
      false;  ///< true: an exhaustive search has proven that no partition has a higher modularity
};

/// Returns the weights of links with these bandwidths, (n, n) row-major in any unit; both directions of a link count
/// as the slower one. A bandwidth of 0 means no link, and the diagonal is not read. Throws OptionError, naming the
/// link, unless there is a bandwidth for each pair of devices, each 0 or from 1e-30 to 1e30.
std::vector<double> cluster_weights(const std::vector<double>& bandwidths, int devices,
                                    ClusterWeights kind);

/// Returns the clusters of highest modularity Q that the Louvain method finds in many runs; w(c, c): weight inside c.
///
///     Q = sum over clusters c of  w(c, c) / w(all) - resolution (degree(c) / w(all))^2
///
/// | weights | (n, n) row-major, symmetric, 0 or more; cluster_weights computes them from bandwidths  |
/// | cost    | O(n^2) a sweep, some seconds at most for 2048 devices; up to 14 devices all partitions |
/// |         | are compared, which proves the result optimal                                          |
/// | order   | the result is deterministic; the order of devices does not change the modularity       |
/// | errors  | OptionError, naming the weight, for an invalid matrix                                  |
///
/// Source: Blondel et al., Fast unfolding of communities in large networks, arXiv 0803.0476; used on bandwidths
/// by Tang et al., FusionLLM, arXiv 2410.12707, section 4. Deviation: many runs, and chains of moves after each.
///
/// \code
/// // given: const std::vector<double>& bandwidths
/// const auto weights = plan::cluster_weights(bandwidths, 4, plan::ClusterWeights::log);
/// const std::vector<int> labels = plan::clusters(weights, 4).labels;
/// \endcode
Clusters clusters(const std::vector<double>& weights, int devices, double resolution = 1);

}  // namespace plan
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/plan/clusters.ipp>
#endif
