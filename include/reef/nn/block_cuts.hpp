#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <reef/graph/dag.hpp>

namespace reef {
inline namespace v0 {
namespace nn {

/// The places at which the nodes of a decoder are cut into what stands before its blocks (layers), the blocks, and what
/// stands behind them.
///
/// | nodes[b]   | the first node of block b; nodes.back(): the first node behind the last block               |
/// | tensors[b] | the one tensor that goes into block b, (B, T, C); tensors.back(): what the last block gives |
struct BlockCuts {
  std::vector<int> nodes{};
  std::vector<int> tensors{};

  /// Returns the number of blocks.
  [[nodiscard]] std::int64_t count() const { return static_cast<std::int64_t>(nodes.size()) - 1; }
};

/// Returns where a model's graph is cut into blocks. A block's nodes have its number in their names: "h.3.ln_1" is of
/// block 3.
///
/// | errors | OptionError for a graph without such names, whose blocks are not one behind the other, or between |
/// |        | two of whose blocks more goes than one tensor                                                     |
///
/// \code
/// // given: const graph::Dag& dag
/// const nn::BlockCuts cuts = nn::block_cuts(dag);
/// const int first = cuts.nodes[3];  // the first node of block 3
/// \endcode
BlockCuts block_cuts(const graph::Dag& dag);

}  // namespace nn
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/nn/block_cuts.ipp>
#endif
