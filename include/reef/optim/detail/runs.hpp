#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/device/transform.hpp>
#include <reef/graph/parameter_layout.hpp>
#include <reef/optim/detail/visit_rule.hpp>
#include <reef/optim/matrix_rule.hpp>
#include <reef/run/step_plan.hpp>

/// \file
/// A bucket's weights by what a rule does to them: parameter by parameter.

namespace reef {
inline namespace v0 {
namespace optim::detail {

/// The weights of a parameter, or some of them, at `offset` from the first of those in question.
struct Run {
  bool decays = false;
  std::int64_t offset = 0;
  std::int64_t elements = 0;
  /// `offset` among those that keep a state, by state; empty: all do
  std::vector<std::int64_t> kept{};
  int rule = 0;                                        ///< its place in a PerGroup
  double learning_rate = 1;                            ///< a factor of the step's
  std::optional<double> weight_decay{};                ///< in place of the rule's
  std::optional<run::WholeMatrices::Matrix> matrix{};  ///< which it is
};

/// The runs of n weights of a bucket from `begin` on; what lies between parameters is in none.
///
/// Throws ScheduleError where a matrix that is to be whole is not.
std::vector<Run> runs_of(const run::StepPlan& plan, int b, std::int64_t begin,
                         std::int64_t n);

/// The rule with the constants that it has for a run.
template <class Rule>
Rule rule_of(Rule rule, [[maybe_unused]] const Run& run) {
  if constexpr (requires { rule.options.weight_decay; }) {
    if (run.weight_decay) rule.options.weight_decay = *run.weight_decay;
  }
  return rule;
}

/// What is the same for a run's weights in step t.
template <class E, class Rule>
auto coefficients_of(const Rule& rule, const Run& run, std::int64_t t, double learning_rate) {
  return rule_of(rule, run).template coefficients<E>(t, learning_rate * run.learning_rate, run.decays);
}

/// The kernel on a run, by the run's own rule.
template <class Own, class Kernel>
auto kernel_of(const Kernel& kernel, const Run& run) {
  auto part = kernel.template of<Own>().from(run.offset);
  for (std::size_t k = 0; k < Own::states && k < run.kept.size(); ++k) part.state[k] = kernel.state[k] + run.kept[k];
  return part;
}

/// The rule on every run, element by element: set_coefficients(part, own, run).
template <class T, class Lane, class Kernel, class Rule, class Coefficients>
void apply(Lane& lane, const std::vector<Run>& runs, const Kernel& kernel, const Rule& rule,
           const Coefficients& set_coefficients) {
  for (const Run& run : runs) {
    visit_rule(rule, run.rule, [&]<class Own>(const Own& own) {
      auto part = kernel_of<Own>(kernel, run);
      set_coefficients(part, own, run);
      transform_vectors<T>(lane, run.elements, part);
    });
  }
}

/// The rule on every run: of what is a whole matrix at once, else element by element.
template <class Device, class T, class Kernel, class Rule>
void apply_rule(typename Device::Lane& lane, const std::vector<Run>& runs, const Kernel& kernel, const Rule& rule,
                std::int64_t t, double learning_rate, [[maybe_unused]] void* workspace) {
  using E = sum_t<T>;
  for (const Run& run : runs) {
    visit_rule(rule, run.rule, [&]<class Own>(const Own& own) {
      auto part = kernel_of<Own>(kernel, run);
      if constexpr (needs_whole_matrices<Own>) {
        if (run.matrix) {
          MatrixUpdate<Device, T> matrix{lane, run.matrix->rows, run.matrix->columns};
          matrix.weight = part.weight;
          if constexpr (Kernel::has_master) matrix.master = part.master;
          matrix.gradient = part.g;
          matrix.scale = part.scale;
          matrix.states = part.state.of;
          matrix.workspace = workspace;
          rule_of(own, run).update_matrix(matrix, t, learning_rate * run.learning_rate, run.decays);
          return;
        }
      }
      part.c = coefficients_of<E>(own, run, t, learning_rate);
      transform_vectors<T>(lane, run.elements, part);
    });
  }
}

}  // namespace optim::detail
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/optim/detail/runs.ipp>
#endif
