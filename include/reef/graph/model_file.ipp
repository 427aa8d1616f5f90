#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <utility>

#include <nlohmann/json.hpp>

#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/graph/detail/model_reader.hpp>
#include <reef/graph/model_file.hpp>

namespace reef {
inline namespace v0 {
namespace graph {

namespace detail {

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
    if (parameter.frozen) entry["frozen"] = true;
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
