#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include <reef/core/units.hpp>
#include <reef/graph/chain.hpp>
#include <reef/graph/crossing.hpp>
#include <reef/plan/partition_chain.hpp>
#include <reef/profile/profile.hpp>
#include <reef/run/step_plan.hpp>

namespace reef {
inline namespace v0 {
namespace swap::detail {

/// Partitions of a model, each with 0 and the number of nodes: the best of plan::partition_chain for this
/// memory and for less, since its rules do not count what is kept between forward and backward, and for
/// more micro-batches, whose best has other cuts; and cuts behind as many parameters each. One segment
/// alone is tried where there is nothing else.
std::set<std::vector<int>> cuts_to_try(const graph::Dag& dag,
                                       const profile::Profile& profile, Bytes memory,
                                       std::int64_t accumulation);

/// Bounds without `part` of `parts` of those that more than the mean crosses, which are left out evenly.
std::vector<int> thinned(const graph::Dag& dag, const std::vector<int>& cuts, int part,
                         int parts);

}  // namespace swap::detail
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swap/detail/cuts_to_try.ipp>
#endif
