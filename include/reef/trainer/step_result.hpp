#pragma once

#include <cstdint>
#include <string>

#include <reef/core/units.hpp>

namespace reef {
inline namespace v0 {

/// The outcome of a step, the same on every rank but for the seconds. Where ranks step on their own (DiLoCo), loss,
/// norm and not_finite are those of this rank, and every step counts as committed.
///
/// \code
/// // given: Trainer<optim::Ddp<optim::AdamW>>& trainer
/// const StepResult result = trainer.step();
/// const double per_second = static_cast<double>(result.tokens) / result.seconds;
/// \endcode
struct StepResult {
  std::int64_t step = 0;     ///< committed steps, this one included if it was committed
  double loss = 0;           ///< weighted mean over all micro-batches of all ranks
  double gradient_norm = 0;  ///< norm of the mean gradient, before clipping
  double learning_rate = 0;
  std::uint64_t micro_batches = 0;  ///< micro-batches of all ranks
  std::uint64_t samples = 0;        ///< samples of all ranks
  std::uint64_t tokens = 0;         ///< tokens of all ranks: elements of the first input
  Seconds seconds = 0;              ///< duration of the step on this rank
  bool committed = true;            ///< false: the step was skipped, because some number was not finite
  std::string not_finite;  ///< the first tensor that is not finite in a skipped step, its rank and micro-batch
};

}  // namespace v0
}  // namespace reef
