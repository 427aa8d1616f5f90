#pragma once

#include <cstdint>

#include <reef/core/inline.hpp>

namespace reef {
inline namespace v0 {
namespace nn {

/// The angles by which the pairs of a head turn from one position to the next, in radians.
///
///     f(i) = theta^(-2 i / D) / factor       linear scaling, which stretches positions; D columns of a head
///     f(i) = theta^(-2 i / D)                Llama 3's scaling: fast pairs as here, slow pairs divided by `factor`,
///                                            a blend of both for the pairs between
///
/// | slow | a pair that turns less than `low` times in `original` positions |
/// | fast | a pair that turns `high` times or more in `original` positions  |
///
/// Source: Su et al., RoFormer, arXiv 2104.09864; Chen et al., arXiv 2306.15595 (linear); huggingface/transformers,
/// modeling_rope_utils.py (llama3).
///
/// \code
/// const nn::RotaryFrequencies llama3_1{500000, 8, 8192, 1, 4};
/// const double slowest = llama3_1.of(63, 128);
/// \endcode
struct RotaryFrequencies {
  double theta = 10000;
  double factor = 1;
  std::int64_t original =
      0;  ///< number of positions in training, for Llama 3's scaling; 0: linear scaling
  double low = 1;
  double high = 4;

  /// Returns the angle f(i) by which pair i of a head of D columns turns from one position to the next, in radians.
  [[nodiscard]] double of(std::int64_t i, std::int64_t D) const;

  friend bool operator==(const RotaryFrequencies&, const RotaryFrequencies&) = default;
};

}  // namespace nn
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/nn/rotary_frequencies.ipp>
#endif
