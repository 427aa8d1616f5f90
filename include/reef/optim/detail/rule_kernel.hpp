#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include <reef/core/config.hpp>
#include <reef/core/element.hpp>
#include <reef/device/transform.hpp>

namespace reef::inline v0::optim::detail {

/// A rule over contiguous weights, for one element or for a vector of them.
///
///     w[i], state[.][i] = Rule::update(w[i], state[.][i], scale * g[i])
template <class Rule, real T>
struct RuleKernel {
  using Coefficients =
      decltype(std::declval<const Rule&>().template coefficients<T>(1, 0.0, false));
  static constexpr std::size_t states = Rule::states;

  T* w = nullptr;
  const T* g = nullptr;
  T* state[states + 1]{};  // not std::array, whose members kernels cannot call
  T scale = 1;
  Coefficients c{};

  /// The elements that `at` names: one of a GPU's thread, a vector on the host.
  REEF_RULE template <class At>
  REEF_HOST_DEVICE void operator()(const At& at) const {
    using V = typename At::Vector;
    V s[states + 1];
    for (std::size_t k = 0; k < states; ++k) s[k] = at.load(state[k]);
    V weight = at.load(w);
    Rule::update(weight, s, V(scale) * at.load(g), c);
    at.store(w, weight);
    for (std::size_t k = 0; k < states; ++k) at.store(state[k], s[k]);
  }
};

}  // namespace reef::inline v0::optim::detail
