#include <gtest/gtest.h>

#include <reef/optim/momentum.hpp>

#include "../laws/update_rule.hpp"

namespace reef::test {

using MomentumCases =
    testing::Types<RuleOn<optim::Momentum, float>, RuleOn<optim::Momentum, double>>;
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

}  // namespace reef::test
