#include <reef/optim/momentum.hpp>

#include <cmath>

#include <gtest/gtest.h>

#include "../laws/update_rule.hpp"

namespace reef::test {

template <class T>
struct MomentumCase {
  using Element = T;
  static optim::Momentum rule() {
    return optim::Momentum({.momentum = 0.75, .weight_decay = 0.25});
  }

  /// Polyak's own form, which remembers the weights of before instead of a velocity:
  /// w' = w - lr g + momentum (w - w_before). Equal as long as the learning rate stays.
  struct Reference {
    double before = 0;
    double operator()(double w, double g, int t, double lr, bool decays) {
      const double gradient = decays ? g + 0.25 * w : g;
      const double push = t == 1 ? 0.0 : 0.75 * (w - before);
      before = w;
      return w - lr * gradient + push;
    }
  };
};

using MomentumCases = testing::Types<MomentumCase<float>, MomentumCase<double>>;
INSTANTIATE_TYPED_TEST_SUITE_P(Momentum, UpdateRuleLaws, MomentumCases);

TEST(Momentum, begins_with_the_gradient_and_remembers_it) {
  const optim::Momentum rule({.momentum = 0.5, .weight_decay = 0});
  double w = 0;
  double m = 0;
  optim::Momentum::update(w, &m, 1.0, rule.coefficients<double>(1, 0.1, false));
  EXPECT_DOUBLE_EQ(m, 1);
  optim::Momentum::update(w, &m, 0.0, rule.coefficients<double>(2, 0.1, false));
  EXPECT_DOUBLE_EQ(m, 0.5);
  EXPECT_DOUBLE_EQ(w, -0.1 * 1.5);
}

TEST(Momentum, refuses_constants_without_a_meaning) {
  EXPECT_THROW(optim::Momentum({.momentum = 1}).validate(), OptionError);
  EXPECT_THROW(optim::Momentum({.momentum = -0.1}).validate(), OptionError);
  EXPECT_THROW(optim::Momentum({.weight_decay = std::nan("")}).validate(), OptionError);
  EXPECT_NO_THROW(optim::Momentum().validate());
}

}  // namespace reef::test
