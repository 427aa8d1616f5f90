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

/// A time in planners: a whole number of one unit, whichever, such as nanoseconds. Sums are exact, so that a load
/// counts as hidden behind a computation that takes exactly as long.
using Ticks = std::int64_t;

/// One operator of a model that planners see as a sequence of operators, for one micro-batch.
struct ChainOperator {
  std::string name{};
  Bytes weights = 0;
  Bytes gradients = 0;
  /// Bytes of scratch memory of a forward; a sub-model needs those of its largest operator.
  Bytes forward_workspace = 0;
  /// Bytes of scratch memory of a backward; a sub-model needs those of its largest operator.
  Bytes backward_workspace = 0;
  Ticks forward = 0;
  Ticks backward = 0;
  Ticks load = 0;            ///< the ticks to copy its weights from host memory to the device
  Ticks leave_forward = 0;   ///< the ticks to evict the operator after a forward: to copy its data back to the host
  Ticks leave_backward = 0;  ///< the ticks to evict the operator after a backward: to copy its data back to the host
};

/// A model as planners of weight swapping see it: a sequence of operators. A graph becomes a chain in any
/// topological order; a tensor crosses a boundary if an operator before it produces it and one behind reads it.
///
/// \code
/// plan::OperatorChain chain;
/// chain.operators.assign(8, {.weights = 10, .forward = 10, .backward = 20, .load = 10});
/// chain.cut.assign(9, 3);
/// chain.validate();
/// \endcode
struct OperatorChain {
  std::vector<ChainOperator> operators{};
  /// The bytes of a micro-batch that cross each boundary between operators; one more boundary than operators.
  std::vector<Bytes> cut{};

  [[nodiscard]] int size() const { return static_cast<int>(operators.size()); }

  /// Returns the name of an operator, or its number if it has none.
  [[nodiscard]] std::string name(int index) const;

  /// Throws OptionError unless `bounds` are the ends of two or more sub-models (ranges of operators): ascending, from 0
  /// to size().
  void validate_bounds(std::span<const int> bounds) const;

  /// Throws OptionError unless there is a cut for every boundary, no time is below 0, and no sum over
  /// `accumulation` micro-batches exceeds 1e18.
  void validate(std::int64_t accumulation = 1) const;
};

}  // namespace plan
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/plan/chain.ipp>
#endif
