#pragma once

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <utility>

#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/graph/placed_dag.hpp>
#include <reef/io/known_keys.hpp>

namespace reef {
inline namespace v0 {
namespace graph {

namespace detail {

/// The steps of placed_dag_from_json. Members are named by their dotted paths.
class PlacedDagReader {
public:
  PlacedDagReader(const io::Json& json, std::string_view source) : json_(json), source_(source) {}

  PlacedDag run() && {
    require_keys(json_, {"ranks", "inputs", "nodes", "parameters", "loss"}, "");
    model_.ranks = static_cast<int>(number("ranks", 1, max_placed_ranks));
    read_parameters();
    const Entries inputs = entries("inputs");
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const auto [name, spec] = tensor(inputs[i], concat("inputs.", i));
      ids_[name] = model_.dag.add_input(name, spec);
    }
    nodes_ = entries("nodes");
    require_at_most("nodes", nodes_.size(), max_placed_nodes, "nodes");
    for (std::size_t n = 0; n < nodes_.size(); ++n) read_node(n);
    read_loss();
    return std::move(model_);
  }

private:
  using Entries = std::vector<io::Json>;
  using Names = std::vector<std::string>;
  using Paths = std::map<std::string, std::string, std::less<>>;  // by name: where it was given

  [[noreturn]] void refuse(std::string_view path, std::string_view what,
                           std::string_view fix) const {
    throw DecodeError("reef::graph: ", source_, ": '", path, "' ", what, ".\n  fix: ", fix, ".");
  }
  void require_at_most(std::string_view path, std::size_t is, std::size_t most,
                       std::string_view of) const {
    if (is <= most) return;
    refuse(path, concat("makes ", is, " ", of, ", at most ", most, " in all"), "a smaller model");
  }
  void require_keys(const io::Json& object, std::initializer_list<std::string_view> known,
                    std::string_view at) const {
    io::require_object(object, at, source_);
    io::require_known_keys(object, {known.begin(), known.size()}, source_, at);
  }

  [[nodiscard]] Entries entries(const std::string& path) const {
    return io::require<Entries>(json_, path, source_);
  }
  [[nodiscard]] Names names(const std::string& path) const {
    return io::require<Names>(json_, path, source_);
  }
  [[nodiscard]] std::int64_t number(const std::string& path, std::int64_t least,
                                    std::int64_t most) const {
    const auto value = io::require<std::int64_t>(json_, path, source_);
    if (value < least || value > most) {
      refuse(path, concat("is ", value), concat("a whole number from ", least, " to ", most));
    }
    return value;
  }

  /// A name that no other of its sort has.
  std::string new_name(const std::string& path, Paths& others) {
    auto name = io::require<std::string>(json_, path, source_);
    if (name.empty() || name.size() > max_placed_name) {
      refuse(path, concat("has ", name.size(), " bytes"), concat("from 1 to ", max_placed_name));
    }
    const auto [other, is_new] = others.try_emplace(name, path);
    if (!is_new) {
      refuse(path, concat("is ", in_quotes(name), ", as ", other->second, " is"),
             "a name of its own for each");
    }
    longest_name_ = (std::max)(longest_name_, name.size());
    return name;
  }

  [[nodiscard]] std::int64_t bytes_of_floats(const std::string& path) const {
    const std::int64_t bytes = number(path, 1, max_placed_bytes);
    if (bytes % 4 != 0)
      refuse(path, concat("is ", bytes), "a multiple of 4, since floats are fp32");
    return bytes;
  }

  std::pair<std::string, TensorSpec> tensor(const io::Json& object, const std::string& path) {
    require_keys(object, {"name", "bytes", "kind"}, path);
    std::string name = new_name(path + ".name", tensors_);
    require_at_most(path, tensors_.size(), max_placed_tensors, "tensors");
    const auto kind = io::require<std::string>(json_, path + ".kind", source_);
    if (kind == "float") {
      return {std::move(name), {{bytes_of_floats(path + ".bytes") / 4}, Element::float32}};
    }
    if (kind != "int") {
      refuse(path + ".kind", concat("is ", in_quotes(kind)), "float or int");
    }
    const std::int64_t bytes = number(path + ".bytes", 1, max_placed_bytes);
    if (bytes % 4 != 0) return {std::move(name), {{bytes}, Element::uint8}};
    return {std::move(name), {{bytes / 4}, Element::int32}};
  }

  void read_parameters() {
    if (!json_.contains("parameters")) return;
    const Entries parameters = entries("parameters");
    for (std::size_t p = 0; p < parameters.size(); ++p) {
      const std::string path = concat("parameters.", p);
      require_keys(parameters[p], {"name", "bytes"}, path);
      const std::string name = new_name(path + ".name", parameters_);
      elements_[name] = bytes_of_floats(path + ".bytes") / 4;
    }
  }

  void read_node(std::size_t n) {
    const std::string path = concat("nodes.", n);
    require_keys(nodes_[n], {"name", "rank", "inputs", "outputs", "parameters"}, path);
    std::string name = new_name(path + ".name", node_names_);
    model_.rank_of_node.push_back(static_cast<int>(number(path + ".rank", 0, model_.ranks - 1)));

    std::vector<int> inputs;
    const Names input_names = names(path + ".inputs");
    readings_ += input_names.size();
    require_at_most(path + ".inputs", readings_, max_placed_readings, "readings");
    for (std::size_t i = 0; i < input_names.size(); ++i) {
      const auto known = ids_.find(input_names[i]);
      if (known == ids_.end()) refuse_unknown(n, i, input_names[i]);
      inputs.push_back(known->second);
    }

    Signature signature;
    Names parameters;
    if (nodes_[n].contains("parameters")) parameters = names(path + ".parameters");
    readings_ += parameters.size();
    require_at_most(path + ".parameters", readings_, max_placed_readings, "readings");
    for (std::size_t p = 0; p < parameters.size(); ++p) {
      const auto known = elements_.find(parameters[p]);
      const std::string at = concat(path, ".parameters.", p);
      if (known == elements_.end()) {
        refuse(at, concat("is ", in_quotes(parameters[p]), ", which 'parameters' does not have"),
               "name it there, with its bytes");
      }
      const auto before = parameters.begin() + static_cast<std::ptrdiff_t>(p);
      if (std::find(parameters.begin(), before, parameters[p]) != before) {
        refuse(at, concat("is ", in_quotes(parameters[p]), " once more"), "each once in a node");
      }
      signature.parameters.push_back({parameters[p], {known->second}, Init::zeros(), false});
    }

    Names output_names;
    const Entries outputs = entries(path + ".outputs");
    for (std::size_t o = 0; o < outputs.size(); ++o) {
      auto [output, spec] = tensor(outputs[o], concat(path, ".outputs.", o));
      output_names.push_back(std::move(output));
      signature.outputs.push_back(spec);
    }

    // A node may be called as another's output is. Until outputs have their own names, theirs is one that is
    // longer than all that have been read.
    Dag& dag = model_.dag;
    const int id = dag.add_node(std::string(longest_name_ + 1, '?'), "node", std::move(inputs),
                                std::move(signature), std::move(parameters));
    dag.rename_node(id, std::move(name));
    for (std::size_t o = 0; o < output_names.size(); ++o) {
      const int output = dag.node_at(id).outputs[o];
      dag.rename(output, output_names[o]);
      ids_[output_names[o]] = output;
    }
  }

  /// Nothing before that node makes what it reads.
  [[noreturn]] void refuse_unknown(std::size_t reader, std::size_t input,
                                   const std::string& name) const {
    const std::string path = concat("nodes.", reader, ".inputs.", input);
    for (std::size_t n = reader; n < nodes_.size(); ++n) {
      const Entries outputs = entries(concat("nodes.", n, ".outputs"));
      for (std::size_t o = 0; o < outputs.size(); ++o) {
        if (!outputs[o].is_object() || outputs[o].value("name", io::Json()) != name) continue;
        refuse(path,
               concat("is ", in_quotes(name), ", which nodes.", n, n == reader ? " itself" : "",
                      " makes"),
               "nodes in topological order: each reads what stands before it");
      }
    }
    refuse(path, concat("is ", in_quotes(name), ", and there is no such tensor"),
           "the name of an input of the graph, or of an output of a node before");
  }

  void read_loss() {
    const auto name = io::require<std::string>(json_, "loss", source_);
    const auto is = [&](std::string_view what) {
      refuse("loss", concat("is ", in_quotes(name), ", ", what),
             "a float of 4 bytes that a node makes and none reads");
    };
    const auto found = ids_.find(name);
    if (found == ids_.end()) is("and there is no such tensor");
    const Tensor& tensor = model_.dag.tensor_at(found->second);
    if (tensor.producer < 0) is("an input of the graph");
    if (!is_real(tensor.spec.element)) is("which is of kind int");
    if (tensor.spec.shape.size() != 1) is(concat("which has ", tensor.spec.bytes(), " bytes"));
    if (!tensor.consumers.empty()) {
      is(concat("which the node ", in_quotes(model_.dag.node_at(tensor.consumers.front()).name),
                " reads"));
    }
    model_.dag.set_loss(found->second);
  }

  const io::Json& json_;
  std::string_view source_;
  PlacedDag model_{};
  Entries nodes_{};
  Paths tensors_{};
  Paths node_names_{};
  Paths parameters_{};
  std::map<std::string, int, std::less<>> ids_{};                // of tensors
  std::map<std::string, std::int64_t, std::less<>> elements_{};  // of parameters
  std::size_t longest_name_ = 0;
  std::size_t readings_ = 0;
};

}  // namespace detail

REEF_INLINE PlacedDag placed_dag_from_json(const io::Json& json, std::string_view source) {
  return detail::PlacedDagReader(json, source).run();
}

}  // namespace graph
}  // namespace v0
}  // namespace reef
