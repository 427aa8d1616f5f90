#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include <reef/plan/detail/pipeline_annealer.hpp>
#include <reef/plan/pipeline_search.hpp>

namespace reef {
inline namespace v0 {
namespace plan::detail {

/// All legal orders of a small problem: every combination of one of each rank.
///
/// Backwards are whole, or all in halves: a B is its I with its W right behind, and not before what I makes is there.
class AllOrders {
public:
  explicit AllOrders(const PipelineOrderProblem& problem)
      : problem_(problem), of_rank_(static_cast<std::size_t>(problem.ranks())) {
    const std::int64_t tasks =
        static_cast<std::int64_t>(problem.rank_of_chunk.size()) * problem.micro_batches;
    few_ = 3 * tasks <= 300;
    std::int64_t count = 1;
    for (std::size_t r = 0; r < of_rank_.size() && few_; ++r) {
      max_ = (std::min)(max_of_a_rank, max_evaluated / std::max<std::int64_t>(1, count * tasks));
      chunks_.clear();
      for (std::size_t c = 0; c < problem.rank_of_chunk.size(); ++c) {
        if (problem.rank_of_chunk[c] == static_cast<int>(r))
          chunks_.push_back({static_cast<int>(c)});
      }
      cap_ = problem.max_activations.empty() ? (std::numeric_limits<int>::max)()
                                             : problem.max_activations[r];
      extend(of_rank_[r]);
      count *= static_cast<std::int64_t>(of_rank_[r].size());
    }
  }

  [[nodiscard]] bool are_few() const { return few_; }

  template <class Call>
  void for_each(Call&& call) const {
    PipelineTasks tasks(of_rank_.size());
    std::vector<std::size_t> at(of_rank_.size(), 0);
    for (std::size_t r = 0; r < at.size(); ++r) tasks[r] = of_rank_[r][0];
    for (;;) {
      call(tasks);
      std::size_t r = 0;
      while (r < at.size() && ++at[r] == of_rank_[r].size()) {
        at[r] = 0;
        tasks[r] = of_rank_[r][0];
        ++r;
      }
      if (r == at.size()) return;
      tasks[r] = of_rank_[r][at[r]];
    }
  }

private:
  static constexpr std::int64_t max_evaluated = 6'000'000;  // forwards
  static constexpr std::int64_t max_of_a_rank = 10'000;     // orders: they are kept

  struct Chunk {
    int chunk;
    int forward = 0, input = 0, weight = 0;
  };

  /// All that the tasks so far may go on with.
  void extend(std::vector<std::vector<PipelineTask>>& orders) {
    using Kind = PipelineTaskKind;
    bool ended = true;
    for (std::size_t n = 0; n < chunks_.size() && few_; ++n) {
      Chunk& c = chunks_[n];
      const auto with = [&](Kind kind, int& next, int held) {
        ended = false;
        tasks_.push_back({kind, c.chunk, next++});
        held_ += held;
        extend(orders);
        held_ -= held;
        --next;
        tasks_.pop_back();
      };
      if (c.forward < problem_.micro_batches && held_ < cap_) with(Kind::forward, c.forward, 1);
      if (problem_.splits) {
        if (c.input < c.forward) with(Kind::input_backward, c.input, 0);
        if (c.weight < c.input) with(Kind::weight_backward, c.weight, -1);
      } else if (c.input < c.forward) {
        with(Kind::backward, c.input, -1);
      }
      ended = ended && c.weight + (problem_.splits ? 0 : c.input) == problem_.micro_batches;
    }
    if (!ended || !few_) return;
    if (static_cast<std::int64_t>(orders.size()) >= max_) {
      few_ = false;
    } else {
      orders.push_back(tasks_);
    }
  }

  const PipelineOrderProblem& problem_;
  std::vector<std::vector<std::vector<PipelineTask>>> of_rank_;
  bool few_ = true;
  std::int64_t max_ = 0;
  std::vector<Chunk> chunks_;
  int cap_ = 0;
  int held_ = 0;
  std::vector<PipelineTask> tasks_;
};

}  // namespace plan::detail
}  // namespace v0
}  // namespace reef
