#pragma once

#include <functional>
#include <map>
#include <utility>
#include <vector>

#include <reef/core/units.hpp>
#include <reef/graph/dag.hpp>
#include <reef/run/topology.hpp>

namespace reef {
inline namespace v0 {
namespace run {

/// Returns the bytes that the device of each rank needs for a topology whose order and bounds are known: for its
/// programs as they are placed (Trainer::estimate), which is what a Trainer proves.
using StageNeeds = std::function<std::vector<Bytes>(const Topology&)>;

/// The memory that the stages of a pipeline need on their devices, where a model may be cut at some positions: known
/// for the parts that were asked for, and estimated for all others.
///
/// | foreseen | of a stage's operators weights, gradients, two moments and what is saved of as many micro-batches as 1F1B |
/// |          | holds there, and the largest workspace; corrected by how far that is off for the most similar part of that |
/// |          | stage that is known, and never less than a known part of its operators takes, nor more than one that has    |
/// |          | all of them                                                                                                 |
/// | cost     | O(known parts) a look                                                                                       |
///
/// \code
/// // given: const graph::Dag& dag, const std::vector<int>& positions
/// run::StageMemory memory(dag, positions, 4, 8);
/// memory.learn(0, {0, 3}, 2_MiB);  // what is before positions[3], as the first of 4 stages
/// const Bytes more = memory.foreseen(0, {0, 4});
/// \endcode
class StageMemory {
public:
  /// A part of the model, between two of the positions.
  using Part = std::pair<int, int>;

  /// `positions` ascend from 0 to the number of nodes.
  StageMemory(const graph::Dag& dag, const std::vector<int>& positions, int stages,
              int micro_batches);

  [[nodiscard]] int stages() const { return static_cast<int>(known_.size()); }
  /// The number of parts between two neighbouring positions.
  [[nodiscard]] int parts() const { return static_cast<int>(fixed_.size()) - 1; }

  /// Notes the bytes that a stage with that part needs.
  void learn(int stage, Part part, Bytes bytes) {
    known_[static_cast<std::size_t>(stage)][part] = bytes;
  }

  [[nodiscard]] Bytes foreseen(int stage, Part part) const;

private:
  [[nodiscard]] Bytes estimate(int stage, Part part) const;

  std::vector<Bytes> fixed_{0};                 // weights, up to a position
  std::vector<Bytes> saved_{0};                 // saved activations of one micro-batch, up to a position
  std::vector<std::vector<Bytes>> workspaces_;  // largest workspace, by first position and end
  std::vector<Bytes> held_;                     // micro-batches that a stage holds, by stage
  std::vector<std::map<Part, Bytes>> known_;
};

}  // namespace run
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/run/stage_memory.ipp>
#endif
