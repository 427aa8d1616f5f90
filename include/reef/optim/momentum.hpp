#pragma once

#include <string_view>

#include <reef/core/finite.hpp>
#include <reef/device/arithmetic.hpp>
#include <reef/optim/concept.hpp>
#include <reef/optim/detail/require_option.hpp>

namespace reef {
inline namespace v0 {
namespace optim {

/// Gradient descent with heavy-ball momentum.
///
///     m = momentum m + g + weight_decay w
///     w = w - lr m
///
/// | state | m, zero before the first step: so m = g in it            |
/// | decay | as an L2 term of the gradient, on weights that decay     |
///
/// Source: Polyak, Some methods of speeding up the convergence of iteration methods, 1964, in the
/// form without dampening.
///
/// \code
/// Trainer<optim::Ddp<optim::Momentum>>::Options options;
/// options.rule = optim::Momentum({.momentum = 0.95});
/// \endcode
struct Momentum {
  struct Options {
    double momentum = 0.9;
    double weight_decay = 0;

    /// Throws OptionError for a constant outside its range; `rule` names the rule in the error.
    void validate(std::string_view rule) const {
      detail::require_option(within(momentum, 0, 1) && momentum < 1, rule, "momentum", momentum,
                             "from 0, and below 1");
      detail::require_option(within(weight_decay, 0, 1e3), rule, "weight_decay", weight_decay,
                             "from 0 to 1e3");
    }
  };

  static constexpr std::string_view name = "momentum";
  static constexpr int states = 1;

  template <real T>
  struct Coefficients {
    T lr;
    T momentum;
    T decay;
  };

  Momentum() = default;
  explicit Momentum(Options o) : options(o) {}

  void validate() const { options.validate("Momentum"); }

  template <real T>
  [[nodiscard]] Coefficients<T> coefficients(std::int64_t /*t*/, double lr, bool decays) const {
    return {static_cast<T>(lr), static_cast<T>(options.momentum),
            static_cast<T>(decays ? options.weight_decay : 0)};
  }

  REEF_RULE template <class V, class C>
  REEF_HOST_DEVICE static void update(V& w, V* state, const V& g, const C& c) {
    using device::fma;
    state[0] = fma(V(c.decay), w, fma(V(c.momentum), state[0], g));
    w = fma(V(-c.lr), state[0], w);
  }

  /// Predicts the weight after another step along the momentum m.
  REEF_RULE template <class V, class C>
  REEF_HOST_DEVICE static void predict(V& w, const V* state, const C& c) {
    using device::fma;
    w = fma(V(-c.lr), state[0], w);
  }

  Options options{};
};

static_assert(update_rule<Momentum>);

}  // namespace optim
}  // namespace v0
}  // namespace reef
