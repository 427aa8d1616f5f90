#pragma once

#include <cmath>

#include <reef/core/finite.hpp>
#include <reef/core/product.hpp>
#include <reef/device/arithmetic.hpp>
#include <reef/optim/concept.hpp>
#include <reef/optim/detail/require_option.hpp>

namespace reef {
inline namespace v0 {
namespace optim {

/// Adam with decoupled weight decay.
///
///     w = w - lr weight_decay w
///     m = beta1 m + (1 - beta1) g        v = beta2 v + (1 - beta2) g^2
///     w = w - lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + epsilon)
///
/// | state | m, v: zero before the first step                                              |
/// | decay | on weights that decay: matrices, but not biases and norms                     |
/// | order | as torch.optim.AdamW: the decay comes first; powers of beta in fp64           |
///
/// Source: Loshchilov and Hutter, Decoupled weight decay regularization, arXiv 1711.05101,
/// algorithm 2.
///
/// \code
/// Trainer<optim::Ddp<optim::AdamW>>::Options options;
/// options.rule = optim::AdamW({.beta2 = 0.99, .weight_decay = 0.01});
/// \endcode
struct AdamW {
  struct Options {
    double beta1 = 0.9;
    double beta2 = 0.95;
    double epsilon = 1e-8;
    double weight_decay = 0.1;
  };

  static constexpr std::string_view name = "adamw";
  static constexpr int states = 2;
  static constexpr double least_epsilon = 1e-37;

  template <real T>
  struct Coefficients {
    T beta1, one_minus_beta1;
    T beta2, one_minus_beta2;
    T step;  ///< the factor of an update, lr / (1 - beta1^t)
    T root;  ///< the factor of the root of v, 1 / sqrt(1 - beta2^t)
    T epsilon;
    T keep;  ///< the factor of weight decay, 1 - lr weight_decay
  };

  AdamW() = default;
  explicit AdamW(Options o) : options(o) {}

  /// Throws OptionError for constants of the rule (betas, epsilon, weight decay) outside their ranges.
  void validate() const {
    const auto& o = options;
    const auto require_that = [](bool holds, const char* option, double value, const char* range) {
      detail::require_option(holds, "AdamW", option, value, range);
    };
    require_that(within(o.beta1, 0, 1) && o.beta1 < 1, "beta1", o.beta1, "from 0, and below 1");
    require_that(within(o.beta2, 0, 1) && o.beta2 < 1, "beta2", o.beta2, "from 0, and below 1");
    require_that(within(o.epsilon, least_epsilon, 1e3), "epsilon", o.epsilon,
                 "from 1e-37, which fp32 still has, to 1e3");
    require_that(within(o.weight_decay, 0, 1e3), "weight_decay", o.weight_decay, "from 0 to 1e3");
  }

  template <real T>
  [[nodiscard]] Coefficients<T> coefficients(std::int64_t t, double lr, bool decays) const {
    const auto exponent = static_cast<double>(t);
    return {static_cast<T>(options.beta1),
            static_cast<T>(1 - options.beta1),
            static_cast<T>(options.beta2),
            static_cast<T>(1 - options.beta2),
            static_cast<T>(lr / (1 - std::pow(options.beta1, exponent))),
            static_cast<T>(1 / std::sqrt(1 - std::pow(options.beta2, exponent))),
            static_cast<T>(options.epsilon),
            static_cast<T>(decays ? 1 - product(lr, options.weight_decay) : 1)};
  }

  REEF_RULE template <class V, class C>
  REEF_HOST_DEVICE static void update(V& w, V* state, const V& g, const C& c) {
    using device::fma, device::sqrt;
    state[0] = fma(V(c.one_minus_beta1), g, c.beta1 * state[0]);
    state[1] = fma(c.one_minus_beta2 * g, g, c.beta2 * state[1]);
    w = fma(V(c.keep), w, -(c.step * state[0] / fma(sqrt(state[1]), V(c.root), V(c.epsilon))));
  }

  /// Predicts the weight after another step along the moments m and v that t updates have left.
  REEF_RULE template <class V, class C>
  REEF_HOST_DEVICE static void predict(V& w, const V* state, const C& c) {
    using device::fma, device::sqrt;
    w = fma(V(c.keep), w, -(c.step * state[0] / fma(sqrt(state[1]), V(c.root), V(c.epsilon))));
  }

  Options options{};
};

static_assert(update_rule<AdamW>);

}  // namespace optim
}  // namespace v0
}  // namespace reef
