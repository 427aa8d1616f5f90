#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include <reef/plan/detail/draws.hpp>

namespace reef {
inline namespace v0 {
namespace plan::detail {

/// Clusters of a graph whose modularity no single move betters: Louvain, then moves of nodes, merges of
/// clusters and chains of moves in turn, until none gains.
///
/// Weights are (n, n) row-major and symmetric, with a sum above 0.
class Louvain {
public:
  using Labels = std::vector<int>;

  Louvain(const std::vector<double>& weights, int n, double resolution)
      : resolution_(resolution), nodes_{static_cast<std::size_t>(n), weights, {}} {
    nodes_.add_degrees();
    total_ = std::accumulate(nodes_.degrees.begin(), nodes_.degrees.end(), 0.0);
  }

  /// Every node a cluster.
  [[nodiscard]] Labels singletons() const {
    Labels labels(nodes_.size);
    std::iota(labels.begin(), labels.end(), 0);
    return labels;
  }

  /// From those clusters on, with labels below the number of nodes; nodes are visited in that order.
  [[nodiscard]] Labels run(const std::vector<int>& order, Labels labels) const {
    do {
      do move_nodes(nodes_, order, labels);
      while (merge(labels));
    } while (nodes_.size <= max_in_chains && move_in_chains(labels));
    return labels;
  }

  /// The sum over clusters of their inner weights' share, less resolution times the square of their degrees'.
  [[nodiscard]] double modularity(const Labels& labels) const {
    std::vector<double> inner(nodes_.size, 0);
    std::vector<double> degree(nodes_.size, 0);
    for (std::size_t i = 0; i < nodes_.size; ++i) {
      const auto own = static_cast<std::size_t>(labels[i]);
      degree[own] += nodes_.degrees[i];
      for (std::size_t j = 0; j < nodes_.size; ++j) {
        if (labels[j] == labels[i]) inner[own] += nodes_.weight(i, j);
      }
    }
    double sum = 0;
    for (std::size_t c = 0; c < nodes_.size; ++c) {
      const double share = degree[c] / total_;
      sum += inner[c] / total_ - resolution_ * share * share;
    }
    return sum;
  }

  /// The best of all partitions: over subsets, 3^n steps. For few nodes.
  [[nodiscard]] Labels best_of_all() const {
    const std::size_t n = nodes_.size;
    const std::size_t subsets = std::size_t{1} << n;
    std::vector<double> alone(subsets, 0);  // the modularity of a subset as one cluster
    std::vector<double> inner(subsets, 0);
    std::vector<double> degree(subsets, 0);
    for (std::size_t s = 1; s < subsets; ++s) {
      const auto last = static_cast<std::size_t>(std::bit_width(s)) - 1;
      const std::size_t rest = s ^ (std::size_t{1} << last);
      double joined = nodes_.weight(last, last);
      for (std::size_t i = 0; i < last; ++i) {
        if ((rest >> i & 1U) != 0) joined += 2 * nodes_.weight(last, i);
      }
      inner[s] = inner[rest] + joined;
      degree[s] = degree[rest] + nodes_.degrees[last];
      const double share = degree[s] / total_;
      alone[s] = inner[s] / total_ - resolution_ * share * share;
    }
    std::vector<double> best(subsets, 0);
    std::vector<std::uint32_t> cluster(subsets, 0);  // of the last node
    for (std::size_t s = 1; s < subsets; ++s) {
      const std::size_t last = std::bit_floor(s);
      const std::size_t rest = s ^ last;
      best[s] = -(std::numeric_limits<double>::max)();
      for (std::size_t with = rest;; with = (with - 1) & rest) {
        const double value = alone[with | last] + best[rest ^ with];
        if (value > best[s]) {
          best[s] = value;
          cluster[s] = static_cast<std::uint32_t>(with | last);
        }
        if (with == 0) break;
      }
    }
    Labels labels(n, 0);
    int label = 0;
    for (std::size_t s = subsets - 1; s != 0; s ^= cluster[s], ++label) {
      for (std::size_t i = 0; i < n; ++i) {
        if ((cluster[s] >> i & 1U) != 0) labels[i] = label;
      }
    }
    return labels;
  }

private:
  static constexpr std::size_t max_in_chains = 128;
  static constexpr double least_gain = 1e-12;  // of the total: less is rounding

  struct Level {
    std::size_t size;
    std::vector<double> weights;  // (size, size); the diagonal is what is inside, counted twice
    std::vector<double> degrees;

    [[nodiscard]] double weight(std::size_t i, std::size_t j) const {
      return weights[i * size + j];
    }
    void add_degrees() {
      degrees.assign(size, 0);
      for (std::size_t i = 0; i < size; ++i) {
        for (std::size_t j = 0; j < size; ++j) degrees[i] += weight(i, j);
      }
    }
  };

  /// What a node gains in each cluster over being alone, but for a factor, by label.
  void gains_of(const Level& level, std::size_t node, const Labels& labels,
                const std::vector<double>& degree, std::vector<double>& gains) const {
    gains.assign(level.size, 0);
    for (std::size_t j = 0; j < level.size; ++j) {
      if (j != node) gains[static_cast<std::size_t>(labels[j])] += level.weight(node, j);
    }
    const auto own = static_cast<std::size_t>(labels[node]);
    for (std::size_t c = 0; c < level.size; ++c) {
      const double others = degree[c] - (c == own ? level.degrees[node] : 0);
      gains[c] -= resolution_ * level.degrees[node] * others / total_;
    }
  }

  [[nodiscard]] static std::vector<double> degrees_of(const Level& level, const Labels& labels) {
    std::vector<double> degree(level.size, 0);
    for (std::size_t i = 0; i < level.size; ++i)
      degree[static_cast<std::size_t>(labels[i])] += level.degrees[i];
    return degree;
  }

  /// Moves each node to the cluster that gains most, the smallest label of those alike, until none gains.
  bool move_nodes(const Level& level, const std::vector<int>& order, Labels& labels) const {
    std::vector<double> degree = degrees_of(level, labels);
    std::vector<double> gains;
    bool moved = false;
    for (bool again = true; again;) {
      again = false;
      for (const int visited : order) {
        const auto node = static_cast<std::size_t>(visited);
        gains_of(level, node, labels, degree, gains);
        const auto own = static_cast<std::size_t>(labels[node]);
        std::size_t best = own;
        for (std::size_t c = 0; c < level.size; ++c) {
          if (gains[c] > gains[best] + least_gain * total_) best = c;
        }
        if (best == own) continue;
        degree[own] -= level.degrees[node];
        degree[best] += level.degrees[node];
        labels[node] = static_cast<int>(best);
        again = moved = true;
      }
    }
    return moved;
  }

  /// The same with whole clusters as nodes, as often as that helps.
  bool merge(Labels& labels) const {
    bool merged = false;
    for (bool again = true; again;) {
      const int count = number(labels);
      const auto size = static_cast<std::size_t>(count);
      Level clusters{size, std::vector<double>(size * size, 0), {}};
      for (std::size_t i = 0; i < nodes_.size; ++i) {
        for (std::size_t j = 0; j < nodes_.size; ++j) {
          clusters.weights[static_cast<std::size_t>(labels[i]) * size +
                           static_cast<std::size_t>(labels[j])] += nodes_.weight(i, j);
        }
      }
      clusters.add_degrees();
      std::vector<int> order(size);
      std::iota(order.begin(), order.end(), 0);
      Labels of_clusters = order;
      again = move_nodes(clusters, order, of_clusters);
      for (int& label : labels) label = of_clusters[static_cast<std::size_t>(label)];
      merged = merged || again;
    }
    return merged;
  }

  /// Moves every node once, each time the one that gains most or loses least, and keeps the best of the ways
  /// that it came through (Kernighan and Lin).
  bool move_in_chains(Labels& labels) const {
    Labels at = labels;
    Labels best = labels;
    double sum = 0;
    double most = least_gain * total_;
    bool better = false;
    std::vector<bool> stays(nodes_.size, false);
    std::vector<double> degree = degrees_of(nodes_, at);
    std::vector<double> gains;
    for (std::size_t step = 0; step < nodes_.size; ++step) {
      double gain = -(std::numeric_limits<double>::max)();
      std::size_t node = 0;
      std::size_t target = 0;
      for (std::size_t i = 0; i < nodes_.size; ++i) {
        if (stays[i]) continue;
        gains_of(nodes_, i, at, degree, gains);
        const auto own = static_cast<std::size_t>(at[i]);
        bool empty_seen = false;
        for (std::size_t c = 0; c < nodes_.size; ++c) {
          if (c == own) continue;
          const bool empty = degree[c] == 0;
          if (empty && std::exchange(empty_seen, true)) continue;
          if (gains[c] - gains[own] <= gain) continue;
          gain = gains[c] - gains[own];
          node = i;
          target = c;
        }
      }
      if (gain == -(std::numeric_limits<double>::max)()) break;
      degree[static_cast<std::size_t>(at[node])] -= nodes_.degrees[node];
      degree[target] += nodes_.degrees[node];
      at[node] = static_cast<int>(target);
      stays[node] = true;
      sum += gain;
      if (sum <= most) continue;
      most = sum;
      best = at;
      better = true;
    }
    if (better) labels = best;
    return better;
  }

public:
  /// Numbers the labels by first occurrence. Returns how many there are.
  static int number(Labels& labels) {
    const int most = *std::max_element(labels.begin(), labels.end());
    std::vector<int> numbers(static_cast<std::size_t>(most) + 1, -1);
    int count = 0;
    for (int& label : labels) {
      int& given = numbers[static_cast<std::size_t>(label)];
      if (given < 0) given = count++;
      label = given;
    }
    return count;
  }

private:
  double resolution_;
  Level nodes_;
  double total_ = 0;
};

/// The best of many runs: from single nodes in shuffled orders, and from the best with a quarter of its nodes strewn.
inline Louvain::Labels louvain_from_many(const Louvain& graph, std::size_t n) {
  const std::size_t runs = std::clamp<std::size_t>((std::size_t{1} << 22) / (n * n), 12, 256);
  std::vector<int> order(n);
  std::iota(order.begin(), order.end(), 0);
  Louvain::Labels best;
  double most = -(std::numeric_limits<double>::max)();
  for (std::size_t run = 0; run < runs; ++run) {
    Draws draws(0, static_cast<std::uint32_t>(run));
    if (run > 0) draws.shuffle(order);
    Louvain::Labels labels = graph.singletons();
    if (run % 2 == 1) {
      labels = best;
      const int targets = (std::min)(Louvain::number(labels) + 1, static_cast<int>(n));
      for (int& label : labels) {
        if (draws.below(4) == 0) label = draws.below(targets);
      }
    }
    labels = graph.run(order, std::move(labels));
    const double value = graph.modularity(labels);
    if (value <= most) continue;
    most = value;
    best = std::move(labels);
  }
  return best;
}

}  // namespace plan::detail
}  // namespace v0
}  // namespace reef
