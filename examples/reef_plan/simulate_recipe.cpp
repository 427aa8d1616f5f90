#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/text.hpp>
#include <reef/graph/estimate.hpp>
#include <reef/io/json.hpp>
#include <reef/nn/gpt.hpp>
#include <reef/nn/host.hpp>
#include <reef/optim/acco.hpp>
#include <reef/optim/acco_wp.hpp>
#include <reef/optim/adamw.hpp>
#include <reef/optim/ddp.hpp>
#include <reef/optim/dpu.hpp>
#include <reef/optim/zero1.hpp>
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
    if (model.contains("shape")) shape = io::require<std::string>(model, "shape", file);
    const auto take = [&](const char* member, std::int64_t& to) {
      to = io::value_or<std::int64_t>(model, member, to, file);
      if (to < 1) refuse(file, concat("model.", member, " is ", to), "at least 1");
    };
    take("layers", config.layers);
    take("heads", config.heads);
    take("channels", config.channels);
    take("vocabulary", config.vocabulary);
    take("context", config.context);
    take("batch", config.batch);
  } else {
    refuse(file, "there is no 'model'", "\"LAYERSxHEADSxCHANNELS\", or an object");
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
/// matrices.
void read_network(RecipeCase& to, const io::Json& network, const std::string& file) {
  if (!network.is_object())
    refuse(file, "'network' is no object", "{ranks, latency_ms, bandwidth_gbps}");
  to.ranks = io::value_or<int>(network, "ranks", 1, file);
  const auto read = [&](const char* key, double unit, auto set) {
    if (!network.contains(key)) return;
    if (network[key].is_number()) {
      for (schedule::Link& link : to.links) set(link, network[key].get<double>() * unit);
      return;
    }
    const auto rows = io::require<std::vector<std::vector<double>>>(network, key, file);
    const auto ranks = static_cast<std::size_t>(to.ranks);
    if (rows.size() != ranks) {
      refuse(file, concat("network.", key, " has ", rows.size(), " rows for ", to.ranks, " ranks"),
             "a row for each rank");
    }
    for (std::size_t from = 0; from < ranks; ++from) {
      if (rows[from].size() != ranks)
        refuse(file, concat("network.", key, " is not square"), "a square");
      for (std::size_t r = 0; r < ranks; ++r) set(to.links[from * ranks + r], rows[from][r] * unit);
    }
  };
  if (!network.contains("ranks") && network.contains("latency_ms") &&
      network["latency_ms"].is_array()) {
    to.ranks = static_cast<int>(network["latency_ms"].size());
  }
  if (to.ranks < 1 || to.ranks > 256)
    refuse(file, concat("network has ", to.ranks, " ranks"), "1 to 256");
  to.links.assign(static_cast<std::size_t>(to.ranks) * static_cast<std::size_t>(to.ranks), {});
  read("latency_ms", 1e-3, [](schedule::Link& link, double value) { link.latency = value; });
  read("bandwidth_gbps", 1e9 / 8,
       [](schedule::Link& link, double value) { link.bytes_per_second = value; });
  for (const schedule::Link& link : to.links) {
    if (!(link.latency >= 0 && link.latency <= 1e6) ||
        !(link.bytes_per_second >= 0 && link.bytes_per_second <= 1e18)) {
      refuse(file, "a link of the network is none",
             "latencies of 0 to 1e9 ms, bandwidths of 0 or more");
    }
  }
}

RecipeCase read_case(const io::Json& test, const std::string& file) {
  RecipeCase result;
  result.model = model_of(test, file);
  result.micro_batches = io::value_or<int>(test, "micro_batches", 1, file);
  result.links.assign(1, {});
  const io::Json device = test.contains("device") ? test["device"] : io::Json::object();
  if (!device.is_object())
    refuse(file, "'device' is no object", "{memory_bytes, link_gbps, flops, memory_gbps}");
  result.memory = io::value_or<Bytes>(device, "memory_bytes", 0, file);
  result.link = io::value_or<double>(device, "link_gbps", 0, file) * 1e9;
  result.flops = io::value_or<double>(device, "flops", 0, file);
  result.memory_rate = io::value_or<double>(device, "memory_gbps", 0, file) * 1e9;
  if (!(result.flops >= 1 && result.flops <= 1e24)) {
    refuse(file, concat("device.flops is ", result.flops), "operations per second, from 1 to 1e24");
  }
  if (!(result.link >= 0 && result.link <= 1e18) || result.micro_batches < 1)
    refuse(file, "device.link_gbps is below 0, or micro_batches below 1", "what can be");
  if (result.memory_rate != 0 && !(result.memory_rate >= 1 && result.memory_rate <= 1e24)) {
    refuse(file, concat("device.memory_gbps is ", result.memory_rate / 1e9),
           "GB/s of the device's memory, or 0 where it is no limit");
  }
  if (test.contains("network")) read_network(result, test["network"], file);
  // Programs are placed in time that grows with the square of what they hold.
  const double size = (static_cast<double>(result.model.layers) + 2) *
                      static_cast<double>(result.micro_batches) * result.ranks;
  if (size > 4096) {
    refuse(file,
           concat(result.model.layers, " layers, ", result.micro_batches, " micro-batches and ",
                  result.ranks, " ranks are too many together"),
           "(layers + 2) x micro_batches x ranks of at most 4096");
  }
  return result;
}

template <class... Policies>
io::Json simulated(const RecipeCase& asked, const PlanOptions& command) {
  using Asked = Trainer<Policies...>;
  const auto model = nn::gpt<Host, float>(asked.model, 1);
  typename Asked::Options options;
  int stages = 1;
  if constexpr (optim::overlapping_policy<typename Asked::Optim>) stages = Asked::Optim::stages;
  if (asked.micro_batches % stages != 0) {
    refuse(command.file, concat(asked.micro_batches, " micro-batches over ", stages, " stages"),
           "as many in each stage");
  }
  options.micro_batches = {asked.micro_batches / stages};
  options.device.threads = 1;
  options.device.memory_bytes = asked.memory;
  options.device.link_bytes_per_second = asked.link;
  options.profile =
      graph::estimate(model.dag(), graph::Speed{asked.flops, asked.memory_rate, asked.link});
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
  const schedule::World world{std::vector<schedule::Machine>(static_cast<std::size_t>(asked.ranks),
                                                             run::machine_of(*options.profile)),
                              asked.links};
  const schedule::Simulation run = schedule::simulate(programs, world, 3);
  if (!command.trace.empty())
    trace::write_chrome(command.trace, schedule::recordings_of(programs, run));
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

}  // namespace

reef::io::Json simulate_recipe(const io::Json& test, const PlanOptions& options) {
  using Rule = optim::AdamW;
  const RecipeCase asked = read_case(test, options.file);
  const auto recipe = io::require<std::string>(test, "recipe", options.file);
  if (recipe == "ddp") return simulated<optim::Ddp<Rule>>(asked, options);
  if (recipe == "zero1") return simulated<optim::Zero1<Rule>>(asked, options);
  if (recipe == "dpu") return simulated<optim::Dpu<Rule>>(asked, options);
  if (recipe == "acco-wp") return simulated<optim::AccoWp<Rule>>(asked, options);
  if (recipe == "acco") return simulated<optim::Acco<Rule>>(asked, options);
  if (recipe == "atom") return simulated<swap::Atom<>, optim::Ddp<Rule>>(asked, options);
  refuse(options.file, "the recipe is '" + recipe + "'", recipe_names);
}

}  // namespace reef_examples
