#include <cstddef>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <reef/core/text.hpp>
#include <reef/io/json.hpp>
#include <reef/plan/op_fence.hpp>
#include <reef/plan/pipeline_problem_json.hpp>
#include <reef/plan/split_in_order.hpp>

#include "../support/number_option.hpp"
#include "commands.hpp"
#include "plot.hpp"

namespace reef_examples {

namespace {

using namespace reef;

struct OpFenceCommand {
  std::string method = "search";
  plan::OpFenceOptions search;
  std::string plot;
};

/// The pipeline is a line, and a device's number is its stage.
NetworkPlot drawn(const plan::PipelineProblem& problem, const plan::PipelinePlan& found,
                  const OpFenceCommand& asked, const PlanCase& test) {
  const std::size_t count = found.stages.size();
  const std::string what =
      found.feasible
          ? concat("A pipeline of ", count, count == 1 ? " stage" : " stages", " on the devices")
          : "The devices";
  NetworkPlot plot = plot_of(test, what, problem.links);
  frame_clusters(plot, plan::clusters_of(problem));
  if (!found.feasible) {
    plot.facts = {{"no plan", found.why}};
    return plot;
  }
  plot.paths.emplace_back();
  std::string shares;
  for (const plan::Stage& stage : found.stages) {
    plot.paths[0].push_back(stage.device);
    plot.groups.push_back({stage.device});
    shares += concat(shares.empty() ? "" : ", ", stage.first,
                     stage.end - stage.first > 1 ? concat(" to ", stage.end - 1) : std::string());
  }
  plot.facts = {{concat("a step of ", problem.micro_batches,
                        problem.micro_batches == 1 ? " micro-batch" : " micro-batches"),
                 plot_seconds(found.time.pipelined)},
                {"one micro-batch alone", plot_seconds(found.time.latency)},
                {"the slowest stage or link", plot_seconds(found.time.bottleneck)}};
  if (asked.method == "search")
    plot.facts.emplace_back("no plan takes less than", plot_seconds(found.lower_bound));
  plot.facts.emplace_back("operators by stage", detail::plot_shortened(shares, 100));
  return plot;
}

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
  if (!asked.plot.empty()) write_plot(asked.plot, drawn(problem, found, asked, test));
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
      "beta (matrices [from][to]: seconds, seconds per byte), n_b (micro-batches); latency_ms, "
      "bandwidth_gbps and device_flops, as reef-measure writes them, for alpha, beta and speed",
      "case.json --effort 8 --plot plan.svg",
      [options](const PlanCase& test) { return op_fence(test, *options); });
  command
      ->add_option("--method", options->method,
                   "orders and cuts by search; cuts of an order of clusters, or of the order of "
                   "the case; or baselines in that "
                   "order")
      ->check(CLI::IsMember({"search", "clusters", "given", "equal-operators", "equal-compute"}))
      ->capture_default_str();
  command
      ->add_option(
          "--effort", options->search.effort,
          "rounds of the search, which with the seed decide the answer (default: 4, or as many as "
          "the budget has time for; it stops earlier with a proof)")
      ->transform(number_from<int>(0, std::numeric_limits<int>::max()));
  add_plot(commands, command, options->plot);
}

}  // namespace reef_examples
