#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <reef/profile/network.hpp>

#include "plot_layout.hpp"

namespace reef_examples::detail {

/// Where a drawing of a network has its devices: in boxes, a cluster's devices in rows, or where there are no
/// clusters each in its own.
///
/// | cost | O(N^2) for N devices |
struct NetworkPlaces {
  std::vector<std::vector<int>> members;  ///< of each box, the devices in their order
  std::vector<PlotBox> boxes;
  std::vector<double> distances;              ///< between boxes, (m, m)
  std::vector<std::pair<double, double>> at;  ///< of each device
  double left = 1e30, right = -1e30, top = 1e30, bottom = -1e30;
  bool shows_names = false;
  double cell_width = 0, cell_height = 0, radius = 0;

  NetworkPlaces(const reef::profile::Network& network, const std::vector<int>& labels,
                const std::vector<std::vector<int>>& paths) {
    const auto n = static_cast<std::size_t>(network.devices);
    shows_names = n <= 64;
    cell_width = shows_names ? 84 : n <= 300 ? 30 : 22;
    cell_height = shows_names ? 44 : n <= 300 ? 30 : 22;
    radius = shows_names ? 11 : n <= 300 ? 10 : 7;
    find_boxes(n, labels, paths);
    place(network, !labels.empty());
  }

private:
  /// The boxes: clusters, or where there are none, devices.
  void find_boxes(std::size_t n, const std::vector<int>& labels,
                  const std::vector<std::vector<int>>& paths) {
    std::vector<int> seen;
    for (std::size_t i = 0; i < n; ++i) {
      const int label = labels.empty() ? static_cast<int>(i) : labels[i];
      const auto found = std::find(seen.begin(), seen.end(), label);
      const auto box = static_cast<std::size_t>(found - seen.begin());
      if (found == seen.end()) {
        seen.push_back(label);
        members.emplace_back();
      }
      members[box].push_back(static_cast<int>(i));
    }
    // Along their paths, so that these do not cross within a box.
    std::vector<std::pair<std::size_t, std::size_t>> order(n, {paths.size(), 0});
    for (std::size_t path = paths.size(); path-- > 0;) {
      for (std::size_t i = 0; i < paths[path].size(); ++i)
        order[static_cast<std::size_t>(paths[path][i])] = {path, i};
    }
    for (std::vector<int>& list : members) {
      std::stable_sort(list.begin(), list.end(), [&](int a, int b) {
        return order[static_cast<std::size_t>(a)] < order[static_cast<std::size_t>(b)];
      });
    }
  }

  void place(const reef::profile::Network& network, bool framed) {
    const std::size_t m = members.size();
    const double frame = framed ? 12 : 0;
    const double head = framed ? 18 : 0;
    boxes.resize(m);
    std::vector<double> columns(m);
    for (std::size_t b = 0; b < m; ++b) {
      const auto count = static_cast<double>(members[b].size());
      columns[b] = std::max(1.0, std::round(std::sqrt(count * 1.3 * cell_height / cell_width)));
      boxes[b].width = columns[b] * cell_width + 2 * frame;
      boxes[b].height = std::ceil(count / columns[b]) * cell_height + 2 * frame + head;
    }
    distances.assign(m * m, 0.0);
    for (std::size_t a = 0; a < m; ++a) {
      for (std::size_t b = 0; b < a; ++b) {
        double sum = 0;
        for (const int from : members[a]) {
          for (const int to : members[b]) sum += plot_distance(network, from, to);
        }
        distances[a * m + b] = distances[b * m + a] =
            sum / static_cast<double>(members[a].size() * members[b].size());
      }
    }
    place_by_distance(boxes, distances);
    push_apart(boxes, framed ? 26 : 4);
    at.resize(static_cast<std::size_t>(network.devices));
    for (std::size_t b = 0; b < m; ++b) {
      const PlotBox& box = boxes[b];
      left = std::min(left, box.x - box.width / 2);
      right = std::max(right, box.x + box.width / 2);
      top = std::min(top, box.y - box.height / 2);
      bottom = std::max(bottom, box.y + box.height / 2);
      for (std::size_t i = 0; i < members[b].size(); ++i) {
        const double row = std::floor(static_cast<double>(i) / columns[b]);
        const double column = static_cast<double>(i) - row * columns[b];
        at[static_cast<std::size_t>(members[b][i])] = {
            box.x - box.width / 2 + frame + (column + 0.5) * cell_width,
            box.y - box.height / 2 + frame + head + row * cell_height +
                (shows_names ? 14 : cell_height / 2)};
      }
    }
  }
};

}  // namespace reef_examples::detail
