#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
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
/// \code
/// const run::Topology replicas(4);           // of the whole model: data parallelism
/// const run::Topology pipelines(2, 3);       // two replicas of three stages: six ranks
/// const int rank = pipelines.rank(1, 0);     // 3 = replica * 3 + stage
/// const Group group = pipelines.holders(0);  // ranks 0 and 3
/// \endcode
///
/// A stage may hold several runs of consecutive segments, its chunks: chunk k, counted from the model's
/// first, is on stage_of_chunk[k]. Pipeline policies of several chunks a stage say so themselves.
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
  std::vector<int> chunk_of_segment{};  ///< by segment, ascending; empty: shared out evenly
  std::vector<int> stage_of_chunk{};    ///< by chunk; empty: chunk k is all of stage k
  std::vector<int> bounds{};  ///< where a Trainer cuts chunks: 0, the first nodes of further ones, the number of
                              ///< nodes; empty: where the slowest takes as little as can be
  std::vector<int> stage_of_segment{};  ///< by segment; empty: of S segments, those of chunk k of n are
                                        ///< [k S / n, (k + 1) S / n)

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

  /// How many chunks there are where segments are shared out evenly.
  [[nodiscard]] int chunks() const {
    return stage_of_chunk.empty() ? stages : static_cast<int>(stage_of_chunk.size());
  }

  /// Throws OptionError unless every rank has one place, and every segment a stage, of which each
  /// stage has one.
  void validate(int segments) const {
    validate_ranks();
    require_places("chunk", stage_of_chunk);
    if (!chunk_of_segment.empty() &&
        (chunk_of_segment.size() != static_cast<std::size_t>(segments) ||
         !std::is_sorted(chunk_of_segment.begin(), chunk_of_segment.end()) ||
         chunk_of_segment.front() != 0 || chunk_of_segment.back() != chunks() - 1 ||
         std::adjacent_find(chunk_of_segment.begin(), chunk_of_segment.end(),
                            [](int a, int b) { return b > a + 1; }) != chunk_of_segment.end())) {
      throw OptionError("reef::run::Topology: chunk_of_segment has ", chunk_of_segment.size(),
                        " entries for ", segments, " segments in ", chunks(),
                        " chunks, or they do not ascend from 0 one by one.\n  fix: one for each segment, ascending.");
    }
    if (stage_of_segment.empty() && chunks() > segments) {
      throw OptionError("reef::run::Topology: ", chunks(), chunks() == stages ? " stages" : " chunks",
                        " for a model of ", segments, segments == 1 ? " segment" : " segments",
                        ".\n  why: each holds one segment at least.\n  fix: fewer of them, or "
                        "more cuts.");
    }
    if (!stage_of_segment.empty()) {
      if (stage_of_segment.size() != static_cast<std::size_t>(segments)) {
        throw OptionError("reef::run::Topology: stage_of_segment has ", stage_of_segment.size(),
                          " entries for ", segments, " segments.\n  fix: one for each.");
      }
      require_places("segment", stage_of_segment);
    }
  }

  /// Throws OptionError unless bounds are those of all chunks of a model of so many nodes.
  void validate_bounds(int nodes) const {
    if (bounds.empty()) return;
    if (!chunk_of_segment.empty() || !stage_of_segment.empty()) {
      throw OptionError("reef::run::Topology: there are bounds of chunks, and segments have their places.\n"
                        "  why: both say which nodes are on which stage.\n  fix: one of them.");
    }
    if (static_cast<int>(bounds.size()) == chunks() + 1 && bounds.front() == 0 && bounds.back() == nodes &&
        std::adjacent_find(bounds.begin(), bounds.end(), std::greater_equal<>{}) == bounds.end()) {
      return;
    }
    throw OptionError("reef::run::Topology: bounds has ", bounds.size(), " entries for ", chunks(),
                      " chunks of a model of ", nodes, " nodes, or they do not ascend from 0 to that.\n"
                      "  fix: 0, the first node of each further chunk, and ", nodes, ".");
  }

  /// The chunk of each of so many segments: where stages are given, each run of segments of one stage.
  [[nodiscard]] std::vector<int> chunks_of(int segments) const {
    if (!chunk_of_segment.empty() && stage_of_segment.empty()) return chunk_of_segment;
    std::vector<int> result(static_cast<std::size_t>(segments));
    for (std::size_t s = 1; s < stage_of_segment.size(); ++s) {
      result[s] = result[s - 1] + (stage_of_segment[s] == stage_of_segment[s - 1] ? 0 : 1);
    }
    if (!stage_of_segment.empty()) return result;
    const auto bound = [&](int chunk) {
      return static_cast<int>(std::int64_t{chunk} * segments / chunks());
    };
    for (int chunk = 0; chunk < chunks(); ++chunk) {
      std::fill(result.begin() + bound(chunk), result.begin() + bound(chunk + 1), chunk);
    }
    return result;
  }

  /// stage_of_segment as it holds for so many segments.
  [[nodiscard]] std::vector<int> stages_of(int segments) const {
    if (!stage_of_segment.empty()) return stage_of_segment;
    std::vector<int> result = chunks_of(segments);
    for (int& place : result) {
      if (!stage_of_chunk.empty()) place = stage_of_chunk[static_cast<std::size_t>(place)];
    }
    return result;
  }

  /// "2 replicas of 3 stages", and where it is given which rank and which segment is where.
  [[nodiscard]] std::string text() const {
    std::string result = concat(replicas, " replicas of ", stages, stages == 1 ? " stage" : " stages");
    for (const int& rank : rank_at) {
      result += concat(&rank == rank_at.data() ? ", ranks " : " ", rank);
    }
    for (const int& stage : stage_of_chunk) {
      result += concat(&stage == stage_of_chunk.data() ? ", stages of chunks " : " ", stage);
    }
    for (const int& stage : stage_of_segment) {
      result += concat(&stage == stage_of_segment.data() ? ", stages of segments " : " ", stage);
    }
    for (const int& chunk : chunk_of_segment) {
      result += concat(&chunk == chunk_of_segment.data() ? ", chunks of segments " : " ", chunk);
    }
    for (const int& bound : bounds) result += concat(&bound == bounds.data() ? ", chunks from node " : " ", bound);
    return result;
  }

  void add_to(Hash& hash) const {
    hash.add(replicas).add(stages);
    for (const std::vector<int>* const places : {&rank_at, &chunk_of_segment, &stage_of_chunk, &stage_of_segment}) {
      hash.add(places->size());
      for (const int place : *places) hash.add(place);
    }
  }

private:
  void require_places(const char* what, const std::vector<int>& places) const {
    for (int stage = 0; stage < stages && !places.empty(); ++stage) {
      if (std::find(places.begin(), places.end(), stage) != places.end()) continue;
      throw OptionError("reef::run::Topology: stage ", stage, " has no ", what,
                        ".\n  fix: one at least for each of ", stages, " stages.");
    }
    for (const int stage : places) {
      if (stage >= 0 && stage < stages) continue;
      throw OptionError("reef::run::Topology: a ", what, " is in stage ", stage, " of ", stages,
                        ".\n  fix: 0 to ", stages - 1, ".");
    }
  }

  [[nodiscard]] int position_of(int rank) const {
    if (rank_at.empty()) return rank;
    return static_cast<int>(std::find(rank_at.begin(), rank_at.end(), rank) - rank_at.begin());
  }
};

}  // namespace reef::inline v0::run
