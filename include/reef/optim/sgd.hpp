#pragma once

#include <string_view>

#include <reef/core/finite.hpp>
#include <reef/device/arithmetic.hpp>
#include <reef/optim/concept.hpp>
#include <reef/optim/detail/require_option.hpp>

namespace reef {
inline namespace v0 {
namespace optim {

/// Stochastic gradient descent.
///
///     w = w - lr (g + weight_decay w)
///
/// | state | none                                                     |
/// | decay | as an L2 term of the gradient, on weights that decay     |
///
/// \code
/// Trainer<optim::Ddp<optim::Sgd>>::Options options;
/// options.rule = optim::Sgd({.weight_decay = 1e-4});
/// \endcode
struct Sgd {
  struct Options {
    double weight_decay = 0;

    /// Throws OptionError for a constant outside its range; `rule` names the rule in the error.
    void validate(std::string_view rule) const {
      detail::require_option(within(weight_decay, 0, 1e3), rule, "weight_decay", weight_decay, "from 0 to 1e3");
    }
  };

  static constexpr std::string_view name = "sgd";
  static constexpr int states = 0;

  template <real T>
  struct Coefficients {
    T lr;
    T decay;
  };

  Sgd() = default;
  explicit Sgd(Options o) : options(o) {}

  void validate() const { options.validate("Sgd"); }

  template <real T>
  [[nodiscard]] Coefficients<T> coefficients(std::int64_t /*t*/, double lr, bool decays) const {
    return {static_cast<T>(lr), static_cast<T>(decays ? options.weight_decay : 0)};
  }

  REEF_RULE template <class V, class C>
  REEF_HOST_DEVICE static void update(V& w, V* /*state*/, const V& g, const C& c) {
    using device::fma;
    w = fma(V(-c.lr), fma(V(c.decay), w, g), w);
  }

  /// Predicts an unchanged weight, since there is no momentum.
  REEF_RULE template <class V, class C>
  REEF_HOST_DEVICE static void predict(V& /*w*/, const V* /*state*/, const C& /*c*/) {}

  Options options{};
};

static_assert(update_rule<Sgd>);

}  // namespace optim
}  // namespace v0
}  // namespace reef
