// Clusters of devices by their links: against every partition of small graphs, and the kinds of networks that they
// are for.

#include <algorithm>
#include <cstddef>
#include <functional>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reef/core/error.hpp>
#include <reef/plan/clusters.hpp>
#include <reef/plan/detail/louvain.hpp>

namespace reef::plan {
namespace {

using Labels = std::vector<int>;
using Matrix = std::vector<double>;
using testing::HasSubstr;

double between(std::mt19937_64& random, double least, double most) {
  return least + (most - least) * static_cast<double>(random() >> 11) * 0x1p-53;
}

/// A symmetric matrix of what `of` says for each two.
Matrix matrix_of(int n, const std::function<double(int, int)>& of) {
  Matrix weights(static_cast<std::size_t>(n * n), 0);
  for (int a = 0; a < n; ++a) {
    for (int b = 0; b < a; ++b) {
      const double weight = of(a, b);
      weights[static_cast<std::size_t>(a * n + b)] = weight;
      weights[static_cast<std::size_t>(b * n + a)] = weight;
    }
  }
  return weights;
}

/// As it is defined, edge by edge.
double modularity(const Matrix& weights, const Labels& labels, double resolution = 1) {
  const std::size_t n = labels.size();
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<double> degree(n, 0);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) degree[i] += weights[i * n + j];
  }
  double sum = 0;
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      if (labels[i] == labels[j])
        sum += weights[i * n + j] / total - resolution * degree[i] / total * degree[j] / total;
    }
  }
  return sum;
}

/// The highest modularity of all partitions.
double best_of_all(const Matrix& weights, int n, double resolution) {
  Labels labels(static_cast<std::size_t>(n), 0);
  double best = -std::numeric_limits<double>::max();
  const std::function<void(int, int)> extend = [&](int at, int used) {
    if (at == n) {
      best = std::max(best, modularity(weights, labels, resolution));
      return;
    }
    for (int label = 0; label <= used; ++label) {
      labels[static_cast<std::size_t>(at)] = label;
      extend(at + 1, std::max(used, label + 1));
    }
  };
  extend(0, 0);
  return best;
}

TEST(Clusters, of_few_devices_are_the_best_of_all_partitions) {
  std::mt19937_64 random(1);
  for (int run = 0; run < 60; ++run) {
    const int n = 2 + run % 7;
    const double resolution = run % 3 == 0 ? 1.4 : 1;
    const Matrix weights = matrix_of(n, [&](int a, int b) {
      return random() % 4 == 0 ? 0 : between(random, 0.1, a % 2 == b % 2 ? 3 : 1);
    });
    const Clusters found = clusters(weights, n, resolution);
    EXPECT_TRUE(found.optimal);
    if (std::accumulate(weights.begin(), weights.end(), 0.0) == 0) continue;
    EXPECT_NEAR(found.modularity, best_of_all(weights, n, resolution), 1e-12);
    EXPECT_NEAR(found.modularity, modularity(weights, found.labels, resolution), 1e-12);
  }
}

TEST(Clusters, of_many_devices_are_found_by_louvain_as_well_as_by_trying_all) {
  std::mt19937_64 random(2);
  for (int run = 0; run < 200; ++run) {
    const int n = 8 + run % 6;
    const int planted = 2 + run % 3;
    const Matrix weights = matrix_of(n, [&](int a, int b) {
      return between(random, 0.1, 1) + (a % planted == b % planted ? between(random, 0, 2) : 0);
    });
    const detail::Louvain graph(weights, n, 1);
    const double best = graph.modularity(graph.best_of_all());
    const double found =
        graph.modularity(detail::louvain_from_many(graph, static_cast<std::size_t>(n)));
    EXPECT_NEAR(found, best, 1e-12) << run;
  }
}

TEST(Clusters, are_what_was_planted_in_networks_with_noise) {
  std::mt19937_64 random(3);
  for (const int size : {5, 8, 20, 60}) {
    const int n = 3 * size;
    Labels planted;
    for (int i = 0; i < n; ++i) planted.push_back(i / size);
    Matrix bandwidths = matrix_of(n, [&](int a, int b) {
      const bool inside =
          planted[static_cast<std::size_t>(a)] == planted[static_cast<std::size_t>(b)];
      return (inside ? 1e9 : 2e7) * between(random, 0.6, 1.6);
    });
    for (double& bandwidth : bandwidths) bandwidth *= between(random, 1, 1.3);  // each way
    const Clusters found = clusters(cluster_weights(bandwidths, n, ClusterWeights::log), n);
    EXPECT_EQ(found.labels, planted);
    EXPECT_EQ(found.count, 3);
  }
}

/// Two sites of 16 and 8; the first is two machines of 8.
Matrix two_sites() {
  return matrix_of(24, [](int a, int b) {
    if (a / 8 == b / 8) return 1e5;
    return a < 16 && b < 16 ? 1e4 : 100.0;
  });
}

