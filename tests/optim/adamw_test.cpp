#include <gtest/gtest.h>

#include <reef/optim/adamw.hpp>

#include "../laws/update_rule.hpp"

namespace reef::test {

using AdamWCases = testing::Types<RuleOn<optim::AdamW, float>, RuleOn<optim::AdamW, double>>;
INSTANTIATE_TYPED_TEST_SUITE_P(AdamW, UpdateRuleLaws, AdamWCases);

TEST(AdamW, takes_a_first_step_of_the_learning_rate_whatever_the_gradient) {
  for (const double g : {1e-3, 1.0, 1e3}) {
    double w = 0;
    double state[2] = {0, 0};
    optim::AdamW::update(w, state, g, optim::AdamW{}.coefficients<double>(1, 0.1, false));
    EXPECT_NEAR(w, -0.1, 1e-5);
  }
}

TEST(AdamW, decays_weights_and_not_the_gradient) {
  const optim::AdamW rule({.beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .weight_decay = 0.5});
  double w = 4;
  double state[2] = {0, 0};
  optim::AdamW::update(w, state, 0.0, rule.coefficients<double>(1, 0.1, true));
  EXPECT_DOUBLE_EQ(w, 4 * (1 - 0.1 * 0.5));
  EXPECT_EQ(state[0], 0);
}

}  // namespace reef::test
