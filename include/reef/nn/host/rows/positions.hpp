#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include <reef/core/element.hpp>
#include <reef/core/error.hpp>
#include <reef/core/product.hpp>
#include <reef/device/for_each.hpp>
#include <reef/device/host.hpp>
#include <reef/device/simd.hpp>
#include <reef/graph/rows.hpp>
#include <reef/nn/host/detail/scratch.hpp>
#include <reef/nn/host/rotary.hpp>
#include <reef/nn/host/rows/outliers.hpp>
#include <reef/nn/host/rows/packing.hpp>
#include <reef/nn/host/rows/panels.hpp>
#include <reef/nn/rotary_frequencies.hpp>

namespace reef {
inline namespace v0 {
namespace nn::host {

/// The kernels for rows (tokens) that depend on positions: rotary positions, whose angles are computed in fp64 from the
/// position alone, and the vectors of tokens and positions.
struct RowsPositions {
  template <real T>
  static Bytes rows_rotary_workspace(std::int64_t R, std::int64_t turned) {
    return 2 * detail::Scratch::bytes<sum_t<T>>(R * (turned / 2));
  }

  template <real T>
  static void rows_rotary(device::Host::Lane& lane, T* out, const T* in, std::span<const graph::Row> rows,
                          std::int64_t H, std::int64_t D, std::int64_t turned, const RotaryFrequencies& frequencies,
                          void* workspace) {
    using E = sum_t<T>;
    const std::int64_t R = std::ssize(rows);
    const std::int64_t half = turned / 2;
    detail::Scratch scratch(workspace);
    E* const cosines = scratch.take<E>(R * half);
    E* const sines = scratch.take<E>(R * half);
    device::for_each_block(lane, R, 16, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = 0; i < half; ++i) {
        const double frequency = frequencies.of(i, turned);
        for (std::int64_t r = begin; r < end; ++r) {
          const double angle = product(static_cast<double>(rows[static_cast<std::size_t>(r)].position), frequency);
          cosines[r * half + i] = static_cast<E>(std::cos(angle));
          sines[r * half + i] = static_cast<E>(std::sin(angle));
        }
      }
      const std::int64_t at = begin * H * D;
      device::run_vectors<T>(detail::TurnPairs{}, out + at, in + at, static_cast<const E*>(cosines + begin * half),
                             static_cast<const E*>(sines + begin * half), end - begin, H, D, half, false);
    });
  }

  template <real T>
  static void rows_vectors(device::Host::Lane& lane, T* out, const std::int32_t* tokens, const void* packed,
                           const T* wpe, std::span<const graph::Row> rows, std::int64_t C, std::int64_t V,
                           std::int64_t positions, graph::WeightForm form) {
    using E = sum_t<T>;
    for (std::size_t r = 0; r < rows.size(); ++r) {
      if (tokens[r] >= 0 && tokens[r] < V && (wpe == nullptr || rows[r].position < positions)) continue;
      throw DecodeError("reef::nn: token ", tokens[r], " at position ", rows[r].position,
                        " is outside the vocabulary of ", V, " or the ", positions,
                        " positions that have a vector.\n  fix: the model's own tokenizer, and a shorter sequence.");
    }
    const detail::OutlierPanels<T> outliers(packed, C, V, form);
    detail::with_panels<T>(packed, C, V, form, [&](const auto& panels) {
      device::for_each_block(lane, std::ssize(rows), 4, [&](std::int64_t begin, std::int64_t end) {
        std::vector<E> vector(static_cast<std::size_t>(C));
        for (std::int64_t r = begin; r < end; ++r) {
          detail::unpack_column(vector.data(), panels, tokens[r], C);
          outliers.restore(vector.data(), tokens[r]);
          const T* const at = wpe == nullptr ? nullptr : wpe + rows[static_cast<std::size_t>(r)].position * C;
          for (std::int64_t i = 0; i < C; ++i) {
            const E value = vector[static_cast<std::size_t>(i)];
            out[r * C + i] = T(at == nullptr ? value : value + static_cast<E>(at[i]));
          }
        }
      });
    });
  }

  template <real T>
  static void rows_prefix(device::Host::Lane& /*lane*/, T* out, const T* vectors, const T* wpe,
                          std::span<const graph::Row> rows, std::int64_t C, std::int64_t P) {
    using E = sum_t<T>;
    for (std::size_t r = 0; r < rows.size(); ++r) {
      const std::int64_t p = rows[r].position;
      if (p >= P) continue;
      T* const to = out + static_cast<std::int64_t>(r) * C;
      for (std::int64_t i = 0; i < C; ++i) {
        const T value = vectors[p * C + i];
        to[i] = wpe == nullptr ? value : T(static_cast<E>(value) + static_cast<E>(wpe[p * C + i]));
      }
    }
  }

  template <real T>
  static void rows_added_prefix(device::Host::Lane& lane, T* out, const T* in, const T* vectors,
                                std::span<const graph::Row> rows, std::int64_t C, std::int64_t P) {
    using E = sum_t<T>;
    device::for_each_block(lane, std::ssize(rows), 16, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r) {
        const std::int64_t p = rows[static_cast<std::size_t>(r)].position;
        for (std::int64_t i = 0; i < C; ++i) {
          const T value = in[r * C + i];
          out[r * C + i] = p < P ? T(static_cast<E>(value) + static_cast<E>(vectors[p * C + i])) : value;
        }
      }
    });
  }
};

}  // namespace nn::host
}  // namespace v0
}  // namespace reef
