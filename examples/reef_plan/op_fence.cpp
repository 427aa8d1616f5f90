#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <reef/io/json.hpp>
#include <reef/plan/op_fence.hpp>
#include <reef/plan/pipeline_problem_json.hpp>
#include <reef/plan/split_in_order.hpp>

#include "../support/number_option.hpp"
#include "commands.hpp"

namespace reef_examples {

namespace {

using namespace reef;

struct OpFenceCommand {
  std::string method = "search";
  plan::OpFenceOptions search;
};

plan::PipelinePlan planned(const plan::PipelineProblem& problem, const OpFenceCommand& asked) {
  if (asked.method == "search") return plan::op_fence(problem, asked.search);
  std::vector<int> order(problem.speed.size());
  std::iota(order.begin(), order.end(), 0);
  if (asked.method == "clusters") order = plan::fence_order(problem, plan::clusters_of(problem));
  if (asked.method == "equal-operators") return plan::equal_operators(problem, order);
  if (asked.method == "equal-compute") return plan::equal_compute(problem, order);
  return plan::split_in_order(problem, order);
}

io::Json op_fence(const PlanCase& test, OpFenceCommand asked) {
  const plan::PipelineProblem problem = plan::pipeline_problem_from_json(test.json, test.file);
  asked.search.seed = test.seed;
  asked.search.budget = test.budget;
  const plan::PipelinePlan found = planned(problem, asked);
  io::Json answer{{"feasible", found.feasible}};
  if (asked.method == "search") {
    answer["optimal"] = found.optimal;
    answer["effort"] = found.effort;
  }
  if (!found.feasible) {
    answer["why"] = found.why;
    return answer;
  }
  io::Json stages = io::Json::array();
  for (const plan::Stage& stage : found.stages)
    stages.push_back({stage.device, stage.first, stage.end});
  answer["plan"] = std::move(stages);
  answer["T"] = found.time.pipelined;
  answer["latency_s"] = found.time.latency;
  answer["bottleneck_s"] = found.time.bottleneck;
  if (asked.method == "search") answer["lower_bound_s"] = found.lower_bound;
  return answer;
}

}  // namespace

void add_op_fence(Commands& commands) {
  const auto options = std::make_shared<OpFenceCommand>();
  CLI::App* const command = commands.add(
      "op-fence",
      "which device runs which operators of a pipeline, and in which order.\n"
      "CASE: flops, mem (by operator), cut (bytes by boundary) or, of a graph, outputs (bytes by "
      "operator) and edges ([from, to]), speed (operations per second), cap (bytes, by device), "
      "alpha, "
      "beta (matrices [from][to]: seconds, seconds per byte), n_b (micro-batches)",
      "case.json --effort 8", [options](const PlanCase& test) { return op_fence(test, *options); });
  command
      ->add_option("--method", options->method,
                   "orders and cuts by search; cuts of an order of clusters, or of the order of "
                   "the case; or baselines in that "
                   "order")
      ->check(CLI::IsMember({"search", "clusters", "given", "equal-operators", "equal-compute"}))
      ->capture_default_str();
  command->add_option("--effort", options->search.effort, "rounds, where nothing is proven before")
      ->transform(number_from<int>(1, 1'000'000));
}

}  // namespace reef_examples
