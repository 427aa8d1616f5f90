#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/units.hpp>

namespace reef {
inline namespace v0 {
namespace plan {

/// Times of planners: whole numbers of any one unit, such as nanoseconds. Sums of them are exact, so that
/// a load is hidden by a computation that takes exactly as long.
using Ticks = std::int64_t;

/// One operator of a chain, for one micro-batch.
struct ChainOperator {
  std::string name{};
  Bytes weights = 0;
  Bytes gradients = 0;
  Bytes forward_workspace = 0;   ///< the workspace of a forward; a segment needs the largest of its operators'
  Bytes backward_workspace = 0;  ///< the workspace of a backward; a segment needs the largest of its operators'
  Ticks forward = 0;
  Ticks backward = 0;
  Ticks load = 0;            ///< the time to copy its weights from host memory to the device
  Ticks leave_forward = 0;   ///< the time to copy back to the host after a forward
  Ticks leave_backward = 0;  ///< the time to copy back to the host after a backward
};

/// A model as planners of swapping see it: operators one after the other. A graph becomes a chain in any
/// topological order; a boundary is crossed by all tensors that an operator before it hands to one behind it.
///
/// \code
/// plan::Chain chain;
/// chain.operators.assign(8, {.weights = 10, .forward = 10, .backward = 20, .load = 10});
/// chain.cut.assign(9, 3);
/// chain.validate();
/// \endcode
struct Chain {
  std::vector<ChainOperator> operators{};
  std::vector<Bytes>
      cut{};  ///< by boundary, one more than operators: the bytes of a micro-batch that cross it

  [[nodiscard]] int size() const { return static_cast<int>(operators.size()); }

  /// Returns the name of an operator, or its number if it has none.
  [[nodiscard]] std::string name(int index) const;

  /// Throws OptionError unless `bounds` cut the chain: 0, the first operators of further sub-models, n.
  void validate_bounds(std::span<const int> bounds) const;

  /// Throws OptionError unless there is a cut for every boundary, no time is below 0, and sums over
  /// `accumulation` micro-batches are numbers.
  void validate(std::int64_t accumulation = 1) const;
};

}  // namespace plan
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/plan/chain.ipp>
#endif
