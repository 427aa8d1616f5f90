#pragma once

#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/graph/chain.hpp>
#include <reef/graph/crossing.hpp>
#include <reef/graph/estimate.hpp>

namespace reef {
inline namespace v0 {
namespace graph {

REEF_INLINE void require_operators_of(const Dag& dag, const profile::Profile& profile) {
  profile.validate();
  const auto refuse = [](const std::string& why) {
    throw OptionError("reef::graph: the profile is of another model: ", why,
                      ".\n  fix: measure this one, or estimate it.");
  };
  if (static_cast<int>(profile.operators.size()) != dag.node_count()) {
    refuse(concat("it has ", profile.operators.size(), " operators, the model ", dag.node_count()));
  }
  for (int n = 0; n < dag.node_count(); ++n) {
    const Node& node = dag.node_at(n);
    const profile::OperatorProfile& entry = profile.operators[static_cast<std::size_t>(n)];
    const profile::OperatorProfile own = detail::identity_of(dag, node);
    if (entry.name == own.name && entry.kind == own.kind &&
        entry.parameter_bytes == own.parameter_bytes &&
        entry.gradient_bytes == own.gradient_bytes && entry.output_bytes == own.output_bytes) {
      continue;
    }
    refuse(concat("its operator ", n, " is ", entry.kind, " '", entry.name, "' with ",
                  entry.parameter_bytes, " bytes of parameters, ", entry.gradient_bytes,
                  " of gradients and ", entry.output_bytes, " of outputs, the model's ", own.kind,
                  " '", own.name, "' with ", own.parameter_bytes, ", ", own.gradient_bytes, " and ",
                  own.output_bytes));
  }
}

REEF_INLINE void require_profile_of(const Dag& dag, const profile::Profile& profile) {
  require_operators_of(dag, profile);
  const profile::Profile own = workload(dag);
  for (std::size_t n = 0; n < own.operators.size(); ++n) {
    const profile::OperatorProfile& theirs = profile.operators[n];
    const profile::OperatorProfile& ours = own.operators[n];
    if (theirs.saved_bytes == ours.saved_bytes && theirs.forward_flops == ours.forward_flops &&
        theirs.backward_flops == ours.backward_flops) {
      continue;
    }
    throw OptionError("reef::graph: the profile is of another model: its operator ", n, ", '",
                      theirs.name, "', saves ", theirs.saved_bytes, " bytes and computes ",
                      theirs.forward_flops, " and ", theirs.backward_flops,
                      " operations, the model's ", ours.saved_bytes, ", ", ours.forward_flops,
                      " and ", ours.backward_flops, ".\n  fix: measure this one, or estimate it.");
  }
}

REEF_INLINE plan::OperatorChain chain_of(const Dag& dag, const profile::Profile& profile,
                                 const ChainOptions& options) {
  require_operators_of(dag, profile);
  const auto ticks = [](Seconds seconds) {
    return static_cast<plan::Ticks>(std::llround(seconds * 1e9));
  };
  plan::OperatorChain chain;
  for (int n = 0; n < dag.node_count(); ++n) {
    const profile::OperatorProfile& entry = profile.operators[static_cast<std::size_t>(n)];
    const double gradients =
        entry.parameter_bytes > 0
            ? static_cast<double>(entry.gradient_bytes) / static_cast<double>(entry.parameter_bytes)
            : 0;
    const plan::Ticks load = ticks(entry.load_s);
    const plan::Ticks back = options.writes_back ? load : 0;
    chain.operators.push_back({.name = entry.name,
                               .weights = entry.parameter_bytes,
                               .gradients = entry.gradient_bytes,
                               .forward_workspace = entry.forward_set_bytes,
                               .backward_workspace = entry.backward_set_bytes,
                               .forward = ticks(entry.forward_s),
                               .backward = ticks(entry.backward_s),
                               .load = load,
                               .leave_forward = back,
                               .leave_backward = back + ticks(entry.load_s * gradients)});
  }
  chain.cut = crossing_bytes(dag);
  chain.validate();
  return chain;
}

}  // namespace graph
}  // namespace v0
}  // namespace reef
