#include <reef/optim/sgd.hpp>

#include <cmath>

#include <gtest/gtest.h>

#include "../laws/update_rule.hpp"

namespace reef::test {

template <class T>
struct SgdCase {
  using Element = T;
  static optim::Sgd rule() { return optim::Sgd({.weight_decay = 0.25}); }

  /// Robbins and Monro, with the gradient of (weight_decay / 2) w^2 added where weights decay.
  struct Reference {
    double operator()(double w, double g, int /*t*/, double lr, bool decays) {
      const double penalty = decays ? 0.25 * w : 0.0;
      return w - lr * (g + penalty);
    }
  };
};

using SgdCases = testing::Types<SgdCase<float>, SgdCase<double>>;
INSTANTIATE_TYPED_TEST_SUITE_P(Sgd, UpdateRuleLaws, SgdCases);

TEST(Sgd, takes_one_step_down_the_gradient) {
  double w = 2;
  optim::Sgd::update(w, static_cast<double*>(nullptr), 3.0,
                     optim::Sgd{}.coefficients<double>(1, 0.1, true));
  EXPECT_DOUBLE_EQ(w, 2 - 0.1 * 3);
}

TEST(Sgd, refuses_a_decay_that_is_no_number) {
  EXPECT_THROW(optim::Sgd({.weight_decay = std::nan("")}).validate(), OptionError);
  EXPECT_NO_THROW(optim::Sgd().validate());
}

}  // namespace reef::test
