#pragma once

#include <string_view>
#include <vector>

#include <reef/core/inline.hpp>
#include <reef/core/units.hpp>
#include <reef/graph/bindings.hpp>

namespace reef {
inline namespace v0 {
namespace graph::detail {

/// Checks that bindings have all that a call of a segment needs, before any operator runs. Throws OptionError.
class BindingChecks {
public:
  /// `threads`: those of the lane; `planned`: those that the graph has scratch memory for.
  BindingChecks(const Dag& dag, const Segment& segment, const SegmentBindings& bindings, int threads, int planned)
      : dag_(dag), segment_(segment), bindings_(bindings), threads_(threads), planned_(planned) {}

  void forward(Forward forward) const;
  void backward(BackwardPart part) const;

private:
  void check_memory(Bytes saved, Bytes workspace) const;
  void check_tensors(std::string_view what, const std::vector<int>& ids, const std::vector<void*>& table) const;

  const Dag& dag_;
  const Segment& segment_;
  const SegmentBindings& bindings_;
  int threads_;
  int planned_;
};

}  // namespace graph::detail
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/graph/detail/binding_checks.ipp>
#endif
