#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <reef/core/element.hpp>
#include <reef/core/error.hpp>
#include <reef/core/units.hpp>
#include <reef/device/host.hpp>
#include <reef/graph/dag.hpp>
#include <reef/optim/concept.hpp>
#include <reef/optim/detail/visit_rule.hpp>
#include <reef/run/bucket.hpp>
#include <reef/run/step_plan.hpp>

namespace reef {
inline namespace v0 {
namespace optim {

/// A whole matrix for an update rule, with its gradient, its states and scratch memory. All are contiguous, row by row,
/// and on the device that runs the update.
template <class Device, real T>
struct MatrixUpdate {
  using E = sum_t<T>;

  typename Device::Lane& lane;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  T* weight = nullptr;
  /// Master weights (more precise), where weights are narrower than sums; the weights are these, rounded.
  E* master = nullptr;
  const E* gradient = nullptr;
  E scale = 1;                 ///< factor by which the update multiplies the gradient
  E* const* states = nullptr;  ///< the matrix's optimizer states, as many as the rule's matrix_states
  void* workspace = nullptr;   ///< scratch memory of the rule's matrix_workspace() bytes, aligned to 64 bytes
};

/// True if an update rule needs whole matrices (matrix_rule).
template <class R>
inline constexpr bool needs_whole_matrices = false;
template <class R>
  requires requires { R::needs_whole_matrices; }
inline constexpr bool needs_whole_matrices<R> = R::needs_whole_matrices;

/// An update rule that updates some parameters as whole matrices, and the others element by element. Shards of weights
/// then cut none of these matrices, and give each rank about equal work (run::whole_shard_offsets).
///
///     W, states' = update_matrix(W, states, G)      equal matrices give equal bits, on any number of threads
///
/// | needs_whole_matrices  | true                                                                              |
/// | takes_whole(dag, p)   | parameter p is updated whole, unless a group sets otherwise (run::ParameterGroup) |
/// | matrix_states         | how many numbers an element of a matrix keeps: the first of `states`              |
/// | matrix_workspace<Device, E>(rows, columns, threads) | bytes of scratch that an update needs               |
/// | matrix_flops(rows, columns) | operations of an update                                                     |
/// | update_matrix(matrix, t, lr, decays) | MatrixUpdate of any device and type; called on the lane's thread   |
/// | models                | Muon                                                                              |
template <class R>
concept matrix_rule = update_rule<R> && needs_whole_matrices<R> &&
    requires(const R& rule, const graph::Dag& dag, const MatrixUpdate<device::Host, float>& matrix,
             std::int64_t n) {
  { rule.takes_whole(dag, std::size_t{}) } -> std::same_as<bool>;
  { R::matrix_states } -> std::convertible_to<int>;
  { R::template matrix_workspace<device::Host, float>(n, n, 1) } -> std::same_as<Bytes>;
  { rule.matrix_flops(n, n) } -> std::same_as<double>;
  rule.update_matrix(matrix, n, 0.1, true);
};

/// Records in the plan which parameters the rule updates as whole matrices, and moves the bounds of shards so that none
/// cuts such a matrix; other parameters are cut between norm blocks. Where parameters keep different numbers of states,
/// records the number of each. `threads`: the largest number of threads of a rank. A single rule that needs no whole
/// matrices changes nothing.
///
/// Throws OptionError where a group asks for an impossible rule or matrix.
///
/// \code
/// // given: run::StepPlan& plan
/// optim::plan_whole_matrices<device::Host, float>(plan, optim::AdamW{}, 1);  // changes nothing
/// \endcode
template <class Device, real E, update_rule Rule>
void plan_whole_matrices(run::StepPlan& plan, const Rule& rule, [[maybe_unused]] int threads) {
  const auto refuse = [](const run::ParameterGroup& group, const auto&... why) {
    throw OptionError("reef::optim: the group '", group.pattern, "' ", why...);
  };
  for (const run::ParameterGroup& group : plan.groups) {
    if (group.rule < 0 || group.rule >= rule_count<Rule>) {
      refuse(group, "has rule ", group.rule, ", but ", Rule::name,
             rule_count<Rule> == 1
                 ? concat(" is one rule.\n  fix: leave `rule` out, or optim::PerGroup<Rules...>.")
                 : concat(" has rules 0 to ", rule_count<Rule> - 1, ".\n  fix: the place of one of these."));
    }
    detail::visit_rule(rule, group.rule, [&]<class Own>(const Own& own) {
      if (group.weight_decay && !requires { own.options.weight_decay; }) {
        refuse(group, "has a weight_decay, but the rule ", Own::name,
               " has none.\n  fix: leave it out, or a rule whose options have weight_decay.");
      }
      if (group.whole_matrix && !needs_whole_matrices<Own>) {
        refuse(group, "is to be taken as whole matrices or not, but the rule ", Own::name,
               " goes element by element.\n  fix: leave whole_matrix out, or a rule such as optim::Muon.");
      }
    });
  }
  const graph::Dag& dag = *plan.dag;
  const auto matrix_of = [&]<class Own>(std::size_t p, const Own& own) -> std::optional<run::WholeMatrices::Matrix> {
    if constexpr (needs_whole_matrices<Own>) {
      static_assert(matrix_rule<Own>, "reef::optim: the rule needs whole matrices, but is no optim::matrix_rule.");
      const Shape& shape = dag.parameters[p].spec.shape;
      const run::ParameterGroup* const group = plan.group_of(p);
      const bool asked = group != nullptr && group->whole_matrix;
      if (asked ? !*group->whole_matrix : !own.takes_whole(dag, p)) return std::nullopt;
      if (shape.rank() != 2) {
        if (asked) {
          refuse(*group, "has '", dag.parameters[p].name, "', which is ", shape.text(),
                 ".\n  why: whole matrices have two axes.\n  fix: a pattern that leaves it out.");
        }
        throw ScheduleError("reef::optim: the rule ", Own::name, " takes '", dag.parameters[p].name, "' ",
                            shape.text(), " as a matrix.\n  fix: takes_whole() of parameters with two axes alone.");
      }
      return run::WholeMatrices::Matrix{shape[0], shape[1],
                                        Own::template matrix_workspace<Device, E>(shape[0], shape[1], threads),
                                        own.matrix_flops(shape[0], shape[1])};
    } else {
      return std::nullopt;
    }
  };
  if constexpr (needs_whole_matrices<Rule> || rule_count<Rule> > 1) {
    for (std::size_t p = 0; p < dag.parameters.size(); ++p) {
      detail::visit_rule(rule, plan.rule_of(p), [&]<class Own>(const Own& own) {
        const auto matrix = matrix_of(p, own);
        int states = Own::states;
        if constexpr (needs_whole_matrices<Own>) states = matrix ? Own::matrix_states : states;
        plan.states_of_parameter.push_back(states);
        if (needs_whole_matrices<Rule>) plan.matrices.of_parameter.push_back(matrix);
      });
    }
  }
  if constexpr (needs_whole_matrices<Rule>) {
    std::vector<std::int64_t>& loads = plan.matrices.loads;
    loads.assign(static_cast<std::size_t>(plan.ranks()), 0);
    std::vector<std::int64_t> of_virtual_ranks(static_cast<std::size_t>(plan.virtual_ranks), 0);
    for (std::size_t b = 0; b < plan.buckets.size(); ++b) {
      run::Bucket& bucket = plan.buckets[b];
      std::vector<std::int64_t> parts;
      std::vector<std::int64_t> work;
      for (std::size_t p = 0; p < dag.parameters.size(); ++p) {
        if (plan.bucket_of_parameter[p] != static_cast<int>(b)) continue;
        const std::int64_t begin = plan.layout.parameters[p] - bucket.begin;
        const std::int64_t end = begin + dag.parameters[p].spec.shape.size();
        const auto matrix = plan.matrices.of(p);
        const std::int64_t each = matrix ? end - begin : run::norm_block;
        for (std::int64_t at = begin; at < end; at += each) {
          parts.push_back(at);
          work.push_back((std::min)(each, end - at) * run::WholeMatrices::flops_of_element +
                         static_cast<std::int64_t>(matrix ? matrix->flops : 0));
        }
      }
      std::vector<std::int64_t> of_members;
      for (const int member : bucket.group.members) of_members.push_back(loads[static_cast<std::size_t>(member)]);
      bucket.shards = run::whole_shard_offsets(bucket.size(), parts, work, of_members);
      bucket.owners = plan.virtual_ranks == 1
                          ? bucket.shards
                          : run::whole_shard_offsets(bucket.size(), parts, work, of_virtual_ranks);
      for (std::size_t m = 0; m < of_members.size(); ++m) {
        loads[static_cast<std::size_t>(bucket.group.members[m])] = of_members[m];
      }
    }
  }
}

}  // namespace optim
}  // namespace v0
}  // namespace reef
