#include <algorithm>
#include <cstddef>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <reef/core/units.hpp>
#include <reef/io/json.hpp>
#include <reef/plan/clusters.hpp>
#include <reef/plan/clusters_json.hpp>
#include <reef/profile/network.hpp>

#include "../support/number_option.hpp"
#include "commands.hpp"
#include "plot.hpp"

namespace reef_examples {

namespace {

using namespace reef;

struct ClusterOptions {
  std::string weights = "log";
  double resolution = 1;
  std::string plot;
};

/// Bandwidths are in the case's unit, which only it knows: a device is drawn as far away as its links are slower
/// than others.
NetworkPlot drawn(const plan::ClusterCase& read, const plan::Clusters& found,
                  const PlanCase& test) {
  std::vector<double> bandwidths = read.bandwidths;
  for (std::size_t i = 0; i < bandwidths.size(); i += static_cast<std::size_t>(read.devices) + 1)
    bandwidths[i] = 0;  // the diagonal
  double slowest = std::numeric_limits<double>::max();
  for (const double bandwidth : bandwidths) {
    if (bandwidth > 0) slowest = std::min(slowest, bandwidth);
  }
  constexpr double drawn_as = 1e6;  // bytes a second, the slowest link
  profile::Network network{.devices = read.devices,
                           .latencies = std::vector<Seconds>(bandwidths.size(), 0),
                           .rates = {},
                           .names = {}};
  for (const double bandwidth : bandwidths) {
    network.rates.push_back(bandwidth > 0 ? std::min(bandwidth / slowest * drawn_as, 1e18)
                                          : drawn_as / 4);
  }
  NetworkPlot plot = plot_of(test, "Clusters", network);
  plot.rates = {
      .unit = read.unit, .bytes = drawn_as / slowest, .least = drawn_as / 2, .latencies = false};
  plot.labels = found.labels;
  plot.facts = {{"modularity", detail::plot_number(found.modularity)}};
  return plot;
}

}  // namespace

void add_cluster(Commands& commands) {
  const auto options = std::make_shared<ClusterOptions>();
  CLI::App* const command = commands.add(
      "cluster",
      "which devices belong together, by the bandwidths between them (Louvain).\n"
      "CASE: bandwidth (square matrix, in any unit; both directions count as the slower one), n; "
      "or latency_ms and bandwidth_gbps, as reef-measure writes them",
      "case.json --plot clusters.svg", [options](const PlanCase& test) -> io::Json {
        const plan::ClusterCase read = plan::clusters_from_json(test.json, test.file);
        const auto kind =
            options->weights == "log" ? plan::ClusterWeights::log : plan::ClusterWeights::raw;
        const plan::Clusters found =
            plan::clusters(plan::cluster_weights(read.bandwidths, read.devices, kind), read.devices,
                           options->resolution);
        if (!options->plot.empty()) write_plot(options->plot, drawn(read, found, test));
        return {{"labels", found.labels},
                {"modularity", found.modularity},
                {"clusters", found.count},
                {"optimal", found.optimal}};
      });
  command
      ->add_option("--weights", options->weights,
                   "of links: log2(1 + bandwidth / the least), or bandwidths")
      ->check(CLI::IsMember({"log", "raw"}))
      ->capture_default_str();
  command
      ->add_option("--resolution", options->resolution,
                   "above 1 clusters are smaller; 1 is modularity as it is known")
      ->transform(number_from<double>(1e-6, 1e6));
  add_plot(commands, command, options->plot);
}

}  // namespace reef_examples
