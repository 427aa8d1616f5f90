#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <reef/comm/network_file.hpp>
#include <reef/core/error.hpp>
#include <reef/core/finite.hpp>
#include <reef/core/text.hpp>
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

RecipeCase read_case(const io::Json& test, const std::string& file) {
  constexpr std::array<std::string_view, 5> keys{"recipe", "model", "micro_batches", "device",
                                                 "network"};
  io::require_known_keys(test, keys, file);
  RecipeCase result;
  result.model = model_of(test, file);
  result.micro_batches = io::value_or<int>(test, "micro_batches", 1, file);
  result.links.assign(1, {});
  const io::Json device = test.contains("device") ? test["device"] : io::Json::object();
  if (!device.is_object())
    refuse(file, "'device' is no object", "{memory_bytes, link_gbps, flops, memory_gbps}");
  io::require_known_keys(
      device, std::array<std::string_view, 4>{"memory_bytes", "link_gbps", "flops", "memory_gbps"},
      file, "device");
  result.memory = io::value_or<Bytes>(test, "device.memory_bytes", 0, file);
  result.link = io::value_or<double>(test, "device.link_gbps", 0, file) * 1e9;
  result.flops = io::require<double>(test, "device.flops", file);
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

template <class... Policies>
io::Json simulated(const RecipeCase& asked, const std::string& file, const std::string& trace) {
  using Asked = Trainer<Policies...>;
  const auto model = nn::gpt<Host, float>(asked.model, 1);
  typename Asked::Options options;
  int stages = 1;
  if constexpr (optim::overlapping_policy<typename Asked::Optim>) stages = Asked::Optim::stages;
  if (asked.micro_batches % stages != 0) {
    refuse(file, concat(asked.micro_batches, " micro-batches over ", stages, " stages"),
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

}  // namespace

reef::io::Json simulate_recipe(const PlanCase& test, const std::string& trace) {
  using Rule = optim::AdamW;
  const RecipeCase asked = read_case(test.json, test.file);
  const auto recipe = io::require<std::string>(test.json, "recipe", test.file);
  if (recipe == "ddp") return simulated<optim::Ddp<Rule>>(asked, test.file, trace);
  if (recipe == "zero1") return simulated<optim::Zero1<Rule>>(asked, test.file, trace);
  if (recipe == "dpu") return simulated<optim::Dpu<Rule>>(asked, test.file, trace);
  if (recipe == "acco-wp") return simulated<optim::AccoWp<Rule>>(asked, test.file, trace);
  if (recipe == "acco") return simulated<optim::Acco<Rule>>(asked, test.file, trace);
  if (recipe == "atom") return simulated<swap::Atom<>, optim::Ddp<Rule>>(asked, test.file, trace);
  refuse(test.file, "the recipe is '" + recipe + "'", recipe_names);
}

}  // namespace reef_examples
