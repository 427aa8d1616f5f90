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

/// A function that returns the bytes of device memory that each rank needs for a topology with given order and bounds:
/// those of its programs (Trainer::estimate), which a Trainer also checks.
using StageNeeds = std::function<std::vector<Bytes>(const Topology&)>;

/// The memory that the stages of a pipeline need on their devices, if the model may be cut at some positions: known for
/// the parts of the model that were recorded, and estimated for all others.
///
/// | foreseen | weights, gradients and two moments of the stage's operators, saved activations of the micro-batches |
/// |          | that 1F1B holds there, and the largest workspace; corrected by the error of this estimate for the   |
/// |          | most similar known part of that stage; at least the bytes of any known part inside this one, and at |
/// |          | most those of any known part around it                                                              |
/// | cost     | O(known parts) a call                                                                               |
///
/// \code
/// // given: const graph::Dag& dag, const std::vector<int>& positions
/// run::StageMemory memory(dag, positions, 4, 8);
/// memory.record(0, {0, 3}, 2_MiB);  // what is before positions[3], as the first of 4 stages
/// const Bytes more = memory.foreseen(0, {0, 4});
/// \endcode
class StageMemory {
public:
  /// A part of the model: the operators between the cut positions with these two indices.
  using Part = std::pair<int, int>;

  /// Constructs the memory estimate of a model that may be cut at `positions`, which ascend from 0 to the number of
  /// nodes.
  StageMemory(const graph::Dag& dag, const std::vector<int>& positions, int stages,
              int micro_batches);

  [[nodiscard]] int stages() const { return static_cast<int>(known_.size()); }
  /// Returns the number of smallest parts of the model, between neighbouring cut positions.
  [[nodiscard]] int parts() const { return static_cast<int>(fixed_.size()) - 1; }

  /// Notes the bytes of device memory that a stage needs if it has that part of the model.
  void record(int stage, Part part, Bytes bytes) {
    known_[static_cast<std::size_t>(stage)][part] = bytes;
  }

  [[nodiscard]] Bytes foreseen(int stage, Part part) const;

private:
  [[nodiscard]] Bytes estimate(int stage, Part part) const;

  std::vector<Bytes> fixed_{0};                 // the bytes of weights, up to each position
  // The bytes of saved activations of one micro-batch, up to each position.
  std::vector<Bytes> saved_{0};
  std::vector<std::vector<Bytes>> workspaces_;  // the bytes of the largest workspace, by first position and end
  std::vector<Bytes> held_;                     // the number of micro-batches that each stage holds
  std::vector<std::map<Part, Bytes>> known_;
};

}  // namespace run
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/run/stage_memory.ipp>
#endif
