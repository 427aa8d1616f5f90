#pragma once

#include <string_view>

#include <reef/core/text.hpp>
#include <reef/optim/decision.hpp>
#include <reef/optim/update.hpp>

namespace reef {
inline namespace v0 {
namespace optim::detail {

/// Adds the code of ReduceScatter, GatherGradients and GatherWeights.
template <class Handlers, class RankContext>
void add_collective_code(Handlers& handlers, const RankContext& context) {
  using Communication = typename Handlers::Communication;
  handlers.on_wire(kinds::reduce_scatter, [&context](const schedule::Instruction& i) -> Communication {
    return context.reduce_scatter(concat("gradients ", i.index), i);
  });
  const auto gather = [&]<class T>(std::string_view kind, const char* what, T) {
    handlers.on_wire(kind, [&context, what](const schedule::Instruction& i) -> Communication {
      return context.template all_gather<T>(concat(what, i.index), i);
    });
  };
  gather(kinds::gather_gradients, "gradients ", typename RankContext::sum_type{});
  gather(kinds::gather_weights, "weights ", typename RankContext::element_type{});
}

/// Adds the code of what SynchronousStep appends. It knows devices and ranks through the
/// RankContext alone, so that writing and simulating programs needs neither.
template <class Handlers, class RankContext, class Rule>
void add_synchronous_code(Handlers& handlers, const RankContext& context, Rule rule,
                          UpdateOptions options) {
  add_collective_code(handlers, context);
  add_decision_code(handlers, context, options);
  add_weigh_code(handlers, context, options);
  add_update_code(handlers, context, rule);
}

}  // namespace optim::detail
}  // namespace v0
}  // namespace reef
