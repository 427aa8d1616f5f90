#include "recipe_case.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <utility>

#include <reef/codec/chosen.hpp>
#include <reef/comm/network_file.hpp>
#include <reef/core/error.hpp>
#include <reef/core/finite.hpp>
#include <reef/core/numbers.hpp>
#include <reef/core/text.hpp>
#include <reef/graph/model_file.hpp>
#include <reef/io/known_keys.hpp>
#include <reef/plan/pipeline_schedules.hpp>
#include <reef/profile/fitted_speed.hpp>
#include <reef/run/costs.hpp>

#include "../support/lora_text.hpp"
#include "../support/model_shape.hpp"
#include "foreseen.hpp"

namespace reef_examples {

using namespace reef;

void refuse(const std::string& file, const std::string& why, const std::string& fix) {
  throw DecodeError(file, ": ", why, ".\n  fix: ", fix, ".");
}

namespace {

/// What stands beside a model that is a text, and in one that is an object.
constexpr std::array<const char*, 3> keys_beside_a_shape{"vocabulary", "context", "batch"};

/// As --model of reef-train, with what it leaves out beside it, or an object with all of it.
nn::GptConfig model_of(const io::Json& test, const std::string& file) {
  nn::GptConfig config;
  config.vocabulary = 256;
  config.context = 128;
  config.batch = 8;
  const io::Json& model = test.contains("model") ? test["model"] : io::Json();
  std::string shape;
  const auto take_from = [&](const std::string& path, std::int64_t& to) {
    to = io::value_or<std::int64_t>(test, path, to, file);
    if (to < 1) refuse(file, concat(path, " is ", to), "at least 1");
  };
  for (const char* const key : keys_beside_a_shape) {
    if (!test.contains(key) || model.is_string()) continue;
    refuse(file, concat("'", key, "' is of a model that is a text"),
           model.is_object() ? concat("\"model\": {..., \"", key, "\": ...}") : "\"model\": \"LAYERSxHEADSxCHANNELS\" beside it");
  }
  if (model.is_string()) {
    shape = model.get<std::string>();
    take_from("vocabulary", config.vocabulary);
    take_from("context", config.context);
    take_from("batch", config.batch);
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
    const auto take = [&](const char* member, std::int64_t& to) { take_from(concat("model.", member), to); };
    take("layers", config.layers);
    take("heads", config.heads);
    take("channels", config.channels);
    take("vocabulary", config.vocabulary);
    take("context", config.context);
    take("batch", config.batch);
  } else {
    refuse(file,
           test.contains("model") ? "'model' is no text and no object" : "there is no 'model'",
           "\"LAYERSxHEADSxCHANNELS\", or an object; or 'graph', a model's file");
  }
  if (!shape.empty()) {
    const auto found = parse_model_shape(shape);
    if (!found) refuse(file, "the model is " + in_quotes(shape), "LAYERSxHEADSxCHANNELS");
    config.layers = found->layers;
    config.heads = found->heads;
    config.channels = found->channels;
  }
  return config;
}

/// The file of 'graph', which says how many samples and tokens a micro-batch has.
void read_graph(RecipeCase& to, const io::Json& test, const std::string& file) {
  if (test.contains("model")) refuse(file, "'graph' is given, and 'model' too", "one of them");
  for (const char* const key : keys_beside_a_shape) {
    if (test.contains(key)) refuse(file, concat("'", key, "' is given, and 'graph', whose file says it"), "leave it out");
  }
  to.graph_file = io::require<std::string>(test, "graph", file);
  to.graph = std::make_shared<const io::Json>(io::read_json(to.graph_file));
  const graph::ModelFile model = graph::read_model(*to.graph, to.graph_file);
  if (model.loss.empty()) refuse(to.graph_file, "it has no loss", "\"loss\": the name of the tensor that is the loss");
  const Shape& shape = model.inputs.front().shape;
  if (shape.rank() == 0) refuse(to.graph_file, "its first input has no axis of samples", "an input (B, ...)");
  constexpr std::size_t nodes_of_layer = 10;  // of a GPT
  to.model.layers = static_cast<std::int64_t>(model.nodes.size() / nodes_of_layer);
  to.model.batch = shape[0];
  to.model.context = shape.rank() > 1 ? shape[1] : 1;
  to.model.vocabulary = 0;
}

/// What of the model is trained.
void read_frozen(RecipeCase& to, const io::Json& test, const std::string& file) {
  if (test.contains("freeze") && test["freeze"].is_string()) {
    to.freeze = {test["freeze"].get<std::string>()};
  } else {
    to.freeze = io::value_or<std::vector<std::string>>(test, "freeze", {}, file);
  }
  to.lora = io::value_or<std::string>(test, "lora", "", file);
  try {
    if (test.contains("lora")) static_cast<void>(lora_of(to.lora));
  } catch (const OptionError& error) {
    const std::string_view why = error.what();
    refuse(file, concat("lora: ", why.substr(0, why.find('\n'))), "RANK, or RANK:ALPHA:TARGET,TARGET, as --lora of reef-train");
  }
}

/// Reads the network as reef-train --network does, but that it says how many ranks there are. It stands in the case, or in
/// a file that the case names.
void read_network(RecipeCase& to, const io::Json& test, const std::string& file) {
  const io::Json& given = test["network"];
  if (!given.is_object() && !given.is_string())
    refuse(file, "'network' is no object and no file's name", "{ranks, latency_ms, bandwidth_gbps}, or the file that reef-measure wrote");
  const bool is_apart = given.is_string();
  const std::string source = is_apart ? given.get<std::string>() : file, at = is_apart ? "" : "network";
  const io::Json read = is_apart ? io::read_json(source) : test;
  io::require_object(read, "", source);
  const std::optional<int> ranks = comm::ranks_of_network(read, at, source);
  if (!ranks) refuse(source, concat("'", is_apart ? "" : "network.", "ranks' is missing"), "say how many ranks there are, or give matrices");
  if (*ranks < 1 || *ranks > 256) refuse(source, concat("network has ", *ranks, " ranks"), "1 to 256");
  to.ranks = *ranks;
  to.network = comm::links_from_json(read, at, source, to.ranks);
}

/// Refuses speeds of uneven devices, which would be read as those of even ones.
void refuse_uneven(const io::Json& test, const io::Json& device, const std::string& file) {
  const char* const fix =
      "\"device\": {\"flops\": that of the slowest}; what uneven devices are worth reef-plan op-fence plans, and "
      "reef-train --recipe dtfm --layout op-fence --network, with --device-memory N,N,... by rank";
  for (const char* const key : {"device_flops", "model_flops", "device_memory_gbps"}) {
    if (test.contains(key))
      refuse(file, concat("'", key, "' has speeds of each device, and here all devices are alike"), fix);
  }
  for (const char* const key : {"flops", "memory_bytes", "memory_gbps", "link_gbps"}) {
    if (!device.contains(key) || !device[key].is_array()) continue;
    refuse(file, concat("'device.", key, "' must be a number, not one for each device: here all devices are alike"),
           std::string_view(key) == "flops" ? fix : concat("\"device\": {\"", key, "\": the least of all}; unequal devices reef-plan op-fence takes (cap, speed), and "
                                                          "reef-train --layout op-fence, with --device-memory N,N,... by rank"));
  }
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

void read_accumulation(RecipeCase& to, const std::string& text, const std::string& file) {
  if (text == "fixed") return;
  to.adapts = true;
  if (text == "adaptive") return;
  to.most = text.starts_with("cap:") ? parse_number<int>(std::string_view(text).substr(4)).value_or(0) : 0;
  if (to.most < 1 || to.most > 65536) refuse(file, "accumulate is " + in_quotes(text), "fixed, adaptive or cap:M, with M from 1 to 65536");
}

/// As --pipeline of reef-train.
void check_pipeline(const std::string& name, const std::string& file) {
  std::vector<std::string_view> names = plan::pipeline_schedule_names();
  names.emplace_back("searched");
  if (std::find(names.begin(), names.end(), name) != names.end()) return;
  std::string known;
  for (const std::string_view one : names) known += concat(known.empty() ? "" : ", ", one);
  refuse(file, "pipeline is " + in_quotes(name), "one of " + known);
}

/// What reef-train would be told by options of those names.
void read_recipe(RecipeCase& to, const io::Json& test, const std::string& file) {
  to.recipe = io::require<std::string>(test, "recipe", file);
  static_cast<void>(recipe_named(to.recipe, file));
  const auto only_of = [&](std::initializer_list<const char*> keys, std::initializer_list<const char*> recipes) {
    for (const char* const key : keys) {
      if (!test.contains(key) || std::find(recipes.begin(), recipes.end(), to.recipe) != recipes.end()) continue;
      refuse(file, concat("'", key, "' is not of recipe ", to.recipe), "leave it out");
    }
  };
  only_of({"stages", "pipeline", "layout", "unit", "rank_at", "one_mask", "adapt_ratios"}, {"dtfm", "fusion", "reef"});
  only_of({"sync_every", "fragments", "overlap"}, {"diloco", "sparse"});
  only_of({"accumulate"}, {"acco", "acco-wp", "dpu", "reef"});
  read_accumulation(to, io::value_or<std::string>(test, "accumulate", "fixed", file), file);
  to.stages = io::value_or<int>(test, "stages", is_spread(to.recipe) ? to.ranks : 1, file);
  if (to.stages < 1 || to.ranks % to.stages != 0) {
    refuse(file, concat("there are ", to.stages, " stages on ", to.ranks, to.ranks == 1 ? " rank" : " ranks"), "a divisor of the ranks");
  }
  to.pipeline = io::value_or<std::string>(test, "pipeline", to.pipeline, file);
  check_pipeline(to.pipeline, file);
  to.layout = io::value_or<std::string>(test, "layout", to.recipe == "fusion" ? "op-fence" : to.layout, file);
  if (to.layout != "balanced" && to.layout != "op-fence") refuse(file, "layout is " + in_quotes(to.layout), "balanced or op-fence");
  to.unit = io::value_or<int>(test, "unit", to.unit, file);
  if (to.unit < 0 || to.unit > 65536) refuse(file, concat("unit is ", to.unit), "micro-batches, 0 for all of a step, to 65536");
  to.rank_at = io::value_or<std::vector<int>>(test, "rank_at", {}, file);
  if (!to.rank_at.empty()) {
    const std::set<int> all(to.rank_at.begin(), to.rank_at.end());
    const auto ranks = static_cast<std::size_t>(to.ranks);
    if (to.rank_at.size() != ranks || all.size() != ranks || *all.begin() != 0 || *all.rbegin() != to.ranks - 1) {
      refuse(file, "'rank_at' is no order of the ranks", "each rank once, stage by stage of each replica");
    }
  }
  const io::Json codecs = io::value_or<io::Json>(test, "compress", io::Json::object(), file);
  if (!codecs.is_object()) refuse(file, "'compress' is no object", "{\"gradients\": \"ef+top-k:100\"}");
  constexpr std::array<std::string_view, 6> encoded{"ddp", "zero1", "acco", "dtfm", "fusion", "reef"};
  if (!codecs.empty() && std::find(encoded.begin(), encoded.end(), to.recipe) == encoded.end()) {
    refuse(file, concat("recipe ", to.recipe, " has 'compress'"),
           to.recipe == "sparse" ? "leave it out: it has a codec of its own" : "recipe ddp, zero1, acco, dtfm, fusion or reef");
  }
  for (const auto& [channel, codec] : codecs.items()) {
    constexpr std::array<std::string_view, 4> channels{"activations", "activation-gradients", "gradients", "parameters"};
    if (std::find(channels.begin(), channels.end(), channel) == channels.end()) {
      refuse(file, concat("compress has the channel ", in_quotes(channel)), "activations, activation-gradients, gradients or parameters");
    }
    if (!codec.is_string()) refuse(file, concat("compress.", channel, " is no text"), "a codec, as top-k:10");
    to.compress[channel] = codec.get<std::string>();
    if (channel.starts_with("activation") && !is_spread(to.recipe)) {
      refuse(file, concat("compress has ", channel, ", which are between stages"), "recipe dtfm, fusion or reef");
    }
  }
  to.one_mask = io::value_or<bool>(test, "one_mask", false, file);
  to.adapt_ratios = io::value_or<bool>(test, "adapt_ratios", false, file);
  if (to.recipe == "fusion" || to.recipe == "reef") {
    to.compress.try_emplace("activations", "top-k:10");
    const codec::Chosen activations = codec::Chosen::of(to.compress["activations"]);
    const bool selects = activations && activations.takes_ratio();
    to.one_mask |= selects && !to.compress.contains("activation-gradients");
    to.adapt_ratios |= selects && to.ranks > 1;
  }
  const bool has_ratio = std::any_of(to.compress.begin(), to.compress.end(), [](const auto& channel) {
    const codec::Chosen chosen = codec::Chosen::of(channel.second);
    return channel.first.starts_with("activation") && chosen && chosen.takes_ratio();
  });
  if (to.adapt_ratios && !has_ratio) {
    refuse(file, "adapt_ratios is true, and no codec between stages has a ratio", "compress {\"activations\": \"top-k:10\"}");
  }
  to.sync_every = io::value_or<int>(test, "sync_every", to.sync_every, file);
  to.fragments = io::value_or<int>(test, "fragments", to.fragments, file);
  if (to.sync_every < 1 || to.sync_every > 1'000'000) refuse(file, concat("sync_every is ", to.sync_every), "1 to 1000000");
  if (to.fragments < 1 || to.fragments > std::min(to.sync_every, 256)) {
    refuse(file, concat("there are ", to.fragments, " fragments"), "1 to 256, and no more than sync_every");
  }
  to.overlap = io::value_or<std::string>(test, "overlap", to.overlap, file);
  if (to.overlap != "none" && to.overlap != "mix" && to.overlap != "eager") {
    refuse(file, concat("overlap is ", in_quotes(to.overlap)), "none, mix or eager");
  }
}

}  // namespace

profile::Network RecipeCase::links() const {
  profile::Network all = network.without_uplinks();
  if (!network.has_uplinks()) return all;
  const auto n = static_cast<std::size_t>(ranks);
  for (std::size_t cell = 0; cell < n * n; ++cell) {
    all.rates[cell] = std::min({all.rates[cell], network.uplinks[cell / n], network.downlinks[cell % n]});
  }
  return all;
}

std::string RecipeCase::accumulate() const {
  if (!adapts) return "fixed";
  return most == 0 ? "adaptive" : concat("cap:", most);
}

schedule::World RecipeCase::world(const profile::Profile& profile) const {
  schedule::World all = schedule::World::of(network);
  for (schedule::Machine& own : all.machines) {
    schedule::Machine machine = run::machine_of(profile);
    machine.uplink_bytes_per_second = own.uplink_bytes_per_second;
    machine.downlink_bytes_per_second = own.downlink_bytes_per_second;
    own = machine;
  }
  return all;
}

RecipeCase read_case(const io::Json& test, const std::string& file, CaseOf use) {
  const bool estimates = use == CaseOf::estimate;
  constexpr std::array<std::string_view, 13> of_plan{"model", "graph", "freeze", "lora", "micro_batches", "most_micro_batches", "device", "network", "allow", "ratio",
                                                     "vocabulary", "context", "batch"};
  constexpr std::array<std::string_view, 24> of_recipe{
      "vocabulary", "context", "batch",  "freeze",        "lora",
      "model",   "graph", "micro_batches", "device",   "network",      "recipe",     "stages",    "pipeline", "layout",     "unit",
      "rank_at", "compress",      "one_mask", "adapt_ratios", "sync_every", "fragments", "overlap",  "accumulate", "plan"};
  const io::Json device = test.contains("device") ? test["device"] : io::Json::object();
  refuse_uneven(test, device, file);
  if (use == CaseOf::plan) {
    io::require_known_keys(test, of_plan, file);
  } else {
    io::require_known_keys(test, std::span(of_recipe).first(of_recipe.size() - (estimates ? 0 : 1)), file);
  }
  RecipeCase result;
  if (test.contains("graph")) {
    read_graph(result, test, file);
  } else {
    result.model = model_of(test, file);
  }
  read_frozen(result, test, file);
  result.micro_batches = io::value_or<int>(test, "micro_batches", 1, file);
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
  if (use != CaseOf::plan) read_recipe(result, test, file);
  // What plan is asked for is shared by replicas.
  if (use == CaseOf::plan ? result.is_too_large(result.micro_batches) : result.is_too_large()) {
    const std::string size = result.has_graph() ? concat(result.graph->at("nodes").size(), " nodes") : concat(result.model.layers, " layers");
    refuse(file,
           concat(size, ", ", result.micro_batches, " micro-batches and ", result.ranks, result.ranks == 1 ? " rank" : " ranks", " are too many together"),
           concat(result.has_graph() ? "(nodes / 10 + 2)" : "(layers + 2)", " x micro_batches x replicas of at most ", largest));
  }
  return result;
}

}  // namespace reef_examples