TEST(Clusters, by_log_weights_are_sites_and_by_raw_ones_their_machines) {
  const Matrix bandwidths = two_sites();
  Labels sites(16, 0);
  sites.resize(24, 1);
  EXPECT_EQ(clusters(cluster_weights(bandwidths, 24, ClusterWeights::log), 24).labels, sites);
  Labels machines(8, 0);
  machines.resize(16, 1);
  machines.resize(24, 2);
  EXPECT_EQ(clusters(cluster_weights(bandwidths, 24, ClusterWeights::raw), 24).labels, machines);
}

TEST(Clusters, by_raw_weights_hide_slow_clusters_beside_a_fast_one_at_any_resolution) {
  const Matrix bandwidths = matrix_of(12, [](int a, int b) {
    if (a / 4 != b / 4) return 10.0;
    return a < 4 ? 1e4 : 100.0;
  });
  const auto count = [&](ClusterWeights kind, double resolution) {
    return clusters(cluster_weights(bandwidths, 12, kind), 12, resolution).count;
  };
  EXPECT_EQ(count(ClusterWeights::log, 1), 3);
  EXPECT_EQ(count(ClusterWeights::raw, 1), 2);
  for (const double resolution : {1.5, 2.0, 3.0})
    EXPECT_EQ(count(ClusterWeights::raw, resolution), 5) << "the fast one falls apart first";
}

TEST(Clusters, count_both_directions_as_the_slower_one) {
  const Matrix both = cluster_weights({0, 8, 2, 0}, 2, ClusterWeights::raw);
  EXPECT_EQ(both, (Matrix{0, 2, 2, 0}));
  EXPECT_EQ(cluster_weights({5, 8, 2, 7}, 2, ClusterWeights::log), (Matrix{0, 1, 1, 0}));
  const Matrix three = cluster_weights({0, 3, 1, 3, 0, 7, 1, 7, 0}, 3, ClusterWeights::log);
  EXPECT_EQ(three, (Matrix{0, 2, 1, 2, 0, 3, 1, 3, 0}));
}

TEST(Clusters, refuse_what_are_no_bandwidths_and_name_the_link) {
  const auto refused = [](const std::string& text, const Matrix& bandwidths, int n) {
    try {
      cluster_weights(bandwidths, n, ClusterWeights::log);
      ADD_FAILURE() << "no error for " << text;
    } catch (const OptionError& error) {
      EXPECT_THAT(error.what(), HasSubstr(text));
    }
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  refused("2 devices have 3 bandwidths", {0, 1, 1}, 2);
  refused("-1 devices have 0 bandwidths", {}, -1);
  refused("1000000 devices", {0}, 1'000'000);
  refused("from 1 to 0 is -1", {nan, 1, -1, nan}, 2);
  refused("from 0 to 1 is nan", {0, nan, 1, 0}, 2);
  refused("from 0 to 1 is 1e-300", {0, 1e-300, 1, 0}, 2);
}

TEST(Clusters, the_order_of_devices_changes_no_modularity) {
  std::mt19937_64 random(4);
  for (const int n : {6, 13, 20, 40}) {
    const Matrix weights = matrix_of(n, [&](int, int) { return between(random, 0.1, 1); });
    std::vector<std::size_t> order(static_cast<std::size_t>(n));
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::shuffle(order.begin(), order.end(), random);
    Matrix other(weights.size());
    for (std::size_t i = 0; i < order.size(); ++i) {
      for (std::size_t j = 0; j < order.size(); ++j)
        other[i * order.size() + j] = weights[order[i] * order.size() + order[j]];
    }
    EXPECT_EQ(clusters(weights, n).modularity, clusters(other, n).modularity) << n;
  }
}

TEST(Clusters, a_device_that_none_reaches_is_one_by_itself) {
  const Matrix weights = matrix_of(5, [](int a, int b) { return a == 2 || b == 2 ? 0.0 : 1.0; });
  const Clusters found = clusters(weights, 5);
  EXPECT_EQ(std::count(found.labels.begin(), found.labels.end(), found.labels[2]), 1);
  EXPECT_EQ(clusters(Matrix(9, 0), 3).labels, (Labels{0, 1, 2}));
  EXPECT_EQ(clusters({0}, 1).labels, (Labels{0}));
}

TEST(Clusters, refuse_what_are_no_weights_and_name_them) {
  const auto refused = [](const std::string& text, const Matrix& weights, int n,
                          double resolution) {
    try {
      clusters(weights, n, resolution);
      ADD_FAILURE() << "no error for " << text;
    } catch (const OptionError& error) {
      EXPECT_THAT(error.what(), HasSubstr(text));
    }
  };
  refused("0 devices have 0 weights", {}, 0, 1);
  refused("2 devices have 3 weights", {0, 1, 1}, 2, 1);
  refused("1000000 devices", {0}, 1'000'000, 1);
  refused("weight of 0 and 1 is 1, that of 1 and 0 2", {0, 1, 2, 0}, 2, 1);
  refused("weight of 0 and 1 is -1", {0, -1, -1, 0}, 2, 1);
  refused("weight of 0 and 1 is nan", Matrix(4, std::numeric_limits<double>::quiet_NaN()), 2, 1);
  refused("the resolution is 0", {0, 1, 1, 0}, 2, 0);
}

}  // namespace
}  // namespace reef::plan
