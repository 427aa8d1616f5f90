#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <reef/core/error.hpp>

/// \file
/// Schedules of pipelines: which rank runs what in which order. All else follows from an order: times
/// (pipeline_model.hpp), messages, memory.
///
/// \code
/// const plan::PipelineOrder order = plan::zb_h1_order(4, 12);  // 4 ranks, 12 micro-batches
/// const std::string text = plan::text_of(order);               // F0 F1 F2 F3 I0 W0 F4 I1 ...
/// \endcode

namespace reef {
inline namespace v0 {
namespace plan {

/// What a rank computes of a chunk for a micro-batch: F, B, or the halves of B, I and W.
///
/// | forward         | F: takes what the chunks before it made                                            |
/// | backward        | B: both gradients in one piece; the chunk before it gets its own when B ends       |
/// | input_backward  | I: the gradient of the chunk's input (papers on zero bubble call it B)             |
/// | weight_backward | W: that of its weights, from what F and I have kept                                |
enum class PipelineTaskKind : std::uint8_t { forward, backward, input_backward, weight_backward };

struct PipelineTask {
  PipelineTaskKind kind = PipelineTaskKind::forward;
  int chunk = 0;
  int micro_batch = 0;

  friend constexpr bool operator==(const PipelineTask&, const PipelineTask&) = default;
};

/// Orders of more tasks, on all ranks together, are refused before anything is allocated.
inline constexpr std::int64_t most_pipeline_tasks = std::int64_t{1} << 25;

/// A schedule of one pipeline: the order in which each rank runs its tasks.
///
/// A model is cut into S chunks, numbered in its order. A rank holds one or several: all of them are its stage.
///
/// | tasks | every F once, every backward once, as B or as I and W                                          |
/// | order | B and I behind their F, W behind its I; within a chunk micro-batches ascend in F, in I and B     |
/// |       | together, and in W and B together, so that gradients are added in ascending order               |
/// | fits  | not whether ranks wait for each other in a circle: that depends on edges (pipeline_model.hpp)   |
struct PipelineOrder {
  int micro_batches = 0;
  std::vector<int> rank_of_chunk{};                ///< by chunk; ranks of one pipeline, from 0
  std::vector<std::vector<PipelineTask>> tasks{};  ///< by rank

  [[nodiscard]] int ranks() const { return static_cast<int>(tasks.size()); }
  [[nodiscard]] int chunks() const { return static_cast<int>(rank_of_chunk.size()); }

  /// Throws OptionError, naming rank and task, unless all of the above holds. O(tasks).
  void validate() const;

  friend bool operator==(const PipelineOrder&, const PipelineOrder&) = default;
};

/// "F3", and of chunk 5 "5F3".
std::string text_of(const PipelineTask& task, bool names_chunk);

/// Whether texts of an order name chunks: unless chunk c is all that rank c has, for every c.
bool names_chunks(const PipelineOrder& order);

/// The tasks of each rank on a line: "F0 F1 B0 B1". parse_pipeline_order() reads it.
std::string text_of(const PipelineOrder& order);

/// Reads an order: a line for each rank, its tasks between blanks. A task that names no chunk is of the one that
/// has its rank's number. Empty lines, and from # on, are left out. `source` is what errors name.
///
/// | errors | DecodeError, naming line and task; what PipelineOrder::validate() finds |
PipelineOrder parse_pipeline_order(std::string_view text, std::string_view source = "the order");

/// The orders that are known. f, b, w are the times of F, I and W of one chunk, c the delay of a hop, p the ranks, m the
/// micro-batches, v the chunks of a rank. Times are of even chunks, without links where not said.
///
/// Any m >= 1 will do. What is defined for multiples, or from some number on, is the longer order without the
/// micro-batches that are not there.
///
/// | errors | OptionError: fewer than 1 rank, micro-batch or chunk, or more than most_pipeline_tasks |
/// | cost   | O(tasks)                                                                                |
/// \{

/// GPipe, and ThreeSlot of DT-FM: all F, then all B, both ascending. (m + p - 1)(f + b + w) + 2 (p - 1) c, and m
/// activations.
///
/// Source: Huang et al., arXiv 1811.06965. Deviation: it runs B descending, which adds gradients in another order.
PipelineOrder gpipe_order(int ranks, int micro_batches);

/// 1F1B: p - 1 - r F, then F and B by turns, then B. The time of GPipe where c = 0, and min(m, p - r) activations. Eager:
/// 2 (p - 1 - r) F first, which hides delays of up to half a stage.
///
/// Source: Narayanan et al., PipeDream-flush, arXiv 2006.09503.
PipelineOrder one_f_one_b_order(int ranks, int micro_batches, bool eager = false);

/// The same with so many F first on each rank. Throws OptionError where a rank has fewer than the next one, which
/// would wait for it and be waited for.
PipelineOrder one_f_one_b_order(int ranks, int micro_batches, const std::vector<int>& warm_up);

/// Interleaved 1F1B: chunk c on rank c mod p; each rank takes a `group` of micro-batches (0: p of them) through its
/// chunks in turn. (m v + p - 1)(f + b + w) where p divides m. A group is of p micro-batches at least.
///
/// Source: Narayanan et al., arXiv 2104.04473.
PipelineOrder interleaved_order(int ranks, int micro_batches, int chunks_per_rank, int group = 0);

/// Looped, breadth first: of each chunk all F; then of each, backwards, all B. m v activations.
///
/// Source: Lamy-Poirier, arXiv 2211.05953. Deviation: B ascending.
PipelineOrder looped_bfs_order(int ranks, int micro_batches, int chunks_per_rank);

/// Zero bubble at the memory of 1F1B: W trails I by r micro-batches. m (f + b + w) + (p - 1)(f + b - w) where
/// w <= min(f, b) and m >= p; p activations.
///
/// Source: Qi et al., arXiv 2401.10241, ZB-H1.
PipelineOrder zb_h1_order(int ranks, int micro_batches);

/// Zero bubble at about twice that memory, 2 p - 1 activations: m 3 f + (p - 1)(f + c) where f = b = w >= c and
/// m >= 2 p - 2.
///
/// Source: the same, ZB-H2.
PipelineOrder zb_h2_order(int ranks, int micro_batches);

/// ZB-H1 of interleaved steps. m v (f + b + w) + (p - 1)(f + b - w) where w <= min(f, b) and p divides m; p v
/// activations.
PipelineOrder interleaved_zb_order(int ranks, int micro_batches, int chunks_per_rank,
                                   int group = 0);

/// Zero bubble with the memory of 1F1B: two chunks on each rank, r and 2 p - 1 - r. 6 m f + (p - 1) f where f = b = w and
/// m >= 2 p - 1; 2 p activations of half a stage each.
///
/// Source: Qi et al., arXiv 2405.15362, ZB-V.
PipelineOrder zb_v_order(int ranks, int micro_batches);

/// Chunks as in ZB-V with about half, and a third, of its memory: 2 floor((p + 2) / 2) and 2 floor((p + 4) / 3)
/// activations of half a stage.
///
/// Source: the same, V-Half and V-Min, as patterns repeat them, not squeezed.
PipelineOrder v_half_order(int ranks, int micro_batches);
PipelineOrder v_min_order(int ranks, int micro_batches);

/// DualPipe with its two directions folded into a V. 6 m f + (p - 1) f where f = b = w and m >= 2 p; 2 p + 1
/// activations of half a stage. What it overlaps, an F and a B, stands one after the other here.
///
/// Source: DeepSeek-AI, DualPipe; Sea AI Lab's cut in half.
PipelineOrder dualpipe_v_order(int ranks, int micro_batches);
/// \}

/// As the cases of `reef-plan schedule` name them. "three-slot" is the order of "gpipe".
inline constexpr std::array<std::string_view, 13> pipeline_schedule_names{
    "gpipe",          "1f1b", "1f1b-eager", "interleaved", "looped-bfs", "zb-h1",     "zb-h2",
    "interleaved-zb", "zb-v", "v-half",     "v-min",       "dualpipe-v", "three-slot"};

/// Pipelines that update within a step. Their order is that of "1f1b".
inline constexpr std::array<std::string_view, 2> asynchronous_schedule_names{"pipedream", "2bw"};

inline bool is_asynchronous_schedule(std::string_view name) {
  return name == asynchronous_schedule_names[0] || name == asynchronous_schedule_names[1];
}

/// The order of a name, of either sort. Throws OptionError for a name that is none, and where it cannot have so many chunks a rank
/// (0: 1 or 2, as it needs) or a group.
PipelineOrder pipeline_order_of(std::string_view schedule, int ranks, int micro_batches,
                                int chunks_per_rank = 0, int group = 0);

}  // namespace plan
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/plan/pipeline_order.ipp>
#endif
