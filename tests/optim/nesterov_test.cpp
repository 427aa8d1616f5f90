#include <reef/optim/nesterov.hpp>

#include <gtest/gtest.h>

#include <reef/optim/momentum.hpp>

#include "../laws/update_rule.hpp"

namespace reef::test {

template <class T>
struct NesterovCase {
  using Element = T;
  static optim::Nesterov rule() {
    return optim::Nesterov({.momentum = 0.75, .weight_decay = 0.25});
  }

  /// Nesterov's own two sequences, x of the weights where gradients are taken (w) and y of those that
  /// a plain step leads to: y' = w - lr g, w' = y' + momentum (y' - y). Equal as long as the learning
  /// rate stays.
  struct Reference {
    double y = 0;
    double operator()(double w, double g, int t, double lr, bool decays) {
      const double gradient = decays ? g + 0.25 * w : g;
      const double before = t == 1 ? w : y;
      y = w - lr * gradient;
      return y + 0.75 * (y - before);
    }
  };
};

using NesterovCases = testing::Types<NesterovCase<float>, NesterovCase<double>>;
INSTANTIATE_TYPED_TEST_SUITE_P(Nesterov, UpdateRuleLaws, NesterovCases);

TEST(Nesterov, gives_the_numbers_of_torch) {
  // torch.optim.SGD([w], lr=0.7, momentum=0.9, nesterov=True), w = 1, gradients 0.5, -0.25, 0.125.
  const optim::Nesterov rule({.momentum = 0.9});
  double w = 1;
  double m = 0;
  const double expected[] = {0.335, 0.384, 0.10435};
  int step = 0;
  for (const double g : {0.5, -0.25, 0.125}) {
    optim::Nesterov::update(w, &m, g, rule.coefficients<double>(step + 1, 0.7, false));
    EXPECT_NEAR(w, expected[step], 1e-12) << step;
    ++step;
  }
}

TEST(Nesterov, goes_further_than_the_heavy_ball_and_without_momentum_as_far) {
  const auto moved = [](auto rule) {
    double w = 0;
    double m = 0;
    for (int t = 1; t <= 2; ++t)
      rule.update(w, &m, 1.0, rule.template coefficients<double>(t, 1, false));
    return -w;
  };
  EXPECT_DOUBLE_EQ(moved(optim::Momentum({.momentum = 0.5})), 2.5);
  EXPECT_DOUBLE_EQ(moved(optim::Nesterov({.momentum = 0.5})), 3.25);
  EXPECT_DOUBLE_EQ(moved(optim::Nesterov({.momentum = 0})), 2);
}

TEST(Nesterov, refuses_a_momentum_that_never_fades) {
  EXPECT_THROW(optim::Nesterov({.momentum = 1}).validate(), OptionError);
  EXPECT_NO_THROW(optim::Nesterov().validate());
}

}  // namespace reef::test
