#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <reef/plan/pipeline_order.hpp>

namespace reef {
inline namespace v0 {
namespace plan::detail {

/// Throws OptionError unless an order of so many can be made.
inline void require_pipeline_size(std::int64_t ranks, std::int64_t micro_batches,
                                  std::int64_t chunks_per_rank) {
  const auto positive = [](const char* what, std::int64_t count) {
    if (count >= 1) return;
    throw OptionError("reef::plan: a pipeline of ", count, " ", what, ".\n  fix: at least 1.");
  };
  positive("ranks", ranks);
  positive("micro-batches", micro_batches);
  positive("chunks a rank", chunks_per_rank);
  // Each factor is below 2^31, so the first product is a number of 64 bits.
  const std::int64_t chunks = ranks * chunks_per_rank;
  if (chunks <= max_pipeline_tasks && chunks * micro_batches * 3 <= max_pipeline_tasks) return;
  throw OptionError("reef::plan: a pipeline of ", ranks, " ranks, ", chunks_per_rank,
                    " chunks on each and ", micro_batches, " micro-batches.\n  why: at most ",
                    max_pipeline_tasks,
                    " tasks are planned, three for each chunk and micro-batch.",
                    "\n  fix: fewer of one of them.");
}

/// Writes the tasks of one rank: of each of its chunks the next F, I, B or W. Micro-batches from `real` on are counted,
/// and left out.
class PipelineOrderWriter {
public:
  PipelineOrderWriter(std::vector<PipelineTask>& tasks, std::vector<int> chunks, int real)
      : tasks_(tasks), chunks_(std::move(chunks)), next_(chunks_.size()), real_(real) {}

  /// `chunk` counts within the rank.
  void f(int chunk) { write(PipelineTaskKind::forward, chunk, counts(chunk).forward++); }
  void b(int chunk) {
    ++counts(chunk).weight;
    write(PipelineTaskKind::backward, chunk, counts(chunk).input++);
  }
  void i(int chunk) { write(PipelineTaskKind::input_backward, chunk, counts(chunk).input++); }
  void w(int chunk) { write(PipelineTaskKind::weight_backward, chunk, counts(chunk).weight++); }

  void rest_of_w(int chunk) {
    while (counts(chunk).weight < counts(chunk).input) w(chunk);
  }
  [[nodiscard]] int forwards(int chunk) { return counts(chunk).forward; }

private:
  struct Counts {
    int forward = 0;
    int input = 0;
    int weight = 0;
  };

  Counts& counts(int chunk) { return next_[static_cast<std::size_t>(chunk)]; }
  void write(PipelineTaskKind kind, int chunk, int micro_batch) {
    if (micro_batch >= real_) return;
    tasks_.push_back({kind, chunks_[static_cast<std::size_t>(chunk)], micro_batch});
  }

  std::vector<PipelineTask>& tasks_;
  std::vector<int> chunks_;
  std::vector<Counts> next_;
  int real_;
};

/// The same of an order that is written with micro-batches that are not there.
inline void require_whole_groups(std::int64_t ranks, std::int64_t micro_batches,
                                 std::int64_t chunks_per_rank) {
  const std::int64_t written = (std::max)(micro_batches, 2 * ranks) * ranks * chunks_per_rank;
  if (written <= 4 * max_pipeline_tasks) return;
  throw OptionError("reef::plan: a pipeline of ", ranks, " ranks and ", chunks_per_rank,
                    " chunks on each.\n  why: this schedule is written for multiples of ", ranks,
                    " micro-batches.\n  fix: fewer ranks, or gpipe, 1f1b or looped-bfs.");
}

/// Chunk c on rank c mod p; with one on each, rank c.
inline PipelineOrder looped_pipeline(int ranks, int micro_batches, int chunks_per_rank) {
  require_pipeline_size(ranks, micro_batches, chunks_per_rank);
  PipelineOrder order;
  order.micro_batches = micro_batches;
  order.tasks.resize(static_cast<std::size_t>(ranks));
  for (int c = 0; c < ranks * chunks_per_rank; ++c) order.rank_of_chunk.push_back(c % ranks);
  return order;
}

/// Chunks r and 2 p - 1 - r on rank r.
inline PipelineOrder folded_pipeline(int ranks, int micro_batches) {
  PipelineOrder order = looped_pipeline(ranks, micro_batches, 2);
  require_whole_groups(ranks, micro_batches, 2);
  for (int c = ranks; c < 2 * ranks; ++c) {
    order.rank_of_chunk[static_cast<std::size_t>(c)] = 2 * ranks - 1 - c;
  }
  return order;
}

/// Calls write(rank, writer) for each rank of an order, which then has its tasks.
template <class Write>
PipelineOrder write_order(PipelineOrder order, Write&& write) {
  std::vector<std::vector<int>> chunks(order.tasks.size());
  for (int c = 0; c < order.chunks(); ++c) {
    chunks[static_cast<std::size_t>(order.rank_of_chunk[static_cast<std::size_t>(c)])].push_back(c);
  }
  for (std::size_t r = 0; r < order.tasks.size(); ++r) {
    PipelineOrderWriter writer(order.tasks[r], std::move(chunks[r]), order.micro_batches);
    write(static_cast<int>(r), writer);
  }
  return order;
}

/// The steps of interleaved schedules: k takes a micro-batch through a chunk of the rank, `group` micro-batches through
/// each chunk in turn.
struct InterleavedSteps {
  int chunks = 1;  ///< of a rank
  int group = 1;
  int count = 0;  ///< of a whole number of groups

  InterleavedSteps(int ranks, int micro_batches, int chunks_per_rank, int given)
      : chunks(chunks_per_rank), group(given == 0 ? ranks : given) {
    if (group < ranks) {
      throw OptionError("reef::plan: groups of ", group, " micro-batches on ", ranks,
                        " ranks.\n  why: a chunk would wait for micro-batches that come only after "
                        "it.\n  fix: 0, which is ",
                        ranks, ", or more.");
    }
    require_whole_groups(ranks, micro_batches, chunks_per_rank);
    // A group beyond all micro-batches is one of them all, or of p.
    group = (std::min)(group, (std::max)(ranks, micro_batches));
    count = (micro_batches + group - 1) / group * group * chunks;
  }

  [[nodiscard]] int forward_chunk(int k) const { return k / group % chunks; }
  [[nodiscard]] int backward_chunk(int k) const { return chunks - 1 - forward_chunk(k); }
};

/// V-Half and V-Min: on a rank F and I of both chunks begin at fixed slots, six apart from one micro-batch to the next;
/// a W takes the first that is free, the oldest I's first.
inline void write_slots(PipelineOrderWriter& writer, int micro_batches,
                        const std::array<std::int64_t, 4>& first) {
  struct Event {
    std::int64_t slot;
    int which;  // F_a, F_b, I_b, I_a
  };
  std::vector<Event> events;
  events.reserve(4 * static_cast<std::size_t>(micro_batches));
  for (int which = 0; which < 4; ++which) {
    for (std::int64_t j = 0; j < micro_batches; ++j) {
      events.push_back({first[static_cast<std::size_t>(which)] + 6 * j, which});
    }
  }
  std::sort(events.begin(), events.end(),
            [](const Event& a, const Event& b) { return a.slot < b.slot; });
  std::vector<int> half;  // chunks of I without W, in their order
  std::size_t done = 0;
  std::int64_t slot = 0;
  for (const Event& event : events) {
    for (; slot < event.slot && done < half.size(); ++slot) writer.w(half[done++]);
    slot = event.slot + 1;
    const int chunk = event.which == 0 || event.which == 3 ? 0 : 1;
    if (event.which < 2) {
      writer.f(chunk);
    } else {
      writer.i(chunk);
      half.push_back(chunk);
    }
  }
  while (done < half.size()) writer.w(half[done++]);
}

}  // namespace plan::detail
}  // namespace v0
}  // namespace reef
