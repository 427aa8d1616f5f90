#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include <reef/plan/pipeline_model.hpp>

namespace reef {
inline namespace v0 {
namespace plan::detail {

/// Orders of one pipeline in the asynchronous model, one after the other: O(tasks + messages) each, without a queue of
/// events. A link has one sender, so its messages are made in the order of that rank's tasks.
class FreePipeline {
public:
  /// Where ranks wait in a circle.
  static constexpr Seconds never = std::numeric_limits<Seconds>::infinity();

  /// Nobody: a task started when its rank was free.
  static constexpr std::uint32_t nobody = ~std::uint32_t{0};

  /// What a task waited for last: the one that made it or, where the link was busy, the first of those that kept it so.
  struct Cause {
    std::uint32_t rank = nobody;
    std::uint32_t task = 0;
  };

  /// Of `model` without its tasks.
  FreePipeline(const PipelineModel& model, int ranks)
      : micro_batches_(static_cast<std::size_t>(model.order.micro_batches)),
        chunks_(model.order.rank_of_chunk.size()),
        times_(4 * chunks_),
        outs_(2 * chunks_),
        needs_(2 * chunks_, 0) {
    using Kind = PipelineTaskKind;
    for (std::size_t c = 0; c < chunks_; ++c) {
      for (const Kind kind :
           {Kind::forward, Kind::backward, Kind::input_backward, Kind::weight_backward}) {
        times_[4 * c + static_cast<std::size_t>(kind)] =
            model.times.of({kind, static_cast<int>(c), 0});
      }
    }
    std::map<std::pair<int, int>, std::uint32_t> links;
    for (const bool back : {false, true}) {
      for (const PipelineEdge& edge : back ? model.backward_edges() : model.forward_edges()) {
        const int from = model.order.rank_of_chunk[static_cast<std::size_t>(edge.from)];
        const int to = model.order.rank_of_chunk[static_cast<std::size_t>(edge.to)];
        const std::size_t slot = (back ? chunks_ : 0) + static_cast<std::size_t>(edge.to);
        Out out{slot * micro_batches_, static_cast<std::uint32_t>(to), nobody, 0, 0};
        if (from != to) {
          const auto next = static_cast<std::uint32_t>(links.size());
          out.link = links.emplace(std::pair(from, to), next).first->second;
          const schedule::Link& link = model.times.world.link(from, to);
          out.wire = schedule::detail::over(static_cast<double>(edge.bytes), link.bytes_per_second);
          out.latency = link.latency;
        }
        outs_[(back ? chunks_ : 0) + static_cast<std::size_t>(edge.from)].push_back(out);
        ++needs_[slot];
      }
    }
    const std::size_t tasks = 2 * chunks_ * micro_batches_;
    link_free_.resize(links.size());
    link_cause_.resize(links.size());
    all_missing_.reserve(tasks);
    for (const std::uint32_t needed : needs_) {
      all_missing_.insert(all_missing_.end(), micro_batches_, needed);
    }
    arrived_.resize(tasks);
    cause_.resize(tasks);
    const auto count = static_cast<std::size_t>(ranks);
    ends_.resize(count);
    causes_.resize(count);
    position_.resize(count);
    free_.resize(count);
    waits_at_.resize(count);
  }

  /// When the last task ends, or `never`.
  Seconds run(const std::vector<std::vector<PipelineTask>>& tasks) {
    missing_ = all_missing_;
    std::fill(arrived_.begin(), arrived_.end(), 0);
    std::fill(link_free_.begin(), link_free_.end(), 0);
    std::fill(position_.begin(), position_.end(), 0);
    std::fill(free_.begin(), free_.end(), 0);
    std::fill(waits_at_.begin(), waits_at_.end(), nowhere);
    ready_.clear();
    for (std::size_t r = tasks.size(); r-- > 0;) {
      ends_[r].resize(tasks[r].size());
      causes_[r].resize(tasks[r].size());
      ready_.push_back(static_cast<std::uint32_t>(r));
    }
    while (!ready_.empty()) {
      const std::uint32_t rank = ready_.back();
      ready_.pop_back();
      advance(rank, tasks[rank]);
    }
    Seconds end = 0;
    for (std::size_t r = 0; r < tasks.size(); ++r) {
      if (position_[r] < tasks[r].size()) return never;
      end = (std::max)(end, free_[r]);
    }
    return end;
  }

  /// After run(), by rank and task.
  [[nodiscard]] const std::vector<std::vector<Seconds>>& ends() const { return ends_; }
  [[nodiscard]] const std::vector<std::vector<Cause>>& causes() const { return causes_; }
  /// By rank: how many tasks have ended.
  [[nodiscard]] const std::vector<std::size_t>& positions() const { return position_; }
  [[nodiscard]] Seconds time_of(const PipelineTask& task) const {
    return times_[4 * static_cast<std::size_t>(task.chunk) + static_cast<std::size_t>(task.kind)];
  }

private:
  static constexpr std::size_t nowhere = ~std::size_t{0};

  struct Out {
    std::size_t slot;  ///< of micro-batch 0 at the reader
    std::uint32_t rank;
    std::uint32_t link;  ///< nobody: of the same rank
    Seconds wire;
    Seconds latency;
  };

  void advance(std::uint32_t rank, const std::vector<PipelineTask>& tasks) {
    Seconds free = free_[rank];
    std::size_t at = position_[rank];
    for (; at < tasks.size(); ++at) {
      const PipelineTask& task = tasks[at];
      const auto chunk = static_cast<std::size_t>(task.chunk);
      const auto j = static_cast<std::size_t>(task.micro_batch);
      Cause cause;
      if (task.kind != PipelineTaskKind::weight_backward) {
        const std::size_t kind = task.kind == PipelineTaskKind::forward ? chunk : chunks_ + chunk;
        const std::size_t slot = kind * micro_batches_ + j;
        if (missing_[slot] > 0) {
          waits_at_[rank] = slot;
          break;
        }
        if (arrived_[slot] > free) {
          free = arrived_[slot];
          cause = cause_[slot];
        }
        free += time_of(task);
        for (const Out& out : outs_[kind]) hand_on(rank, at, free, out, j);
      } else {
        free += time_of(task);
      }
      ends_[rank][at] = free;
      causes_[rank][at] = cause;
    }
    free_[rank] = free;
    position_[rank] = at;
  }

  void hand_on(std::uint32_t rank, std::size_t task, Seconds made, const Out& out, std::size_t j) {
    const std::size_t slot = out.slot + j;
    Cause cause{rank, static_cast<std::uint32_t>(task)};
    Seconds arrives = made;
    if (out.link != nobody) {
      Seconds& link = link_free_[out.link];
      if (link > made) {
        cause = link_cause_[out.link];
      } else {
        link_cause_[out.link] = cause;
      }
      link = (std::max)(link, made) + out.wire;
      arrives = link + out.latency;
    }
    if (arrives >= arrived_[slot]) {
      arrived_[slot] = arrives;
      cause_[slot] = cause;
    }
    if (--missing_[slot] > 0 || waits_at_[out.rank] != slot) return;
    waits_at_[out.rank] = nowhere;
    ready_.push_back(out.rank);
  }

  std::size_t micro_batches_;
  std::size_t chunks_;
  std::vector<Seconds> times_;          // [chunk * 4 + kind]
  std::vector<std::vector<Out>> outs_;  // [back * chunks + chunk]
  std::vector<std::uint32_t> needs_;    // as that: how many tensors
  std::vector<std::uint32_t> all_missing_,
      missing_;  // [(back * chunks + chunk) * micro-batches + j]
  std::vector<Seconds> arrived_;
  std::vector<Cause> cause_;
  std::vector<Seconds> link_free_;
  std::vector<Cause> link_cause_;
  std::vector<std::vector<Seconds>> ends_;
  std::vector<std::vector<Cause>> causes_;
  std::vector<std::size_t> position_;
  std::vector<Seconds> free_;
  std::vector<std::size_t> waits_at_;
  std::vector<std::uint32_t> ready_;
};

}  // namespace plan::detail
}  // namespace v0
}  // namespace reef
