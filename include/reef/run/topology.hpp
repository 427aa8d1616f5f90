#pragma once

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/group.hpp>
#include <reef/core/hash.hpp>
#include <reef/core/text.hpp>

namespace reef::inline v0::run {

/// Which rank holds which part of the model: `replicas` copies of it, each cut into `stages`, one
/// rank for every stage of every replica. Plain data, the same on all ranks, and part of the hash
/// that they agree on.
///
///     Topology(4)          four replicas of the whole model: data parallelism
///     Topology(2, 3)       two replicas of three stages: six ranks, rank = replica * 3 + stage
///
/// | who reduces with whom | the holders of one stage, one rank of each replica: holders(stage)    |
/// | who sends to whom     | the stages of one replica: pipeline(replica)                          |
/// | bits                  | replicas are summed in the order of their ranks in each stage: where  |
/// |                       | those ascend with the replicas, D_DP of them give the bits of one     |
/// |                       | process with virtual_ranks = D_DP, whatever the stages                |
struct Topology {
  int replicas = 1;             ///< D_DP
  int stages = 1;               ///< D_PP
  std::vector<int> rank_at{};   ///< [replica * stages + stage]; empty: the rank of that number
  std::vector<int> stage_of_segment{};  ///< by segment; empty: of S segments, those of stage k are
                                        ///< [k S / stages, (k + 1) S / stages)

  Topology() = default;
  /// Every rank has the whole model. Also the meaning of a number of ranks where a topology is asked.
  Topology(int ranks) : replicas(ranks) {}  // NOLINT(google-explicit-constructor)
  Topology(int replica_count, int stage_count) : replicas(replica_count), stages(stage_count) {}

  [[nodiscard]] int ranks() const { return replicas * stages; }
  [[nodiscard]] int rank(int replica, int stage) const {
    const int position = replica * stages + stage;
    return rank_at.empty() ? position : rank_at[static_cast<std::size_t>(position)];
  }
  [[nodiscard]] int replica_of(int rank) const { return position_of(rank) / stages; }
  [[nodiscard]] int stage_of(int rank) const { return position_of(rank) % stages; }

  /// The ranks of a stage, ascending: they hold the same weights.
  [[nodiscard]] Group holders(int stage) const {
    Group group{concat("stage ", stage), {}};
    for (int replica = 0; replica < replicas; ++replica) {
      group.members.push_back(rank(replica, stage));
    }
    std::sort(group.members.begin(), group.members.end());
    return group;
  }

  [[nodiscard]] Group everyone() const {
    Group group{"all ranks", std::vector<int>(static_cast<std::size_t>(ranks()))};
    std::iota(group.members.begin(), group.members.end(), 0);
    return group;
  }

  /// The ranks of a replica, ascending: together they hold the model once.
  [[nodiscard]] Group pipeline(int replica) const {
    Group group{concat("replica ", replica), {}};
    for (int stage = 0; stage < stages; ++stage) group.members.push_back(rank(replica, stage));
    std::sort(group.members.begin(), group.members.end());
    return group;
  }

  /// Throws OptionError unless every rank has one place.
  void validate_ranks() const {
    if (replicas < 1 || stages < 1) {
      throw OptionError("reef::run::Topology: ", replicas, " replicas of ", stages,
                        " stages.\n  fix: at least 1 of each.");
    }
    if (!rank_at.empty()) {
      std::vector<int> sorted = rank_at;
      std::sort(sorted.begin(), sorted.end());
      std::vector<int> all(static_cast<std::size_t>(ranks()));
      std::iota(all.begin(), all.end(), 0);
      if (sorted != all) {
        throw OptionError("reef::run::Topology: rank_at has ", rank_at.size(),
                          " entries that do not name each of ", ranks(),
                          " ranks once.\n  fix: a permutation of 0 to ", ranks() - 1,
                          ", at [replica * stages + stage].");
      }
    }
  }

  /// Throws OptionError unless every rank has one place, and every segment a stage, of which each
  /// stage has one.
  void validate(int segments) const {
    validate_ranks();
    if (stages > segments) {
      throw OptionError("reef::run::Topology: ", stages, " stages for a model of ", segments,
                        segments == 1 ? " segment" : " segments",
                        ".\n  why: a stage holds one segment at least.\n  fix: fewer stages, or "
                        "more cuts.");
    }
    if (!stage_of_segment.empty()) {
      if (stage_of_segment.size() != static_cast<std::size_t>(segments)) {
        throw OptionError("reef::run::Topology: stage_of_segment has ", stage_of_segment.size(),
                          " entries for ", segments, " segments.\n  fix: one for each.");
      }
      for (int stage = 0; stage < stages; ++stage) {
        if (std::find(stage_of_segment.begin(), stage_of_segment.end(), stage) ==
            stage_of_segment.end()) {
          throw OptionError("reef::run::Topology: stage ", stage,
                            " has no segment.\n  fix: one at least for each of ", stages,
                            " stages.");
        }
      }
      for (const int stage : stage_of_segment) {
        if (stage >= 0 && stage < stages) continue;
        throw OptionError("reef::run::Topology: a segment is in stage ", stage, " of ", stages,
                          ".\n  fix: 0 to ", stages - 1, ".");
      }
    }
  }

  /// stage_of_segment as it holds for so many segments.
  [[nodiscard]] std::vector<int> stages_of(int segments) const {
    if (!stage_of_segment.empty()) return stage_of_segment;
    std::vector<int> result(static_cast<std::size_t>(segments));
    for (int stage = 0; stage < stages; ++stage) {
      for (int s = stage * segments / stages; s < (stage + 1) * segments / stages; ++s) {
        result[static_cast<std::size_t>(s)] = stage;
      }
    }
    return result;
  }

  /// "2 replicas of 3 stages", and where it is given which rank and which segment is where.
  [[nodiscard]] std::string text() const {
    std::string result = concat(replicas, " replicas of ", stages, stages == 1 ? " stage" : " stages");
    for (const int& rank : rank_at) {
      result += concat(&rank == rank_at.data() ? ", ranks " : " ", rank);
    }
    for (const int& stage : stage_of_segment) {
      result += concat(&stage == stage_of_segment.data() ? ", stages of segments " : " ", stage);
    }
    return result;
  }

  void add_to(Hash& hash) const {
    hash.add(replicas).add(stages).add(rank_at.size()).add(stage_of_segment.size());
    for (const int rank : rank_at) hash.add(rank);
    for (const int stage : stage_of_segment) hash.add(stage);
  }

private:
  [[nodiscard]] int position_of(int rank) const {
    if (rank_at.empty()) return rank;
    return static_cast<int>(std::find(rank_at.begin(), rank_at.end(), rank) - rank_at.begin());
  }
};

}  // namespace reef::inline v0::run
