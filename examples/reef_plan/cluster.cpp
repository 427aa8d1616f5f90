#include <memory>
#include <string>

#include <reef/io/json.hpp>
#include <reef/plan/clusters.hpp>
#include <reef/plan/clusters_json.hpp>

#include "../support/number_option.hpp"
#include "commands.hpp"

namespace reef_examples {

void add_cluster(Commands& commands) {
  using namespace reef;
  struct Options {
    std::string weights = "log";
    double resolution = 1;
  };
  const auto options = std::make_shared<Options>();
  CLI::App* const command = commands.add(
      "cluster",
      "which devices belong together, by the bandwidths between them (Louvain).\n"
      "CASE: bandwidth (square matrix, in any unit; both directions count as the slower one), n",
      "case.json --weights raw", [options](const PlanCase& test) -> io::Json {
        const plan::ClusterCase read = plan::clusters_from_json(test.json, test.file);
        const auto kind =
            options->weights == "log" ? plan::ClusterWeights::log : plan::ClusterWeights::raw;
        const plan::Clusters found =
            plan::clusters(plan::cluster_weights(read.bandwidths, read.devices, kind), read.devices,
                           options->resolution);
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
}

}  // namespace reef_examples
