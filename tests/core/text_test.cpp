#include <reef/core/text.hpp>

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include <reef/core/error.hpp>

namespace reef::test {

namespace {

enum OfC { one = 1, minus_two = -2 };

TEST(Concat, joins_characters_and_numbers) {
  const std::string name = "loss";
  EXPECT_EQ(concat("the ", name, std::string_view(" of rank "), 3), "the loss of rank 3");
  EXPECT_EQ(concat(), "");
  EXPECT_EQ(concat(""), "");
  EXPECT_EQ(concat(std::string("a\0b", 3)).size(), 3U);
}

TEST(Concat, spells_whole_numbers_to_their_limits) {
  EXPECT_EQ(concat(std::numeric_limits<std::int64_t>::min()), "-9223372036854775808");
  EXPECT_EQ(concat(std::numeric_limits<std::uint64_t>::max()), "18446744073709551615");
  EXPECT_EQ(concat(std::int8_t{-1}, " ", std::uint8_t{255}, " ", -3), "-1 255 -3");
  EXPECT_EQ(concat(one, " ", minus_two), "1 -2");
}

TEST(Concat, spells_a_real_number_in_the_digits_that_read_back) {
  EXPECT_EQ(concat(0.1, " ", 3e-5, " ", 0.1F, " ", -2.5), "0.1 3e-05 0.1 -2.5");
  EXPECT_EQ(concat(std::numeric_limits<double>::infinity()), "inf");
  EXPECT_EQ(concat(1.0 / 3), "0.3333333333333333");
}

TEST(InQuotes, shows_what_is_no_text_by_its_bytes_and_of_what_is_long_the_beginning) {
  EXPECT_EQ(in_quotes("abc"), "'abc'");
  EXPECT_EQ(in_quotes(""), "''");
  EXPECT_EQ(in_quotes("\033[2J\n\x7f"), "'\\x1b[2J\\x0a\\x7f'");
  EXPECT_EQ(in_quotes(std::string_view("a\0b", 3)), "'a\\x00b'");
  EXPECT_EQ(in_quotes("\u00e9"), "'\u00e9'");
  EXPECT_EQ(in_quotes("\xff"), "'\\xff'");
  EXPECT_EQ(in_quotes("abcdef", 6), "'abcdef'");
  EXPECT_EQ(in_quotes("abcdefg", 6), "'abcdef'...");
}

TEST(Error, is_made_of_pieces_and_copies_keep_the_text) {
  const OptionError error("n is ", 0, ", at least 1.");
  const OptionError copy = error;
  EXPECT_STREQ(copy.what(), "n is 0, at least 1.");
  const Error base = copy;
  EXPECT_STREQ(base.what(), "n is 0, at least 1.");
}

}  // namespace

}  // namespace reef::test
