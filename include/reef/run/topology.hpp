#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/group.hpp>
#include <reef/core/hash.hpp>
#include <reef/core/text.hpp>

namespace reef {
inline namespace v0 {
namespace run {

/// The assignment of parts of the model to ranks: `replicas` copies of the model, each cut into `stages`, one rank for
/// every stage of every replica. Plain data, the same on all ranks, and part of the hash that they agree on.
///
/// \code
/// const run::Topology replicas(4);           // of the whole model: data parallelism
/// const run::Topology pipelines(2, 3);       // two replicas of three stages: six ranks
/// const int rank = pipelines.rank(1, 0);     // 3 = replica * 3 + stage
/// const Group group = pipelines.holders(0);  // ranks 0 and 3
/// \endcode
///
/// A stage may hold several runs of consecutive segments, its chunks: chunk k, counted from the model's first, is on
/// stage_of_chunk[k]. Pipeline policies with several chunks on each stage set it themselves.
///
/// | who reduces with whom | the holders of one stage, one rank of each replica: holders(stage)    |
/// | who sends to whom     | the stages of one replica: pipeline(replica)                          |
/// | bits                  | gradients of replicas are summed in the order of ranks in each stage: |
/// |                       | if ranks ascend with replicas, D_DP replicas give the bits of one     |
/// |                       | process with virtual_ranks = D_DP, for any number of stages           |
struct Topology {
  int replicas = 1;            ///< number of copies of the model (D_DP)
  int stages = 1;              ///< number of stages of each copy (D_PP)
  std::vector<int> rank_at{};  ///< the rank at [replica * stages + stage]; empty: that index itself is the rank
  /// The pipeline chunk of each segment, ascending; empty: segments are divided evenly.
  std::vector<int> chunk_of_segment{};
  std::vector<int> stage_of_chunk{};    ///< the stage of each chunk; empty: chunk k is all of stage k
  std::vector<int> bounds{};  ///< the nodes at which a Trainer begins chunks: 0, ..., and then the number of nodes;
                              ///< empty: bounds whose slowest chunk takes the least time
  std::vector<int> stage_of_segment{};  ///< the stage of each segment; empty: by chunk_of_segment and stage_of_chunk

  Topology() = default;
  /// Constructs a topology in which every rank has the whole model; also an implicit conversion from a number of ranks.
  Topology(int ranks) : replicas(ranks) {}  // NOLINT(google-explicit-constructor)
  Topology(int replica_count, int stage_count) : replicas(replica_count), stages(stage_count) {}

  [[nodiscard]] int ranks() const { return replicas * stages; }
  [[nodiscard]] int rank(int replica, int stage) const {
    const int position = replica * stages + stage;
    return rank_at.empty() ? position : rank_at[static_cast<std::size_t>(position)];
  }
  [[nodiscard]] int replica_of(int rank) const { return position_of(rank) / stages; }
  [[nodiscard]] int stage_of(int rank) const { return position_of(rank) % stages; }

  /// Returns the ranks of a stage, ascending: they hold the same weights.
  [[nodiscard]] Group holders(int stage) const;

  [[nodiscard]] Group everyone() const;

  /// Returns the ranks of a replica, ascending: together they hold the model once.
  [[nodiscard]] Group pipeline(int replica) const;

  /// Throws OptionError unless every rank occurs exactly once in rank_at.
  void validate_ranks() const;

  /// Returns the number of chunks of which stage_of_chunk gives the stages; if it is empty, the number of stages.
  [[nodiscard]] int chunks() const {
    return stage_of_chunk.empty() ? stages : static_cast<int>(stage_of_chunk.size());
  }

  /// Throws OptionError unless every rank occurs exactly once, every segment of the model has a stage, and every stage
  /// a segment.
  void validate(int segments) const;

  /// Throws OptionError unless `bounds` are those of all chunks of a model with `nodes` nodes.
  void validate_bounds(int nodes) const;

  /// Returns the pipeline chunk of each of `segments` segments; with stage_of_segment, each run of segments of one
  /// stage is one.
  [[nodiscard]] std::vector<int> chunks_of(int segments) const;

  /// Returns the pipeline stage of each of `segments` segments of the model.
  [[nodiscard]] std::vector<int> stages_of(int segments) const;

  /// Returns a text such as "2 replicas of 3 stages", with the stages of ranks and segments if they are given.
  [[nodiscard]] std::string text() const;

  void add_to(Hash& hash) const;

private:
  void require_places(const char* what, const std::vector<int>& places) const;

  [[nodiscard]] int position_of(int rank) const {
    if (rank_at.empty()) return rank;
    return static_cast<int>(std::find(rank_at.begin(), rank_at.end(), rank) - rank_at.begin());
  }
};

}  // namespace run
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/run/topology.ipp>
#endif
