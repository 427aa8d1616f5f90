#pragma once

#include <cmath>
#include <cstdint>

#include <reef/core/finite.hpp>
#include <reef/run/verdict.hpp>

namespace reef {
inline namespace v0 {
namespace optim {

using run::Verdict;

/// What happens when a loss or a gradient is NaN or infinite.
///
/// | stop   | the step commits nothing and throws NonFiniteError: first tensor, rank and step         |
/// | skip   | the step commits nothing; training goes on with the next samples                        |
/// | ignore | it is not looked for, and nothing is clipped: under Ddp and Zero1 there are no norms, and |
/// |        | an update waits for its own gradients alone; of a swapped model it runs beside the      |
/// |        | rest of the backward                                                                    |
enum class NonFinite : std::uint8_t { stop, skip, ignore };

/// What an optimizer's code needs besides the rule.
struct UpdateOptions {
  double clip_norm = 0;  ///< the largest norm of the mean gradient; 0 does not clip
  bool checks = true;    ///< what is not finite is not committed
};

/// The verdict on what was summed over all micro-batches of all ranks: their weights, weight * loss,
/// and the squares of the summed gradient, 0 in an evaluation.
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
