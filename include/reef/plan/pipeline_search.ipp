#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <reef/core/finite.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/plan/detail/all_orders.hpp>
#include <reef/plan/detail/free_pipeline.hpp>
#include <reef/plan/detail/pipeline_annealer.hpp>
#include <reef/plan/detail/pipeline_bound.hpp>
#include <reef/plan/detail/pipeline_greedy.hpp>
#include <reef/plan/detail/pipeline_order_writer.hpp>
#include <reef/plan/pipeline_schedules.hpp>
#include <reef/plan/pipeline_search.hpp>

namespace reef {
inline namespace v0 {
namespace plan {

REEF_INLINE int PipelineOrderProblem::ranks() const {
  return static_cast<int>(times.world.machines.size());
}

REEF_INLINE PipelineModel
PipelineOrderProblem::model(std::vector<std::vector<PipelineTask>> tasks) const {
  return {{micro_batches, rank_of_chunk, std::move(tasks)}, times, forward, backward};
}

REEF_INLINE void PipelineOrderProblem::validate() const {
  detail::require_pipeline_size(1, micro_batches, static_cast<std::int64_t>(rank_of_chunk.size()));
  if (ranks() < 1 || static_cast<std::size_t>(ranks()) > rank_of_chunk.size()) {
    throw OptionError("reef::plan: ", rank_of_chunk.size(), " chunks on ", ranks(),
                      " ranks.\n  fix: at least one on each.");
  }
  for (std::size_t c = 0; c < rank_of_chunk.size(); ++c) {
    if (rank_of_chunk[c] >= 0 && rank_of_chunk[c] < ranks()) continue;
    throw OptionError("reef::plan: rank_of_chunk[", c, "] is ", rank_of_chunk[c], " of ", ranks(),
                      " ranks.\n  fix: 0 to ", ranks() - 1, ".");
  }
  // One micro-batch after the other: legal wherever any order is.
  std::vector<std::vector<PipelineTask>> tasks(times.world.machines.size());
  for (const bool back : {false, true}) {
    for (int n = 0; n < static_cast<int>(rank_of_chunk.size()); ++n) {
      const int chunk = back ? static_cast<int>(rank_of_chunk.size()) - 1 - n : n;
      tasks[static_cast<std::size_t>(rank_of_chunk[static_cast<std::size_t>(chunk)])].push_back(
          {back ? PipelineTaskKind::backward : PipelineTaskKind::forward, chunk, 0});
    }
  }
  PipelineModel one = model(std::move(tasks));
  one.order.micro_batches = 1;
  one.validate();
  if (!max_activations.empty() && max_activations.size() != times.world.machines.size()) {
    throw OptionError("reef::plan: max_activations has ", max_activations.size(), " entries for ",
                      ranks(), " ranks.\n  fix: one for each, or none.");
  }
  for (std::size_t r = 0; r < max_activations.size(); ++r) {
    if (max_activations[r] >= 1) continue;
    throw OptionError("reef::plan: max_activations[", r, "] is ", max_activations[r],
                      ".\n  fix: at least 1.");
  }
  const auto tasks_of_all =
      3 * static_cast<std::int64_t>(rank_of_chunk.size()) * std::int64_t{micro_batches};
  if (tasks_of_all > max_searched_tasks) {
    throw OptionError("reef::plan: a search over orders of ", tasks_of_all,
                      " tasks.\n  fix: at most ", max_searched_tasks, ".");
  }
  for (const auto& machine : times.world.machines) {
    if (machine.uplink_bytes_per_second == 0 && machine.downlink_bytes_per_second == 0) continue;
    throw OptionError(
        "reef::plan: a search with shared uplinks or downlinks.\n  why: messages of several links "
        "would wait for each other, which it does not know.\n  fix: rates of links alone, as "
        "profile::Network::without_uplinks leaves them.");
  }
}

REEF_INLINE Seconds pipeline_lower_bound(const PipelineOrderProblem& problem) {
  problem.validate();
  return detail::PipelineBound(problem).bound();
}

namespace detail {

/// Holds orders to a problem: which of them fit, and which is the best.
class PipelineSearcher {
public:
  PipelineSearcher(const PipelineOrderProblem& problem, PipelineSearch& answer, std::uint64_t seed)
      : problem_(problem),
        answer_(answer),
        free_(problem.model({}), problem.ranks()),
        legal_(problem.rank_of_chunk.size()),
        seed_(seed) {}

  /// One micro-batch after the other.
  void try_serial() {
    PipelineTasks tasks(static_cast<std::size_t>(problem_.ranks()));
    const int chunks = static_cast<int>(problem_.rank_of_chunk.size());
    for (int j = 0; j < problem_.micro_batches; ++j) {
      for (int c = 0; c < chunks; ++c) of(tasks, c).push_back({PipelineTaskKind::forward, c, j});
      for (int c = chunks; c-- > 0;) of(tasks, c).push_back({PipelineTaskKind::backward, c, j});
    }
    propose(tasks);
  }

  /// The known schedules with this placement.
  void try_known() {
    const auto ranks = static_cast<std::size_t>(problem_.ranks());
    if (problem_.rank_of_chunk.size() % ranks != 0) return;
    const auto chunks = static_cast<int>(problem_.rank_of_chunk.size() / ranks);
    for (const std::string_view name : pipeline_schedule_names(false)) {
      if (name == "three-slot") continue;
      PipelineOrder order;
      try {
        order = pipeline_order_of(name, problem_.ranks(), problem_.micro_batches, chunks);
      } catch (const OptionError&) {
        continue;  // it has another number of chunks
      }
      if (order.rank_of_chunk != problem_.rank_of_chunk) continue;
      const Seconds takes = propose(order.tasks);
      if (takes == FreePipeline::never) continue;
      if (problem_.splits) propose(in_halves(order.tasks));
      if (answer_.fixed.empty() || takes < answer_.fixed_makespan) {
        answer_.fixed = name;
        answer_.fixed_makespan = takes;
      }
    }
  }

  void try_rules() {
    PipelineGreedy greedy(problem_);
    std::vector<int> caps = problem_.max_activations;
    if (caps.empty())
      caps.assign(static_cast<std::size_t>(problem_.ranks()),
                  (std::numeric_limits<int>::max)() / 2);
    for (const bool backward_first : {true, false}) {
      for (const double patience : {0.0, 0.5, 1.0}) {
        propose(greedy.run({backward_first, patience, caps}));
      }
    }
  }

  /// All orders, if there are few. True if so.
  bool try_all() {
    AllOrders all(problem_);
    if (!all.are_few()) return false;
    all.for_each([&](const PipelineTasks& tasks) { take(tasks, free_.run(tasks)); });
    return true;
  }

  /// A round of the search. Rounds of one annealing double: 1, 1, 2, 4, ...
  void advance(int round) {
    if (!annealer_) annealer_.emplace(problem_, free_, seed_);
    PipelineAnnealer& annealer = *annealer_;
    const bool is_power = (round & (round - 1)) == 0;
    if (round <= 1 || is_power) {
      annealer.start(answer_.order.tasks);
      length_ = (std::max)(1, round);
      done_ = 0;
    }
    const auto at = [&](int n) {
      return hot * std::pow(cold / hot, static_cast<double>(n) / length_);
    };
    annealer.anneal(changes(), at(done_), at(done_ + 1));
    ++done_;
    take(annealer.best(), annealer.best_makespan());
  }

private:
  static constexpr double hot = 0.5;
  static constexpr double cold = 0.02;

  /// Of a round: so many that it takes about as long whatever the problem.
  [[nodiscard]] std::int64_t changes() const {
    const auto tasks = static_cast<std::int64_t>(problem_.rank_of_chunk.size()) *
                       problem_.micro_batches * (problem_.splits ? 3 : 2);
    return std::max<std::int64_t>(20, 3'000'000 / std::max<std::int64_t>(1, tasks));
  }

  std::vector<PipelineTask>& of(PipelineTasks& tasks, int chunk) const {
    return tasks[static_cast<std::size_t>(problem_.rank_of_chunk[static_cast<std::size_t>(chunk)])];
  }

  /// I and W for each B, which ends no task later.
  static PipelineTasks in_halves(const PipelineTasks& tasks) {
    PipelineTasks result(tasks.size());
    for (std::size_t r = 0; r < tasks.size(); ++r) {
      for (PipelineTask task : tasks[r]) {
        const bool whole = task.kind == PipelineTaskKind::backward;
        if (whole) task.kind = PipelineTaskKind::input_backward;
        result[r].push_back(task);
        if (!whole) continue;
        task.kind = PipelineTaskKind::weight_backward;
        result[r].push_back(task);
      }
    }
    return result;
  }

  /// What an order takes, if it is whole, allowed and fits.
  Seconds propose(const PipelineTasks& tasks) {
    std::size_t weights = 0;
    for (std::size_t r = 0; r < tasks.size(); ++r) {
      for (const PipelineTask& task : tasks[r]) {
        const bool half = task.kind == PipelineTaskKind::weight_backward;
        if (half && !problem_.splits) return FreePipeline::never;
        weights += half || task.kind == PipelineTaskKind::backward ? 1 : 0;
      }
      const int most = problem_.max_activations.empty() ? (std::numeric_limits<int>::max)()
                                                        : problem_.max_activations[r];
      if (!legal_(tasks[r], most)) return FreePipeline::never;
    }
    if (weights != problem_.rank_of_chunk.size() * static_cast<std::size_t>(problem_.micro_batches))
      return FreePipeline::never;
    const Seconds takes = free_.run(tasks);
    take(tasks, takes);
    return takes;
  }

  void take(const PipelineTasks& tasks, Seconds takes) {
    if (takes == FreePipeline::never) return;
    if (!answer_.order.tasks.empty() && takes >= answer_.makespan) return;
    answer_.order.tasks = tasks;
    answer_.makespan = takes;
  }

  const PipelineOrderProblem& problem_;
  PipelineSearch& answer_;
  FreePipeline free_;
  LegalTasks legal_;
  std::uint64_t seed_;
  std::optional<PipelineAnnealer> annealer_;  // from the first round on
  int length_ = 1;
  int done_ = 0;
};

/// A rank's chunks are all held at once by one micro-batch.
inline std::string does_not_fit(const PipelineOrderProblem& problem) {
  std::vector<int> chunks(static_cast<std::size_t>(problem.ranks()), 0);
  for (const int rank : problem.rank_of_chunk) ++chunks[static_cast<std::size_t>(rank)];
  for (std::size_t r = 0; r < problem.max_activations.size(); ++r) {
    if (problem.max_activations[r] >= chunks[r]) continue;
    return concat("rank ", r, " may hold ", problem.max_activations[r],
                  " activations, and one micro-batch needs ", chunks[r], ", of each of its chunks");
  }
  return {};
}

}  // namespace detail

REEF_INLINE PipelineSearch search_pipeline_order(const PipelineOrderProblem& problem,
                                                 const PipelineSearchOptions& options) {
  problem.validate();
  if (!within(options.budget, 0, 1e9)) {
    throw OptionError("reef::plan::search_pipeline_order: the budget is ", options.budget,
                      " s.\n  fix: from 0 to 1e9 s.");
  }
  if (options.effort < -1) {
    throw OptionError("reef::plan::search_pipeline_order: the effort is ", options.effort,
                      ".\n  fix: -1, or at least 0.");
  }
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  const auto in_time = [&](int rounds) {  // one more like those before
    if (options.budget == 0) return true;
    const Seconds used = std::chrono::duration<double>(Clock::now() - start).count();
    return used * (rounds + 1) / (std::max)(1, rounds) < options.budget;
  };
  PipelineSearch answer;
  answer.why = detail::does_not_fit(problem);
  if (!answer.why.empty()) return answer;
  answer.feasible = true;
  answer.order.micro_batches = problem.micro_batches;
  answer.order.rank_of_chunk = problem.rank_of_chunk;
  detail::PipelineSearcher searcher(problem, answer, options.seed);
  searcher.try_serial();
  searcher.try_known();
  searcher.try_rules();
  answer.lower_bound = detail::PipelineBound(problem).bound();
  constexpr double rounding = 1e-12;
  const auto meets_bound = [&] { return answer.makespan <= answer.lower_bound * (1 + rounding); };
  const auto report = [&] {
    if (options.progress) options.progress(answer.effort, answer.makespan);
  };
  report();
  constexpr int rounds_without_budget = 40;
  int wanted = options.effort;
  if (wanted < 0)
    wanted = options.budget > 0 ? (std::numeric_limits<int>::max)() : rounds_without_budget;
  bool all = false;
  if (!meets_bound() && wanted > 0) all = searcher.try_all();
  while (!all && !meets_bound() && answer.effort < wanted && in_time(answer.effort)) {
    searcher.advance(answer.effort++);
    report();
  }
  if (all) answer.lower_bound = answer.makespan;
  answer.lower_bound = (std::min)(answer.lower_bound, answer.makespan);
  answer.optimal = all || meets_bound();
  return answer;
}

}  // namespace plan
}  // namespace v0
}  // namespace reef
