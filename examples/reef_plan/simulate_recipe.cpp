#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <reef/codec/chain.hpp>
#include <reef/codec/chosen.hpp>
#include <reef/codec/chunk_top_k.hpp>
#include <reef/codec/error_feedback.hpp>
#include <reef/codec/two_bit.hpp>
#include <reef/compress/channels.hpp>
#include <reef/core/error.hpp>
#include <reef/core/text.hpp>
#include <reef/graph/crossing.hpp>
#include <reef/graph/estimate.hpp>
#include <reef/io/json.hpp>
#include <reef/nn/gpt.hpp>
#include <reef/nn/host.hpp>
#include <reef/optim/acco.hpp>
#include <reef/optim/acco_wp.hpp>
#include <reef/optim/adamw.hpp>
#include <reef/optim/ddp.hpp>
#include <reef/optim/diloco.hpp>
#include <reef/optim/dpu.hpp>
#include <reef/optim/sgd.hpp>
#include <reef/optim/zero1.hpp>
#include <reef/pipeline/ordered.hpp>
#include <reef/plan/op_fence.hpp>
#include <reef/plan/split_in_order.hpp>
#include <reef/schedule/recording.hpp>
#include <reef/schedule/simulate.hpp>
#include <reef/swap/atom.hpp>
#include <reef/trace/chrome.hpp>
#include <reef/trainer/trainer.hpp>

#include "commands.hpp"
#include "foreseen.hpp"
#include "recipe_case.hpp"

