#pragma once

#include <optional>
#include <string>

#include <reef/core/language.hpp>

namespace reef {
inline namespace v0 {
namespace graph {

/// Training options of the parameters of one operator that differ from those of other operators.
///
/// | rule          | the name of an update rule ("sgd"); empty: the first rule of the run            |
/// | learning_rate | a factor of the step's learning rate, from 0 to 1000                            |
/// | weight_decay  | decay of all the operator's parameters; if not given: the rule's, if they decay |
///
/// \code
/// const graph::OperatorOptimizer slower{.learning_rate = 0.1, .weight_decay = 0};
/// \endcode
///
/// Source: Tang et al., FusionLLM, arXiv 2410.12707, section 3.2.
struct OperatorOptimizer {
  std::string rule{};
  double learning_rate = 1;
  std::optional<double> weight_decay{};

  friend bool operator==(const OperatorOptimizer&, const OperatorOptimizer&) = default;
};

}  // namespace graph
}  // namespace v0
}  // namespace reef
