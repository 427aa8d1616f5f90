#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include <reef/core/config.hpp>
#include <reef/core/element.hpp>
#include <reef/device/transform.hpp>

namespace reef::inline v0::optim::detail {

/// A rule over contiguous weights, for one element or for a vector of them.
///
///     w[i], state[.][i] = Rule::update(w[i], state[.][i], scale * g[i])
///
/// Of bf16, w are the master weights, and the weights are w rounded.
template <class Rule, real T>
struct RuleKernel {
  using E = sum_t<T>;
  using Coefficients =
      decltype(std::declval<const Rule&>().template coefficients<E>(1, 0.0, false));
  static constexpr std::size_t states = Rule::states;
  static constexpr bool has_master = !std::is_same_v<T, E>;

  T* weight = nullptr;
  E* master = nullptr;
  const E* g = nullptr;
  E* state[states + 1]{};  // not std::array, whose members kernels cannot call
  E scale = 1;
  Coefficients c{};

  /// The elements that `at` names: one of a GPU's thread, a vector on the host.
  REEF_RULE template <class At>
  REEF_HOST_DEVICE void operator()(const At& at) const {
    using V = typename At::Vector;
    V s[states + 1];
    for (std::size_t k = 0; k < states; ++k) s[k] = at.load(state[k]);
    V w;
    if constexpr (has_master) {
      w = at.load(master);
    } else {
      w = at.load(weight);
    }
    Rule::update(w, s, V(scale) * at.load(g), c);
    if constexpr (has_master) at.store(master, w);
    at.store(weight, w);
    for (std::size_t k = 0; k < states; ++k) at.store(state[k], s[k]);
  }
};

}  // namespace reef::inline v0::optim::detail
