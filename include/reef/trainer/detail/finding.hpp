#pragma once

#include <reef/core/language.hpp>

namespace reef {
inline namespace v0 {
namespace detail {

/// The first loss or gradient of a rank's step that is not finite.
struct Finding {
  static constexpr int nothing = -1;
  static constexpr int loss = -2;

  int use = nothing;  ///< the use of a parameter whose gradient it is, or one of the above
  int micro_batch = 0;

  /// It is of that micro-batch, or of one before: in whatever order they run, the first is told.
  [[nodiscard]] bool precedes(int j) const { return use != nothing && micro_batch <= j; }

  /// Of two that stages of one replica find, the one that was computed first: a loss comes before the gradients that
  /// it leads to, and a later operator's gradient before those of earlier ones.
  [[nodiscard]] bool comes_before(const Finding& other) const {
    if (use == nothing || other.use == nothing) return use != nothing;
    if (micro_batch != other.micro_batch) return micro_batch < other.micro_batch;
    return other.use != loss && (use == loss || use > other.use);
  }
};

}  // namespace detail
}  // namespace v0
}  // namespace reef
