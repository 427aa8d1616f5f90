#pragma once

#include <algorithm>
#include <cstddef>

#include <reef/core/inline.hpp>
#include <reef/graph/crossing.hpp>

namespace reef {
inline namespace v0 {
namespace graph {

REEF_INLINE std::vector<Bytes> crossing_bytes(const Dag& dag) {
  std::vector<Bytes> crossing(static_cast<std::size_t>(dag.node_count()) + 1, 0);
  for (const Tensor& tensor : dag.tensors) {
    if (tensor.producer < 0 || tensor.consumers.empty()) continue;
    const int last = *std::max_element(tensor.consumers.begin(), tensor.consumers.end());
    for (int c = tensor.producer + 1; c <= last; ++c) {
      crossing[static_cast<std::size_t>(c)] += tensor.spec.bytes();
    }
  }
  return crossing;
}

}  // namespace graph
}  // namespace v0
}  // namespace reef
