#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <reef/core/finite.hpp>
#include <reef/core/text.hpp>
#include <reef/graph/detail/model_names.hpp>
#include <reef/graph/detail/sorted_nodes.hpp>
#include <reef/graph/model_file.hpp>
#include <reef/io/known_keys.hpp>

namespace reef {
inline namespace v0 {
namespace graph::detail {

/// The elements that an input may have, beside that of the graph.
inline constexpr std::array<Element, 5> input_elements{Element::int32, Element::uint8, Element::float32,
                                                       Element::float64, Element::bfloat16};

/// Reads what read_model gives. Members are named by their dotted paths.
class ModelReader {
public:
  ModelReader(const io::Json& json, std::string_view source) : json_(json), source_(source), names_(source) {}

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
      if (!names_.has_tensor(model_.loss)) names_.refuse_unknown("loss", model_.loss, model_.nodes);
    }
    sort_nodes(model_.nodes, names_);
    return std::move(model_);
  }

private:
  [[noreturn]] void refuse(std::string_view path, std::string_view what, std::string_view fix) const {
    refuse_model(source_, path, what, fix);
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
    if (!name.empty() && name.size() <= max_model_name) return name;
    refuse(path, concat("has ", name.size(), " bytes"), concat("from 1 to ", max_model_name));
  }
  [[nodiscard]] std::string name_at(const std::string& path) const {
    return checked(io::require<std::string>(json_, path, source_), path);
  }
  [[nodiscard]] std::vector<std::string> names_at(const std::string& path) const {
    auto names = io::require<std::vector<std::string>>(json_, path, source_);
    if (names.size() > max_node_inputs) {
      refuse(path, concat("has ", names.size(), " names"), concat("at most ", max_node_inputs));
    }
    for (std::size_t i = 0; i < names.size(); ++i) names[i] = checked(std::move(names[i]), concat(path, ".", i));
    return names;
  }

  void read_inputs() {
    const std::size_t count = entries("inputs", max_model_inputs);
    for (std::size_t i = 0; i < count; ++i) {
      const std::string path = concat("inputs.", i);
      require_keys(json_["inputs"][i], {"name", "shape", "element", "differentiable"}, path);
      InputEntry input;
      input.name = name_at(path + ".name");
      input.shape = shape_at(path + ".shape");
      if (json_["inputs"][i].contains("element")) input.element = element_at(path + ".element");
      input.differentiable = io::value_or<bool>(json_, path + ".differentiable", false, source_);
      names_.add_tensor(input.name, ModelNames::outside, path + ".name");
      model_.inputs.push_back(std::move(input));
    }
  }

  [[nodiscard]] Shape shape_at(const std::string& path) const {
    const auto extents = io::require<std::vector<std::int64_t>>(json_, path, source_);
    std::int64_t elements = 1;
    bool fits = extents.size() <= Shape::max_rank;
    for (const std::int64_t extent : extents) {
      fits = fits && extent >= 1 && extent <= max_model_elements / elements;
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
    const std::size_t count = entries("nodes", max_model_nodes);
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
    names_.add_node(node.name, static_cast<int>(n), path + ".name");
    node.inputs = names_at(path + ".inputs");
    if (json.contains("attributes")) {
      node.attributes = json["attributes"];
      io::require_object(node.attributes, path + ".attributes", source_);
    }
    if (json.contains("outputs")) {
      node.outputs = names_at(path + ".outputs");
      for (std::size_t o = 0; o < node.outputs.size(); ++o) {
        names_.add_tensor(node.outputs[o], static_cast<int>(n), concat(path, ".outputs.", o));
      }
    }
    // Of several outputs the names follow from it, as NODE.0; which there are the operator says.
    if (node.outputs.empty()) names_.add_tensor(node.name, static_cast<int>(n), path + ".name");
    if (json.contains("parameters")) read_parameters(node, json["parameters"], path + ".parameters");
    if (json.contains("optimizer")) read_optimizer(node, path + ".optimizer");
  }

  // Own names may have dots, so members are not found by paths.
  void read_parameters(NodeEntry& node, const io::Json& json, const std::string& path) const {
    io::require_object(json, path, source_);
    for (const auto& [own, value] : json.items()) {
      const std::string at = concat(path, ".", own);
      require_keys(value, {"name", "init", "frozen"}, at);
      ParameterEntry& parameter = node.parameters[own];
      const auto source = concat(source_, ": '", at, "'");
      if (value.contains("name")) {
        parameter.name = checked(io::require<std::string>(value, "name", source), at + ".name");
      }
      if (value.contains("init")) parameter.init = init_of(value, source, at + ".init");
      if (value.contains("frozen")) parameter.frozen = io::require<bool>(value, "frozen", source);
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

  const io::Json& json_;
  std::string_view source_;
  ModelFile model_{};
  ModelNames names_;
};

}  // namespace graph::detail
}  // namespace v0
}  // namespace reef
