// The speed of a device from what a warm-up took.

#include <limits>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reef/core/error.hpp>
#include <reef/profile/fitted_speed.hpp>

namespace reef::profile {
namespace {

using testing::HasSubstr;

TEST(FittedSpeed, is_that_of_runs_which_agree) {
  const FittedSpeed fitted = fitted_speed({{1e9, 0.5}, {2e9, 1}, {8e9, 4}});
  EXPECT_DOUBLE_EQ(fitted.flops_per_second, 2e9);
  EXPECT_EQ(fitted.used, 3);
  EXPECT_NEAR(fitted.error, 0, 1e-12);
  EXPECT_DOUBLE_EQ(fitted_speed({{6, 2}}).flops_per_second, 3);
}

TEST(FittedSpeed, is_near_the_true_one_under_noise_and_forgets_what_another_program_took) {
  std::mt19937_64 random(1);
  const auto between = [&](double least, double most) {
    return least + (most - least) * static_cast<double>(random() >> 11) * 0x1p-53;
  };
  for (int repeat = 0; repeat < 50; ++repeat) {
    std::vector<TimedOperations> runs;
    for (int i = 0; i < 12; ++i) {
      const double flops = between(1e9, 1e10);
      runs.push_back({flops, flops / 3e11 * between(0.97, 1.03)});
    }
    runs[0].seconds *= 40;  // the first one
    runs[7].seconds *= 5;
    const FittedSpeed fitted = fitted_speed(runs);
    EXPECT_NEAR(fitted.flops_per_second, 3e11, 0.02 * 3e11);
    EXPECT_LE(fitted.used, 10);
    EXPECT_GE(fitted.used, 6);
    EXPECT_LT(fitted.error, 0.03);
  }
}

TEST(FittedSpeed, refuses_runs_that_cannot_be_and_names_them) {
  const auto refused = [](const std::string& text, const std::vector<TimedOperations>& runs) {
    try {
      fitted_speed(runs);
      ADD_FAILURE() << "no error for " << text;
    } catch (const OptionError& error) {
      EXPECT_THAT(error.what(), HasSubstr(text));
    }
  };
  refused("there are no runs", {});
  refused("run 1 has 0 operations", {{1, 1}, {0, 1}});
  refused("run 0 has 1 operations in -1 s", {{1, -1}});
  refused("in nan s", {{1, std::numeric_limits<double>::quiet_NaN()}});
}

}  // namespace
}  // namespace reef::profile
