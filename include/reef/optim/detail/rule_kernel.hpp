#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include <reef/core/config.hpp>
#include <reef/core/element.hpp>
#include <reef/device/transform.hpp>

namespace reef {
inline namespace v0 {
namespace optim::detail {

/// The states of a rule, an array for each.
template <real E, std::size_t states>
struct StateArrays {
  E* of[states + 1]{};  // not std::array, whose members kernels cannot call

  [[nodiscard]] E*& operator[](std::size_t k) { return of[k]; }
  [[nodiscard]] E* operator[](std::size_t k) const { return of[k]; }

  /// The first of them, for a rule that keeps so many.
  template <std::size_t kept>
  [[nodiscard]] StateArrays<E, kept> first() const {
    StateArrays<E, kept> result;
    std::copy_n(of, kept, result.of);
    return result;
  }

  /// The same arrays from element `offset` on.
  [[nodiscard]] StateArrays from(std::int64_t offset) const {
    StateArrays result = *this;
    for (std::size_t k = 0; k < states; ++k) result.of[k] += offset;
    return result;
  }

  REEF_RULE template <class At>
  REEF_ALWAYS_INLINE REEF_HOST_DEVICE void load(const At& at, typename At::Vector* s) const {
    for (std::size_t k = 0; k < states; ++k) s[k] = at.load(of[k]);
  }
  REEF_RULE template <class At>
  REEF_ALWAYS_INLINE REEF_HOST_DEVICE void store(const At& at, const typename At::Vector* s) const {
    for (std::size_t k = 0; k < states; ++k) at.store(of[k], s[k]);
  }
};

/// Loads what an update of weights begins with: of bf16 the master weights.
REEF_RULE template <class At, real T>
REEF_ALWAYS_INLINE REEF_HOST_DEVICE typename At::Vector load_own(const At& at, const T* weight,
                                                                 const sum_t<T>* master) {
  if constexpr (std::is_same_v<T, sum_t<T>>) {
    return at.load(weight);
  } else {
    return at.load(master);
  }
}

/// Stores updated weights: of bf16 as master weights, and rounded.
REEF_RULE template <class At, real T>
REEF_ALWAYS_INLINE REEF_HOST_DEVICE void store_own(const At& at, T* weight, sum_t<T>* master,
                                                   const typename At::Vector& w) {
  if constexpr (!std::is_same_v<T, sum_t<T>>) at.store(master, w);
  at.store(weight, w);
}

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
  StateArrays<E, states> state{};
  E scale = 1;
  Coefficients c{};

  /// The same on the arrays by another rule, which keeps the first of the states.
  template <class Own>
  [[nodiscard]] RuleKernel<Own, T> of() const {
    return {.weight = weight, .master = master, .g = g, .state = state.template first<Own::states>(), .scale = scale};
  }

  /// The same on the elements from `offset` on.
  [[nodiscard]] RuleKernel from(std::int64_t offset) const {
    RuleKernel kernel = *this;
    kernel.weight += offset;
    if constexpr (has_master) kernel.master += offset;
    kernel.g += offset;
    kernel.state = state.from(offset);
    return kernel;
  }

  /// The elements that `at` names: one of a GPU's thread, a vector on the host.
  REEF_RULE template <class At>
  REEF_HOST_DEVICE void operator()(const At& at) const {
    using V = typename At::Vector;
    V s[states + 1];
    state.load(at, s);
    V w = load_own(at, weight, master);
    Rule::update(w, s, V(scale) * at.load(g), c);
    store_own(at, weight, master, w);
    state.store(at, s);
  }
};

/// Which weights an update sends to the ranks, for the next gradients.
///
/// | none            | the committed ones                                                     |
/// | repeated_update | those after a second update with the same gradient                     |
/// | momentum        | those after another step of the rule's state alone: Rule::predict      |
enum class Prediction : std::uint8_t { none, repeated_update, momentum };

/// A rule over contiguous master weights whose outcome leaves: as weights, in a place of their own.
///
///     w, state' = Rule::update(master[i], state[.][i], scale * g[i])
///     master[i], state[.][i] = w, state'            if Commits, else nothing is kept
///     out[i] = w as predicted, rounded to T
template <class Rule, real T, bool Commits, Prediction prediction>
struct OutgoingKernel {
  using E = sum_t<T>;
  using Coefficients = typename RuleKernel<Rule, T>::Coefficients;
  static constexpr std::size_t states = Rule::states;

  T* out = nullptr;
  E* master = nullptr;
  const E* g = nullptr;
  StateArrays<E, states> state{};
  E scale = 1;
  Coefficients c{};
  Coefficients next{};  ///< of the prediction

  template <class Own>
  [[nodiscard]] OutgoingKernel<Own, T, Commits, prediction> of() const {
    return {.out = out, .master = master, .g = g, .state = state.template first<Own::states>(), .scale = scale};
  }
  [[nodiscard]] OutgoingKernel from(std::int64_t offset) const {
    OutgoingKernel kernel = *this;
    kernel.out += offset;
    kernel.master += offset;
    kernel.g += offset;
    kernel.state = state.from(offset);
    return kernel;
  }

  REEF_RULE template <class At>
  REEF_HOST_DEVICE void operator()(const At& at) const {
    using V = typename At::Vector;
    V s[states + 1];
    state.load(at, s);
    V w = at.load(master);
    const V gradient = V(scale) * at.load(g);
    Rule::update(w, s, gradient, c);
    if constexpr (Commits) {
      at.store(master, w);
      state.store(at, s);
    }
    if constexpr (prediction == Prediction::repeated_update) Rule::update(w, s, gradient, next);
    if constexpr (prediction == Prediction::momentum) Rule::predict(w, s, next);
    at.store(out, w);
  }
};

/// Master weights as they leave: rounded to T.
template <real T>
struct PublishKernel {
  T* out = nullptr;
  const sum_t<T>* master = nullptr;

  REEF_RULE template <class At>
  REEF_HOST_DEVICE void operator()(const At& at) const {
    at.store(out, at.load(master));
  }
};

/// Two arrays change places.
template <real T>
struct SwapKernel {
  T* a = nullptr;
  T* b = nullptr;

  REEF_RULE template <class At>
  REEF_HOST_DEVICE void operator()(const At& at) const {
    const auto value = at.load(a);
    at.store(a, at.load(b));
    at.store(b, value);
  }
};

}  // namespace optim::detail
}  // namespace v0
}  // namespace reef
