#pragma once

#include <reef/core/text.hpp>
#include <reef/optim/decision.hpp>
#include <reef/optim/update.hpp>

namespace reef::inline v0::optim::detail {

/// Adds the code of ReduceScatter, GatherGradients and GatherWeights.
template <class Handlers, class Site>
void add_collective_code(Handlers& handlers, const Site& site) {
  using Communication = typename Handlers::Communication;
  const auto shards = [&site](const schedule::Instruction& i) {
    return site.plan().buckets[static_cast<std::size_t>(i.index)].shards;
  };
  handlers.on_wire("ReduceScatter",
                   [&site, shards](const schedule::Instruction& i) -> Communication {
                     return site.reduce_scatter(concat("gradients ", i.index), i.reads[0],
                                                i.writes[0], shards(i));
                   });
  const auto gather = [&]<class T>(const char* kind, const char* what, T) {
    handlers.on_wire(kind, [&site, shards, what](const schedule::Instruction& i) -> Communication {
      return site.template all_gather<T>(concat(what, i.index), site.template span<T>(i.reads[0]),
                                         site.template span<T>(i.writes[0]), shards(i));
    });
  };
  gather("GatherGradients", "gradients ", typename Site::sum_type{});
  gather("GatherWeights", "weights ", typename Site::element_type{});
}

/// Adds the code of what SynchronousStep appends. It knows devices and ranks through the Site alone, so
/// that writing and simulating programs needs neither.
template <class Handlers, class Site, class Rule>
void add_synchronous_code(Handlers& handlers, const Site& site, Rule rule, UpdateOptions options) {
  add_collective_code(handlers, site);
  add_decision_code(handlers, site, options);
  add_update_code(handlers, site, rule);
}

}  // namespace reef::inline v0::optim::detail
