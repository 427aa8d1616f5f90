#pragma once

#include <cstdint>
#include <string>

#include <reef/core/units.hpp>

namespace reef {
inline namespace v0 {

/// The outcome of a step, the same on every rank except for `seconds`. If ranks train on their own (DiLoCo), loss,
/// gradient_norm and not_finite are those of this rank, and every step counts as committed.
///
/// \code
/// // given: Trainer<optim::Ddp<optim::AdamW>>& trainer
/// const StepResult result = trainer.step();
/// const double per_second = static_cast<double>(result.tokens) / result.seconds;
/// \endcode
struct StepResult {
  std::int64_t step = 0;     ///< the number of committed steps, with this one if it was committed
  double loss = 0;           ///< mean loss of all micro-batches of all ranks, weighted by their loss weights
  double gradient_norm = 0;  ///< L2 norm of the mean gradient, before clipping
  double learning_rate = 0;
  std::uint64_t micro_batches = 0;  ///< the number of micro-batches of all ranks
  std::uint64_t samples = 0;        ///< the number of samples of all ranks
  std::uint64_t tokens = 0;         ///< the number of tokens of all ranks: elements of the first input
  Seconds seconds = 0;              ///< the duration of the step on this rank in seconds
  bool committed = true;            ///< false: the step was skipped, because some number was not finite
  std::string not_finite;           ///< the first tensor that is not finite in a skipped step, its rank and micro-batch
};

}  // namespace v0
}  // namespace reef
