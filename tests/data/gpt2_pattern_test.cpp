#include <reef/data/gpt2_pattern.hpp>

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "random_strings.hpp"

namespace {

using namespace reef;
using Pieces = std::vector<std::string>;

Pieces pieces_of(std::string_view text) {
  Pieces pieces;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = data::gpt2_piece_end(text, at);
    EXPECT_GT(end, at);
    EXPECT_LE(end, text.size());
    pieces.emplace_back(text.substr(at, end - at));
    at = end;
  }
  return pieces;
}

TEST(Gpt2Pattern, keeps_words_numbers_and_signs_apart_each_with_the_space_before) {
  EXPECT_EQ(pieces_of("Hello world 123 !?"), (Pieces{"Hello", " world", " 123", " !?"}));
  EXPECT_EQ(pieces_of("a1b2_c"), (Pieces{"a", "1", "b", "2", "_", "c"}));
  EXPECT_EQ(pieces_of("x=3.14;"), (Pieces{"x", "=", "3", ".", "14", ";"}));
  EXPECT_EQ(pieces_of(""), Pieces{});
}

TEST(Gpt2Pattern, cuts_lower_case_endings_where_they_begin_a_piece) {
  EXPECT_EQ(pieces_of("I'm he'll we've"), (Pieces{"I", "'m", " he", "'ll", " we", "'ve"}));
  EXPECT_EQ(pieces_of("it'store"), (Pieces{"it", "'s", "tore"}));
  EXPECT_EQ(pieces_of("I'M"), (Pieces{"I", "'", "M"}));
  EXPECT_EQ(pieces_of("a 's"), (Pieces{"a", " '", "s"}));
  EXPECT_EQ(pieces_of("!'s"), (Pieces{"!'", "s"}));
  EXPECT_EQ(pieces_of("'"), Pieces{"'"});
  EXPECT_EQ(pieces_of("'l"), (Pieces{"'", "l"}));
  EXPECT_EQ(pieces_of("''s"), (Pieces{"''", "s"}));
}

TEST(Gpt2Pattern, leaves_the_last_of_several_spaces_to_what_follows) {
  EXPECT_EQ(pieces_of("a   b"), (Pieces{"a", "  ", " b"}));
  EXPECT_EQ(pieces_of("a  \n\tb"), (Pieces{"a", "  \n", "\t", "b"}));
  EXPECT_EQ(pieces_of("a\nb"), (Pieces{"a", "\n", "b"}));
  EXPECT_EQ(pieces_of("a  "), (Pieces{"a", "  "}));
  EXPECT_EQ(pieces_of(" "), Pieces{" "});
  EXPECT_EQ(pieces_of("\xC2\xA0\xE3\x80\x80x"), (Pieces{"\xC2\xA0", "\xE3\x80\x80", "x"}));
}

TEST(Gpt2Pattern, knows_letters_numbers_and_spaces_of_all_scripts) {
  const auto kind = [](std::uint32_t c) {
    std::string text;
    test::append_utf8(text, c);
    const data::detail::Character character = data::detail::character_at(text, 0);
    EXPECT_EQ(character.bytes, text.size());
    return character.kind;
  };
  using enum data::CharClass;
  for (const std::uint32_t c :
       {0x61U, 0xAAU, 0x3B1U, 0x5D0U, 0x4E00U, 0xAC00U, 0x323AFU, 0x1C89U}) {
    EXPECT_EQ(kind(c), letter) << c;
  }
  for (const std::uint32_t c : {0x30U, 0xB2U, 0xBDU, 0x660U, 0x2167U, 0x3007U, 0x1D7FFU}) {
    EXPECT_EQ(kind(c), number) << c;
  }
  for (const std::uint32_t c :
       {0x09U, 0x0BU, 0x0DU, 0x20U, 0x85U, 0xA0U, 0x1680U, 0x2028U, 0x3000U}) {
    EXPECT_EQ(kind(c), space) << c;
  }
  // A combining mark, a joiner, an emoji, byte order mark, unassigned, the last.
  for (const std::uint32_t c :
       {0x00U, 0x1CU, 0x301U, 0x200BU, 0x1F600U, 0xFEFFU, 0x378U, 0x10FFFFU}) {
    EXPECT_EQ(kind(c), other) << c;
  }
}

TEST(Gpt2Pattern, takes_each_byte_that_is_no_utf8_as_a_sign) {
  // Overlong, a surrogate, beyond the last code point, cut off, a continuation alone.
  for (const std::string bad : {"\xC0\xAF", "\xE0\x80\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80",
                                "\xF0\x80\x80\x80", "\xC3", "\xE4\xB8", "\x80", "\xFF\xFE"}) {
    EXPECT_EQ(pieces_of("a" + bad + "!"), (Pieces{"a", bad + "!"}));
    EXPECT_EQ(pieces_of("1 " + bad + "1"), (Pieces{"1", " " + bad, "1"}));
    EXPECT_EQ(data::detail::character_at(bad, 0).bytes, 1);
  }
}

}  // namespace
