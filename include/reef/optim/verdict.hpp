#pragma once

#include <cmath>
#include <cstdint>

#include <reef/core/finite.hpp>
#include <reef/run/verdict.hpp>

namespace reef {
inline namespace v0 {
namespace optim {

using run::Verdict;

/// The reaction to a loss or a gradient that is NaN or infinite.
///
/// | stop   | the step commits nothing and throws NonFiniteError: first tensor, rank and step         |
/// | skip   | the step commits nothing; training goes on with the next samples                        |
/// | ignore | no check, and no clipping: under Ddp and Zero1 there are no norms, and                  |
/// |        | an update waits for its own gradients alone; in a swapped model it runs beside the      |
/// |        | rest of the backward                                                                    |
enum class NonFinite : std::uint8_t { stop, skip, ignore };

/// The options of an update besides the rule: clipping and the test for NaNs.
struct UpdateOptions {
  double clip_norm = 0;  ///< largest L2 norm of the mean gradient, above which it is clipped; 0 does not clip
  bool checks = true;    ///< true: a step with a loss or gradient that is not finite is not committed
};

/// Returns the outcome of a step from sums over all micro-batches of all ranks: of their loss weights, of weight *
/// loss, and of the squares of the summed gradient, which is 0 in an evaluation.
///
/// \code
/// // given: double weight, double weighted_loss, double squares
/// const optim::Verdict verdict = optim::judge(weight, weighted_loss, squares, {.clip_norm = 1});
/// \endcode
inline Verdict judge(double weight, double weighted_loss, double squares,
                     const UpdateOptions& options) {
  Verdict verdict;
  verdict.weight = weight;
  verdict.loss = weighted_loss / weight;
  verdict.norm = std::sqrt(squares) / weight;
  verdict.finite =
      is_finite(weight) && weight > 0 && is_finite(verdict.loss) && is_finite(verdict.norm);
  verdict.commit = options.checks ? verdict.finite : weight > 0;
  verdict.scale = 1 / weight;
  if (options.clip_norm > 0 && verdict.norm > options.clip_norm) {
    verdict.scale *= options.clip_norm / verdict.norm;
  }
  return verdict;
}

}  // namespace optim
}  // namespace v0
}  // namespace reef
