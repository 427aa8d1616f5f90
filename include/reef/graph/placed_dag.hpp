#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/graph/dag.hpp>
#include <reef/io/json.hpp>

namespace reef {
inline namespace v0 {
namespace graph {

/// A model's graph, and the rank on which each of its nodes runs.
struct PlacedDag {
  Dag dag;
  int ranks = 0;
  std::vector<int> rank_of_node;
};

/// The limits of a case file: the largest number of nodes, of tensors, of inputs and parameters of all nodes together,
/// of bytes of a name, of ranks, and of bytes of a tensor or parameter.
inline constexpr std::size_t max_placed_nodes = 4096;
inline constexpr std::size_t max_placed_tensors = 8192;
inline constexpr std::size_t max_placed_readings = 32768;
inline constexpr std::size_t max_placed_name = 200;
inline constexpr int max_placed_ranks = 1'000'000;
inline constexpr std::int64_t max_placed_bytes = 10'000'000'000'000;

/// Reads a model and the rank of each of its nodes from JSON. All operators have the same kind, and no cost.
///
/// | ranks      | the number of ranks                                                                                |
/// | inputs     | tensors whose values the caller gives: {name, bytes, kind}; the kind is float or int               |
/// | nodes      | {name, rank, inputs, outputs, parameters}, in topological order: inputs are names of earlier       |
/// |            | tensors; outputs are tensors; parameters are names, and may be left out                            |
/// | parameters | {name, bytes}; may be left out                                                                     |
/// | loss       | the tensor that is the loss: of 4 bytes, float, written by a node and read by none                 |
/// | elements   | floats and parameters are fp32; an int tensor is int32, or uint8 where 4 does not divide its bytes |
/// | names      | tensors have different names, and so have nodes, and parameters                                    |
/// | errors     | DecodeError with source and member; also for unknown keys, and beyond the limits max_placed_...    |
/// | cost       | memory linear in the text, and time O(nodes * tensors)                                             |
///
/// \code
/// const graph::PlacedDag model = graph::placed_dag_from_json(io::read_json("case.json"), "case.json");
/// const int rank_of_first = model.rank_of_node.front();
/// \endcode
PlacedDag placed_dag_from_json(const io::Json& json, std::string_view source);

}  // namespace graph
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/graph/placed_dag.ipp>
#endif
