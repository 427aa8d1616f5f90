#include <reef/optim/adamw.hpp>

#include <gtest/gtest.h>

#include <cmath>

#include "../laws/update_rule.hpp"

namespace reef::test {

template <class T>
struct AdamWCase {
  using Element = T;
  /// An epsilon that is felt: it stands beside the root, not under it.
  static optim::AdamW rule() {
    return optim::AdamW({.beta1 = 0.75, .beta2 = 0.875, .epsilon = 0.05, .weight_decay = 0.25});
  }

  /// Loshchilov and Hutter, algorithm 2, line by line; weight decay is multiplied by the rate.
  struct Reference {
    double m = 0;
    double v = 0;
    double operator()(double w, double g, int t, double lr, bool decays) {
      m = 0.75 * m + (1 - 0.75) * g;
      v = 0.875 * v + (1 - 0.875) * (g * g);
      const double unbiased_m = m / (1 - std::pow(0.75, t));
      const double unbiased_v = v / (1 - std::pow(0.875, t));
      const double decay = decays ? 0.25 * w : 0.0;
      return w - lr * (unbiased_m / (std::sqrt(unbiased_v) + 0.05) + decay);
    }
  };
};

using AdamWCases = testing::Types<AdamWCase<float>, AdamWCase<double>>;
INSTANTIATE_TYPED_TEST_SUITE_P(AdamW, UpdateRuleLaws, AdamWCases);

TEST(AdamW, takes_a_first_step_of_the_learning_rate_whatever_the_gradient) {
  for (const double g : {1e-3, 1.0, 1e3}) {
    double w = 0;
    double state[2] = {0, 0};
    optim::AdamW::update(w, state, g, optim::AdamW{}.coefficients<double>(1, 0.1, false));
    EXPECT_NEAR(w, -0.1, 1e-5);
  }
}

TEST(AdamW, refuses_constants_without_a_meaning_each_by_its_name) {
  const auto refused = [](const char* text, optim::AdamW::Options options) {
    try {
      optim::AdamW(options).validate();
      ADD_FAILURE() << "no OptionError: " << text;
    } catch (const OptionError& error) {
      EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
    }
  };
  refused("AdamW: beta1 is 1.", {.beta1 = 1});
  refused("AdamW: beta2 is -0.1.", {.beta2 = -0.1});
  refused("AdamW: epsilon is 0.", {.epsilon = 0});
  refused("AdamW: epsilon is 1e-50.", {.epsilon = 1e-50});  // 0 in fp32, and then 0 / 0
  refused("AdamW: weight_decay is inf.", {.weight_decay = HUGE_VAL});
  EXPECT_NO_THROW(optim::AdamW{}.validate());
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
