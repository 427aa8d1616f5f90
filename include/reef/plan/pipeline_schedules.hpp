#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include <reef/plan/pipeline_order.hpp>

/// \file
/// The known pipeline schedules, as functions and by name.
///
/// \code
/// const plan::PipelineOrder order = plan::zb_h1_order(4, 12);  // 4 ranks, 12 micro-batches
/// const std::string text = plan::text_of(order);               // F0 F1 F2 F3 I0 W0 F4 I1 ...
/// \endcode

namespace reef {
inline namespace v0 {
namespace plan {

/// The orders of tasks of known pipeline schedules. In their comments f, b and w are the times of F (forward), I and W
/// (halves of the backward) of one chunk, c is the delay of a message, p the number of ranks, m of micro-batches, v of
/// chunks on a rank, and r a rank. Times hold if all chunks take equally long, and if c = 0 unless the formula has c.
///
/// Any m >= 1 is allowed. Where a schedule is defined for multiples of a number alone, or for a least m, the order is
/// that of the next allowed m without the surplus micro-batches.
///
/// | errors | OptionError: fewer than 1 rank, micro-batch or chunk, or more than max_pipeline_tasks |
/// | cost   | O(tasks)                                                                              |
/// \{

/// Returns the order of GPipe, and of ThreeSlot of DT-FM: all forwards (F), then all backwards (B), by ascending
/// micro-batch. With p ranks and m micro-batches its time is (m + p - 1)(f + b + w) + 2 (p - 1) c, f, b, w being a
/// chunk's times of forward and backward halves, and c a message's delay, and a rank holds m activations.
///
/// Source: Huang et al., arXiv 1811.06965. Deviation: the paper runs B descending, which adds gradients in another
/// order.
PipelineOrder gpipe_order(int ranks, int micro_batches);

/// Returns the order of 1F1B for m micro-batches: rank r of p runs p - 1 - r forwards F, then F and B by turns, then
/// the backwards B left. Its time is that of GPipe if messages take no time; rank r holds min(m, p - r) activations.
/// `eager`: 2 (p - 1 - r) forwards first, which hides delays of up to half a stage.
///
/// Source: Narayanan et al., PipeDream-flush, arXiv 2006.09503.
PipelineOrder one_f_one_b_order(int ranks, int micro_batches, bool eager = false);

/// Returns the order of 1F1B in which rank r runs warm_up[r] forwards first. Throws OptionError if a rank runs fewer of
/// them than the next rank, since each of the two would wait for the other.
PipelineOrder one_f_one_b_order(int ranks, int micro_batches, const std::vector<int>& warm_up);

/// Returns the order of interleaved 1F1B for m micro-batches on p ranks of v chunks each: chunk c is on rank c mod p,
/// and each rank runs a `group` of p or more micro-batches (0: p) through its chunks in turn. Its time is
/// (m v + p - 1)(f + b + w) if p divides m; f, b, w: the times of forward, input half and weight half of a chunk.
///
/// Source: Narayanan et al., arXiv 2104.04473.
PipelineOrder interleaved_order(int ranks, int micro_batches, int chunks_per_rank, int group = 0);

/// Returns the looped breadth-first order for m micro-batches and v chunks on each rank: all forwards chunk by chunk,
/// then all backwards from the last chunk on. A rank holds m v activations.
///
/// Source: Lamy-Poirier, arXiv 2211.05953. Deviation: B in ascending order.
PipelineOrder looped_bfs_order(int ranks, int micro_batches, int chunks_per_rank);

/// Returns the zero-bubble order ZB-H1 for m micro-batches, with the memory of 1F1B: on rank r of p, the weight half W
/// runs r micro-batches after the input half I. Its time is m (f + b + w) + (p - 1)(f + b - w) if w <= min(f, b) and
/// m >= p, where f, b, w are the times of forward, I and W; a rank holds p activations.
///
/// Source: Qi et al., arXiv 2401.10241, ZB-H1.
PipelineOrder zb_h1_order(int ranks, int micro_batches);

/// Returns the zero-bubble order ZB-H2 for m micro-batches on p ranks, with about twice the memory of 1F1B, 2 p - 1
/// activations. Its time is 3 m f + (p - 1)(f + c), c being the delay of a message, if a chunk's forward takes the time
/// f, as do the halves of its backward, f >= c and m >= 2 p - 2.
///
/// Source: Qi et al., arXiv 2401.10241, ZB-H2.
PipelineOrder zb_h2_order(int ranks, int micro_batches);

/// Returns the order of ZB-H1 for m micro-batches with v chunks on each of p ranks, as in interleaved_order(). Its time
/// is m v (f + b + w) + (p - 1)(f + b - w) if w <= min(f, b) and p divides m, where f, b, w are the times of forward,
/// input half and weight half of a chunk; a rank holds p v activations.
PipelineOrder interleaved_zb_order(int ranks, int micro_batches, int chunks_per_rank,
                                   int group = 0);

/// Returns the zero-bubble order ZB-V for m micro-batches, with the memory of 1F1B: rank r of p has the chunks r and
/// 2 p - 1 - r. Its time is 6 m f + (p - 1) f if a chunk's forward and each half of its backward take the time f, and
/// m >= 2 p - 1; a rank holds 2 p activations of half a stage each.
///
/// Source: Qi et al., arXiv 2405.15362, ZB-V.
PipelineOrder zb_v_order(int ranks, int micro_batches);

/// Return the orders V-Half and V-Min for p ranks, which place chunks as ZB-V, and need about half and a third of its
/// memory: 2 floor((p + 2) / 2) and 2 floor((p + 4) / 3) activations of half a stage.
///
/// Source: Qi et al., arXiv 2405.15362, V-Half and V-Min: the repeated patterns, without squeezing out idle times.
PipelineOrder v_half_order(int ranks, int micro_batches);
PipelineOrder v_min_order(int ranks, int micro_batches);

/// Returns the order of DualPipe, for m micro-batches on p ranks, with its two directions folded into a V. Its time is
/// 6 m f + (p - 1) f if a chunk's forward and each half of its backward take the time f, and m >= 2 p; a rank holds
/// 2 p + 1 activations of half a stage. A forward and a backward that DualPipe overlaps run one by one here.
///
/// Source: DeepSeek-AI, DualPipe, in Sea AI Lab's "cut-in-half" form.
PipelineOrder dualpipe_v_order(int ranks, int micro_batches);
/// \}

/// A known pipeline schedule: its name, its properties, and the function that returns its order of tasks.
struct PipelineSchedule {
  /// The number of chunks that a rank may have: one, two, or any number, two by default.
  enum class Chunks : std::uint8_t { one, two, any };

  std::string_view name;
  Chunks chunks;
  bool groups;  ///< true: the schedule accepts a `group` (micro-batches run through a chunk in turn) other than 0
  bool updates_within_a_step; ///< true: weights are updated within a step: asynchronous, in the order of 1F1B
  PipelineOrder (*make)(int ranks, int micro_batches, int chunks_per_rank, int group);
};

/// All known pipeline schedules. "three-slot", the schedule of pipeline::ThreeSlot, has the order of "gpipe".
inline constexpr std::array<PipelineSchedule, 15> pipeline_schedules{{
    {"gpipe", PipelineSchedule::Chunks::one, false, false, [](int p, int m, int, int) { return gpipe_order(p, m); }},
    {"1f1b", PipelineSchedule::Chunks::one, false, false,
     [](int p, int m, int, int) { return one_f_one_b_order(p, m); }},
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
    {"dualpipe-v", PipelineSchedule::Chunks::two, false, false,
     [](int p, int m, int, int) { return dualpipe_v_order(p, m); }},
    {"three-slot", PipelineSchedule::Chunks::one, false, false,
     [](int p, int m, int, int) { return gpipe_order(p, m); }},
    {"pipedream", PipelineSchedule::Chunks::one, false, true,
     [](int p, int m, int, int) { return one_f_one_b_order(p, m); }},
    {"2bw", PipelineSchedule::Chunks::one, false, true, [](int p, int m, int, int) { return one_f_one_b_order(p, m); }},
}};

/// Returns the names of pipeline_schedules in their order; if not `asynchronous`, without those that update weights
/// within a step.
std::vector<std::string_view> pipeline_schedule_names(bool asynchronous = true);

/// Returns the schedule with this name; null if there is none.
const PipelineSchedule* find_pipeline_schedule(std::string_view name);

/// Returns true if the name is that of a schedule that updates weights within a step.
bool is_asynchronous_schedule(std::string_view name);

/// Returns the order of tasks of the pipeline schedule with this name. Throws OptionError for an unknown name, and if
/// the schedule does not allow a group, or so many chunks on a rank (0: 1 or 2, as the schedule needs).
PipelineOrder pipeline_order_of(std::string_view schedule, int ranks, int micro_batches,
                                int chunks_per_rank = 0, int group = 0);

}  // namespace plan
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/plan/pipeline_schedules.ipp>
#endif
