#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include <reef/plan/detail/draws.hpp>
#include <reef/plan/detail/free_pipeline.hpp>
#include <reef/plan/pipeline_search.hpp>

namespace reef {
inline namespace v0 {
namespace plan::detail {

using PipelineTasks = std::vector<std::vector<PipelineTask>>;

/// Whether a rank's tasks keep to their kinds' order, and to the rank's memory.
class LegalTasks {
public:
  explicit LegalTasks(std::size_t chunks) : progress_(chunks) {}

  bool operator()(const std::vector<PipelineTask>& tasks, int most) {
    for (const PipelineTask& task : tasks) progress_[static_cast<std::size_t>(task.chunk)] = {};
    int held = 0;
    for (const PipelineTask& task : tasks) {
      Progress& p = progress_[static_cast<std::size_t>(task.chunk)];
      switch (task.kind) {
        case PipelineTaskKind::forward:
          if (task.micro_batch != p.forward++ || ++held > most) return false;
          break;
        case PipelineTaskKind::input_backward:
          if (task.micro_batch != p.input++ || p.input > p.forward) return false;
          break;
        case PipelineTaskKind::weight_backward:
          if (task.micro_batch != p.weight++ || p.weight > p.input) return false;
          --held;
          break;
        case PipelineTaskKind::backward:
          if (task.micro_batch != p.input++ || p.input > p.forward) return false;
          if (task.micro_batch != p.weight++) return false;
          --held;
      }
    }
    return true;
  }

private:
  struct Progress {
    int forward = 0, input = 0, weight = 0;
  };
  std::vector<Progress> progress_;
};

/// Annealing over legal orders. Only the chain that decides the makespan is changed: a task of it moves along its rank,
/// within the tasks that follow on each other there without a pause.
class PipelineAnnealer {
public:
  PipelineAnnealer(const PipelineOrderProblem& problem, FreePipeline& free, std::uint64_t seed)
      : free_(free),
        legal_(problem.rank_of_chunk.size()),
        draws_(seed, 71),
        max_(static_cast<std::size_t>(problem.ranks()), (std::numeric_limits<int>::max)()) {
    for (std::size_t r = 0; r < problem.max_activations.size(); ++r) {
      max_[r] = problem.max_activations[r];
    }
    Seconds sum = 0;
    for (std::size_t c = 0; c < problem.rank_of_chunk.size(); ++c) {
      sum += problem.times.forward[c] + problem.times.input_backward[c] +
             problem.times.weight_backward[c];
    }
    mean_ = sum / (3 * static_cast<Seconds>(problem.rank_of_chunk.size()));
  }

  /// Takes up an order.
  void start(PipelineTasks tasks) {
    tasks_ = std::move(tasks);
    now_ = evaluate();
    find_chain();
    if (best_.empty() || now_ < best_makespan_) keep();
  }

  /// So many changes, from the temperature `hot` to `cold`, in mean times of a task.
  void anneal(std::int64_t changes, double hot, double cold) {
    const double rate =
        std::pow(cold / hot, 1.0 / static_cast<double>(std::max<std::int64_t>(1, changes)));
    double temperature = hot * mean_;
    for (std::int64_t n = 0; n < changes; ++n, temperature *= rate) change(temperature);
  }

  [[nodiscard]] const PipelineTasks& best() const { return best_; }
  [[nodiscard]] Seconds best_makespan() const { return best_makespan_; }

private:
  struct Block {
    std::size_t rank, first, last;  ///< of tasks of the chain
  };

  Seconds evaluate() { return free_.run(tasks_); }
  void keep() {
    best_ = tasks_;
    best_makespan_ = now_;
  }

  /// Of the last run, the blocks of more than one task.
  void find_chain() {
    blocks_.clear();
    const auto& ends = free_.ends();
    std::size_t rank = 0;
    for (std::size_t r = 1; r < ends.size(); ++r) {
      if (ends[r].back() > ends[rank].back()) rank = r;
    }
    std::size_t task = ends[rank].size() - 1;
    for (;;) {
      const std::size_t last = task;
      while (task > 0 && free_.causes()[rank][task].rank == FreePipeline::nobody) --task;
      if (last > task) blocks_.push_back({rank, task, last});
      const FreePipeline::Cause cause = free_.causes()[rank][task];
      if (cause.rank == FreePipeline::nobody) return;
      rank = cause.rank;
      task = cause.task;
    }
  }

  static void move(std::vector<PipelineTask>& tasks, std::size_t from, std::size_t to) {
    const auto at = [&](std::size_t index) {
      return tasks.begin() + static_cast<std::ptrdiff_t>(index);
    };
    if (from < to) {
      std::rotate(at(from), at(from + 1), at(to + 1));
    } else {
      std::rotate(at(to), at(from), at(from + 1));
    }
  }

  void change(double temperature) {
    if (blocks_.empty()) return;
    const Block& block =
        blocks_[static_cast<std::size_t>(draws_.below(static_cast<int>(blocks_.size())))];
    std::vector<PipelineTask>& tasks = tasks_[block.rank];
    // A task of the block goes to its other end's side: a step or some.
    const auto size = static_cast<int>(block.last - block.first + 1);
    std::size_t from = block.first + static_cast<std::size_t>(draws_.below(size));
    std::size_t to = from;
    const int reach = draws_.below(3) == 0 ? 1 + draws_.below((std::min)(size, 12)) : 1;
    const bool later = draws_.below(2) == 0;
    if (later)
      to = (std::min)(from + static_cast<std::size_t>(reach), tasks.size() - 1);
    else
      to = from - (std::min)(from, static_cast<std::size_t>(reach));
    if (from == to) return;
    move(tasks, from, to);
    if (!legal_(tasks, max_[block.rank])) {
      move(tasks, to, from);
      return;
    }
    const Seconds then = evaluate();
    if (then <= now_ || draws_.unit() < std::exp((now_ - then) / temperature)) {
      now_ = then;
      find_chain();
      if (now_ < best_makespan_) keep();
    } else {
      move(tasks, to, from);
    }
  }

  FreePipeline& free_;
  LegalTasks legal_;
  Draws draws_;
  std::vector<int> max_;
  Seconds mean_ = 0;
  PipelineTasks tasks_;
  Seconds now_ = 0;
  std::vector<Block> blocks_;
  PipelineTasks best_;
  Seconds best_makespan_ = 0;
};

}  // namespace plan::detail
}  // namespace v0
}  // namespace reef
