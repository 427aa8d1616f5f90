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

}  // namespace plan
}  // namespace v0
}  // namespace reef
