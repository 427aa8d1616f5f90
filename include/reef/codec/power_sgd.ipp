#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>

#include <reef/codec/detail/blocks.hpp>
#include <reef/codec/power_sgd.hpp>
#include <reef/core/error.hpp>
#include <reef/core/finite.hpp>
#include <reef/core/product.hpp>
#include <reef/core/random.hpp>

namespace reef {
inline namespace v0 {
namespace codec {

namespace detail {

/// The sum of a[i] b[i], in double.
inline double dot(std::span<const float> a, std::span<const float> b) {
  double lanes[4]{};
  for (std::size_t i = 0; i < a.size(); ++i) lanes[i % 4] += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return (lanes[0] + lanes[2]) + (lanes[1] + lanes[3]);
}

/// Columns of `rows` numbers, orthonormal, each taken out of those behind it twice: once leaves what rounding left. One
/// that is all within those before it becomes 0; one with NaN stays so.
inline void make_orthonormal(std::span<float> matrix, std::size_t rows) {
  for (std::size_t begin = 0; begin < matrix.size(); begin += rows) {
    const std::span<float> column = matrix.subspan(begin, rows);
    const double length = std::sqrt(dot(column, column));
    for (int time = 0; time < 2; ++time) {
      for (std::size_t before = 0; before < begin; before += rows) {
        const std::span<const float> unit = matrix.subspan(before, rows);
        const double along = dot(column, unit);
        for (std::size_t i = 0; i < rows; ++i) {
          column[i] = static_cast<float>(static_cast<double>(column[i]) - product(along, static_cast<double>(unit[i])));
        }
      }
    }
    const double left = std::sqrt(dot(column, column));
    const bool is_none = left <= 1e-5 * length && is_finite(length);
    for (float& number : column) number = is_none ? 0.0F : static_cast<float>(static_cast<double>(number) / left);
  }
}

}  // namespace detail

REEF_INLINE std::int64_t PowerSgd::rank_of(std::int64_t n) const {
  if (columns < 1 || rank < 1 || columns > max_elements || rank > max_elements) {
    throw OptionError("reef::codec::PowerSgd: ", columns, " columns, and a rank of ", rank, ".\n  fix: from 1 to ",
                      max_elements, " each, as the matrix has, and 4.");
  }
  return (std::min)({rank, rows(n), width(n)});
}

REEF_INLINE MessageHead PowerSgd::head(std::int64_t n) const {
  return {id, name, static_cast<std::uint64_t>(columns) << 32 | static_cast<std::uint64_t>(rank_of(n)), n};
}

REEF_INLINE Bytes PowerSgd::encoded_bytes(std::int64_t n) const {
  const std::int64_t numbers = rank_of(n) * (rows(n) + width(n));
  return message_head_bytes + sizeof(float) * static_cast<Bytes>(numbers);
}

REEF_INLINE std::vector<float> PowerSgd::start(std::int64_t width_here, std::int64_t rank_here,
                                              std::span<const float> state) const {
  std::vector<float> q(state.begin(), state.end());
  const auto rows_of_q = static_cast<std::size_t>(width_here);
  for (std::size_t k = 0; k < static_cast<std::size_t>(rank_here); ++k) {
    const std::span<float> column = std::span(q).subspan(k * rows_of_q, rows_of_q);
    if (std::any_of(column.begin(), column.end(), [](float number) { return number != 0; })) continue;
    const RandomStream words({.seed = seed, .op = static_cast<std::uint32_t>(k)});
    for (std::size_t j = 0; j < rows_of_q; ++j) column[j] = static_cast<float>(normal_from(words.bits(j)));
  }
  return q;
}

REEF_INLINE Bytes PowerSgd::encode(std::span<const float> values, std::span<const float> state, std::span<float> next,
                                   std::span<std::byte> message) const {
  check_memory(*this, values, state, next);
  const auto n = static_cast<std::int64_t>(values.size());
  const MessageHead own = head(n);
  const Bytes bytes = encoded_bytes(n) - message_head_bytes;
  std::byte* const at = begin_message(message, own, bytes).data();
  const auto m = static_cast<std::size_t>(rows(n));
  const auto kept = static_cast<std::size_t>(rank_of(n));
  const auto wide = static_cast<std::size_t>(width(n));
  std::vector<float> q = start(width(n), rank_of(n), state);
  std::vector<float> p(m * kept);
  detail::each_block(n, columns, [&](std::size_t i, std::size_t begin, std::size_t end) {
    const std::span<const float> row = values.subspan(begin, end - begin);
    for (std::size_t k = 0; k < kept; ++k) {
      p[k * m + i] = static_cast<float>(detail::dot(row, std::span<const float>(q).subspan(k * wide, row.size())));
    }
  });
  if (m > 0) detail::make_orthonormal(p, m);
  std::vector<double> sums(kept * wide);
  detail::each_block(n, columns, [&](std::size_t i, std::size_t begin, std::size_t end) {
    for (std::size_t k = 0; k < kept; ++k) {
      const auto part = static_cast<double>(p[k * m + i]);
      double* const to = sums.data() + k * wide;
      for (std::size_t j = begin; j < end; ++j) to[j - begin] += part * static_cast<double>(values[j]);
    }
  });
  std::transform(sums.begin(), sums.end(), q.begin(), [](double sum) { return static_cast<float>(sum); });
  if (n > 0) {
    std::memcpy(at, p.data(), p.size() * sizeof(float));
    std::memcpy(at + p.size() * sizeof(float), q.data(), q.size() * sizeof(float));
  }
  const Bytes sealed = seal_message(message, own, bytes);
  std::copy(q.begin(), q.end(), next.begin());
  return sealed;
}

REEF_INLINE void PowerSgd::decode(std::span<const std::byte> message, std::span<float> values) const {
  const auto n = static_cast<std::int64_t>(values.size());
  const Bytes expected = encoded_bytes(n) - message_head_bytes;
  const std::byte* const at = open_message(message, head(n), expected, expected).data();
  const auto m = static_cast<std::size_t>(rows(n));
  const auto kept = static_cast<std::size_t>(rank_of(n));
  const auto wide = static_cast<std::size_t>(width(n));
  std::vector<float> p(m * kept);
  std::vector<float> q(wide * kept);
  if (n > 0) {
    std::memcpy(p.data(), at, p.size() * sizeof(float));
    std::memcpy(q.data(), at + p.size() * sizeof(float), q.size() * sizeof(float));
  }
  detail::each_block(n, columns, [&](std::size_t i, std::size_t begin, std::size_t end) {
    const std::span<float> row = values.subspan(begin, end - begin);
    std::fill(row.begin(), row.end(), 0.0F);
    for (std::size_t k = 0; k < kept; ++k) {
      detail::add_multiple(row, p[k * m + i], q.data() + k * wide);
    }
  });
}

}  // namespace codec
}  // namespace v0
}  // namespace reef
