#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <reef/codec/detail/blocks.hpp>

namespace reef {
inline namespace v0 {
namespace codec {

/// A matrix in int8: each row of `columns` numbers is divided by its largest magnitude, times 127, rounded half to
/// even.
///
/// \code
/// // given: std::span<const float> matrix
/// const codec::Int8Rows rows = codec::int8_rows(matrix, 64);
/// const float first = static_cast<float>(rows.values[0]) * rows.largest[0] / 127;
/// \endcode
///
/// Source: Dettmers et al., LLM.int8(), arXiv 2208.07339, section 3. The paper keeps columns with a magnitude of
/// `outlier` or more in 16 bits: outlier_columns() finds them.
struct Int8Rows {
  std::vector<float> largest{};      ///< the largest magnitude of each row, from which its scale follows
  std::vector<std::int8_t> values{};
};

inline Int8Rows int8_rows(std::span<const float> matrix, std::int64_t columns) {
  Int8Rows result;
  result.values.resize(matrix.size());
  detail::each_block(static_cast<std::int64_t>(matrix.size()), columns,
                     [&](std::size_t /*row*/, std::size_t begin, std::size_t end) {
                       const float largest = detail::largest_magnitude(matrix.subspan(begin, end - begin));
                       result.largest.push_back(largest);
                       const float scale = largest > 0 ? 127 / largest : 0;
                       for (std::size_t i = begin; i < end; ++i) {
                         const float rounded = std::nearbyint(matrix[i] * scale);
                         result.values[i] = static_cast<std::int8_t>(rounded == rounded ? rounded : 0.0F);
                       }
                     });
  return result;
}

inline std::vector<std::int64_t> outlier_columns(std::span<const float> matrix, std::int64_t columns, float outlier) {
  std::vector<std::int64_t> found;
  for (std::int64_t column = 0; column < columns; ++column) {
    bool is_outlier = false;
    for (std::size_t i = static_cast<std::size_t>(column); i < matrix.size(); i += static_cast<std::size_t>(columns)) {
      is_outlier = is_outlier || (std::abs)(matrix[i]) >= outlier;
    }
    if (is_outlier) found.push_back(column);
  }
  return found;
}

}  // namespace codec
}  // namespace v0
}  // namespace reef
