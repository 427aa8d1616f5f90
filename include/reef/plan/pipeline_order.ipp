#pragma once

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/io/file.hpp>
#include <reef/plan/detail/pipeline_order_writer.hpp>
#include <reef/plan/pipeline_order.hpp>

namespace reef {
inline namespace v0 {
namespace plan {

namespace detail {

inline constexpr std::string_view pipeline_letters = "FBIW";

[[noreturn]] inline void refuse_task(const PipelineOrder& order, std::size_t rank,
                                     const PipelineTask& task, std::string_view what,
                                     std::string_view why, std::string_view fix) {
  throw OptionError("reef::plan: rank ", rank,
                    " of the order: ", text_of(task, names_chunks(order)), " ", what,
                    ".\n  why: ", why, ".\n  fix: ", fix, ".");
}

/// How far a chunk has come: the next micro-batch of F, of I or B, and of W or B.
struct ChunkProgress {
  int forward = 0;
  int input = 0;
  int weight = 0;

  void take(const PipelineOrder& order, std::size_t rank, const PipelineTask& task) {
    using Kind = PipelineTaskKind;
    const int j = task.micro_batch;
    const auto name = [&](Kind kind, int micro_batch) {
      return text_of({kind, task.chunk, micro_batch}, names_chunks(order));
    };
    const auto require_next = [&](int next) {
      if (j < next) {
        refuse_task(order, rank, task, "is there twice",
                    "each runs once, and a backward as B or as I and W", "leave one out");
      }
      if (j > next) {
        refuse_task(order, rank, task, concat("comes before ", name(task.kind, next)),
                    "gradients are added in ascending order of micro-batches",
                    "ascending micro-batches of each kind");
      }
    };
    const auto require_behind = [&](Kind kind, int done, std::string_view why,
                                    std::string_view fix) {
      if (j < done) return;
      refuse_task(order, rank, task, concat("comes before ", name(kind, done)), why, fix);
    };
    if (task.kind == Kind::forward) {
      require_next(forward++);
    } else if (task.kind == Kind::weight_backward) {
      require_next(weight++);
      require_behind(Kind::input_backward, input, "W needs what I has made", "W behind its I");
    } else {
      require_next(input++);
      require_behind(Kind::forward, forward, "a backward needs what its forward has kept",
                     "B and I behind their F");
      if (task.kind == Kind::input_backward) return;
      if (weight < j) {
        refuse_task(order, rank, task, concat("comes before ", name(Kind::weight_backward, weight)),
                    "B adds to the gradient of weights, too, in ascending order",
                    "W ahead of the B of later micro-batches, or halves of those, too");
      }
      ++weight;
    }
  }
};

}  // namespace detail

REEF_INLINE std::string text_of(const PipelineTask& task, bool names_chunk) {
  const char letter = detail::pipeline_letters[static_cast<std::size_t>(task.kind)];
  const std::string kind(1, letter);
  return names_chunk ? concat(task.chunk, kind, task.micro_batch) : concat(kind, task.micro_batch);
}

REEF_INLINE bool names_chunks(const PipelineOrder& order) {
  if (order.chunks() != order.ranks()) return true;
  for (int c = 0; c < order.chunks(); ++c) {
    if (order.rank_of_chunk[static_cast<std::size_t>(c)] != c) return true;
  }
  return false;
}

REEF_INLINE std::string text_of(const PipelineOrder& order) {
  const bool names = names_chunks(order);
  std::string text;
  for (const auto& tasks : order.tasks) {
    for (const PipelineTask& task : tasks) {
      if (&task != tasks.data()) text += ' ';
      text += text_of(task, names);
    }
    text += '\n';
  }
  return text;
}

REEF_INLINE void PipelineOrder::validate() const {
  const auto count = [](const char* what, int is) {
    if (is >= 1) return;
    throw OptionError("reef::plan: an order of ", is, " ", what, ".\n  fix: at least 1.");
  };
  count("micro-batches", micro_batches);
  count("ranks", ranks());
  count("chunks", chunks());
  detail::require_pipeline_size(1, micro_batches, chunks());
  std::vector<bool> has_chunk(tasks.size(), false);
  for (std::size_t c = 0; c < rank_of_chunk.size(); ++c) {
    if (rank_of_chunk[c] < 0 || rank_of_chunk[c] >= ranks()) {
      throw OptionError("reef::plan: rank_of_chunk[", c, "] is ", rank_of_chunk[c], " of ", ranks(),
                        " ranks.\n  fix: 0 to ", ranks() - 1, ".");
    }
    has_chunk[static_cast<std::size_t>(rank_of_chunk[c])] = true;
  }
  for (std::size_t r = 0; r < tasks.size(); ++r) {
    if (has_chunk[r]) continue;
    throw OptionError("reef::plan: rank ", r,
                      " of the order holds no chunk.\n  fix: fewer ranks, or "
                      "one chunk for each at least.");
  }
  std::vector<detail::ChunkProgress> progress(rank_of_chunk.size());
  for (std::size_t r = 0; r < tasks.size(); ++r) {
    for (const PipelineTask& task : tasks[r]) {
      if (static_cast<std::size_t>(task.kind) >= detail::pipeline_letters.size()) {
        throw OptionError("reef::plan: rank ", r, " of the order: a task is of kind ",
                          static_cast<int>(task.kind), ".\n  fix: one of PipelineTaskKind.");
      }
      if (task.chunk < 0 || task.chunk >= chunks()) {
        throw OptionError("reef::plan: rank ", r, " of the order: ", text_of(task, true),
                          " is of chunk ", task.chunk, " of ", chunks(), ".\n  fix: 0 to ",
                          chunks() - 1, ".");
      }
      if (task.micro_batch < 0 || task.micro_batch >= micro_batches) {
        detail::refuse_task(*this, r, task, "is of no micro-batch",
                            concat("there are ", micro_batches, " micro-batches"),
                            concat("0 to ", micro_batches - 1));
      }
      const int holder = rank_of_chunk[static_cast<std::size_t>(task.chunk)];
      if (holder != static_cast<int>(r)) {
        detail::refuse_task(*this, r, task, "is on the wrong rank",
                            concat("chunk ", task.chunk, " is on rank ", holder),
                            concat("in the order of rank ", holder));
      }
      progress[static_cast<std::size_t>(task.chunk)].take(*this, r, task);
    }
  }
  for (std::size_t c = 0; c < progress.size(); ++c) {
    const auto require_that = [&](PipelineTaskKind kind, int next) {
      if (next == micro_batches) return;
      const PipelineTask lacking{kind, static_cast<int>(c), next};
      detail::refuse_task(*this, static_cast<std::size_t>(rank_of_chunk[c]), lacking, "is missing",
                          "every chunk runs F and its backward for each micro-batch",
                          "put it in, or drop the micro-batch on all ranks");
    };
    require_that(PipelineTaskKind::forward, progress[c].forward);
    require_that(progress[c].input == progress[c].weight ? PipelineTaskKind::backward
                                                         : PipelineTaskKind::input_backward,
                 progress[c].input);
    require_that(PipelineTaskKind::weight_backward, progress[c].weight);
  }
}

namespace detail {

/// "5F3" or "F3".
inline PipelineTask parse_task(std::string_view word, int rank, int line, std::string_view source) {
  const std::size_t at = word.find_first_of(pipeline_letters);
  const auto number = [&](std::string_view digits, int& value) {
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return error == std::errc() && end == digits.data() + digits.size() && value >= 0 &&
           digits.front() != '-';
  };
  PipelineTask task{PipelineTaskKind::forward, rank, 0};
  const bool reads = at != std::string_view::npos && at + 1 < word.size() &&
                     (at == 0 || number(word.substr(0, at), task.chunk)) &&
                     number(word.substr(at + 1), task.micro_batch);
  if (!reads) {
    throw DecodeError("reef::plan: ", source, ", line ", line, ": ", in_quotes(word),
                      " is no task.\n  fix: F, B, I or W with a micro-batch behind it, and a chunk "
                      "before it where a rank has several: F0, 5F0.");
  }
  task.kind = static_cast<PipelineTaskKind>(pipeline_letters.find(word[at]));
  return task;
}

}  // namespace detail

REEF_INLINE PipelineOrder parse_pipeline_order(std::string_view text, std::string_view source) {
  if (const std::string_view mark = io::byte_order_mark(text); !mark.empty()) {
    throw DecodeError("reef::plan: ", source, " begins with a byte order mark of ", mark,
                      ", which is no task.\n  fix: save it as UTF-8 without one.");
  }
  PipelineOrder order;
  int line = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    std::size_t end = (std::min)(text.find('\n', begin), text.size());
    std::string_view words = text.substr(begin, end - begin);
    begin = end + 1;
    ++line;
    words = words.substr(0, words.find('#'));
    constexpr std::string_view blanks = " \t\r";
    if (words.find_first_not_of(blanks) == std::string_view::npos) continue;
    const int rank = order.ranks();
    auto& tasks = order.tasks.emplace_back();
    for (std::size_t at = words.find_first_not_of(blanks); at != std::string_view::npos;
         at = words.find_first_not_of(blanks, at)) {
      const std::size_t stop = (std::min)(words.find_first_of(blanks, at), words.size());
      tasks.push_back(detail::parse_task(words.substr(at, stop - at), rank, line, source));
      at = stop;
    }
  }
  // Each chunk has a task, so there are no more chunks, and no more micro-batches, than tasks.
  std::size_t count = 0;
  int most = -1;
  for (const auto& tasks : order.tasks) {
    count += tasks.size();
    for (const PipelineTask& task : tasks) most = (std::max)({most, task.chunk, task.micro_batch});
  }
  if (count == 0) {
    throw DecodeError("reef::plan: ", source,
                      ": there are no tasks.\n  fix: a line for each rank, as "
                      "in F0 F1 B0 B1.");
  }
  if (static_cast<std::size_t>(most) >= count) {
    throw DecodeError("reef::plan: ", source, ": a chunk or micro-batch has the number ", most,
                      " among ", count, " tasks.\n  fix: numbers from 0, none left out.");
  }
  int chunks = 0;
  for (const auto& tasks : order.tasks) {
    for (const PipelineTask& task : tasks) {
      chunks = (std::max)(chunks, task.chunk + 1);
      order.micro_batches = (std::max)(order.micro_batches, task.micro_batch + 1);
    }
  }
  order.rank_of_chunk.assign(static_cast<std::size_t>(chunks), -1);
  for (int r = 0; r < order.ranks(); ++r) {
    for (const PipelineTask& task : order.tasks[static_cast<std::size_t>(r)]) {
      int& rank = order.rank_of_chunk[static_cast<std::size_t>(task.chunk)];
      if (rank < 0) rank = r;
    }
  }
  for (int c = 0; c < chunks; ++c) {
    if (order.rank_of_chunk[static_cast<std::size_t>(c)] >= 0) continue;
    throw DecodeError("reef::plan: ", source, ": no rank runs chunk ", c, " of ", chunks,
                      ".\n  fix: numbers of chunks from 0, none left out.");
  }
  try {
    order.validate();
  } catch (const OptionError& error) {
    throw DecodeError("reef::plan: ", source, ": ", error.what());
  }
  return order;
}

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

REEF_INLINE PipelineOrder pipeline_order_of(std::string_view schedule, int ranks, int micro_batches,
                                            int chunks_per_rank, int group) {
  const auto refuse_chunks = [&](const char* fix) {
    throw OptionError("reef::plan: the schedule ", in_quotes(schedule), " with ", chunks_per_rank,
                      chunks_per_rank == 1 ? " chunk" : " chunks",
                      " on each rank (v).\n  fix: ", fix, ".");
  };
  if (is_asynchronous_schedule(schedule)) schedule = "1f1b";
  const bool interleaves = schedule == "interleaved" || schedule == "interleaved-zb";
  const bool loops = interleaves || schedule == "looped-bfs";
  const bool folds =
      schedule == "zb-v" || schedule == "v-half" || schedule == "v-min" || schedule == "dualpipe-v";
  if (std::find(pipeline_schedule_names.begin(), pipeline_schedule_names.end(), schedule) ==
      pipeline_schedule_names.end()) {
    std::string known;
    for (const std::string_view name : pipeline_schedule_names) {
      known += concat(known.empty() ? "" : ", ", name);
    }
    throw OptionError("reef::plan: no schedule is named ", in_quotes(schedule), ".\n  fix: one of ",
                      known, ".");
  }
  if (chunks_per_rank == 0) chunks_per_rank = loops || folds ? 2 : 1;
  if (folds && chunks_per_rank != 2) refuse_chunks("2");
  if (!loops && !folds && chunks_per_rank != 1) {
    refuse_chunks("1, or another schedule");
  }
  if (group != 0 && !interleaves) {
    throw OptionError("reef::plan: the schedule ", in_quotes(schedule), " with groups of ", group,
                      " micro-batches.\n  fix: leave the group out, or an interleaved schedule.");
  }
  if (schedule == "1f1b") return one_f_one_b_order(ranks, micro_batches);
  if (schedule == "1f1b-eager") return one_f_one_b_order(ranks, micro_batches, true);
  if (schedule == "interleaved") {
    return interleaved_order(ranks, micro_batches, chunks_per_rank, group);
  }
  if (schedule == "looped-bfs") return looped_bfs_order(ranks, micro_batches, chunks_per_rank);
  if (schedule == "zb-h1") return zb_h1_order(ranks, micro_batches);
  if (schedule == "zb-h2") return zb_h2_order(ranks, micro_batches);
  if (schedule == "interleaved-zb") {
    return interleaved_zb_order(ranks, micro_batches, chunks_per_rank, group);
  }
  if (schedule == "zb-v") return zb_v_order(ranks, micro_batches);
  if (schedule == "v-half") return v_half_order(ranks, micro_batches);
  if (schedule == "v-min") return v_min_order(ranks, micro_batches);
  if (schedule == "dualpipe-v") return dualpipe_v_order(ranks, micro_batches);
  return gpipe_order(ranks, micro_batches);
}

}  // namespace plan
}  // namespace v0
}  // namespace reef
