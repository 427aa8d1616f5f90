#include <reef/optim/sign_sgd.hpp>

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "../laws/update_rule.hpp"

namespace reef::test {

template <class T>
struct SignSgdCase {
  using Element = T;
  static optim::SignSgd rule() { return optim::SignSgd({.weight_decay = 0.25}); }

  struct Reference {
    double operator()(double w, double g, int /*t*/, double lr, bool decays) {
      const double step = g > 0 ? lr : g < 0 ? -lr : 0;
      return w - (decays ? lr * 0.25 * w : 0.0) - step;
    }
  };
};

using SignSgdCases = testing::Types<SignSgdCase<float>, SignSgdCase<double>>;
INSTANTIATE_TYPED_TEST_SUITE_P(SignSgd, UpdateRuleLaws, SignSgdCases);

TEST(SignSgd, moves_by_the_rate_alone_whatever_the_gradient_and_not_at_all_without_one) {
  const auto rate = optim::SignSgd{}.coefficients<float>(1, 0.25, true);
  const auto moved = [&](float g) {
    float w = 2;
    optim::SignSgd::update(w, static_cast<float*>(nullptr), g, rate);
    return w;
  };
  for (const float g : {1e-29F, 1.0F, 3e38F, std::numeric_limits<float>::infinity()}) {
    EXPECT_EQ(moved(g), 1.75F) << g;
    EXPECT_EQ(moved(-g), 2.25F) << g;
  }
  EXPECT_EQ(moved(0), 2);
  EXPECT_TRUE(std::isnan(moved(std::numeric_limits<float>::quiet_NaN()))) << "it is seen";
}

TEST(SignSgd, refuses_a_decay_that_is_no_number) {
  EXPECT_THROW(optim::SignSgd({.weight_decay = std::nan("")}).validate(), OptionError);
  EXPECT_NO_THROW(optim::SignSgd().validate());
}

}  // namespace reef::test
