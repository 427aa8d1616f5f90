#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <queue>
#include <span>
#include <utility>

#include <nlohmann/json.hpp>

#include <reef/core/error.hpp>
#include <reef/core/finite.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/graph/model_file.hpp>
#include <reef/io/known_keys.hpp>

namespace reef {
inline namespace v0 {
namespace graph {

namespace detail {

/// The elements that an input may have, beside that of the graph.
inline constexpr std::array<Element, 5> input_elements{Element::int32, Element::uint8, Element::float32,
                                                       Element::float64, Element::bfloat16};

/// The steps of read_model. Members are named by their dotted paths.
class ModelReader {
public:
  ModelReader(const io::Json& json, std::string_view source) : json_(json), source_(source) {}

  ModelFile run() && {
    io::require_object(json_, "", source_);
    require_keys(json_, {"version", "inputs", "nodes", "loss"}, "");
    if (const auto version = io::value_or<std::int64_t>(json_, "version", 1, source_); version != 1) {
      refuse("version", concat("is ", version), "1, or a newer Reef");
    }
    read_inputs();
    read_nodes();
    if (json_.contains("loss")) {
      model_.loss = name_at("loss");
      if (!makers_.contains(model_.loss)) refuse_unknown("loss", model_.loss);
    }
    sort();
    return std::move(model_);
  }

private:
  static constexpr int outside = -1;  // the maker of an input

  [[noreturn]] void refuse(std::string_view path, std::string_view what, std::string_view fix) const {
    throw DecodeError("reef::graph: ", source_, ": '", path, "' ", what, ".\n  fix: ", fix, ".");
  }

  void require_keys(const io::Json& object, std::initializer_list<std::string_view> known,
                    std::string_view at) const {
    io::require_object(object, at, source_);
    io::require_known_keys(object, {known.begin(), known.size()}, source_, at);
  }

  [[nodiscard]] std::size_t entries(const std::string& path, std::size_t most) const {
    const io::Json* const found = io::detail::find_at(json_, path, source_);
    if (found == nullptr || !found->is_array()) {
      refuse(path, found == nullptr ? "is missing" : "is no array", "an array of objects");
    }
    if (found->empty() || found->size() > most) {
      refuse(path, concat("has ", found->size(), " entries"), concat("from 1 to ", most));
    }
    return found->size();
  }

  [[nodiscard]] std::string checked(std::string name, const std::string& path) const {
    if (!name.empty() && name.size() <= most_model_name) return name;
    refuse(path, concat("has ", name.size(), " bytes"), concat("from 1 to ", most_model_name));
  }
  [[nodiscard]] std::string name_at(const std::string& path) const {
    return checked(io::require<std::string>(json_, path, source_), path);
  }
  [[nodiscard]] std::vector<std::string> names_at(const std::string& path) const {
    auto names = io::require<std::vector<std::string>>(json_, path, source_);
    if (names.size() > most_node_inputs) {
      refuse(path, concat("has ", names.size(), " names"), concat("at most ", most_node_inputs));
    }
    for (std::size_t i = 0; i < names.size(); ++i) names[i] = checked(std::move(names[i]), concat(path, ".", i));
    return names;
  }

  /// A tensor that nothing else makes.
  void add_tensor(const std::string& name, int maker, const std::string& path) {
    const auto [other, is_new] = makers_.try_emplace(name, Maker{maker, path});
    if (is_new) return;
    refuse(path, concat("is ", in_quotes(name), ", which ", other->second.path, " is too"),
           "a name of its own for each tensor, and for each node");
  }

  void read_inputs() {
    const std::size_t count = entries("inputs", most_model_inputs);
    for (std::size_t i = 0; i < count; ++i) {
      const std::string path = concat("inputs.", i);
      require_keys(json_["inputs"][i], {"name", "shape", "element", "differentiable"}, path);
      InputEntry input;
      input.name = name_at(path + ".name");
      input.shape = shape_at(path + ".shape");
      if (json_["inputs"][i].contains("element")) input.element = element_at(path + ".element");
      input.differentiable = io::value_or<bool>(json_, path + ".differentiable", false, source_);
      add_tensor(input.name, outside, path + ".name");
      model_.inputs.push_back(std::move(input));
    }
  }

  [[nodiscard]] Shape shape_at(const std::string& path) const {
    const auto extents = io::require<std::vector<std::int64_t>>(json_, path, source_);
    std::int64_t elements = 1;
    bool fits = extents.size() <= Shape::max_rank;
    for (const std::int64_t extent : extents) {
      fits = fits && extent >= 1 && extent <= most_model_elements / elements;
      if (fits) elements *= extent;
    }
    if (!fits) {
      refuse(path, concat("is ", io::Json(extents).dump().substr(0, 60)),
             concat("at most ", Shape::max_rank, " extents of 1 or more, and at most 2^40 elements"));
    }
    switch (extents.size()) {
      case 0: return {};
      case 1: return {extents[0]};
      case 2: return {extents[0], extents[1]};
      case 3: return {extents[0], extents[1], extents[2]};
      default: return {extents[0], extents[1], extents[2], extents[3]};
    }
  }

  [[nodiscard]] Element element_at(const std::string& path) const {
    const auto name = io::require<std::string>(json_, path, source_);
    std::string known;
    for (const Element element : input_elements) {
      if (name_of(element) == name) return element;
      known += concat(known.empty() ? "" : ", ", name_of(element));
    }
    refuse(path, concat("is ", in_quotes(name)), known + ", or leave it out: then it is the graph's");
  }

  void read_nodes() {
    const std::size_t count = entries("nodes", most_model_nodes);
    model_.nodes.resize(count);
    for (std::size_t n = 0; n < count; ++n) read_node(n);
  }

  void read_node(std::size_t n) {
    const std::string path = concat("nodes.", n);
    const io::Json& json = json_["nodes"][n];
    require_keys(json, {"name", "kind", "attributes", "inputs", "outputs", "parameters", "optimizer"}, path);
    NodeEntry& node = model_.nodes[n];
    node.place = path;
    node.name = name_at(path + ".name");
    node.kind = name_at(path + ".kind");
    const auto [other, is_new] = nodes_.try_emplace(node.name, static_cast<int>(n));
    if (!is_new) {
      refuse(path + ".name", concat("is ", in_quotes(node.name), ", as nodes.", other->second, ".name is"),
             "a name of its own for each node");
    }
    node.inputs = names_at(path + ".inputs");
    if (json.contains("attributes")) {
      node.attributes = json["attributes"];
      io::require_object(node.attributes, path + ".attributes", source_);
    }
    if (json.contains("outputs")) {
      node.outputs = names_at(path + ".outputs");
      for (std::size_t o = 0; o < node.outputs.size(); ++o) {
        add_tensor(node.outputs[o], static_cast<int>(n), concat(path, ".outputs.", o));
      }
    }
    // Of several outputs the names follow from it, as NODE.0; which there are the operator says.
    if (node.outputs.empty()) add_tensor(node.name, static_cast<int>(n), path + ".name");
    if (json.contains("parameters")) read_parameters(node, json["parameters"], path + ".parameters");
    if (json.contains("optimizer")) read_optimizer(node, path + ".optimizer");
  }

  // Own names may have dots, so members are not found by paths.
  void read_parameters(NodeEntry& node, const io::Json& json, const std::string& path) const {
    io::require_object(json, path, source_);
    for (const auto& [own, value] : json.items()) {
      const std::string at = concat(path, ".", own);
      require_keys(value, {"name", "init"}, at);
      ParameterEntry& parameter = node.parameters[own];
      const auto source = concat(source_, ": '", at, "'");
      if (value.contains("name")) {
        parameter.name = checked(io::require<std::string>(value, "name", source), at + ".name");
      }
      if (value.contains("init")) parameter.init = init_of(value, source, at + ".init");
    }
  }

  [[nodiscard]] Init init_of(const io::Json& parameter, std::string_view source, const std::string& path) const {
    const auto value = io::require<std::variant<double, std::string>>(parameter, "init", source);
    if (const auto* const deviation = std::get_if<double>(&value)) {
      if (within(*deviation, 0, 1e6)) return Init::normal(*deviation);
    } else {
      const auto& law = std::get<std::string>(value);
      if (law == "zeros") return Init::zeros();
      if (law == "ones") return Init::ones();
    }
    refuse(path, concat("is ", in_quotes(parameter["init"].dump())),
           "\"zeros\", \"ones\", or the deviation of normal numbers, from 0 to 1e6");
  }

  void read_optimizer(NodeEntry& node, const std::string& path) const {
    const io::Json& json = *io::detail::find_at(json_, path, source_);
    require_keys(json, {"rule", "learning_rate", "weight_decay"}, path);
    OperatorOptimizer& optimizer = node.optimizer.emplace();
    const auto number = [&](const char* key, double most) {
      const std::string at = concat(path, ".", key);
      const auto value = io::require<double>(json_, at, source_);
      if (!within(value, 0, most)) refuse(at, concat("is ", value), concat("a number from 0 to ", most));
      return value;
    };
    if (json.contains("rule")) optimizer.rule = name_at(path + ".rule");
    if (json.contains("learning_rate")) optimizer.learning_rate = number("learning_rate", 1000);
    if (json.contains("weight_decay")) optimizer.weight_decay = number("weight_decay", 1000);
  }

  /// The node that makes a tensor, `outside`, or nothing. A name such as "split.1" is of the node "split", which has
  /// no names for its outputs.
  [[nodiscard]] std::optional<int> maker_of(const std::string& name) const {
    if (const auto found = makers_.find(name); found != makers_.end()) return found->second.node;
    const std::size_t dot = name.rfind('.');
    if (dot == std::string::npos || dot + 1 == name.size()) return std::nullopt;
    if (name.find_first_not_of("0123456789", dot + 1) != std::string::npos) return std::nullopt;
    const auto node = nodes_.find(name.substr(0, dot));
    if (node == nodes_.end()) return std::nullopt;
    const auto n = static_cast<std::size_t>(node->second);
    return model_.nodes[n].outputs.empty() ? std::optional(node->second) : std::nullopt;
  }

  [[noreturn]] void refuse_unknown(std::string_view path, const std::string& name) const {
    std::vector<std::string_view> known;
    for (const auto& [tensor, maker] : makers_) known.push_back(tensor);
    const std::string_view nearest = io::detail::nearest_key(name, known);
    const auto node = nodes_.find(name);  // whose outputs have other names
    const std::string fix =
        node != nodes_.end()
            ? concat("the name of an output of that node, as ",
                     in_quotes(model_.nodes[static_cast<std::size_t>(node->second)].outputs.front()))
            : std::string("the name of an input of the graph, of a node of one output, or of an output");
    refuse(path,
           concat("is ", in_quotes(name), ", and there is no such tensor",
                  nearest.empty() ? "" : concat("; perhaps ", in_quotes(nearest), " is meant")),
           fix);
  }

  /// Each node behind those that it reads; else in the order of the file.
  void sort() {
    const std::size_t count = model_.nodes.size();
    std::vector<std::vector<std::size_t>> readers(count);
    std::vector<std::size_t> waits(count, 0);  // for so many readings
    std::vector<std::vector<int>> makers(count);
    for (std::size_t n = 0; n < count; ++n) {
      const NodeEntry& node = model_.nodes[n];
      for (std::size_t i = 0; i < node.inputs.size(); ++i) {
        const auto maker = maker_of(node.inputs[i]);
        if (!maker) refuse_unknown(concat(node.place, ".inputs.", i), node.inputs[i]);
        makers[n].push_back(*maker);
        if (*maker == outside) continue;
        readers[static_cast<std::size_t>(*maker)].push_back(n);
        ++waits[n];
      }
    }
    std::priority_queue<std::size_t, std::vector<std::size_t>, std::greater<>> next;
    for (std::size_t n = 0; n < count; ++n) {
      if (waits[n] == 0) next.push(n);
    }
    std::vector<std::size_t> order;
    while (!next.empty()) {
      const std::size_t n = next.top();
      next.pop();
      order.push_back(n);
      for (const std::size_t reader : readers[n]) {
        if (--waits[reader] == 0) next.push(reader);
      }
    }
    if (order.size() < count) refuse_cycle(makers, waits);
    std::vector<NodeEntry> sorted;
    sorted.reserve(count);
    for (const std::size_t n : order) sorted.push_back(std::move(model_.nodes[n]));
    model_.nodes = std::move(sorted);
  }

  /// Back from a node that waits, to one that waits too, until one comes again.
  [[noreturn]] void refuse_cycle(const std::vector<std::vector<int>>& makers,
                                 const std::vector<std::size_t>& waits) const {
    const auto is_waiting = [&](int n) { return n != outside && waits[static_cast<std::size_t>(n)] > 0; };
    std::vector<std::size_t> path;
    std::vector<char> met(waits.size(), 0);
    auto at = static_cast<std::size_t>(
        std::find_if(waits.begin(), waits.end(), [](std::size_t count) { return count > 0; }) - waits.begin());
    while (met[at] == 0) {
      met[at] = 1;
      path.push_back(at);
      at = static_cast<std::size_t>(*std::find_if(makers[at].begin(), makers[at].end(), is_waiting));
    }
    path.erase(path.begin(), std::find(path.begin(), path.end(), at));
    std::string cycle;
    constexpr std::size_t most = 8;
    for (std::size_t i = 0; i < (std::min)(path.size(), most); ++i) {
      cycle += in_quotes(model_.nodes[path[i]].name) + " reads ";
    }
    if (path.size() > most) cycle += "... reads ";
    cycle += in_quotes(model_.nodes[at].name);
    refuse(model_.nodes[at].place, concat("is in a cycle: ", cycle),
           "a node reads what does not follow from its own outputs");
  }

  struct Maker {
    int node = outside;
    std::string path{};
  };

  const io::Json& json_;
  std::string_view source_;
  ModelFile model_{};
  std::map<std::string, Maker, std::less<>> makers_{};  // by tensor
  std::map<std::string, int, std::less<>> nodes_{};
};

inline io::Json json_of_init(const Init& init) {
  if (init.law == Init::Law::normal) return init.scale;
  if (init.law == Init::Law::given) {
    throw OptionError("reef::graph: a parameter begins with given values, which a model file does not hold.\n"
                      "  fix: zeros, ones or normal numbers there; trained weights are in a checkpoint.");
  }
  return init.law == Init::Law::ones ? "ones" : "zeros";
}

inline io::Json json_of_node(const NodeEntry& node) {
  io::Json json{{"name", node.name}, {"kind", node.kind}, {"inputs", node.inputs}};
  if (!node.attributes.empty()) json["attributes"] = node.attributes;
  if (!node.outputs.empty()) json["outputs"] = node.outputs;
  for (const auto& [own, parameter] : node.parameters) {
    io::Json& entry = json["parameters"][own] = io::Json::object();
    if (!parameter.name.empty()) entry["name"] = parameter.name;
    if (parameter.init) entry["init"] = json_of_init(*parameter.init);
  }
  if (node.optimizer) {
    io::Json& entry = json["optimizer"] = {{"learning_rate", node.optimizer->learning_rate}};
    if (!node.optimizer->rule.empty()) entry["rule"] = node.optimizer->rule;
    if (node.optimizer->weight_decay) entry["weight_decay"] = *node.optimizer->weight_decay;
  }
  return json;
}

/// In one line, with the keys that come first in that order.
inline std::string line_of(const io::Json& json, std::span<const std::string_view> first) {
  nlohmann::ordered_json ordered = nlohmann::ordered_json::object();
  for (const std::string_view key : first) {
    if (json.contains(key)) ordered[std::string(key)] = json.at(std::string(key));
  }
  for (const auto& [key, value] : json.items()) ordered[key] = value;
  return ordered.dump();
}

}  // namespace detail

REEF_INLINE ModelFile read_model(const io::Json& json, std::string_view source) {
  return detail::ModelReader(json, source).run();
}

REEF_INLINE io::Json json_of(const ModelFile& model) {
  io::Json json{{"version", 1}, {"inputs", io::Json::array()}, {"nodes", io::Json::array()}};
  for (const InputEntry& input : model.inputs) {
    io::Json entry{{"name", input.name}, {"shape", io::Json::array()}};
    for (std::size_t axis = 0; axis < input.shape.rank(); ++axis) entry["shape"].push_back(input.shape[axis]);
    if (input.element) entry["element"] = name_of(*input.element);
    if (input.differentiable) entry["differentiable"] = true;
    json["inputs"].push_back(std::move(entry));
  }
  for (const NodeEntry& node : model.nodes) json["nodes"].push_back(detail::json_of_node(node));
  if (!model.loss.empty()) json["loss"] = model.loss;
  return json;
}

REEF_INLINE std::string text_of_model(const io::Json& json) {
  constexpr std::array<std::string_view, 4> first{"name", "kind", "inputs", "attributes"};
  std::string text = "{";
  for (const char* const key : {"version", "about"}) {
    if (json.contains(key)) text += concat("\"", key, "\": ", json.at(key).dump(), ",\n ");
  }
  for (const char* const key : {"inputs", "nodes"}) {
    text += concat("\"", key, "\": [");
    const io::Json& entries = json.at(key);
    for (std::size_t i = 0; i < entries.size(); ++i) {
      text += concat(i == 0 ? "\n  " : ",\n  ", detail::line_of(entries[i], first));
    }
    text += entries.empty() ? "]" : "\n ]";
    if (std::string_view(key) == "inputs" || json.contains("loss")) text += ",\n ";
  }
  if (json.contains("loss")) text += concat("\"loss\": ", json.at("loss").dump());
  return text + "}\n";
}

REEF_INLINE bool is_model(const io::Json& json) {
  const auto nodes = json.find("nodes");
  return nodes != json.end() && nodes->is_array() && !nodes->empty() && nodes->front().is_object() &&
         nodes->front().contains("kind");
}

}  // namespace graph
}  // namespace v0
}  // namespace reef
