#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/text.hpp>
#include <reef/graph/model_file.hpp>
#include <reef/io/known_keys.hpp>

namespace reef {
inline namespace v0 {
namespace graph::detail {

[[noreturn]] inline void refuse_model(std::string_view source, std::string_view path, std::string_view what,
                                      std::string_view fix) {
  throw DecodeError("reef::graph: ", source, ": '", path, "' ", what, ".\n  fix: ", fix, ".");
}

/// The names of a model file, each once: which node makes which tensor.
class ModelNames {
public:
  static constexpr int outside = -1;  ///< the maker of an input

  explicit ModelNames(std::string_view source) : source_(source) {}

  [[nodiscard]] std::string_view source() const { return source_; }

  /// Adds a node. Throws DecodeError where another has its name.
  void add_node(const std::string& name, int n, const std::string& path) {
    const auto [other, is_new] = nodes_.try_emplace(name, n);
    if (is_new) return;
    refuse_model(source_, path, concat("is ", in_quotes(name), ", as nodes.", other->second, ".name is"),
                 "a name of its own for each node");
  }

  /// Adds a tensor. Throws DecodeError where something else makes it, too.
  void add_tensor(const std::string& name, int maker, const std::string& path) {
    const auto [other, is_new] = makers_.try_emplace(name, Maker{maker, path});
    if (is_new) return;
    refuse_model(source_, path, concat("is ", in_quotes(name), ", which ", other->second.path, " is too"),
                 "a name of its own for each tensor, and for each node");
  }

  [[nodiscard]] bool has_tensor(const std::string& name) const { return makers_.contains(name); }

  /// The node that makes a tensor, `outside`, or nothing. A name such as "split.1" is of the node "split", which has
  /// no names for its outputs.
  [[nodiscard]] std::optional<int> maker_of(const std::string& name, const std::vector<NodeEntry>& nodes) const {
    if (const auto found = makers_.find(name); found != makers_.end()) return found->second.node;
    const std::size_t dot = name.rfind('.');
    if (dot == std::string::npos || dot + 1 == name.size()) return std::nullopt;
    if (name.find_first_not_of("0123456789", dot + 1) != std::string::npos) return std::nullopt;
    const auto node = nodes_.find(name.substr(0, dot));
    if (node == nodes_.end()) return std::nullopt;
    const auto n = static_cast<std::size_t>(node->second);
    return nodes[n].outputs.empty() ? std::optional(node->second) : std::nullopt;
  }

  /// Throws DecodeError for a tensor that nothing makes, with the name that is nearest.
  [[noreturn]] void refuse_unknown(std::string_view path, const std::string& name,
                                   const std::vector<NodeEntry>& nodes) const {
    std::vector<std::string_view> known;
    for (const auto& [tensor, maker] : makers_) known.push_back(tensor);
    const std::string_view nearest = io::detail::nearest_key(name, known);
    const auto node = nodes_.find(name);  // whose outputs have other names
    const std::string fix =
        node != nodes_.end()
            ? concat("the name of an output of that node, as ",
                     in_quotes(nodes[static_cast<std::size_t>(node->second)].outputs.front()))
            : std::string("the name of an input of the graph, of a node of one output, or of an output");
    refuse_model(source_, path,
                 concat("is ", in_quotes(name), ", and there is no such tensor",
                        nearest.empty() ? "" : concat("; perhaps ", in_quotes(nearest), " is meant")),
                 fix);
  }

private:
  struct Maker {
    int node = outside;
    std::string path{};
  };

  std::string_view source_;
  std::map<std::string, Maker, std::less<>> makers_{};  // by tensor
  std::map<std::string, int, std::less<>> nodes_{};
};

}  // namespace graph::detail
}  // namespace v0
}  // namespace reef
