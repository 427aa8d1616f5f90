#pragma once

#include <string_view>

#include <reef/device/arithmetic.hpp>
#include <reef/optim/concept.hpp>
#include <reef/optim/momentum.hpp>

namespace reef {
inline namespace v0 {
namespace optim {

/// Gradient descent with Nesterov's momentum: a step also applies the next step of the momentum.
///
///     g = g + weight_decay w
///     m = momentum m + g
///     w = w - lr (g + momentum m)
///
/// | state | m, zero before the first step                        |
/// | decay | as an L2 term of the gradient, on weights that decay |
/// | order | as torch.optim.SGD with nesterov, without dampening  |
///
/// Source: Sutskever et al., On the importance of initialization and momentum in deep learning, 2013,
/// section 2, in the variable of Bengio et al., arXiv 1212.0901, section 3.5.
///
/// \code
/// Trainer<optim::DiLoCo<optim::AdamW>>::Options options;
/// options.optim.outer = optim::Nesterov({.momentum = 0.5});
/// \endcode
struct Nesterov {
  using Options = Momentum::Options;

  static constexpr std::string_view name = "nesterov";
  static constexpr int states = 1;

  template <real T>
  using Coefficients = Momentum::Coefficients<T>;

  Nesterov() = default;
  explicit Nesterov(Options o) : options(o) {}

  void validate() const { options.validate("Nesterov"); }

  template <real T>
  [[nodiscard]] Coefficients<T> coefficients(std::int64_t t, double lr, bool decays) const {
    return Momentum(options).coefficients<T>(t, lr, decays);
  }

  REEF_RULE template <class V, class C>
  REEF_HOST_DEVICE static void update(V& w, V* state, const V& g, const C& c) {
    using device::fma;
    const V gradient = fma(V(c.decay), w, g);
    state[0] = fma(V(c.momentum), state[0], gradient);
    w = fma(V(-c.lr), fma(V(c.momentum), state[0], gradient), w);
  }

  Options options{};
};

static_assert(update_rule<Nesterov>);

}  // namespace optim
}  // namespace v0
}  // namespace reef
