#pragma once

#include <reef/core/inline.hpp>
#include <reef/graph/registry.hpp>

namespace reef {
inline namespace v0 {
namespace graph::detail {

REEF_INLINE std::vector<std::string> parameter_names(const NodeEntry& node, const Signature& signature) {
  std::vector<std::string> names;
  std::string known;
  for (const ParameterSpec& parameter : signature.parameters) {
    const auto entry = node.parameters.find(parameter.name);
    const bool is_named = entry != node.parameters.end() && !entry->second.name.empty();
    names.push_back(is_named ? entry->second.name : concat(node.name, ".", parameter.name));
    known += concat(known.empty() ? "" : ", ", parameter.name);
  }
  for (const auto& [own, entry] : node.parameters) {
    if (std::ranges::find(signature.parameters, own, &ParameterSpec::name) != signature.parameters.end()) continue;
    throw ShapeError("reef::graph: the node '", node.name, "' of kind ", node.kind, " has no parameter ",
                     in_quotes(own), ".\n  fix: ", known.empty() ? "leave 'parameters' out: it has none" : known, ".");
  }
  return names;
}

REEF_INLINE void refuse_kind(std::string_view name, std::string_view source,
                             const std::vector<std::string_view>& known) {
  std::string all;
  for (const std::string_view kind : known) all += concat(all.empty() ? "" : ", ", kind);
  const std::string_view nearest = io::detail::nearest_key(name, known);
  throw DecodeError("reef::graph: ", source, ": there is no operator of kind ", in_quotes(name),
                    nearest.empty() ? "." : concat("; did you mean ", in_quotes(nearest), "?"),
                    "\n  fix: one of ", all.empty() ? "none" : all,
                    "; or add yours: registry.add<MyOperator>().");
}

}  // namespace graph::detail
}  // namespace v0
}  // namespace reef
