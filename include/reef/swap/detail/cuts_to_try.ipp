#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include <reef/core/inline.hpp>
#include <reef/core/units.hpp>
#include <reef/graph/chain.hpp>
#include <reef/graph/crossing.hpp>
#include <reef/plan/partition_chain.hpp>
#include <reef/profile/profile.hpp>
#include <reef/run/step_plan.hpp>
#include <reef/swap/detail/cuts_to_try.hpp>

namespace reef {
inline namespace v0 {
namespace swap::detail {

REEF_INLINE std::set<std::vector<int>> cuts_to_try(const graph::Dag& dag,
                                              const profile::Profile& profile, Bytes memory,
                                              std::int64_t accumulation) {
  const int nodes = dag.node_count();
  std::set<std::vector<int>> all;
  Bytes parameters = 0;
  for (const graph::Parameter& parameter : dag.parameters) parameters += parameter.spec.bytes();
  for (const Bytes parts : {Bytes{2}, Bytes{4}, Bytes{8}, Bytes{16}}) {
    all.insert(run::choose_cuts(dag, parameters / parts + 1));
  }
  all.insert(run::choose_cuts(dag, 1));  // one where parameters are first used
  const plan::OperatorChain chain = graph::chain_of(dag, profile);
  const bool is_chain = nodes >= 2 && nodes <= plan::max_operators;
  for (int tried = 0; is_chain && tried < 8; ++tried, memory = memory / 3 * 2) {
    for (const std::int64_t more : {1, 2, 4}) {
      const plan::Partition best =
          plan::partition_chain(chain, {memory, more * accumulation, plan::Variant::soft, false});
      if (best.feasible) all.insert(best.bounds);
    }
  }
  if (all.size() > 1) all.erase({0, nodes});  // swaps nothing
  return all;
}

REEF_INLINE std::vector<int> thinned(const graph::Dag& dag, const std::vector<int>& cuts, int part,
                                int parts) {
  const std::vector<Bytes> crossing = graph::crossing_bytes(dag);
  const auto bytes_at = [&](int bound) { return crossing[static_cast<std::size_t>(bound)]; };
  Bytes sum = 0;
  for (const int bound : cuts) sum += bytes_at(bound);  // nothing crosses the ends
  std::vector<int> left;
  int heavy = 0;
  for (const int bound : cuts) {
    const bool is_heavy = bytes_at(bound) * (cuts.size() - 2) > sum;
    if (is_heavy) ++heavy;
    if (!is_heavy || heavy * part / parts == (heavy - 1) * part / parts) left.push_back(bound);
  }
  return left;
}

}  // namespace swap::detail
}  // namespace v0
}  // namespace reef
