#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <reef/comm/network_file.hpp>
#include <reef/core/error.hpp>
#include <reef/core/finite.hpp>
#include <reef/core/text.hpp>
#include <reef/graph/crossing.hpp>
#include <reef/graph/estimate.hpp>
#include <reef/io/json.hpp>
#include <reef/io/known_keys.hpp>
#include <reef/nn/gpt.hpp>
#include <reef/nn/host.hpp>
#include <reef/optim/acco.hpp>
#include <reef/optim/acco_wp.hpp>
#include <reef/optim/adamw.hpp>
#include <reef/optim/ddp.hpp>
#include <reef/optim/dpu.hpp>
#include <reef/optim/zero1.hpp>
#include <reef/plan/op_fence.hpp>
#include <reef/plan/split_in_order.hpp>
#include <reef/profile/fitted_speed.hpp>
#include <reef/profile/network_json.hpp>
#include <reef/schedule/recording.hpp>
#include <reef/schedule/simulate.hpp>
#include <reef/swap/atom.hpp>
#include <reef/trace/chrome.hpp>
#include <reef/trainer/trainer.hpp>

#include "../support/model_shape.hpp"
#include "commands.hpp"

namespace reef_examples {

namespace {

using namespace reef;
using device::Host;

/// The recipes of reef-train that take the same program in every step.
constexpr const char* recipe_names = "ddp, zero1, dpu, acco-wp, acco or atom";

struct RecipeCase {
  nn::GptConfig model;
  int micro_batches = 1;
  Bytes memory = 0;
  double link = 0;  ///< bytes per second
  double flops = 0;
  double memory_rate = 0;
  int ranks = 1;
  std::vector<schedule::Link> links;
  std::pair<std::vector<double>, std::vector<double>> uplinks;  ///< by rank, up and down; or none
};

[[noreturn]] void refuse(const std::string& file, const std::string& why, const std::string& fix) {
  throw DecodeError(file, ": ", why, ".\n  fix: ", fix, ".");
}

/// As --model of reef-train, or an object with what it leaves out.
nn::GptConfig model_of(const io::Json& test, const std::string& file) {
  nn::GptConfig config;
  config.vocabulary = 256;
  config.context = 128;
  config.batch = 8;
  const io::Json& model = test.contains("model") ? test["model"] : io::Json();
  std::string shape;
  if (model.is_string()) {
    shape = model.get<std::string>();
  } else if (model.is_object()) {
    io::require_known_keys(model,
                           std::array<std::string_view, 7>{"shape", "layers", "heads", "channels",
                                                           "vocabulary", "context", "batch"},
                           file, "model");
    if (model.contains("shape")) {
      shape = io::require<std::string>(test, "model.shape", file);
      if (shape.empty()) refuse(file, "'model.shape' is ''", "LAYERSxHEADSxCHANNELS");
    }
    for (const char* const member : {"layers", "heads", "channels"}) {
      if (model.contains(member) == shape.empty()) continue;
      refuse(file,
             shape.empty() ? concat("'model.", member, "' is missing")
                           : concat("'model.", member, "' is given, and 'model.shape' too"),
             "layers, heads and channels, or shape alone, LAYERSxHEADSxCHANNELS");
    }
    const auto take = [&](const char* member, std::int64_t& to) {
      to = io::value_or<std::int64_t>(test, concat("model.", member), to, file);
      if (to < 1) refuse(file, concat("model.", member, " is ", to), "at least 1");
    };
    take("layers", config.layers);
    take("heads", config.heads);
    take("channels", config.channels);
    take("vocabulary", config.vocabulary);
    take("context", config.context);
    take("batch", config.batch);
  } else {
    refuse(file,
           test.contains("model") ? "'model' is no text and no object" : "there is no 'model'",
           "\"LAYERSxHEADSxCHANNELS\", or an object");
  }
  if (!shape.empty()) {
    const auto found = parse_model_shape(shape);
    if (!found) refuse(file, "the model is '" + shape + "'", "LAYERSxHEADSxCHANNELS");
    config.layers = found->layers;
    config.heads = found->heads;
    config.channels = found->channels;
  }
  return config;
}

/// latency_ms and bandwidth_gbps, as the case files of networks have them: numbers for all links, or
/// matrices, whose diagonals are never read; uplink_gbps and downlink_gbps, numbers for all ranks or lists.
void read_network(RecipeCase& to, const io::Json& test, const std::string& file) {
  const io::Json& network = test["network"];
  if (!network.is_object())
    refuse(file, "'network' is no object", "{ranks, latency_ms, bandwidth_gbps}");
  std::vector<std::string_view> keys(comm::network_keys.begin(), comm::network_keys.end());
  keys.emplace_back("ranks");
  io::require_known_keys(network, keys, file, "network");
  for (const char* const key : {"latency_ms", "bandwidth_gbps"}) {
    if (network.contains("ranks") || !network.contains(key)) continue;
    if (!network[key].is_array())
      refuse(file, concat("'network.ranks' is missing, and network.", key, " is no matrix"),
             "say how many ranks there are");
    to.ranks = static_cast<int>(network[key].size());
    break;
  }
  if (!network.contains("ranks") && !network.contains("latency_ms") &&
      !network.contains("bandwidth_gbps"))
    refuse(file, "'network.ranks' is missing", "say how many ranks there are, or give matrices");
  to.ranks = io::value_or<int>(test, "network.ranks", to.ranks, file);
  if (to.ranks < 1 || to.ranks > 256)
    refuse(file, concat("network has ", to.ranks, " ranks"), "1 to 256");
  const auto ranks = static_cast<std::size_t>(to.ranks);
  to.links.assign(ranks * ranks, {});

  const auto read = [&](const std::string& key, double unit, double least, double most,
                        double schedule::Link::*member) {
    const std::string place = concat("network.", key);
    using Rows = std::vector<std::vector<double>>;
    const auto given = io::require<std::variant<double, Rows>>(test, place, file);
    if (const double* const all = std::get_if<double>(&given)) {
      if (!within(*all, least, most)) {
        refuse(file, concat(place, " is ", *all),
               concat("a link that can be, from ", least, " to ", most));
      }
      for (schedule::Link& link : to.links) link.*member = *all * unit;
      return;
    }
    const std::vector<double> values =
        profile::square_from_json(test, place.c_str(), file, unit, least, most);
    if (values.size() != to.links.size()) {
      refuse(file, concat(place, " has ", network[key].size(), " rows for ", ranks, " ranks"),
             "a row for each rank");
    }
    for (std::size_t link = 0; link < values.size(); ++link) {
      if (link % (ranks + 1) != 0) to.links[link].*member = values[link];
    }
  };
  if (network.contains("latency_ms")) read("latency_ms", 1e-3, 0, 1e9, &schedule::Link::latency);
  // Without either a message would take no time.
  if (network.contains("bandwidth_gbps") || (ranks > 1 && !network.contains("uplink_gbps")))
    read("bandwidth_gbps", 1e9 / 8, 8e-9, 8e9, &schedule::Link::bytes_per_second);
  to.uplinks = comm::read_uplinks(network, to.ranks, file);
}

/// The operations per second that runs in a warm-up have shown.
double speed_of_warm_up(const io::Json& test, const std::string& file) {
  std::vector<profile::TimedOperations> runs;
  const auto pairs = io::require<std::vector<std::vector<double>>>(test, "device.warm_up", file);
  for (const std::vector<double>& pair : pairs) {
    if (pair.size() != 2)
      refuse(file, concat("device.warm_up[", runs.size(), "] has ", pair.size(), " numbers"),
             "[operations, seconds]");
    runs.push_back({pair[0], pair[1]});
  }
  try {
    return profile::fitted_speed(runs).flops_per_second;
  } catch (const OptionError& error) {
    throw DecodeError(file, ": device.warm_up: ", error.what());
  }
}

/// `estimates`: the keys that only estimate reads are known.
RecipeCase read_case(const io::Json& test, const std::string& file, bool estimates = false) {
  constexpr std::array<std::string_view, 6> keys{"recipe", "model",   "micro_batches",
                                                 "device", "network", "plan"};
  io::require_known_keys(test, std::span(keys).first(estimates ? 6 : 5), file);
  RecipeCase result;
  result.model = model_of(test, file);
  result.micro_batches = io::value_or<int>(test, "micro_batches", 1, file);
  result.links.assign(1, {});
  const io::Json device = test.contains("device") ? test["device"] : io::Json::object();
  if (!device.is_object())
    refuse(file, "'device' is no object", "{memory_bytes, link_gbps, flops, memory_gbps}");
  constexpr std::array<std::string_view, 5> device_keys{"memory_bytes", "link_gbps", "flops",
                                                        "memory_gbps", "warm_up"};
  io::require_known_keys(device, std::span(device_keys).first(estimates ? 5 : 4), file, "device");
  result.memory = io::value_or<Bytes>(test, "device.memory_bytes", 0, file);
  result.link = io::value_or<double>(test, "device.link_gbps", 0, file) * 1e9;
  const bool warmed_up = estimates && device.contains("warm_up") && !device.contains("flops");
  result.flops =
      warmed_up ? speed_of_warm_up(test, file) : io::require<double>(test, "device.flops", file);
  result.memory_rate = io::value_or<double>(test, "device.memory_gbps", 0, file) * 1e9;
  if (!within(result.flops, 1, 1e24)) {
    refuse(file, concat("device.flops is ", result.flops), "operations per second, from 1 to 1e24");
  }
  if (device.contains("link_gbps") && !within(result.link, 1, 1e18)) {
    refuse(file, concat("device.link_gbps is ", result.link / 1e9),
           "GB/s between host and device, or leave it out where it is no limit");
  }
  if (result.micro_batches < 1)
    refuse(file, concat("micro_batches is ", result.micro_batches), "at least 1");
  if (result.memory_rate != 0 && !within(result.memory_rate, 1, 1e24)) {
    refuse(file, concat("device.memory_gbps is ", result.memory_rate / 1e9),
           "GB/s of the device's memory, or 0 where it is no limit");
  }
  if (test.contains("network")) read_network(result, test, file);
  // Every rank's program is written, placed and simulated, which takes memory and time in proportion.
  const double size = (static_cast<double>(result.model.layers) + 2) *
                      static_cast<double>(result.micro_batches) * result.ranks;
  if (size > 65536) {
    refuse(file,
           concat(result.model.layers, " layers, ", result.micro_batches, " micro-batches and ",
                  result.ranks, " ranks are too many together"),
           "(layers + 2) x micro_batches x ranks of at most 65536");
  }
  return result;
}

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
  return options;
}

template <class... Policies>
io::Json simulated(const RecipeCase& asked, const std::string& file, const std::string& trace) {
  using Asked = Trainer<Policies...>;
  const auto model = nn::gpt<Host, float>(asked.model, 1);
  auto options = options_of<Asked>(model, asked, file);
  Bytes peak = 0;
  try {
    options = Asked::planned(model, options, asked.ranks);
    for (int rank = 0; rank < asked.ranks; ++rank)
      peak = std::max(peak, Asked::estimate(model, options, asked.ranks, rank).device_bytes);
  } catch (const ScheduleError& error) {
    return {{"feasible", false}, {"why", error.what()}};
  }
  if (asked.memory > 0 && peak > asked.memory) {
    return {{"feasible", false},
            {"peak_device_bytes", peak},
            {"why", concat("a device has ", format_bytes(asked.memory), ", the recipe needs ",
                           format_bytes(peak))}};
  }
  const auto programs = Asked::programs(model, options, asked.ranks);
  schedule::World world{std::vector<schedule::Machine>(static_cast<std::size_t>(asked.ranks),
                                                       run::machine_of(*options.profile)),
                        asked.links};
  for (std::size_t rank = 0; rank < asked.uplinks.first.size(); ++rank) {
    world.machines[rank].uplink_bytes_per_second = asked.uplinks.first[rank];
    world.machines[rank].downlink_bytes_per_second = asked.uplinks.second[rank];
  }
  const schedule::Simulation run = schedule::simulate(programs, world, 3);
  write_output(trace, [&] { trace::write_chrome(trace, schedule::recordings_of(programs, run)); });
  Bytes sent = 0;
  for (const Bytes rank : run.wire_bytes) sent += rank;
  double utilisation = 1;
  for (const double rank : run.utilisation) utilisation = std::min(utilisation, rank);
  return {{"feasible", true},
          {"step_s", run.step},
          {"utilisation", utilisation},
          {"wire_bytes", sent},
          {"peak_device_bytes", peak}};
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
  problem.links.devices = asked.ranks;
  for (std::size_t cell = 0; cell < ranks * ranks; ++cell) {
    const schedule::Link& link = asked.links[cell];
    double rate = link.bytes_per_second > 0 ? link.bytes_per_second : 1e18;
    if (!asked.uplinks.first.empty()) {
      for (const double end :
           {asked.uplinks.first[cell / ranks], asked.uplinks.second[cell % ranks]})
        rate = end > 0 ? std::min(rate, end) : rate;
    }
    problem.links.latencies.push_back(link.latency);
    problem.links.rates.push_back(rate);
  }
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

template <class F>
io::Json answer_of_recipe(const PlanCase& test, F&& answer) {
  using Rule = optim::AdamW;
  const auto recipe = io::require<std::string>(test.json, "recipe", test.file);
  if (recipe == "ddp") return answer(Policies<optim::Ddp<Rule>>{});
  if (recipe == "zero1") return answer(Policies<optim::Zero1<Rule>>{});
  if (recipe == "dpu") return answer(Policies<optim::Dpu<Rule>>{});
  if (recipe == "acco-wp") return answer(Policies<optim::AccoWp<Rule>>{});
  if (recipe == "acco") return answer(Policies<optim::Acco<Rule>>{});
  if (recipe == "atom") return answer(Policies<swap::Atom<>, optim::Ddp<Rule>>{});
  refuse(test.file, "the recipe is '" + recipe + "'", recipe_names);
}

}  // namespace

reef::io::Json simulate_recipe(const PlanCase& test, const std::string& trace) {
  const RecipeCase asked = read_case(test.json, test.file);
  return answer_of_recipe(
      test, [&]<class... P>(Policies<P...>) { return simulated<P...>(asked, test.file, trace); });
}

reef::io::Json estimate_recipe(const PlanCase& test) {
  const RecipeCase asked = read_case(test.json, test.file, true);
  return answer_of_recipe(test, [&]<class... P>(Policies<P...>) {
    return estimated<P...>(asked, test.file, test.json);
  });
}

}  // namespace reef_examples
