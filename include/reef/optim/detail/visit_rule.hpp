#pragma once

#include <cstddef>
#include <tuple>

#include <reef/optim/concept.hpp>

namespace reef {
inline namespace v0 {
namespace optim::detail {

/// f(own) of the rule at that place, from 0 to rule_count - 1, and what it returns: the same type of all.
template <std::size_t at = 0, class Rule, class F>
auto visit_rule(const Rule& rule, int place, const F& f) {
  if constexpr (rule_count<Rule> == 1) {
    return f(rule);
  } else {
    if constexpr (at + 1 < static_cast<std::size_t>(rule_count<Rule>)) {
      if (place != static_cast<int>(at)) return visit_rule<at + 1>(rule, place, f);
    }
    return f(std::get<at>(rule.rules));
  }
}

}  // namespace optim::detail
}  // namespace v0
}  // namespace reef
