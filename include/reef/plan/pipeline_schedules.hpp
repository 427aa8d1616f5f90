#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include <reef/plan/pipeline_order.hpp>

/// \file
/// The known schedules of pipelines, by functions and by names.
///
/// \code
/// const plan::PipelineOrder order = plan::zb_h1_order(4, 12);  // 4 ranks, 12 micro-batches
/// const std::string text = plan::text_of(order);               // F0 F1 F2 F3 I0 W0 F4 I1 ...
/// \endcode

namespace reef {
inline namespace v0 {
namespace plan {

/// The orders of known schedules. f, b, w are the times of F, I and W of one chunk, c the delay of a hop, p the ranks,
/// m the micro-batches, v the chunks of a rank. Times are of even chunks, without links unless c is in the formula.
///
/// Any m >= 1 is allowed. Where a schedule is defined for multiples, or from some number on, the order is the longer
/// one without the surplus micro-batches.
///
/// | errors | OptionError: fewer than 1 rank, micro-batch or chunk, or more than most_pipeline_tasks |
/// | cost   | O(tasks)                                                                                |
/// \{

/// GPipe, and ThreeSlot of DT-FM: all F, then all B, both ascending. Time (m + p - 1)(f + b + w) + 2 (p - 1) c, and m
/// activations.
///
/// Source: Huang et al., arXiv 1811.06965. Deviation: the paper runs B descending, which adds gradients in another
/// order.
PipelineOrder gpipe_order(int ranks, int micro_batches);

/// 1F1B: p - 1 - r F, then F and B by turns, then B. The time of GPipe where c = 0, and min(m, p - r) activations. Eager:
/// 2 (p - 1 - r) F first, which hides delays of up to half a stage.
///
/// Source: Narayanan et al., PipeDream-flush, arXiv 2006.09503.
PipelineOrder one_f_one_b_order(int ranks, int micro_batches, bool eager = false);

/// 1F1B with `warm_up` F first on each rank. Throws OptionError if a rank has fewer than the next one: each of the two
/// would wait for the other.
PipelineOrder one_f_one_b_order(int ranks, int micro_batches, const std::vector<int>& warm_up);

/// Interleaved 1F1B: chunk c on rank c mod p; each rank takes a `group` of micro-batches (0: p of them) through its
/// chunks in turn. Time (m v + p - 1)(f + b + w) where p divides m. A group has p micro-batches at least.
///
/// Source: Narayanan et al., arXiv 2104.04473.
PipelineOrder interleaved_order(int ranks, int micro_batches, int chunks_per_rank, int group = 0);

/// Looped, breadth first: all F of each chunk in turn; then all B of each chunk, from the last on. m v activations.
///
/// Source: Lamy-Poirier, arXiv 2211.05953. Deviation: B in ascending order.
PipelineOrder looped_bfs_order(int ranks, int micro_batches, int chunks_per_rank);

/// Zero bubble at the memory of 1F1B: W trails I by r micro-batches. Time m (f + b + w) + (p - 1)(f + b - w) where
/// w <= min(f, b) and m >= p; p activations.
///
/// Source: Qi et al., arXiv 2401.10241, ZB-H1.
PipelineOrder zb_h1_order(int ranks, int micro_batches);

/// Zero bubble at about twice the memory of 1F1B, 2 p - 1 activations: time m 3 f + (p - 1)(f + c) where f = b = w >= c
/// and m >= 2 p - 2.
///
/// Source: Qi et al., arXiv 2401.10241, ZB-H2.
PipelineOrder zb_h2_order(int ranks, int micro_batches);

/// ZB-H1 of interleaved steps. Time m v (f + b + w) + (p - 1)(f + b - w) where w <= min(f, b) and p divides m; p v
/// activations.
PipelineOrder interleaved_zb_order(int ranks, int micro_batches, int chunks_per_rank,
                                   int group = 0);

/// Zero bubble with the memory of 1F1B: two chunks on each rank, r and 2 p - 1 - r. Time 6 m f + (p - 1) f where
/// f = b = w and m >= 2 p - 1; 2 p activations of half a stage each.
///
/// Source: Qi et al., arXiv 2405.15362, ZB-V.
PipelineOrder zb_v_order(int ranks, int micro_batches);

/// V-Half and V-Min: chunks as in ZB-V with about half, and a third, of its memory: 2 floor((p + 2) / 2) and
/// 2 floor((p + 4) / 3) activations of half a stage.
///
/// Source: Qi et al., arXiv 2405.15362, V-Half and V-Min, as the repeated patterns are, not squeezed.
PipelineOrder v_half_order(int ranks, int micro_batches);
PipelineOrder v_min_order(int ranks, int micro_batches);

/// DualPipe with its two directions folded into a V. Time 6 m f + (p - 1) f where f = b = w and m >= 2 p; 2 p + 1
/// activations of half a stage. An F and a B, which DualPipe overlaps, stand one after the other here.
///
/// Source: DeepSeek-AI, DualPipe; Sea AI Lab's cut in half.
PipelineOrder dualpipe_v_order(int ranks, int micro_batches);
/// \}

/// A schedule: its name, and its properties.
struct PipelineSchedule {
  /// The number of chunks that a rank may have: one, two, or any number, two by default.
  enum class Chunks : std::uint8_t { one, two, any };

  std::string_view name;
  Chunks chunks;
  bool groups;                ///< the schedule takes a group of micro-batches
  bool updates_within_a_step; ///< the schedule is asynchronous, with the order of 1F1B
  PipelineOrder (*make)(int ranks, int micro_batches, int chunks_per_rank, int group);
};

/// All known schedules. "three-slot" has the order of "gpipe".
inline constexpr std::array<PipelineSchedule, 15> pipeline_schedules{{
    {"gpipe", PipelineSchedule::Chunks::one, false, false, [](int p, int m, int, int) { return gpipe_order(p, m); }},
    {"1f1b", PipelineSchedule::Chunks::one, false, false, [](int p, int m, int, int) { return one_f_one_b_order(p, m); }},
    {"1f1b-eager", PipelineSchedule::Chunks::one, false, false,
     [](int p, int m, int, int) { return one_f_one_b_order(p, m, true); }},
    {"interleaved", PipelineSchedule::Chunks::any, true, false, &interleaved_order},
    {"looped-bfs", PipelineSchedule::Chunks::any, false, false,
     [](int p, int m, int v, int) { return looped_bfs_order(p, m, v); }},
    {"zb-h1", PipelineSchedule::Chunks::one, false, false, [](int p, int m, int, int) { return zb_h1_order(p, m); }},
    {"zb-h2", PipelineSchedule::Chunks::one, false, false, [](int p, int m, int, int) { return zb_h2_order(p, m); }},
    {"interleaved-zb", PipelineSchedule::Chunks::any, true, false, &interleaved_zb_order},
    {"zb-v", PipelineSchedule::Chunks::two, false, false, [](int p, int m, int, int) { return zb_v_order(p, m); }},
    {"v-half", PipelineSchedule::Chunks::two, false, false, [](int p, int m, int, int) { return v_half_order(p, m); }},
    {"v-min", PipelineSchedule::Chunks::two, false, false, [](int p, int m, int, int) { return v_min_order(p, m); }},
    {"dualpipe-v", PipelineSchedule::Chunks::two, false, false, [](int p, int m, int, int) { return dualpipe_v_order(p, m); }},
    {"three-slot", PipelineSchedule::Chunks::one, false, false, [](int p, int m, int, int) { return gpipe_order(p, m); }},
    {"pipedream", PipelineSchedule::Chunks::one, false, true, [](int p, int m, int, int) { return one_f_one_b_order(p, m); }},
    {"2bw", PipelineSchedule::Chunks::one, false, true, [](int p, int m, int, int) { return one_f_one_b_order(p, m); }},
}};

/// Returns the names of pipeline_schedules in their order, with those that update within a step last, or without these.
std::vector<std::string_view> pipeline_schedule_names(bool asynchronous = true);

/// Returns the schedule of a name; null if none has it.
const PipelineSchedule* find_pipeline_schedule(std::string_view name);

/// Returns true if the name is that of a schedule that updates within a step.
bool is_asynchronous_schedule(std::string_view name);

/// Returns the order of the schedule of a name. Throws OptionError for an unknown name, and if the schedule cannot have
/// so many chunks on a rank (0: 1 or 2, as it needs) or a group.
PipelineOrder pipeline_order_of(std::string_view schedule, int ranks, int micro_batches,
                                int chunks_per_rank = 0, int group = 0);

}  // namespace plan
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/plan/pipeline_schedules.ipp>
#endif
