// What a program says on a terminal, in lines that fit one.

#include <string>

#include <gtest/gtest.h>

#include "../../examples/support/wrapped_text.hpp"

namespace reef_examples {
namespace {

TEST(WrappedText, breaks_lines_at_blanks_where_they_would_be_too_long) {
  EXPECT_EQ(wrapped("one two three\nfour\n", 8), "one two\nthree\nfour\n");
  EXPECT_EQ(wrapped("  one two three", 9), "  one two\n  three");
  EXPECT_EQ(wrapped("", 8), "");
  EXPECT_EQ(wrapped("\n\n", 8), "\n\n");
}

TEST(WrappedText, continues_an_option_in_the_second_column) {
  EXPECT_EQ(wrapped("  --a     what it does\n", 17, 10), "  --a     what it\n          does\n");
  EXPECT_EQ(wrapped("          what it does\n", 17, 10), "          what it\n          does\n");
}

TEST(WrappedText, leaves_a_word_that_is_too_long) {
  EXPECT_EQ(wrapped("one twotwotwotwo three", 8), "one\ntwotwotwotwo\nthree");
  EXPECT_EQ(wrapped("  --a     whatitdoesandmore", 17, 10), "  --a     whatitdoesandmore");
  EXPECT_EQ(wrapped("  --option TEXT:oneandmore", 17, 10), "  --option\n  TEXT:oneandmore");
}

TEST(WrappedText, breaks_what_an_option_may_be_behind_a_comma) {
  EXPECT_EQ(wrapped("  --a T:{one,two,three,four} [one]\n          what it is\n", 20, 10),
            "  --a T:{one,two,\n         three,four}\n         [one]\n          what it is\n");
  EXPECT_EQ(wrapped("  --a T:{one,two}", 17, 10), "  --a T:{one,two}");
  EXPECT_EQ(wrapped("  --a T:{onetwothreefour,five}", 17, 10), "  --a T:{onetwothreefour,\n         five}");
}

}  // namespace
}  // namespace reef_examples
