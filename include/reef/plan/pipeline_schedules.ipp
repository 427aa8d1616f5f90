#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/plan/detail/pipeline_order_writer.hpp>
#include <reef/plan/pipeline_schedules.hpp>

namespace reef {
inline namespace v0 {
namespace plan {

REEF_INLINE PipelineOrder gpipe_order(int ranks, int micro_batches) {
  return looped_bfs_order(ranks, micro_batches, 1);
}

REEF_INLINE PipelineOrder one_f_one_b_order(int ranks, int micro_batches, bool eager) {
  detail::require_pipeline_size(ranks, micro_batches, 1);
  std::vector<int> warm_up;
  for (int r = 0; r < ranks; ++r) warm_up.push_back((eager ? 2 : 1) * (ranks - 1 - r));
  return one_f_one_b_order(ranks, micro_batches, warm_up);
}

REEF_INLINE PipelineOrder one_f_one_b_order(int ranks, int micro_batches,
                                            const std::vector<int>& warm_up) {
  detail::require_pipeline_size(ranks, micro_batches, 1);
  if (warm_up.size() != static_cast<std::size_t>(ranks)) {
    throw OptionError("reef::plan::one_f_one_b_order: ", warm_up.size(), " warm-ups for ", ranks,
                      " ranks.\n  fix: one for each.");
  }
  // Forwards before the first backward.
  const auto before = [&](std::size_t r) {
    return std::min<std::int64_t>(micro_batches, std::int64_t{warm_up[r]} + 1);
  };
  for (std::size_t r = 0; r < warm_up.size(); ++r) {
    if (warm_up[r] < 0) {
      throw OptionError("reef::plan::one_f_one_b_order: rank ", r, " warms up with ", warm_up[r],
                        " micro-batches.\n  fix: at least 0.");
    }
    if (r + 1 == warm_up.size() || before(r) >= before(r + 1)) continue;
    throw OptionError("reef::plan::one_f_one_b_order: rank ", r, " warms up with ", warm_up[r],
                      " micro-batches, rank ", r + 1, " with ", warm_up[r + 1], ".\n  why: rank ",
                      r + 1, " would wait for more forwards than rank ", r,
                      " runs before its first backward.\n  fix: never more on a later rank.");
  }
  return detail::write_order(
      detail::looped_pipeline(ranks, micro_batches, 1), [&](int r, auto& writer) {
        const int first = (std::min)(micro_batches, warm_up[static_cast<std::size_t>(r)]);
        for (int k = 0; k < first; ++k) writer.f(0);
        for (int k = first; k < micro_batches; ++k) {
          writer.f(0);
          writer.b(0);
        }
        for (int k = 0; k < first; ++k) writer.b(0);
      });
}

REEF_INLINE PipelineOrder interleaved_order(int ranks, int micro_batches, int chunks_per_rank,
                                            int group) {
  auto order = detail::looped_pipeline(ranks, micro_batches, chunks_per_rank);
  const detail::InterleavedSteps steps(ranks, micro_batches, chunks_per_rank, group);
  return detail::write_order(std::move(order), [&](int r, auto& writer) {
    const int first = static_cast<int>(std::min<std::int64_t>(
        steps.count,
        2 * (std::int64_t{ranks} - 1 - r) + (std::int64_t{chunks_per_rank} - 1) * steps.group));
    for (int k = 0; k < first; ++k) writer.f(steps.forward_chunk(k));
    for (int k = 0; k < steps.count; ++k) {
      if (first + k < steps.count) writer.f(steps.forward_chunk(first + k));
      writer.b(steps.backward_chunk(k));
    }
  });
}

REEF_INLINE PipelineOrder looped_bfs_order(int ranks, int micro_batches, int chunks_per_rank) {
  return detail::write_order(detail::looped_pipeline(ranks, micro_batches, chunks_per_rank),
                             [&](int, auto& writer) {
                               for (int c = 0; c < chunks_per_rank; ++c) {
                                 for (int j = 0; j < micro_batches; ++j) writer.f(c);
                               }
                               for (int c = chunks_per_rank; c-- > 0;) {
                                 for (int j = 0; j < micro_batches; ++j) writer.b(c);
                               }
                             });
}

REEF_INLINE PipelineOrder zb_h1_order(int ranks, int micro_batches) {
  return interleaved_zb_order(ranks, micro_batches, 1, (std::max)(ranks, micro_batches));
}

REEF_INLINE PipelineOrder zb_h2_order(int ranks, int micro_batches) {
  return detail::write_order(detail::looped_pipeline(ranks, micro_batches, 1),
                             [&](int r, auto& writer) {
                               int forwards = (std::min)(micro_batches, 2 * (ranks - r) - 1);
                               for (int k = 0; k < forwards; ++k) writer.f(0);
                               for (int k = 0; k < micro_batches; ++k) {
                                 writer.i(0);
                                 if (k >= 2 * r) writer.w(0);
                                 if (forwards++ < micro_batches) writer.f(0);
                               }
                               writer.rest_of_w(0);
                             });
}

REEF_INLINE PipelineOrder interleaved_zb_order(int ranks, int micro_batches, int chunks_per_rank,
                                               int group) {
  auto order = detail::looped_pipeline(ranks, micro_batches, chunks_per_rank);
  const detail::InterleavedSteps steps(ranks, micro_batches, chunks_per_rank, group);
  return detail::write_order(std::move(order), [&](int r, auto& writer) {
    const int first = static_cast<int>(std::min<std::int64_t>(
        steps.count,
        std::int64_t{ranks} - 1 - r + (std::int64_t{chunks_per_rank} - 1) * steps.group));
    for (int k = 0; k < first; ++k) writer.f(steps.forward_chunk(k));
    for (int k = 0; k < steps.count; ++k) {
      if (first + k < steps.count) writer.f(steps.forward_chunk(first + k));
      writer.i(steps.backward_chunk(k));
      if (k >= r) writer.w(steps.backward_chunk(k - r));
    }
    for (int k = (std::max)(0, steps.count - r); k < steps.count; ++k) {
      writer.w(steps.backward_chunk(k));
    }
  });
}

REEF_INLINE PipelineOrder zb_v_order(int ranks, int micro_batches) {
  return detail::write_order(
      detail::folded_pipeline(ranks, micro_batches), [&](int r, auto& writer) {
        constexpr int a = 0;
        constexpr int b = 1;
        const int count = (std::max)(micro_batches, 2 * ranks - 1);
        for (int k = 0; k < 2 * (ranks - r) - 1; ++k) writer.f(a);
        for (int k = 0; k < r; ++k) {
          writer.f(b);
          writer.f(a);
        }
        for (int k = 0; k < ranks - r; ++k) {
          writer.f(b);
          writer.i(b);
          writer.w(b);
        }
        while (writer.forwards(b) < writer.forwards(a) || writer.forwards(a) < count) {
          if (writer.forwards(a) < count) writer.f(a);
          writer.i(a);
          writer.w(a);
          writer.f(b);
          writer.i(b);
          writer.w(b);
        }
        for (int k = 0; k < r; ++k) {
          writer.i(a);
          writer.i(b);
        }
        for (int k = 0; k < ranks - r; ++k) {
          writer.i(a);
          writer.w(a);
        }
        writer.rest_of_w(b);
        writer.rest_of_w(a);
      });
}

REEF_INLINE PipelineOrder v_half_order(int ranks, int micro_batches) {
  return detail::write_order(
      detail::folded_pipeline(ranks, micro_batches), [&](std::int64_t r, auto& writer) {
        const std::int64_t p = ranks;
        const std::int64_t d = p % 2 == 0 ? 3 : 0;
        detail::write_slots(writer, micro_batches,
                            {2 * r, 3 * p - r - 2, 3 * p + d + 2 * r - 1, 6 * p + d - r - 2});
      });
}

REEF_INLINE PipelineOrder v_min_order(int ranks, int micro_batches) {
  return detail::write_order(
      detail::folded_pipeline(ranks, micro_batches), [&](std::int64_t r, auto& writer) {
        const std::int64_t p = ranks;
        const std::int64_t d = p % 3 == 0 ? 2 : 0;
        detail::write_slots(writer, micro_batches,
                            {r, 2 * p - r - 1, 2 * p + d + r, 4 * p + d - r - 1});
      });
}

REEF_INLINE PipelineOrder dualpipe_v_order(int ranks, int micro_batches) {
  return detail::write_order(detail::folded_pipeline(ranks, micro_batches),
                             [&](int r, auto& writer) {
                               constexpr int a = 0;
                               constexpr int b = 1;
                               const int count = (std::max)(micro_batches, 2 * ranks);
                               const int after = ranks - 1 - r;
                               std::vector<int> half;  // chunks of I without W, in their order
                               std::size_t done = 0;
                               const auto input = [&](int chunk) {
                                 writer.i(chunk);
                                 half.push_back(chunk);
                               };
                               const auto weight = [&] { writer.w(half[done++]); };
                               for (int k = 0; k < 2 * after; ++k) writer.f(a);
                               for (int k = 0; k <= r; ++k) {
                                 writer.f(a);
                                 writer.f(b);
                               }
                               for (int k = 0; k < after; ++k) {
                                 input(b);
                                 weight();
                                 writer.f(b);
                               }
                               for (int k = 0; k < count - 2 * ranks + r + 1; ++k) {
                                 writer.f(a);
                                 writer.b(b);
                                 writer.f(b);
                                 writer.b(a);
                               }
                               for (int k = 0; k < after; ++k) {
                                 writer.b(b);
                                 writer.f(b);
                                 writer.b(a);
                               }
                               bool halves = false;
                               for (int k = 0; k <= r; ++k) {
                                 const bool turns = k == (r + 1) / 2;
                                 halves = halves || (turns && r % 2 == 1);
                                 if (halves)
                                   input(b);
                                 else
                                   writer.b(b);
                                 halves = halves || turns;
                                 if (halves)
                                   input(a);
                                 else
                                   writer.b(a);
                               }
                               for (int k = 0; k < after; ++k) {
                                 weight();
                                 input(a);
                               }
                               for (int k = 0; k <= r; ++k) weight();
                             });
}

REEF_INLINE std::vector<std::string_view> pipeline_schedule_names(bool asynchronous) {
  std::vector<std::string_view> names;
  for (const PipelineSchedule& schedule : pipeline_schedules) {
    if (asynchronous || !schedule.updates_within_a_step) names.push_back(schedule.name);
  }
  return names;
}

REEF_INLINE const PipelineSchedule* find_pipeline_schedule(std::string_view name) {
  const auto found = std::find_if(pipeline_schedules.begin(), pipeline_schedules.end(),
                                  [&](const PipelineSchedule& schedule) { return schedule.name == name; });
  return found == pipeline_schedules.end() ? nullptr : &*found;
}

REEF_INLINE bool is_asynchronous_schedule(std::string_view name) {
  const PipelineSchedule* const found = find_pipeline_schedule(name);
  return found != nullptr && found->updates_within_a_step;
}

REEF_INLINE PipelineOrder pipeline_order_of(std::string_view name, int ranks, int micro_batches, int chunks_per_rank,
                                            int group) {
  using Chunks = PipelineSchedule::Chunks;
  const auto refuse_chunks = [&](const char* fix) {
    throw OptionError("reef::plan: the schedule ", in_quotes(name), " with ", chunks_per_rank,
                      chunks_per_rank == 1 ? " chunk" : " chunks",
                      " on each rank (v).\n  fix: ", fix, ".");
  };
  const PipelineSchedule* const schedule = find_pipeline_schedule(name);
  if (schedule == nullptr) {
    std::string known;
    for (const std::string_view one : pipeline_schedule_names(false)) {
      known += concat(known.empty() ? "" : ", ", one);
    }
    throw OptionError("reef::plan: no schedule is named ", in_quotes(name), ".\n  fix: one of ",
                      known, ".");
  }
  if (chunks_per_rank == 0) chunks_per_rank = schedule->chunks == Chunks::one ? 1 : 2;
  if (schedule->chunks == Chunks::two && chunks_per_rank != 2) refuse_chunks("2");
  if (schedule->chunks == Chunks::one && chunks_per_rank != 1) refuse_chunks("1, or another schedule");
  if (group != 0 && !schedule->groups) {
    throw OptionError("reef::plan: the schedule ", in_quotes(name), " with groups of ", group,
                      " micro-batches.\n  fix: leave the group out, or an interleaved schedule.");
  }
  return schedule->make(ranks, micro_batches, chunks_per_rank, group);
}

}  // namespace plan
}  // namespace v0
}  // namespace reef
