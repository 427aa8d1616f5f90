#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/finite.hpp>
#include <reef/core/text.hpp>
#include <reef/core/pattern.hpp>
#include <reef/graph/dag.hpp>

namespace reef {
inline namespace v0 {
namespace run {

/// Training options of parameters whose names match a pattern: a factor of the learning rate, a weight decay, an update
/// rule.
///
///     learning rate of the parameter = that of the step * learning_rate
///
/// | pattern       | text that names match: * stands for any characters, or none, ? for one. A parameter is in the    |
/// |               | first group whose pattern its name matches                                                       |
/// | learning_rate | a factor of 0 or more                                                                            |
/// | weight_decay  | decay of all parameters of the group, biases and norms too; not given: as the update rule has it |
/// | whole_matrix  | true: an update rule of whole matrices treats these parameters as matrices; false: element by    |
/// |               | element; not given: the rule decides                                                             |
/// | rule          | index of an update rule in an optim::PerGroup, from 0                                            |
///
/// \code
/// Trainer<optim::Ddp<optim::PerGroup<optim::AdamW, optim::Sgd>>>::Options options;
/// options.groups = {{.pattern = "*.bias", .weight_decay = 0}, {.pattern = "transformer.wte.*", .learning_rate = 0.1},
///                   {.pattern = "transformer.ln_f.*", .rule = 1}};  // by Sgd
/// \endcode
struct ParameterGroup {
  std::string pattern;
  double learning_rate = 1;
  std::optional<double> weight_decay{};
  std::optional<bool> whole_matrix{};
  int rule = 0;

  /// Throws OptionError, naming the first invalid member.
  void validate() const;

  /// Returns true if a parameter's name matches the pattern.
  [[nodiscard]] bool fits(std::string_view name) const { return fits_pattern(pattern, name); }

  /// Returns the group as text, such as "*.bias: learning rate * 0.5, weight decay 0".
  [[nodiscard]] std::string text() const;
};

/// Returns for each parameter the index of the first group whose pattern its name matches, or -1 if there is none.
///
/// Throws OptionError for an invalid group, and for a group without parameters.
///
/// \code
/// // given: const graph::Dag& dag
/// const std::vector<int> groups = run::groups_of_parameters(dag, {{.pattern = "*", .learning_rate = 0.5}});
/// \endcode
std::vector<int> groups_of_parameters(const graph::Dag& dag, const std::vector<ParameterGroup>& groups);

}  // namespace run
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/run/parameter_group.ipp>
#endif
