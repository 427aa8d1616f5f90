#pragma once

#include <cstdint>

#include <reef/core/language.hpp>

namespace reef {
inline namespace v0 {
namespace nn::host::detail {

/// to (rows, columns) = from (rows, columns), each with a leading dimension; widened or rounded where
/// their types differ.
struct CopyRows {
  template <class V, class To, class From>
  void run(To* to, std::int64_t ldt, const From* from, std::int64_t ldf, std::int64_t rows,
           std::int64_t columns) const {
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t i = 0; i < columns; i += V::width) {
        V::load(from + r * ldf + i, columns - i).store(to + r * ldt + i, columns - i);
      }
    }
  }
};

}  // namespace nn::host::detail
}  // namespace v0
}  // namespace reef
