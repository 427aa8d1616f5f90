#include <reef/optim/learning_rate.hpp>

#include <gtest/gtest.h>

#include <cmath>

namespace reef::test {

using optim::LearningRate;

TEST(LearningRate, warms_up_in_a_line_and_ends_at_the_floor) {
  const LearningRate rate{.peak = 1, .warmup = 4, .steps = 14, .floor = 0.1};
  EXPECT_DOUBLE_EQ(rate.at(0), 0.25);
  EXPECT_DOUBLE_EQ(rate.at(3), 1);
  EXPECT_DOUBLE_EQ(rate.at(4), 1);
  EXPECT_DOUBLE_EQ(rate.at(9), 0.1 + 0.9 * 0.5);
  EXPECT_DOUBLE_EQ(rate.at(14), 0.1);
  EXPECT_DOUBLE_EQ(rate.at(1000), 0.1);
}

TEST(LearningRate, stays_at_the_peak_without_a_number_of_steps) {
  const LearningRate rate{.peak = 0.3, .warmup = 0};
  EXPECT_DOUBLE_EQ(rate.at(0), 0.3);
  EXPECT_DOUBLE_EQ(rate.at(100000), 0.3);
}

TEST(LearningRate, takes_a_schedule_of_ones_own) {
  LearningRate rate;
  rate.schedule = [](std::int64_t t) { return 1.0 / static_cast<double>(t + 1); };
  EXPECT_DOUBLE_EQ(rate.at(3), 0.25);
}

TEST(LearningRate, refuses_what_is_no_schedule) {
  EXPECT_THROW((LearningRate{.peak = -1}.validate()), OptionError);
  EXPECT_THROW((LearningRate{.peak = 1, .floor = 2}.validate()), OptionError);
  EXPECT_THROW((LearningRate{.peak = 1, .warmup = -1}.validate()), OptionError);
  EXPECT_THROW((LearningRate{.peak = std::nan("")}.validate()), OptionError);
  EXPECT_NO_THROW(LearningRate{}.validate());
}

}  // namespace reef::test
