#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

#include <reef/profile/network.hpp>

namespace reef_examples {

/// A box of a drawing: its centre and its extents, in pixels.
struct PlotBox {
  double x = 0, y = 0, width = 0, height = 0;
};

namespace detail {

/// The eigenvector of the largest eigenvalue, times the root of that, by power iteration from a start that depends
/// on `turn` alone; it is taken out of the matrix, so that the next call finds the next.
inline std::vector<double> take_out_coordinate(std::vector<double>& matrix, std::size_t n,
                                               double turn) {
  std::vector<double> vector(n);
  std::vector<double> next(n);
  for (std::size_t i = 0; i < n; ++i) {
    const double at = turn * static_cast<double>(i + 1);
    vector[i] = at - std::floor(at) - 0.5;
  }
  double length = 0;
  for (int step = 0; step < 100; ++step) {
    double square = 0;
    for (std::size_t i = 0; i < n; ++i) {
      double sum = 0;
      for (std::size_t j = 0; j < n; ++j) sum += matrix[i * n + j] * vector[j];
      next[i] = sum;
      square += sum * sum;
    }
    length = std::sqrt(square);
    if (!(length > 0)) return std::vector<double>(n, 0.0);
    for (std::size_t i = 0; i < n; ++i) vector[i] = next[i] / length;
  }
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) matrix[i * n + j] -= length * vector[i] * vector[j];
  }
  for (double& value : vector) value *= std::sqrt(length);
  return vector;
}

}  // namespace detail

/// Centres for the boxes, such that those with little between them are near: classical multidimensional scaling of
/// the (n, n) symmetric distances to the plane, of which `room` times the boxes' area is taken.
///
/// Source: Torgerson, Multidimensional scaling: I. Theory and method, 1952.
inline void place_by_distance(std::span<PlotBox> boxes, std::span<const double> distances,
                              double room = 3) {
  const std::size_t n = boxes.size();
  if (n < 2) return;
  // -1/2 J D^2 J
  std::vector<double> inner(n * n);
  std::vector<double> mean(n, 0.0);
  double all = 0;
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      const double square = distances[i * n + j] * distances[i * n + j];
      inner[i * n + j] = square;
      mean[i] += square / static_cast<double>(n);
    }
    all += mean[i] / static_cast<double>(n);
  }
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j)
      inner[i * n + j] = -(inner[i * n + j] - mean[i] - mean[j] + all) / 2;
  }
  const std::vector<double> x = detail::take_out_coordinate(inner, n, 0.6180339887);
  const std::vector<double> y = detail::take_out_coordinate(inner, n, 0.7548776662);
  double area = 0;
  for (const PlotBox& box : boxes) area += box.width * box.height;
  const auto [left, right] = std::minmax_element(x.begin(), x.end());
  const auto [top, bottom] = std::minmax_element(y.begin(), y.end());
  const double extent = std::max(*right - *left, *bottom - *top);
  const double scale = extent > 0 ? std::sqrt(room * area) / extent : 0;
  for (std::size_t i = 0; i < n; ++i) {
    boxes[i].x = x[i] * scale;
    boxes[i].y = y[i] * scale;
  }
}

/// Moves boxes until each is `gap` from all others: two that are not, along the line between them.
inline void push_apart(std::span<PlotBox> boxes, double gap) {
  const std::size_t n = boxes.size();
  for (std::size_t i = 0; i < n; ++i) {  // no two at one place
    const double turn = 2.399963 * static_cast<double>(i);
    const double away = 1e-3 * std::sqrt(static_cast<double>(i));
    boxes[i].x += away * std::cos(turn);
    boxes[i].y += away * std::sin(turn);
  }
  for (bool apart = false; !apart;) {
    for (int sweep = 0; sweep < 60 && !apart; ++sweep) {
      apart = true;
      for (std::size_t i = 0; i < n; ++i) {
        for (std::size_t j = 0; j < i; ++j) {
          PlotBox& a = boxes[i];
          PlotBox& b = boxes[j];
          const double wide = (a.width + b.width) / 2 + gap;
          const double high = (a.height + b.height) / 2 + gap;
          const double x = (a.x - b.x) / wide;
          const double y = (a.y - b.y) / high;
          const double near = std::max(std::abs(x), std::abs(y));
          if (near >= 1) continue;
          apart = false;
          const double more = (1.001 / std::max(near, 1e-9) - 1) / 2;
          a.x += more * x * wide;
          b.x -= more * x * wide;
          a.y += more * y * high;
          b.y -= more * y * high;
        }
      }
    }
    if (apart) return;
    for (PlotBox& box : boxes) {
      box.x *= 1.1;
      box.y *= 1.1;
    }
  }
}

/// What is between two devices of a drawing: the root of what a megabyte takes there and back, so that the links of a
/// room and those of a continent are both seen.
inline double plot_distance(const reef::profile::Network& network, int a, int b) {
  constexpr double bytes = 1e6;
  return a == b ? 0 : std::sqrt(network.time(a, b, bytes) + network.time(b, a, bytes));
}

}  // namespace reef_examples
