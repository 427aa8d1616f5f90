#pragma once

#include <cstdint>

#include <reef/core/language.hpp>

namespace reef {
inline namespace v0 {
namespace run {

/// What a step came to: written to the builder's `verdict` storage once all ranks' scalars are here,
/// with the same bits on every rank. optim::judge makes one.
///
/// \code
/// // given: const run::Verdict& verdict
/// const bool skipped = !verdict.commit;
/// \endcode
struct Verdict {
  double weight = 0;               ///< of all micro-batches of all ranks
  double loss = 0;                 ///< weighted mean
  double norm = 0;                 ///< of the mean gradient, before clipping
  double scale = 0;                ///< what the update multiplies the summed gradient by
  std::int64_t micro_batches = 0;  ///< of all ranks
  bool finite = false;             ///< loss and norm are
  bool commit = false;             ///< the update changes the weights
};

}  // namespace run
}  // namespace v0
}  // namespace reef
