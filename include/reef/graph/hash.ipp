#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include <reef/core/hash.hpp>
#include <reef/core/inline.hpp>
#include <reef/graph/hash.hpp>

namespace reef {
inline namespace v0 {
namespace graph {

REEF_INLINE std::uint64_t hash_of(const Dag& dag) {
  Hash hash;
  for (const Node& node : dag.nodes) {
    hash.add(node.name).add(node.kind).add(node.signature.attributes).add(node.inputs.size());
    for (const int input : node.inputs) hash.add(input);
    for (const int use : node.uses) hash.add(dag.use_at(use).parameter);
  }
  for (const Parameter& parameter : dag.parameters) {
    hash.add(parameter.name).add(parameter.spec.element).add(parameter.decay);
    for (std::size_t axis = 0; axis < parameter.spec.shape.rank(); ++axis) {
      hash.add(parameter.spec.shape[axis]);
    }
    if (parameter.frozen) hash.add(std::string_view("frozen"));
  }
  if (dag.loss + 1 != static_cast<int>(dag.tensors.size())) hash.add(dag.loss);  // else it is what comes last
  return hash.value();
}

REEF_INLINE std::optional<std::uint64_t> hash_of_given(const Dag& dag) {
  Hash hash;
  bool any = false;
  for (const Parameter& parameter : dag.parameters) {
    if (parameter.init.law != Init::Law::given) continue;
    any = true;
    hash.add(parameter.name);
    for (std::int64_t i = 0; i < parameter.spec.shape.size(); ++i) hash.add((*parameter.init.values)(i));
  }
  return any ? std::optional(hash.value()) : std::nullopt;
}

}  // namespace graph
}  // namespace v0
}  // namespace reef
