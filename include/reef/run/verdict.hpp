#pragma once

#include <cstdint>

#include <reef/core/language.hpp>

namespace reef {
inline namespace v0 {
namespace run {

/// The outcome of a step (loss, norm, whether it counts), with the same bits on every rank. optim::judge computes it
/// from all ranks' scalars; it is written to the memory block StepBuilder::verdict.
///
/// \code
/// // given: const run::Verdict& verdict
/// const bool skipped = !verdict.commit;
/// \endcode
struct Verdict {
  double weight = 0;               ///< sum of the loss weights of all micro-batches of all ranks
  double loss = 0;                 ///< mean loss over micro-batches, weighted by their loss weights
  double norm = 0;                 ///< L2 norm of the mean gradient, before clipping
  double scale = 0;                ///< factor by which the update multiplies the summed gradient
  std::int64_t micro_batches = 0;  ///< number of micro-batches of all ranks in the step
  bool finite = false;             ///< true if loss and norm are finite
  bool commit = false;             ///< true if the step counts: the update changes the weights
};

}  // namespace run
}  // namespace v0
}  // namespace reef
