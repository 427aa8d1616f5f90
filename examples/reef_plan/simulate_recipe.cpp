#include <algorithm>
#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/text.hpp>
#include <reef/graph/crossing.hpp>
#include <reef/io/json.hpp>
#include <reef/plan/op_fence.hpp>
#include <reef/plan/split_in_order.hpp>
#include <reef/schedule/recording.hpp>
#include <reef/trace/chrome.hpp>
#include <reef/trainer/estimate.hpp>

#include "commands.hpp"
#include "foreseen.hpp"
#include "recipe_case.hpp"

namespace reef_examples {

namespace {

using namespace reef;

/// The model's operators as a pipeline over the ranks of the network, which are alike.
plan::PipelineProblem pipeline_of(const RecipeCase& asked, const graph::Dag& dag,
                                  const profile::Profile& profile) {
  plan::PipelineProblem problem;
  for (const profile::OperatorProfile& entry : profile.operators) {
    // Operations by the time that an operator takes, which its bytes may bound.
    problem.flops.push_back(entry.forward_s * asked.flops);
    // Weights, gradients, two moments, and what is kept for the backward of every micro-batch.
    problem.memory.push_back(entry.parameter_bytes + 3 * entry.gradient_bytes +
                             static_cast<Bytes>(asked.micro_batches) * entry.saved_bytes);
  }
  for (const Bytes bytes : graph::crossing_bytes(dag))
    problem.cut.push_back(static_cast<double>(bytes));
  const auto ranks = static_cast<std::size_t>(asked.ranks);
  problem.speed.assign(ranks, asked.flops);
  problem.capacity.assign(ranks, asked.memory > 0 ? asked.memory : Bytes{1} << 60);
  problem.links = asked.links();
  problem.micro_batches = asked.micro_batches;
  return problem;
}

/// The plan that the case has, or the best.
plan::PipelinePlan pipeline_plan(const plan::PipelineProblem& problem, const io::Json& test,
                                 const std::string& file) {
  if (!test.contains("plan")) return plan::op_fence(problem);
  std::vector<plan::Stage> stages;
  for (const std::vector<int>& given :
       io::require<std::vector<std::vector<int>>>(test, "plan", file)) {
    const int begin = stages.empty() ? 0 : stages.back().end;
    const bool fits = given.size() == 3 && given[0] >= 0 && given[0] < problem.devices() &&
                      given[1] == begin && given[2] > begin && given[2] <= problem.operators();
    if (!fits)
      refuse(file, concat("plan[", stages.size(), "] is no stage"),
             concat("[rank, first, end] with rank below ", problem.devices(),
                    " and operators from ", begin, " to at most ", problem.operators()));
    stages.push_back({given[0], given[1], given[2]});
  }
  if (stages.empty() || stages.back().end != problem.operators())
    refuse(file, "the plan does not reach the last operator",
           concat("stages of all ", problem.operators(), " operators"));
  return plan::plan_of(problem, stages);
}

io::Json operators_of(const profile::Profile& profile) {
  io::Json operators = io::Json::array();
  for (const profile::OperatorProfile& entry : profile.operators) {
    operators.push_back({{"name", entry.name},
                         {"kind", entry.kind},
                         {"forward_flops", entry.forward_flops},
                         {"backward_flops", entry.backward_flops},
                         {"parameter_bytes", entry.parameter_bytes},
                         {"output_bytes", entry.output_bytes},
                         {"saved_bytes", entry.saved_bytes},
                         {"forward_s", entry.forward_s},
                         {"backward_s", entry.backward_s}});
  }
  return operators;
}

}  // namespace

const Recipe& recipe_named(const std::string& name, const std::string& file) {
  static const std::map<std::string, const Recipe*> recipes{
      {"ddp", &recipe_ddp},       {"zero1", &recipe_zero1},   {"dpu", &recipe_dpu},       {"acco-wp", &recipe_acco_wp},
      {"acco", &recipe_acco},     {"atom", &recipe_atom},     {"diloco", &recipe_diloco}, {"sparse", &recipe_sparse},
      {"dtfm", &recipe_dtfm},     {"fusion", &recipe_dtfm},   {"reef", &recipe_reef}};
  const auto found = recipes.find(name);
  if (found == recipes.end()) refuse(file, "the recipe is " + in_quotes(name), recipe_names);
  return *found->second;
}

io::Json answer_of(const StepEstimate& step, const RecipeCase& asked) {
  return {{"bytes",
           {{"weights", step.weights},
            {"gradients", step.gradients},
            {"exchanged", step.comm_buffers},
            {"optimizer_state", step.optimizer_state},
            {"activations", step.activations},
            {"workspaces", step.workspaces},
            {"rest", step.rest},
            {"device", step.device_bytes},
            {"host", step.host_bytes},
            {"sent", step.sent}}},
          {"step_flops", step.flops},
          {"messages", step.messages},
          {"feasible", asked.memory == 0 || step.device_bytes <= asked.memory}};
}

reef::io::Json simulate_recipe(const PlanCase& test, const std::string& trace) {
  const RecipeCase asked = read_case(test.json, test.file, CaseOf::simulate);
  const Foreseen found = foresee(asked, test.file, [&](std::span<const schedule::Program> programs, const auto& run) {
    write_output(trace, [&] { trace::write_chrome(trace, schedule::recordings_of(programs, run)); });
  });
  if (found.is_endless) refuse(test.file, found.why, "accumulate cap:M");
  if (!found.feasible) {
    io::Json answer{{"feasible", false}, {"why", found.why}};
    if (found.peak > 0) answer["peak_device_bytes"] = found.peak;
    return answer;
  }
  io::Json answer{{"feasible", true},
                  {"step_s", found.step},
                  {"utilisation", found.utilisation},
                  {"wire_bytes", found.wire},
                  {"peak_device_bytes", found.peak}};
  if (asked.adapts) answer["micro_batches"] = found.micro_batches;
  return answer;
}

reef::io::Json estimate_recipe(const PlanCase& test) {
  const RecipeCase asked = read_case(test.json, test.file, CaseOf::estimate);
  const Estimated found = recipe_named(asked.recipe, test.file).estimate(asked, test.file);
  io::Json answer = found.step;
  answer["speed_flops"] = asked.flops;
  answer["forward_flops"] = found.profile.forward_flops();
  answer["backward_flops"] = found.profile.backward_flops();
  answer["operators"] = operators_of(found.profile);
  const plan::PipelineProblem problem = pipeline_of(asked, found.dag, found.profile);
  const plan::PipelinePlan best = pipeline_plan(problem, test.json, test.file);
  io::Json pipeline{{"feasible", best.feasible}};
  if (best.feasible) {
    io::Json stages = io::Json::array();
    for (const plan::Stage& stage : best.stages) stages.push_back({stage.device, stage.first, stage.end});
    const plan::PipelineTime time = problem.time(best.stages, static_cast<double>(asked.model.batch));
    pipeline["plan"] = std::move(stages);
    pipeline["compute_s"] = time.compute;
    pipeline["receive_s"] = time.receive;
    pipeline["bottleneck_s"] = time.bottleneck;
    pipeline["T_FP"] = time.latency;
    pipeline["T_pipe"] = time.pipelined;
    pipeline["throughput"] = time.rate;
  } else {
    pipeline["why"] = best.why;
  }
  answer["pipeline"] = std::move(pipeline);
  return answer;
}

}  // namespace reef_examples
