// Clusters by bandwidth against known answers: the exact optimum of modularity, for raw and log weights.

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <reef/io/json.hpp>
#include <reef/plan/clusters.hpp>
#include <reef/plan/clusters_json.hpp>

#include "case_file.hpp"

namespace reef::test {
namespace {

TEST(Louvain, finds_the_highest_modularity_of_every_case) {
  const io::Json file = read_case_file("louvain.json");
  int cases = 0;
  for (const io::Json& test : file.at("cases")) {
    SCOPED_TRACE(test.value("name", ""));
    const plan::ClusterCase read = plan::clusters_from_json(test, "case");
    for (const auto kind : {plan::ClusterWeights::raw, plan::ClusterWeights::log}) {
      const char* const key = kind == plan::ClusterWeights::raw ? "raw" : "log";
      if (!test.contains(key)) continue;
      SCOPED_TRACE(key);
      ++cases;
      const std::vector<double> weights =
          plan::cluster_weights(read.bandwidths, read.devices, kind);
      const plan::Clusters found = plan::clusters(weights, read.devices);
      const io::Json& known = test.at(key);
      EXPECT_NEAR(found.modularity, known.at("q_expected").get<double>(), 1e-8);
      EXPECT_EQ(found.labels, known.at("expected").get<std::vector<int>>());
    }
    const std::vector<double> raw =
        plan::cluster_weights(read.bandwidths, read.devices, plan::ClusterWeights::raw);
    for (const auto& [key, known] : test.items()) {
      const std::string prefix = "raw_gamma_";
      if (!key.starts_with(prefix)) continue;
      const double resolution = std::stod(key.substr(prefix.size()));
      const plan::Clusters found = plan::clusters(raw, read.devices, resolution);
      EXPECT_EQ(found.labels, known.at("own").get<std::vector<int>>()) << key;
    }
  }
  EXPECT_GT(cases, 0);
}

}  // namespace
}  // namespace reef::test