namespace reef_examples {

namespace {

using namespace reef;
using device::Host;

/// What the Trainer of a recipe would be made of, but for what it plans for its device.
template <class Asked, class Model>
typename Asked::Options options_of(const Model& model, const RecipeCase& asked,
                                   const std::string& file) {
  typename Asked::Options options;
  int phases = 1;
  if constexpr (optim::overlapping_policy<typename Asked::Optim>)
    phases = Asked::Optim::phases_per_step;
  if (asked.micro_batches % phases != 0) {
    refuse(file, concat(asked.micro_batches, " micro-batches over ", phases, " phases"),
           "as many in each phase");
  }
  options.micro_batches = {asked.micro_batches / phases};
  options.device.threads = 1;
  options.device.memory_bytes = asked.memory;
  options.device.link_bytes_per_second = asked.link;
  options.profile =
      graph::estimate(model.dag(), graph::Speed{asked.flops, asked.memory_rate, asked.link});
  const schedule::World world = asked.world(*options.profile);
  if constexpr (requires { options.pipeline.schedule; }) {
    options.topology = run::Topology(asked.ranks / asked.stages, asked.stages);
    options.topology->rank_at = asked.rank_at;
    options.pipeline.schedule = asked.pipeline;
    if (asked.ranks > 1) options.pipeline.network = world;
  }
  if constexpr (requires { options.compress.gradient = codec::Chosen(); }) {
    for (const auto& [channel, codec] : asked.compress) {
      const codec::Chosen chosen = codec::Chosen::of(codec);
      if (channel == "activations") options.compress.activation = chosen;
      if (channel == "activation-gradients") options.compress.activation_gradient = chosen;
      if (channel == "gradients") options.compress.gradient = chosen;
      if (channel == "parameters") options.compress.parameter = chosen;
    }
    options.compress.one_mask = asked.one_mask;
    if (asked.one_mask && !options.compress.activation_gradient) {
      options.compress.activation_gradient = codec::Chosen::of("dense");
    }
    if (asked.adapt_ratios) options.compress.network = world;
  }
  if constexpr (optim::periodic_policy<typename Asked::Optim>) {
    using Overlap = run::OuterSchedule::Overlap;
    options.optim.every = asked.sync_every;
    options.optim.fragments = asked.fragments;
    options.optim.overlap = asked.overlap == "eager" ? Overlap::eager : asked.overlap == "mix" ? Overlap::mix : Overlap::none;
  }
  return options;
}

template <class... Policies>
Foreseen foreseen(const RecipeCase& asked, const std::string& file, const Shown& shown) {
  using Asked = Trainer<Policies...>;
  const auto model = nn::gpt<Host, float>(asked.model, 1);
  auto options = options_of<Asked>(model, asked, file);
  Foreseen result;
  try {
    options = Asked::planned(model, options, asked.ranks);
    for (int rank = 0; rank < asked.ranks; ++rank)
      result.peak = std::max(result.peak, Asked::estimate(model, options, asked.ranks, rank).device_bytes);
  } catch (const ScheduleError& error) {
    result.why = error.what();
    return result;
  }
  if (asked.memory > 0 && result.peak > asked.memory) {
    result.why = concat("a device has ", format_bytes(asked.memory), ", the recipe needs ", format_bytes(result.peak));
    return result;
  }
  result.feasible = true;
  const schedule::World world = asked.world(*options.profile);
  // Of a period most steps send nothing, and each fragment has one of its own.
  int period = 1;
  int variants = 1;
  if constexpr (optim::periodic_policy<typename Asked::Optim>) {
    period = asked.sync_every;
    variants = 1 + asked.fragments;
  }
  double wire = 0;
  std::vector<double> busy(static_cast<std::size_t>(asked.ranks), 0);
  for (int variant = 0; variant < variants; ++variant) {
    const double share = variants == 1 ? 1.0 : (variant == 0 ? period - asked.fragments : 1) / static_cast<double>(period);
    if (share == 0) continue;
    const auto programs = Asked::programs(model, options, asked.ranks, {}, variant);
    const schedule::Simulation run = schedule::simulate(programs, world, 3);
    result.step += share * run.step;
    for (const Bytes rank : run.wire_bytes) wire += share * static_cast<double>(rank);
    for (std::size_t rank = 0; rank < busy.size(); ++rank) busy[rank] += share * run.step * run.utilisation[rank];
    if (shown && variant + 1 == variants) shown(programs, run);
  }
  result.wire = static_cast<Bytes>(wire);
  if (result.step > 0) result.utilisation = *std::min_element(busy.begin(), busy.end()) / result.step;
  return result;
}

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
  problem.links = asked.network();
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

template <class... Policies>
io::Json estimated(const RecipeCase& asked, const std::string& file, const io::Json& test) {
  using Asked = Trainer<Policies...>;
  const auto model = nn::gpt<Host, float>(asked.model, 1);
  auto options = options_of<Asked>(model, asked, file);
  const profile::Profile profile = *options.profile;
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
  io::Json answer{{"speed_flops", asked.flops},
                  {"forward_flops", profile.forward_flops()},
                  {"backward_flops", profile.backward_flops()},
                  {"operators", std::move(operators)}};
  try {
    options = Asked::planned(model, options, asked.ranks);
    const StepEstimate step = Asked::estimate(model, options, asked.ranks, 0);
    answer["bytes"] = {{"weights", step.weights},
                       {"gradients", step.gradients},
                       {"exchanged", step.comm_buffers},
                       {"optimizer_state", step.optimizer_state},
                       {"activations", step.activations},
                       {"workspaces", step.workspaces},
                       {"rest", step.rest},
                       {"device", step.device_bytes},
                       {"host", step.host_bytes},
                       {"sent", step.sent}};
    answer["step_flops"] = step.flops;
    answer["messages"] = step.messages;
    answer["feasible"] = asked.memory == 0 || step.device_bytes <= asked.memory;
  } catch (const ScheduleError& error) {
    answer["feasible"] = false;
    answer["why"] = error.what();
  }
  const plan::PipelineProblem problem = pipeline_of(asked, model.dag(), profile);
  const plan::PipelinePlan found = pipeline_plan(problem, test, file);
  io::Json pipeline{{"feasible", found.feasible}};
  if (found.feasible) {
    io::Json stages = io::Json::array();
    for (const plan::Stage& stage : found.stages)
      stages.push_back({stage.device, stage.first, stage.end});
    const plan::PipelineTime time =
        problem.time(found.stages, static_cast<double>(asked.model.batch));
    pipeline["plan"] = std::move(stages);
    pipeline["compute_s"] = time.compute;
    pipeline["receive_s"] = time.receive;
    pipeline["bottleneck_s"] = time.bottleneck;
    pipeline["T_FP"] = time.latency;
    pipeline["T_pipe"] = time.pipelined;
    pipeline["throughput"] = time.rate;
  } else {
    pipeline["why"] = found.why;
  }
  answer["pipeline"] = std::move(pipeline);
  return answer;
}

/// The answer of a recipe: `answer` gets its policies as a value of `Policies<...>`.
template <class... P>
struct Policies {};

using AnyCodec = compress::Channels<compress::Activation<codec::Chosen>, compress::ActivationGradient<codec::Chosen>,
                                    compress::Gradient<codec::Chosen>, compress::Parameter<codec::Chosen>>;
using Sparse = compress::Channels<compress::PseudoGradient<codec::ErrorFeedback<codec::Chain<codec::ChunkTopK, codec::TwoBit>>>>;

template <class F>
auto answer_of_recipe(const std::string& recipe, const std::string& file, F&& answer) {
  using Rule = optim::AdamW;
  if (recipe == "ddp") return answer(Policies<optim::Ddp<Rule>, AnyCodec>{});
  if (recipe == "zero1") return answer(Policies<optim::Zero1<Rule>, AnyCodec>{});
  if (recipe == "dpu") return answer(Policies<optim::Dpu<Rule>>{});
  if (recipe == "acco-wp") return answer(Policies<optim::AccoWp<Rule>>{});
  if (recipe == "acco") return answer(Policies<optim::Acco<Rule>, AnyCodec>{});
  if (recipe == "atom") return answer(Policies<swap::Atom<>, optim::Ddp<Rule>>{});
  if (recipe == "dtfm") return answer(Policies<pipeline::Ordered, optim::Zero1<Rule>, AnyCodec>{});
  if (recipe == "diloco") return answer(Policies<optim::DiLoCo<Rule>>{});
  if (recipe == "sparse") return answer(Policies<optim::DiLoCo<Rule, optim::Sgd>, Sparse>{});
  refuse(file, "the recipe is '" + recipe + "'", recipe_names);
}

}  // namespace

Foreseen foresee(const RecipeCase& asked, const std::string& file, const Shown& shown) {
  return answer_of_recipe(asked.recipe, file,
                          [&]<class... P>(Policies<P...>) { return foreseen<P...>(asked, file, shown); });
}

reef::io::Json simulate_recipe(const PlanCase& test, const std::string& trace) {
  const RecipeCase asked = read_case(test.json, test.file, CaseOf::simulate);
  const Foreseen found = foresee(asked, test.file, [&](std::span<const schedule::Program> programs, const auto& run) {
    write_output(trace, [&] { trace::write_chrome(trace, schedule::recordings_of(programs, run)); });
  });
  if (!found.feasible) {
    io::Json answer{{"feasible", false}, {"why", found.why}};
    if (found.peak > 0) answer["peak_device_bytes"] = found.peak;
    return answer;
  }
  return {{"feasible", true},
          {"step_s", found.step},
          {"utilisation", found.utilisation},
          {"wire_bytes", found.wire},
          {"peak_device_bytes", found.peak}};
}

reef::io::Json estimate_recipe(const PlanCase& test) {
  const RecipeCase asked = read_case(test.json, test.file, CaseOf::estimate);
  return answer_of_recipe(asked.recipe, test.file, [&]<class... P>(Policies<P...>) {
    return estimated<P...>(asked, test.file, test.json);
  });
}

}  // namespace reef_examples
