#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include <reef/core/language.hpp>

namespace reef {
inline namespace v0 {
namespace plan::detail {

/// An order of devices in which clusters stay together: OP-Fence's.
///
/// Orders are compared by the slowest link from one device to the next, then by the sum of all. Inside a cluster of at
/// most 10 the best path between any two devices is found (Held and Karp), in a larger one each next device is the
/// nearest. Of at most 6 clusters all orders are tried, of more each next is the nearest.
class FenceOrder {
public:
  /// | times  | (n, n) row-major: a message from one to the other |
  /// | labels | (n,) from 0 on                                    |
  FenceOrder(const std::vector<double>& times, const std::vector<int>& labels, int clusters)
      : times_(times), n_(labels.size()), members_(static_cast<std::size_t>(clusters)) {
    for (std::size_t i = 0; i < n_; ++i)
      members_[static_cast<std::size_t>(labels[i])].push_back(static_cast<int>(i));
    for (const std::vector<int>& members : members_) paths_.push_back(paths_of(members));
  }

  [[nodiscard]] std::vector<int> best() const {
    constexpr std::size_t max_in_all = 6;
    std::vector<std::size_t> clusters(members_.size());
    std::iota(clusters.begin(), clusters.end(), std::size_t{0});
    Path best;
    if (clusters.size() <= max_in_all) {
      do keep_better(best, through(clusters));
      while (std::next_permutation(clusters.begin(), clusters.end()));
    } else {
      for (std::size_t first = 0; first < clusters.size(); ++first)
        keep_better(best, through(nearest_first(first)));
    }
    return best.devices;
  }

private:
  struct Cost {
    double slowest = 0;
    double sum = 0;

    [[nodiscard]] Cost then(const Cost& next) const {
      return {(std::max)(slowest, next.slowest), sum + next.sum};
    }
    friend bool operator<(const Cost& a, const Cost& b) {
      return a.slowest < b.slowest || (a.slowest == b.slowest && a.sum < b.sum);
    }
  };
  struct Path {
    std::vector<int> devices{};
    Cost cost{};
  };

  [[nodiscard]] Cost link(int from, int to) const {
    const double time = times_[static_cast<std::size_t>(from) * n_ + static_cast<std::size_t>(to)];
    return {time, time};
  }

  static void keep_better(Path& best, Path path) {
    if (best.devices.empty() || path.cost < best.cost) best = std::move(path);
  }

  /// Paths through a cluster, one for each two ends.
  [[nodiscard]] std::vector<Path> paths_of(const std::vector<int>& members) const {
    constexpr std::size_t max_in_all = 10;
    std::vector<Path> paths;
    for (std::size_t entry = 0; entry < members.size(); ++entry) {
      if (members.size() <= max_in_all) {
        add_all_paths(members, entry, paths);
      } else {
        paths.push_back(nearest_path(members, members[entry]));
      }
    }
    return paths;
  }

  void add_all_paths(const std::vector<int>& members, std::size_t entry,
                     std::vector<Path>& paths) const {
    const std::size_t n = members.size();
    const std::size_t subsets = std::size_t{1} << n;
    constexpr double none = (std::numeric_limits<double>::max)();
    std::vector<Cost> best(subsets * n,
                           {none, none});  // by who has been visited, and where it ends
    std::vector<std::size_t> from(subsets * n, 0);
    best[(std::size_t{1} << entry) * n + entry] = {};
    for (std::size_t visited = 0; visited < subsets; ++visited) {
      for (std::size_t at = 0; at < n; ++at) {
        const Cost& cost = best[visited * n + at];
        if (cost.slowest == none) continue;
        for (std::size_t next = 0; next < n; ++next) {
          if ((visited >> next & 1U) != 0) continue;
          const std::size_t to = (visited | std::size_t{1} << next) * n + next;
          const Cost longer = cost.then(link(members[at], members[next]));
          if (!(longer < best[to])) continue;
          best[to] = longer;
          from[to] = at;
        }
      }
    }
    for (std::size_t exit = 0; exit < n; ++exit) {
      const Cost& cost = best[(subsets - 1) * n + exit];
      if (cost.slowest == none) continue;
      Path path{{}, cost};
      std::size_t visited = subsets - 1;
      for (std::size_t at = exit;;) {
        path.devices.push_back(members[at]);
        const std::size_t before = from[visited * n + at];
        visited ^= std::size_t{1} << at;
        if (visited == 0) break;
        at = before;
      }
      std::reverse(path.devices.begin(), path.devices.end());
      paths.push_back(std::move(path));
    }
  }

  [[nodiscard]] Path nearest_path(const std::vector<int>& members, int entry) const {
    Path path{{entry}, {}};
    std::vector<int> left;
    std::copy_if(members.begin(), members.end(), std::back_inserter(left),
                 [&](int device) { return device != entry; });
    while (!left.empty()) {
      const int at = path.devices.back();
      const auto next = std::min_element(left.begin(), left.end(),
                                         [&](int a, int b) { return link(at, a) < link(at, b); });
      path.cost = path.cost.then(link(at, *next));
      path.devices.push_back(*next);
      left.erase(next);
    }
    return path;
  }

  /// The best path through clusters in that order.
  [[nodiscard]] Path through(const std::vector<std::size_t>& clusters) const {
    std::map<int, Path> ends;  // by the device where it ends
    for (const std::size_t cluster : clusters) {
      std::map<int, Path> next;
      for (const Path& path : paths_[cluster]) {
        const int entry = path.devices.front();
        Cost least;
        const Path* before = nullptr;
        for (const auto& [exit, reached] : ends) {
          const Cost cost = reached.cost.then(link(exit, entry));
          if (before != nullptr && !(cost < least)) continue;
          least = cost;
          before = &reached;
        }
        const Cost cost = before == nullptr ? path.cost : least.then(path.cost);
        const auto known = next.find(path.devices.back());
        if (known != next.end() && !(cost < known->second.cost)) continue;
        Path longer{before == nullptr ? std::vector<int>() : before->devices, cost};
        longer.devices.insert(longer.devices.end(), path.devices.begin(), path.devices.end());
        next.insert_or_assign(path.devices.back(), std::move(longer));
      }
      ends = std::move(next);
    }
    Path best;
    for (auto& [exit, path] : ends) keep_better(best, std::move(path));
    return best;
  }

  [[nodiscard]] std::vector<std::size_t> nearest_first(std::size_t first) const {
    std::vector<std::size_t> order{first};
    std::vector<std::size_t> left;
    for (std::size_t c = 0; c < members_.size(); ++c) {
      if (c != first) left.push_back(c);
    }
    const auto between = [&](std::size_t a, std::size_t b) {
      double least = (std::numeric_limits<double>::max)();
      for (const int from : members_[a]) {
        for (const int to : members_[b]) least = (std::min)(least, link(from, to).sum);
      }
      return least;
    };
    while (!left.empty()) {
      const std::size_t at = order.back();
      const auto next = std::min_element(
          left.begin(), left.end(),
          [&](std::size_t a, std::size_t b) { return between(at, a) < between(at, b); });
      order.push_back(*next);
      left.erase(next);
    }
    return order;
  }

  const std::vector<double>& times_;
  std::size_t n_;
  std::vector<std::vector<int>> members_;
  std::vector<std::vector<Path>> paths_;
};

}  // namespace plan::detail
}  // namespace v0
}  // namespace reef
