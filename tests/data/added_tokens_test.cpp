#include <reef/data/added_tokens.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <reef/core/error.hpp>

#include "../support/temporary_folder.hpp"

namespace {

using namespace reef;
using testing::HasSubstr;

TEST(AddedTokens, are_those_of_all_files_of_a_folder_in_ascending_order) {
  const test::TemporaryFolder folder;
  EXPECT_TRUE(data::read_added_tokens(folder.path()).empty());
  test::write_file(folder / "added_tokens.json", R"({"<pad>": 12, "<a>": 10})");
  test::write_file(folder / "tokenizer_config.json", R"({"added_tokens_decoder": {
    "1": {"content": "<s>", "special": true, "lstrip": false}, "11": {"content": "<b>", "rstrip": true}}})");
  test::write_file(folder / "tokenizer.json", R"({"model": {}, "added_tokens": [
    {"id": 1, "content": "<s>", "special": true, "normalized": false}, {"id": 13, "content": "<c>"}]})");
  const auto tokens = data::read_added_tokens(folder.path());
  std::vector<std::pair<std::int32_t, std::string>> found;
  for (const data::AddedToken& token : tokens) {
    found.emplace_back(token.id, token.content);
    EXPECT_EQ(token.takes_beside, token.id == 11) << token.id;
  }
  EXPECT_EQ(found, (std::vector<std::pair<std::int32_t, std::string>>{
                       {1, "<s>"}, {10, "<a>"}, {11, "<b>"}, {12, "<pad>"}, {13, "<c>"}}));
}

TEST(AddedTokens, of_files_that_differ_or_are_malformed_are_refused_by_file_and_token) {
  for (const auto& [file, text, part] : std::vector<std::array<std::string, 3>>{
           {"added_tokens.json", "[]", "object"},
           {"added_tokens.json", R"({"<a>": -1})", "'<a>' has no id"},
           {"added_tokens.json", R"({"<a>": 2147483647})", "'<a>' has no id"},
           {"added_tokens.json", R"({"": 7})", "is empty"},
           {"added_tokens.json", R"({"<a>": 7, "<b>": 7})", "has the id 7 of '<a>'"},
           {"tokenizer_config.json", R"({"added_tokens_decoder": {"x": {"content": "<a>"}}})", "'x' is no id"},
           {"tokenizer_config.json", R"({"added_tokens_decoder": {"5": "<a>"}})", "object"},
           {"tokenizer_config.json", R"({"added_tokens_decoder": {"5": {"content": 5}}})", "content"},
           {"tokenizer_config.json", R"({"added_tokens_decoder": {"5": {"content": "<a>"}, "6": {"content": "<a>"}}})",
            "has the id 6, and also 5"},
           {"tokenizer.json", R"({"added_tokens": 5})", "is no list"},
           {"tokenizer.json", R"({"added_tokens": [{"content": "<a>"}]})", "has no id"}}) {
    const test::TemporaryFolder folder;
    test::write_file(folder / file, text);
    try {
      (void)data::read_added_tokens(folder.path());
      ADD_FAILURE() << text;
    } catch (const DecodeError& error) {
      EXPECT_THAT(error.what(), HasSubstr(part)) << text;
      EXPECT_THAT(error.what(), HasSubstr(file));
    }
  }
}

TEST(AddedTokens, are_found_in_text_the_longest_first_and_what_is_between_them_in_order) {
  const data::AddedTokenTable table({{"<a>", 1}, {"<a>b", 2}, {"x", 3}});
  std::string parts;
  const auto gap = [&](std::string_view text) { parts += "(" + std::string(text) + ")"; };
  const auto token = [&](std::int32_t id) { parts += std::to_string(id); };
  table.for_each_part("<<a>b<a> xx<a", gap, token);
  EXPECT_EQ(parts, "(<)21( )33(<a)");
  parts.clear();
  table.for_each_part("", gap, token);
  data::AddedTokenTable().for_each_part("all", gap, token);
  EXPECT_EQ(parts, "(all)");
}

}  // namespace
