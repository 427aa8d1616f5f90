#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <reef/core/text.hpp>
#include <reef/core/units.hpp>
#include <reef/graph/dag.hpp>
#include <reef/plan/op_fence.hpp>
#include <reef/plan/pipeline_plan.hpp>
#include <reef/plan/pipeline_problem.hpp>
#include <reef/plan/split_in_order.hpp>
#include <reef/run/stage_memory.hpp>
#include <reef/run/topology.hpp>

namespace reef {
inline namespace v0 {
namespace run::detail {

/// The topology that these stages are.
inline Topology topology_of(const Topology& given, const std::vector<plan::Stage>& stages,
                            const std::vector<int>& positions) {
  Topology result = given;
  result.rank_at.clear();
  for (int replica = 0; replica < given.replicas; ++replica) {
    for (const plan::Stage& stage : stages)
      result.rank_at.push_back(given.rank(replica, stage.device));
  }
  result.bounds = {0};
  for (const plan::Stage& stage : stages)
    result.bounds.push_back(positions[static_cast<std::size_t>(stage.end)]);
  return result;
}

/// Searches the layout of least T whose stages fit their ranks, of which none counts before `needs` has said so.
///
/// A refusal says what each stage of a layout takes: more of it is foreseen from that (StageMemory), and what does not
/// fit by then is passed over. Where nothing is foreseen to fit, the layout is asked for that lacks least.
class FittedStages {
public:
  /// `problem`: of the model between the positions.
  FittedStages(const graph::Dag& dag, const std::vector<int>& positions, const Topology& topology,
               plan::PipelineProblem problem, const StageNeeds& needs)
      : dag_(dag),
        positions_(positions),
        topology_(topology),
        problem_(std::move(problem)),
        needs_(needs),
        memory_(dag, positions, topology.stages, static_cast<int>(problem_.micro_batches)) {
    const plan::PipelinePlan estimated =
        plan::op_fence(problem_, {.effort = 1, .every_device = true});
    problem_.memory.assign(problem_.memory.size(), 0);
    first_ = plan::op_fence(problem_, {.effort = 1, .every_device = true});
    add_orders(estimated);
  }

  /// Not feasible, with what lacks memory in the nearest that was asked for, where none was found.
  [[nodiscard]] plan::PipelinePlan best() {
    if (!first_.feasible || fits(first_.stages)) return first_;
    std::optional<plan::PipelinePlan> found;
    const int tries = std::clamp(256 / topology_.stages, 4, 48);
    for (int asked = 1; asked < tries; ++asked) {
      plan::PipelinePlan next = least_time();
      const bool is_foreseen = next.feasible;
      if (found && (!is_foreseen || next.time.pipelined >= found->time.pipelined)) return *found;
      if (!is_foreseen) next = least_lack();
      if (next.stages.empty()) break;
      if (!fits(next.stages)) continue;
      if (is_foreseen) return next;
      found = std::move(next);
    }
    if (found) return *found;
    plan::PipelinePlan none;
    none.why = lack_text_;
    return none;
  }

private:
  static constexpr int max_permuted = 6;  // stages of which all orders are searched

  void add_orders(const plan::PipelinePlan& estimated) {
    const int stages = topology_.stages;
    std::vector<int> order(static_cast<std::size_t>(stages));
    std::iota(order.begin(), order.end(), 0);
    if (stages <= max_permuted) {
      do orders_.push_back(order);
      while (std::next_permutation(order.begin(), order.end()));
      return;
    }
    const auto add = [this](std::vector<int> one) {
      orders_.push_back(one);
      std::reverse(one.begin(), one.end());
      orders_.push_back(std::move(one));
    };
    for (const std::vector<plan::Stage>* const planned :
         {&std::as_const(first_.stages), &estimated.stages}) {
      std::vector<int> of_plan;
      for (const plan::Stage& stage : *planned) of_plan.push_back(stage.device);
      if (!of_plan.empty()) add(of_plan);
    }
    std::stable_sort(order.begin(), order.end(),
                     [this](int a, int b) { return capacity(a) > capacity(b); });
    add(order);
  }

  [[nodiscard]] Bytes capacity(int device) const {
    return problem_.capacity[static_cast<std::size_t>(device)];
  }

  /// Asks what a layout takes, and learns it.
  bool fits(const std::vector<plan::Stage>& stages) {
    const Topology topology = topology_of(topology_, stages, positions_);
    const std::vector<Bytes> bytes = needs_(topology);
    asked_.push_back(stages);
    begins_.clear();  // what it is foreseen from changes
    double worst = 0;
    std::string text;
    for (int p = 0; p < topology.stages; ++p) {
      const plan::Stage& stage = stages[static_cast<std::size_t>(p)];
      int heaviest = topology.rank(0, p);
      for (int replica = 1; replica < topology.replicas; ++replica) {
        const int rank = topology.rank(replica, p);
        if (bytes[static_cast<std::size_t>(rank)] > bytes[static_cast<std::size_t>(heaviest)])
          heaviest = rank;
      }
      const Bytes taken = bytes[static_cast<std::size_t>(heaviest)];
      memory_.record(p, {stage.first, stage.end}, taken);
      const double part = share(taken, stage.device);
      if (part <= worst) continue;
      worst = part;
      const auto name = [this](int node) { return in_quotes(dag_.node_at(node).name); };
      text = concat("rank ", heaviest, ", stage ", p, " of ", topology.stages, " with operators ",
                    name(topology.bounds[static_cast<std::size_t>(p)]), " to ",
                    name(topology.bounds[static_cast<std::size_t>(p) + 1] - 1), ", needs ",
                    format_bytes(taken), " of ", format_bytes(capacity(stage.device)));
    }
    if (worst <= 1) return true;
    if (worst < lack_) {
      lack_ = worst;
      lack_text_ = std::move(text);
    }
    return false;
  }

  /// How much of its memory a device would have to give; above 1 exactly where it does not fit.
  [[nodiscard]] double share(Bytes bytes, int device) const {
    if (bytes <= capacity(device))
      return (std::min)(1.0, static_cast<double>(bytes) / static_cast<double>(capacity(device)));
    return (std::max)(1 + 1e-12, static_cast<double>(bytes) /
                                     static_cast<double>(std::max<Bytes>(capacity(device), 1)));
  }

  /// plan::StageBegins of a stage on a device with so much memory.
  const std::vector<int>& begins(int stage, Bytes memory) {
    const auto [found, is_new] = begins_.try_emplace({stage, memory});
    if (!is_new) return found->second;
    int first = 0;
    for (int end = 0; end <= memory_.parts(); ++end) {
      while (first < end && memory_.foreseen(stage, {first, end}) > memory) ++first;
      found->second.push_back(first);
    }
    return found->second;
  }

  /// The layout of least T of those that are foreseen to fit.
  plan::PipelinePlan least_time() {
    plan::PipelinePlan best;
    for (const std::vector<int>& order : orders_) {
      plan::StageBegins earliest;
      for (std::size_t p = 0; p < order.size(); ++p)
        earliest.push_back(begins(static_cast<int>(p), capacity(order[p])));
      plan::PipelinePlan found = plan::split_in_order(problem_, order, earliest);
      if (found.feasible && (!best.feasible || found.time.pipelined < best.time.pipelined))
        best = std::move(found);
    }
    return best;
  }

  /// The stages of an order where each takes at most that share of its device, as many operators as it can.
  [[nodiscard]] std::vector<plan::Stage> filled(const std::vector<int>& order, double most) const {
    std::vector<plan::Stage> stages;
    int first = 0;
    for (int p = 0; p < topology_.stages; ++p) {
      const int device = order[static_cast<std::size_t>(p)];
      const int last = memory_.parts() - (topology_.stages - 1 - p);
      int end = first;
      while (end < last && share(memory_.foreseen(p, {first, end + 1}), device) <= most) ++end;
      if (end == first) return {};
      stages.push_back({device, first, end});
      first = end;
    }
    return first == memory_.parts() ? stages : std::vector<plan::Stage>();
  }

  /// The layout that is foreseen to lack least of those that were not asked for; none where that lacks too much.
  plan::PipelinePlan least_lack() const {
    double most = 1e6;
    std::vector<plan::Stage> stages;
    for (const std::vector<int>& order : orders_) {
      std::vector<plan::Stage> found = filled(order, most * (1 - 1e-6));
      if (found.empty()) continue;
      double low = 1;
      double high = most;
      for (int halving = 0; halving < 30; ++halving) {
        const double middle = low + (high - low) / 2;
        std::vector<plan::Stage> less = filled(order, middle);
        if (less.empty()) {
          low = middle;
        } else {
          high = middle;
          found = std::move(less);
        }
      }
      most = high;
      stages = std::move(found);
    }
    if (was_asked(stages)) stages = least_lack_beside_asked();
    return stages.empty() ? plan::PipelinePlan() : plan::plan_of(problem_, stages);
  }

  /// Of layouts that differ from one that was asked for by a cut one position further on, the one that is foreseen to
  /// lack least. A wide border takes memory too, so a smaller part may need more.
  [[nodiscard]] std::vector<plan::Stage> least_lack_beside_asked() const {
    double least = 2;  // of what lacks more none fits
    std::vector<plan::Stage> best;
    for (const std::vector<plan::Stage>& one : asked_) {
      for (std::size_t p = 0; p + 1 < one.size(); ++p) {
        for (const int step : {-1, 1}) {
          std::vector<plan::Stage> other = one;
          other[p].end += step;
          other[p + 1].first += step;
          if (other[p].end == other[p].first || other[p + 1].end == other[p + 1].first ||
              was_asked(other))
            continue;
          double lack = 0;
          for (std::size_t s = 0; s < other.size(); ++s)
            lack = (std::max)(
                lack, share(memory_.foreseen(static_cast<int>(s), {other[s].first, other[s].end}),
                            other[s].device));
          if (lack >= least) continue;
          least = lack;
          best = std::move(other);
        }
      }
    }
    return best;
  }

  [[nodiscard]] bool was_asked(const std::vector<plan::Stage>& stages) const {
    return std::find(asked_.begin(), asked_.end(), stages) != asked_.end();
  }

  const graph::Dag& dag_;
  const std::vector<int>& positions_;
  const Topology& topology_;
  plan::PipelineProblem problem_;
  const StageNeeds& needs_;
  StageMemory memory_;
  plan::PipelinePlan first_;
  std::vector<std::vector<int>> orders_;
  std::map<std::pair<int, Bytes>, std::vector<int>> begins_;
  std::vector<std::vector<plan::Stage>> asked_;
  double lack_ = (std::numeric_limits<double>::max)();
  std::string lack_text_;
};

}  // namespace run::detail
}  // namespace v0
}  // namespace reef
