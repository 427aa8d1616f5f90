#include <gtest/gtest.h>

#include <reef/optim/sgd.hpp>

#include "../laws/update_rule.hpp"

namespace reef::test {

using SgdCases = testing::Types<RuleOn<optim::Sgd, float>, RuleOn<optim::Sgd, double>>;
INSTANTIATE_TYPED_TEST_SUITE_P(Sgd, UpdateRuleLaws, SgdCases);

TEST(Sgd, takes_one_step_down_the_gradient) {
  double w = 2;
  optim::Sgd::update(w, static_cast<double*>(nullptr), 3.0,
                     optim::Sgd{}.coefficients<double>(1, 0.1, true));
  EXPECT_DOUBLE_EQ(w, 2 - 0.1 * 3);
}

}  // namespace reef::test
