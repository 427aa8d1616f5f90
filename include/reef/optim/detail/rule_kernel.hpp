#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include <reef/core/config.hpp>
#include <reef/core/element.hpp>

namespace reef::inline v0::optim::detail {

/// A rule over contiguous weights, for one element or for a vector of them.
///
///     w[i], state[.][i] = Rule::update(w[i], state[.][i], scale * g[i])
template <class Rule, real T>
struct RuleKernel {
  using Coefficients = decltype(std::declval<const Rule&>().template coefficients<T>(1, 0.0, false));
  static constexpr std::size_t states = Rule::states;

  T* w = nullptr;
  const T* g = nullptr;
  T* state[states + 1]{};  // not std::array, whose members kernels cannot call
  T scale = 1;
  Coefficients c{};

  /// Element i, on any device.
  REEF_HOST_DEVICE void operator()(std::int64_t i) const {
    T s[states + 1];
    for (std::size_t k = 0; k < states; ++k) s[k] = state[k][i];
    T weight = w[i];
    Rule::update(weight, s, scale * g[i], c);
    w[i] = weight;
    for (std::size_t k = 0; k < states; ++k) state[k][i] = s[k];
  }

  /// Elements [begin, end) as vectors V of the host.
  template <class V>
  void run(std::int64_t begin, std::int64_t end) const {
    for (std::int64_t i = begin; i < end; i += V::width) {
      const std::int64_t left = end - i;
      V s[states + 1];
      for (std::size_t k = 0; k < states; ++k) s[k] = V::load(state[k] + i, left);
      V weight = V::load(w + i, left);
      Rule::update(weight, s, V(scale) * V::load(g + i, left), c);
      weight.store(w + i, left);
      for (std::size_t k = 0; k < states; ++k) s[k].store(state[k] + i, left);
    }
  }
};

}  // namespace reef::inline v0::optim::detail
