#pragma once

#include <algorithm>
#include <concepts>
#include <functional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <reef/core/element.hpp>
#include <reef/core/error.hpp>
#include <reef/core/text.hpp>
#include <reef/device/concept.hpp>
#include <reef/graph/attribute.hpp>
#include <reef/graph/detail/attribute_json.hpp>
#include <reef/graph/graph.hpp>
#include <reef/graph/model_file.hpp>
#include <reef/graph/operator.hpp>
#include <reef/io/json.hpp>
#include <reef/io/known_keys.hpp>

namespace reef {
inline namespace v0 {
namespace graph {

/// The description of an attribute of an operator that a model file can set, for tables and error messages.
struct AttributeEntry {
  std::string name;
  std::string type;       ///< name of the value's type, such as "integer"
  std::string otherwise;  ///< default value, as JSON; empty: a file must give the attribute
  std::string about;
};

namespace detail {

/// Returns the names of a node's parameters in the graph, some of which a model file gives. Throws ShapeError for a
/// parameter that the operator does not have.
std::vector<std::string> parameter_names(const NodeEntry& node, const Signature& signature);

[[noreturn]] void refuse_kind(std::string_view name, std::string_view source,
                              const std::vector<std::string_view>& known);

}  // namespace detail

/// The set of operators that a model file can name, by their kinds.
///
///     make:           a node's attributes, as JSON -> the operator
///     to_attributes:  the operator -> its attributes, as JSON
///
/// | add<Op>()            | for an operator whose attributes are members (described_operator), or which has none |
/// | add<Op>(make, to_attributes) | for any other: make(attributes, source) throws DecodeError for JSON that it  |
/// |                      | cannot read                                                                          |
/// | state                | plain data; one registry serves any number of readers                                |
/// | errors               | OptionError for a kind that is registered already, or that is empty                  |
///
/// \code
/// struct Twice {
///   static constexpr std::string_view kind = "Twice";
///   graph::Signature signature(const auto& call) const {
///     graph::Signature result;
///     result.outputs = {call.inputs[0]};
///     return result;
///   }
///   void forward(const auto& call) const { call.output(0).data()[0] = 2 * call.input(0).data()[0]; }
///   void backward(const auto& call) const {
///     call.input_gradient(0).data()[0] = 2 * call.output_gradient(0).data()[0];
///   }
/// };
/// graph::Registry<device::Host, float> registry;
/// registry.add<Twice>();
/// \endcode
template <device::device Device, real T>
class Registry {
public:
  using Graph = graph::Graph<Device, T>;
  using Ref = typename Graph::Ref;

  /// One kind of operator: its name, its attributes, and how it is read and written.
  struct Kind {
    std::string name;
    std::vector<AttributeEntry> attributes{};
    /// A function that constructs the operator that a node of a file describes, and adds it to a graph. Error messages
    /// name `source`.
    std::function<std::vector<Ref>(Graph&, const NodeEntry&, std::string_view source, const std::vector<Ref>& inputs)>
        add{};
    /// A function that returns the attributes of a node's operator, without those that have their defaults; null if the
    /// operator has another type.
    std::function<io::Json(const Graph&, int node)> attributes_of{};
  };

  /// Adds a kind of operator that lists its attributes (described_operator), or has none.
  template <operator_for<Device, T> Op>
    requires std::default_initializable<Op>
  void add() {
    std::vector<AttributeEntry> entries;
    if constexpr (described_operator<Op>) {
      for_each<Op>([&](const auto& attribute) {
        using Value = std::remove_cvref_t<decltype(Op{}.*attribute.member)>;
        entries.push_back({std::string(attribute.name), detail::type_name<Value>(),
                           attribute.required ? "" : detail::attribute_json(Op{}.*attribute.member).dump(),
                           std::string(attribute.about)});
      });
    }
    enter<Op>(std::move(entries), read<Op>, write<Op>);
  }

  /// Adds a kind of operator that `make` constructs from JSON, and whose attributes `to_attributes` writes as JSON.
  template <operator_for<Device, T> Op, std::invocable<const io::Json&, std::string_view> Make,
            std::invocable<const Op&> Write>
  void add(Make make, Write to_attributes, std::vector<AttributeEntry> entries = {}) {
    enter<Op>(std::move(entries), std::move(make), std::move(to_attributes));
  }

  /// Returns the registered kinds of operators, in the order of their names. They live as long as the registry.
  [[nodiscard]] const std::vector<Kind>& kinds() const& { return kinds_; }
  void kinds() const&& = delete;

  /// Returns the kind of operator of that name. Throws DecodeError, with the names of all kinds, if there is none.
  [[nodiscard]] const Kind& kind(std::string_view name, std::string_view source) const& {
    const auto found = find(name);
    if (found != kinds_.end() && found->name == name) return *found;
    std::vector<std::string_view> known;
    for (const Kind& kind : kinds_) known.push_back(kind.name);
    detail::refuse_kind(name, source, known);
  }
  void kind(std::string_view, std::string_view) const&& = delete;

private:
  [[nodiscard]] auto find(std::string_view name) const {
    return std::lower_bound(kinds_.begin(), kinds_.end(), name,
                            [](const Kind& kind, std::string_view other) { return kind.name < other; });
  }

  template <class Op, class Visit>
  static void for_each(const Visit& visit) {
    std::apply([&](const auto&... each) { (visit(each), ...); }, Op::attributes());
  }

  template <class Op>
  static Op read(const io::Json& attributes, std::string_view source) {
    Op op{};
    std::vector<std::string_view> known;
    if constexpr (described_operator<Op>) {
      for_each<Op>([&](const auto& attribute) { known.push_back(attribute.name); });
    }
    io::require_known_keys(attributes, known, source, "attributes");
    if constexpr (described_operator<Op>) {
      for_each<Op>([&](const auto& attribute) {
        if (!attribute.required && !attributes.contains(attribute.name)) return;
        detail::read_attribute(attributes, attribute.name, source, op.*attribute.member);
      });
    }
    return op;
  }

  template <class Op>
  static io::Json write(const Op& op) {
    io::Json json = io::Json::object();
    if constexpr (described_operator<Op>) {
      const Op usual{};
      for_each<Op>([&](const auto& attribute) {
        if (!attribute.required && op.*attribute.member == usual.*attribute.member) return;
        json[std::string(attribute.name)] = detail::attribute_json(op.*attribute.member);
      });
    }
    return json;
  }

  template <class Op, class Make, class Write>
  void enter(std::vector<AttributeEntry> entries, Make make, Write to_attributes) {
    const std::string_view name = Op::kind;
    const auto at = find(name);
    if (name.empty() || (at != kinds_.end() && at->name == name)) {
      throw OptionError("reef::graph::Registry: ", name.empty() ? "an operator has no kind" : "the kind ",
                        name.empty() ? "" : in_quotes(name), name.empty() ? "" : " is there already",
                        ".\n  fix: a kind of its own for each operator.");
    }
    Kind kind{std::string(name), std::move(entries)};
    kind.add = [make](Graph& graph, const NodeEntry& node, std::string_view source, const std::vector<Ref>& inputs) {
      Op op(make(node.attributes, concat(source, ": ", node.place, ", ", in_quotes(node.name))));
      std::vector<std::string> names;
      if (!node.parameters.empty()) names = detail::parameter_names(node, graph.signature(node.name, op, inputs));
      return graph.add(node.name, std::move(op), inputs, std::move(names));
    };
    kind.attributes_of = [to_attributes](const Graph& graph, int node) -> io::Json {
      const Op* const op = graph.template operator_as<Op>(node);
      return op == nullptr ? io::Json() : io::Json(to_attributes(*op));
    };
    kinds_.insert(at, std::move(kind));
  }

  std::vector<Kind> kinds_;
};

}  // namespace graph
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/graph/registry.ipp>
#endif
