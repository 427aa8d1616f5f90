#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <tuple>

#include <reef/core/config.hpp>
#include <reef/core/element.hpp>
#include <reef/device/transform.hpp>
#include <reef/optim/adamw.hpp>
#include <reef/optim/concept.hpp>
#include <reef/optim/matrix_rule.hpp>
#include <reef/optim/sgd.hpp>

namespace reef {
inline namespace v0 {
namespace optim {

namespace detail {

/// The name of a rule that combines several update rules: "per_group(adamw, sgd)".
template <class... Rules>
struct PerGroupName {
  static constexpr auto text = [] {
    constexpr std::string_view begin = "per_group(";
    constexpr std::size_t length = (begin.size() + ... + (std::string_view(Rules::name).size() + 2)) - 1;
    std::array<char, length> all{};
    std::size_t at = 0;
    const auto append = [&](std::string_view piece) {
      for (const char c : piece) all[at++] = c;
    };
    append(begin);
    ((append(at == begin.size() ? "" : ", "), append(Rules::name)), ...);
    append(")");
    return all;
  }();
};

}  // namespace detail

/// Several update rules, of which each parameter has one: the rule of its parameter group, run::ParameterGroup::rule.
///
///     w, state' = rules[group of w].update(w, state, g)    the first rule, without a group or if the group has none
///
/// | rules    | numbered from 0 in their order; a type may occur twice, with other constants                    |
/// | state    | per weight: the state of its own rule                                                           |
/// | bits     | those that a parameter's own rule computes; learning rate, clipping and t are those of the step |
/// | matrices | a rule that needs whole matrices, as Muon, updates its own parameters whole: rules R6 and R7    |
/// | composes | with every optimizer policy; in DiLoCo as the inner rule                                        |
/// | resumes  | only with the same rules for the same parameters                                                |
/// | errors   | OptionError: a group that names a rule that does not exist; the errors of each rule             |
///
/// Source: Tang et al., FusionLLM, arXiv 2410.12707, section 3.2: an operator with parameters has an optimizer of its
/// own.
///
/// \code
/// using Rule = optim::PerGroup<optim::AdamW, optim::Sgd>;
/// Trainer<optim::Zero1<Rule>>::Options options;
/// options.rule = Rule(optim::AdamW({.beta2 = 0.99}), optim::Sgd({.weight_decay = 1e-4}));
/// options.groups = {{.pattern = "transformer.wte.*", .learning_rate = 0.1, .rule = 1}};  // by Sgd, all else by AdamW
/// \endcode
template <update_rule First, update_rule... Others>
struct PerGroup {
  static_assert(sizeof...(Others) > 0, "reef::optim::PerGroup<Rules...>: two or more update rules.");
  static_assert(((optim::rule_count<First> == 1) && ... && (optim::rule_count<Others> == 1)),
                "reef::optim::PerGroup<Rules...>: each is one rule, and no PerGroup itself.");

  using Options = std::tuple<typename First::Options, typename Others::Options...>;
  static constexpr std::string_view name{detail::PerGroupName<First, Others...>::text.data(),
                                         detail::PerGroupName<First, Others...>::text.size()};
  static constexpr std::array<std::string_view, 1 + sizeof...(Others)> rule_names{First::name, Others::name...};
  static constexpr int rule_count = 1 + static_cast<int>(sizeof...(Others));
  static constexpr int states =
      (std::max)({static_cast<int>(First::states), static_cast<int>(Others::states)...});
  static constexpr bool needs_whole_matrices =
      (optim::needs_whole_matrices<First> || ... || optim::needs_whole_matrices<Others>);

  PerGroup() = default;
  explicit PerGroup(const Options& options)
      : rules(std::make_from_tuple<std::tuple<First, Others...>>(options)) {}
  explicit PerGroup(First first, Others... others) : rules(first, others...) {}

  /// Throws OptionError if a constant of one of the rules is outside its range.
  void validate() const {
    const auto validate_rule = [](const auto& rule) {
      if constexpr (requires { rule.validate(); }) rule.validate();
    };
    std::apply([&](const auto&... own) { (validate_rule(own), ...); }, rules);
  }

  // -- parameters in no group: the first rule ----------------------------------------------------

  template <real T>
  [[nodiscard]] auto coefficients(std::int64_t t, double lr, bool decays) const {
    return std::get<0>(rules).template coefficients<T>(t, lr, decays);
  }

  REEF_RULE template <class V, class C>
  REEF_HOST_DEVICE static void update(V& w, V* state, const V& g, const C& c) {
    First::update(w, state, g, c);
  }

  REEF_RULE template <class V, class C>
    requires(predicting_rule<First> && ... && predicting_rule<Others>)
  REEF_HOST_DEVICE static void predict(V& w, const V* state, const C& c) {
    First::predict(w, state, c);
  }

  std::tuple<First, Others...> rules{};
};

static_assert(update_rule<PerGroup<AdamW, Sgd>>);

}  // namespace optim
}  // namespace v0
}  // namespace reef
