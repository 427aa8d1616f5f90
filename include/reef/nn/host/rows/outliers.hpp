#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <vector>

#include <reef/core/element.hpp>
#include <reef/core/units.hpp>
#include <reef/device/host.hpp>
#include <reef/graph/rows.hpp>
#include <reef/nn/host/rows/panels.hpp>

namespace reef {
inline namespace v0 {
namespace nn::host::detail {

/// The outliers of a quantised int8 matrix: the inputs k whose numbers are stored unquantised. In the int8 panels these
/// numbers are 0, and a product adds them behind all others. There are none in another form.
template <class T>
struct OutlierPanels {
  using E = sum_t<T>;

  OutlierPanels(const void* packed, std::int64_t K, std::int64_t N, graph::WeightForm form)
      : panels(nullptr, 0, N) {
    if (form != graph::WeightForm::int8) return;
    const auto* const at =
        static_cast<const std::byte*>(packed) + PanelPlaces<T>(K, N, form).outliers;
    count = *reinterpret_cast<const std::int32_t*>(at);
    inputs = reinterpret_cast<const std::int32_t*>(at) + 1;
    panels = NumberPanels<E, T>(at + PanelPlaces<T>::outlier_header(count), count, N);
  }

  /// Writes the outliers' inputs of M rows of `from`, which are ld apart, to (count, M): a tile's rows, side by side.
  void gather(E* to, const T* from, std::int64_t ld, std::int64_t M) const {
    for (std::int64_t i = 0; i < count; ++i) {
      for (std::int64_t m = 0; m < M; ++m) to[i * M + m] = static_cast<E>(from[m * ld + inputs[i]]);
    }
  }

  /// Writes the outliers' unquantised numbers of column n into the decoded column `to` (K).
  void restore(E* to, std::int64_t n) const {
    const T* const numbers = panels.block(n / panel_columns, 0).at + n % panel_columns;
    for (std::int64_t i = 0; i < count; ++i)
      to[inputs[i]] = static_cast<E>(numbers[i * panel_columns]);
  }

  std::int64_t count = 0;
  const std::int32_t* inputs = nullptr;  // ascending
  NumberPanels<E, T> panels;
};

/// Returns how much each of the K inputs of a matrix stands out: its magnitude, if magnitudes are given, else the sum
/// over columns of (w^2 / mean square of the column)^2, which few large numbers decide.
inline std::vector<double> outlier_scores(device::Host::Lane& lane,
                                          const std::vector<float>& columns, std::int64_t K,
                                          std::span<const float> magnitudes) {
  constexpr std::int64_t together = 64;
  const std::int64_t N = std::ssize(columns) / K;
  std::vector<double> scores(static_cast<std::size_t>(K));
  if (!magnitudes.empty()) {
    std::transform(magnitudes.begin(), magnitudes.end(), scores.begin(),
                   [](float x) { return (std::abs)(static_cast<double>(x)); });
  } else {
    std::vector<double> mean(static_cast<std::size_t>(N));
    lane.parallel(N, [&](std::int64_t n) {
      double sum = 0;
      for (std::int64_t k = 0; k < K; ++k) {
        const double w = columns[static_cast<std::size_t>(n * K + k)];
        sum += w * w;
      }
      mean[static_cast<std::size_t>(n)] = sum > 0 ? sum / static_cast<double>(K) : 1;
    });
    lane.parallel((K + together - 1) / together, [&](std::int64_t block) {
      for (std::int64_t n = 0; n < N; ++n) {
        for (std::int64_t k = block * together; k < (std::min)(K, (block + 1) * together); ++k) {
          const double w = columns[static_cast<std::size_t>(n * K + k)];
          const double share = w * w / mean[static_cast<std::size_t>(n)];
          scores[static_cast<std::size_t>(k)] += share * share;
        }
      }
    });
  }
  // What is not a number stands out most, since an order needs one.
  for (double& score : scores)
    score = score == score ? score : std::numeric_limits<double>::infinity();
  return scores;
}

/// Returns the `count` inputs of a matrix with the highest scores, ascending; of equal ones the lower number first.
inline std::vector<std::int32_t> chosen_outliers(const std::vector<double>& scores,
                                                 std::int64_t count) {
  std::vector<std::int32_t> inputs(scores.size());
  std::iota(inputs.begin(), inputs.end(), 0);
  const auto last = inputs.begin() + static_cast<std::ptrdiff_t>(count);
  std::partial_sort(inputs.begin(), last, inputs.end(), [&](std::int32_t a, std::int32_t b) {
    const double x = scores[static_cast<std::size_t>(a)];
    const double y = scores[static_cast<std::size_t>(b)];
    return x > y || (x == y && a < b);
  });
  inputs.erase(last, inputs.end());
  std::sort(inputs.begin(), inputs.end());
  return inputs;
}

}  // namespace nn::host::detail
}  // namespace v0
}  // namespace reef
