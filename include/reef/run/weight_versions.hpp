#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include <reef/core/language.hpp>

namespace reef {
inline namespace v0 {
namespace run {

/// The versions of weights with which a pipeline stage computes its micro-batches where it updates within a step, as
/// asynchronous pipelines do. A step begins at version 0, and at its end the pipeline is empty: then all stages are at
/// the last version.
///
///     micro-batch j    reads version max(0, floor(j / every) - (kept - 1)) in its forward and in its backward
///     update k         computes version k + 1 from version k and the gradients of the micro-batches from k * every
///                      to (k + 1) * every - 1, after the last of their backwards
///
/// \code
/// const run::WeightVersions versions{1, {2, 1}};  // PipeDream on two stages
/// const int read = versions.version_of(0, 5);     // 4: one update behind
/// \endcode
struct WeightVersions {
  int every = 0;            ///< the number of micro-batches per update; 0: one update after all of the step
  std::vector<int> kept{};  ///< the number of weight versions that each stage holds at one time

  [[nodiscard]] bool within_a_step() const { return every > 0; }

  /// Returns the number of updates in a step of `micro_batches` micro-batches.
  [[nodiscard]] int updates(int micro_batches) const {
    return within_a_step() ? micro_batches / every : 1;
  }

  /// Returns the number of weight versions that a stage holds at one time in a step of `micro_batches` micro-batches.
  [[nodiscard]] int kept_by(int stage, int micro_batches) const {
    if (!within_a_step()) return 1;
    return (std::min)(kept[static_cast<std::size_t>(stage)], updates(micro_batches));
  }

  [[nodiscard]] int version_of(int stage, int micro_batch) const {
    if (!within_a_step()) return 0;
    return (std::max)(0, micro_batch / every - (kept[static_cast<std::size_t>(stage)] - 1));
  }
};

}  // namespace run
}  // namespace v0
}  // namespace reef
