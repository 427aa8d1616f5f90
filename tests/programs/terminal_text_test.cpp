// What a terminal is shown of bytes that are no text.

#include <string>

#include <gtest/gtest.h>

#include "../../examples/support/terminal_text.hpp"

namespace reef::test {
namespace {

using reef_examples::shown_on_terminal;

TEST(TerminalText, keeps_what_is_utf_8_and_line_ends_and_tabs) {
  for (const std::string text :
       {"", "a line\n\tand more\n", "caf\xC3\xA9, \xE2\x82\xAC, \xF0\x9F\x90\x9F"})
    EXPECT_EQ(shown_on_terminal(text), text);
}

TEST(TerminalText, escapes_bytes_that_are_no_utf_8) {
  EXPECT_EQ(shown_on_terminal("a\xFF"
                              "b"),
            "a\\xffb");
  EXPECT_EQ(shown_on_terminal("\xC3"), "\\xc3") << "cut off";
  EXPECT_EQ(shown_on_terminal("\xC3(\x80"), "\\xc3(\\x80");
  EXPECT_EQ(shown_on_terminal("\xED\xA0\x80"), "\\xed\\xa0\\x80") << "half of a pair";
  EXPECT_EQ(shown_on_terminal("\xC0\xAF"), "\\xc0\\xaf") << "longer than it need be";
}

TEST(TerminalText, escapes_what_a_terminal_obeys) {
  EXPECT_EQ(shown_on_terminal("\x1B[2Jgone\r\x07\x7F"), "\\x1b[2Jgone\\x0d\\x07\\x7f");
  EXPECT_EQ(shown_on_terminal(std::string("a\0b", 3)), "a\\x00b");
  EXPECT_EQ(shown_on_terminal("\xC2\x9B"
                              "2J"),
            "\\xc2\\x9b2J")
      << "the same as ESC [";
}

}  // namespace
}  // namespace reef::test
