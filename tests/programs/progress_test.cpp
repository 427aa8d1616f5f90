#include "../../examples/support/progress.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

namespace {

using reef_examples::Standing;

const Standing half{200, 400, 2.3456, 34'120, 0.083, 50};

/// How many columns a UTF-8 text takes, if none of its characters is wide.
std::size_t columns_of(std::string_view text) {
  std::size_t count = 0;
  for (const char c : text) count += (static_cast<unsigned char>(c) & 0xC0U) != 0x80U ? 1U : 0U;
  return count;
}

/// What `use` prints, on a terminal or not.
template <class F>
std::string printed(bool redraw, F use) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::tmpfile(), &std::fclose);
  {
    reef_examples::Progress progress(file.get(), redraw);
    use(progress);
  }
  std::fflush(file.get());
  std::rewind(file.get());
  std::string text(1 << 16, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file.get()));
  return text;
}

TEST(Progress, a_log_line_says_step_loss_speed_exposure_and_the_time_left) {
  EXPECT_EQ(reef_examples::log_line(half),
            "step 200/400  loss 2.346  34.1k tokens/s  exposed 8.3%  0:50, 0:50 left");
  EXPECT_EQ(reef_examples::log_line({0, 10, 5.5, 0, 0, 0}),
            "step 0/10  loss 5.500  0 tokens/s  exposed 0.0%  0:00, - left");
}

TEST(Progress, the_time_left_is_that_of_steps_such_as_this_run_took) {
  EXPECT_DOUBLE_EQ(reef_examples::seconds_left({2910, 30000, 2, 5, 0, 20, 2900, 2}), 2 * 27090);
  EXPECT_DOUBLE_EQ(reef_examples::seconds_left({2900, 30000, 2, 5, 0, 0, 2900}), -1);
}

TEST(Progress, a_slow_first_step_makes_no_absurd_estimate) {
  // 10 seconds for the first step, a tenth for each of the others.
  const auto left = [](std::int64_t step) {
    return reef_examples::seconds_left(
        {step, 10001, 2, 5, 0, 10 + 0.1 * static_cast<double>(step - 1), 0, 10});
  };
  for (const std::int64_t step : {1, 2, 3}) EXPECT_DOUBLE_EQ(left(step), -1);
  for (const std::int64_t step : {4, 5, 100, 5000}) {
    EXPECT_NEAR(left(step), 0.1 * static_cast<double>(10001 - step), 1e-6);
  }
  EXPECT_DOUBLE_EQ(left(10001), 0);
  EXPECT_DOUBLE_EQ(reef_examples::seconds_left({1, 1, 2, 5, 0, 10, 0, 10}), 0);
}

TEST(Progress, times_and_numbers_are_short) {
  EXPECT_EQ(reef_examples::clock_text(59.6), "1:00");
  EXPECT_EQ(reef_examples::clock_text(7265), "2:01:05");
  EXPECT_EQ(reef_examples::clock_text(-1), "-");
  EXPECT_EQ(reef_examples::short_number(9'999), "9999");
  EXPECT_EQ(reef_examples::short_number(1'234'567), "1.23M");
}

TEST(Progress, the_bar_fills_with_the_steps) {
  EXPECT_EQ(reef_examples::bar_line({1, 4, 2, 100, 0, 1}, 83, false),
            " 25% [#####..................] 1/4  loss 2.000  100 tokens/s  exposed 0.0%  - left");
  EXPECT_NE(reef_examples::bar_line({4, 8, 2, 100, 0, 7, 0, 1}, 83, false).find(" 0:08 left"),
            std::string::npos);
  const std::string full = reef_examples::bar_line({4, 4, 2, 100, 0, 4}, 83, true);
  EXPECT_EQ(full.substr(0, 8 + 20 * 3), "100% ▕████████████████████");
}

TEST(Progress, the_line_never_reaches_the_last_column_however_narrow) {
  for (const bool unicode : {false, true}) {
    for (int columns = 1; columns < 200; ++columns) {
      for (const std::int64_t step : {0, 1, 57, 399, 400, 500}) {
        const std::string line =
            reef_examples::bar_line({step, 400, 2, 5, 0.1, 3}, columns, unicode);
        EXPECT_LT(columns_of(line), static_cast<std::size_t>(columns)) << line;
      }
    }
  }
  EXPECT_NO_THROW(reef_examples::bar_line({0, 0, 0, 0, 0, 0}, 80, true));
}

TEST(Progress, elsewhere_prints_plain_lines_for_the_first_and_the_last_step) {
  const std::string text = printed(false, [](reef_examples::Progress& progress) {
    progress.say("reading 3 files");
    for (int step = 1; step <= 500; ++step) progress.update({step, 500, 2, 100, 0, step * 1e-3});
    progress.finish();
  });
  EXPECT_EQ(text.find_first_of("\r\x1b"), std::string::npos);
  EXPECT_EQ(text.substr(0, text.find('\n')), "reading 3 files");
  EXPECT_NE(text.find("step 1/500"), std::string::npos);
  EXPECT_NE(text.find("step 500/500"), std::string::npos);
  EXPECT_EQ(text.find("step 250/500"), std::string::npos);
}

TEST(Progress, on_a_terminal_redraws_one_line_and_puts_messages_above_it) {
  const std::string text = printed(true, [](reef_examples::Progress& progress) {
    progress.update({1, 10, 2, 100, 0, 1});
    progress.say("checkpoint");
    progress.update({10, 10, 2, 100, 0, 10});
    progress.finish();
  });
  EXPECT_EQ(text[0], '\r');
  EXPECT_NE(text.find("\r\x1b[Kcheckpoint\n\r"), std::string::npos);
  EXPECT_EQ(text.back(), '\n');
  EXPECT_EQ(static_cast<int>(std::count(text.begin(), text.end(), '\n')), 2);
}

}  // namespace
