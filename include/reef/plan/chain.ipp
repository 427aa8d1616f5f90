#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>

#include <reef/core/inline.hpp>
#include <reef/plan/chain.hpp>

namespace reef {
inline namespace v0 {
namespace plan {

REEF_INLINE std::string OperatorChain::name(int index) const {
  const std::string& given = operators[static_cast<std::size_t>(index)].name;
  return given.empty() ? std::to_string(index) : given;
}

REEF_INLINE void OperatorChain::validate_bounds(std::span<const int> bounds) const {
  const bool cuts =
      bounds.size() >= 3 && bounds.front() == 0 && bounds.back() == size() &&
      std::adjacent_find(bounds.begin(), bounds.end(), std::greater_equal<>()) == bounds.end();
  if (cuts) return;
  std::string given;
  for (const int bound : bounds) given += (given.empty() ? "" : ", ") + std::to_string(bound);
  throw OptionError(
      "reef::plan::OperatorChain: the bounds ", given, " do not cut a chain of ", size(),
      " operators.\n  why: each sub-model has an operator, and there are two at least.\n"
      "  fix: ascending cuts from 1 to ",
      size() - 1, ", between 0 and ", size(), ".");
}

REEF_INLINE void OperatorChain::validate(std::int64_t accumulation) const {
  if (operators.empty() || cut.size() != operators.size() + 1) {
    throw OptionError(
        "reef::plan::OperatorChain: ", operators.size(), " operators and ", cut.size(),
        " boundaries.\n  fix: an operator at least, and a cut for every boundary, first "
        "and last included: one more than operators.");
  }
  // Costs are sums of all times, and memory one of all bytes and, for each micro-batch, all cuts.
  constexpr double largest = 1e18;
  double ticks = 0;
  double bytes = 0;
  for (int i = 0; i < size(); ++i) {
    const ChainOperator& o = operators[static_cast<std::size_t>(i)];
    if ((std::min)({o.forward, o.backward, o.load, o.leave_forward, o.leave_backward}) < 0) {
      throw OptionError("reef::plan::OperatorChain: operator ", name(i),
                        " has a time below 0.\n  fix: times of 0 or more.");
    }
    ticks += static_cast<double>(o.forward) + static_cast<double>(o.backward) +
             static_cast<double>(o.load) + static_cast<double>(o.leave_forward) +
             static_cast<double>(o.leave_backward);
    bytes += 2 * static_cast<double>(o.weights) + static_cast<double>(o.gradients) +
             static_cast<double>(o.forward_workspace) + static_cast<double>(o.backward_workspace);
  }
  double cuts = 0;
  for (const Bytes crossing : cut) cuts += static_cast<double>(crossing);
  if (accumulation < 1) {
    throw OptionError(
        "reef::plan::OperatorChain: C is ", accumulation,
        " micro-batches.\n  why: a sub-model that comes is for some.\n  fix: at least 1.");
  }
  const auto times = static_cast<double>(accumulation);
  if (times * ticks > largest || bytes + times * cuts > largest) {
    throw OptionError(
        "reef::plan::OperatorChain: ", accumulation, " micro-batches take ", times * ticks,
        " units of time and ", bytes + times * cuts,
        " bytes.\n  why: sums are exact below 1e18.\n  fix: a larger unit of time, or fewer "
        "micro-batches.");
  }
}

}  // namespace plan
}  // namespace v0
}  // namespace reef
