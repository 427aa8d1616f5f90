#include <reef/data/bpe_tokenizer.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include <reef/data/detail/bpe_files.hpp>
#include <reef/data/detail/bpe_merger.hpp>
#include <reef/io/file.hpp>

#include "../support/temporary_folder.hpp"
#include "random_strings.hpp"

namespace {

using namespace reef;
using data::BpeTokenizer;
using testing::HasSubstr;

const std::string test_data = REEF_TEST_DATA;

const BpeTokenizer& small_tiktoken() {
  static const BpeTokenizer tokenizer = BpeTokenizer::read_tiktoken(test_data + "/small.tiktoken");
  return tokenizer;
}
const BpeTokenizer& small_gpt2() {
  static const BpeTokenizer tokenizer =
      BpeTokenizer::read_gpt2(test_data + "/small_vocab.json", test_data + "/small_merges.txt");
  return tokenizer;
}

/// fnv1a of all strings, then of each string's tokens: see write_tokens_of_tiktoken.mjs.
std::vector<std::uint32_t> checksums_of_tiktoken() {
  const std::string bytes = io::read_file(test_data + "/small_tokens_of_tiktoken.bin", 1_MiB);
  std::vector<std::uint32_t> words(bytes.size() / 4);
  std::memcpy(words.data(), bytes.data(), 4 * words.size());
  return words;
}

TEST(BpeTokenizer, has_the_tokens_of_tiktoken_for_ten_thousand_random_strings) {
  const std::vector<std::uint32_t> expected = checksums_of_tiktoken();
  ASSERT_EQ(expected.size(), 10'001U);
  std::uint32_t strings = test::fnv1a({});
  int other_ranks = 0;
  int other_merges = 0;
  for (std::uint32_t i = 0; i < 10'000; ++i) {
    const std::string text = test::random_string(i);
    strings = test::fnv1a(text, strings);
    const auto tokens = small_tiktoken().encode(text);
    other_ranks += test::checksum_of_tokens(tokens) != expected[i + 1] ? 1 : 0;
    const auto merged = small_gpt2().encode(text);
    other_merges += test::checksum_of_tokens(merged) != expected[i + 1] ? 1 : 0;
    ASSERT_EQ(small_tiktoken().decode(tokens), text);
    ASSERT_EQ(small_gpt2().decode(merged), text);
  }
  EXPECT_EQ(strings, expected[0]) << "these are not the strings that tiktoken was given";
  EXPECT_EQ(other_ranks, 0) << "strings, from the file of ranks";
  EXPECT_EQ(other_merges, 0) << "strings, from vocabulary and merges";
}

TEST(BpeTokenizer, knows_its_vocabulary_and_the_end_of_text_by_name) {
  for (const BpeTokenizer* tokenizer : {&small_tiktoken(), &small_gpt2()}) {
    EXPECT_EQ(tokenizer->vocabulary(), 1257);
    EXPECT_EQ(tokenizer->end_of_text(), 1256);
    EXPECT_EQ(tokenizer->decode(std::vector<std::int32_t>{1256}), "<|endoftext|>");
    const auto tokens = tokenizer->encode("a<|endoftext|>b");
    EXPECT_EQ(std::count(tokens.begin(), tokens.end(), 1256), 0);
    EXPECT_EQ(tokenizer->decode(tokens), "a<|endoftext|>b");
  }
}

TEST(BpeTokenizer, finds_special_and_added_tokens_in_text_if_it_is_told_to) {
  const test::TemporaryFolder folder;
  test::write_file(folder / "added_tokens.json", R"({"<|end": 1257, "<|endof|>": 1258, "<|endoftext|>": 1256})");
  const auto gpt2 = BpeTokenizer::read_gpt2(test_data + "/small_vocab.json", test_data + "/small_merges.txt",
                                            folder / "added_tokens.json", {.finds_added = true});
  const auto tiktoken = BpeTokenizer::read_tiktoken(test_data + "/small.tiktoken", {.finds_added = true});
  const auto joined = [](std::vector<std::int32_t> tokens, const std::vector<std::int32_t>& more) {
    tokens.insert(tokens.end(), more.begin(), more.end());
    return tokens;
  };
  const auto begin = small_gpt2().encode("the end");
  const auto end = small_gpt2().encode(" of it");
  for (const BpeTokenizer* tokenizer : {&gpt2, &tiktoken}) {
    EXPECT_EQ(tokenizer->encode("the end<|endoftext|> of it"), joined(joined(begin, {1256}), end));
    EXPECT_EQ(tokenizer->encode("<|endoftext|><|endoftext|>"), (std::vector<std::int32_t>{1256, 1256}));
    EXPECT_EQ(tokenizer->encode("the end"), begin);
    EXPECT_EQ(tokenizer->decode(tokenizer->encode("<|<|endoftext|>|>")), "<|<|endoftext|>|>");
  }
  EXPECT_EQ(gpt2.encode("<|endof|><|end"), (std::vector<std::int32_t>{1258, 1257})) << "the longest";
  EXPECT_EQ(gpt2.encode("<|endof of it"), joined({1257}, small_gpt2().encode("of of it")));
}

TEST(BpeTokenizer, gives_bytes_back_that_are_no_utf8) {
  std::string text;
  for (std::uint32_t i = 0; i < 20'000; ++i) {
    text += static_cast<char>(test::fnv1a(std::string_view("x"), i) >> 9);
  }
  for (const BpeTokenizer* tokenizer : {&small_tiktoken(), &small_gpt2()}) {
    EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
    // Cut anywhere, also inside characters.
    for (std::uint32_t i = 0; i < 200; ++i) {
      const std::string whole = test::random_string(i);
      for (std::size_t cut = 0; cut <= whole.size(); cut += 5) {
        ASSERT_EQ(tokenizer->decode(tokenizer->encode(whole.substr(cut))), whole.substr(cut));
        ASSERT_EQ(tokenizer->decode(tokenizer->encode(whole.substr(0, cut))), whole.substr(0, cut));
      }
    }
    EXPECT_TRUE(tokenizer->encode("").empty());
    EXPECT_EQ(tokenizer->decode({}), "");
  }
}

TEST(BpeTokenizer, refuses_to_decode_a_token_outside_its_vocabulary) {
  for (const std::int32_t bad : {-1, 1257, 50'256}) {
    EXPECT_THROW((void)small_gpt2().decode(std::vector<std::int32_t>{65, bad}), DecodeError);
  }
}

TEST(BpeTokenizer, a_piece_has_the_same_tokens_wherever_it_stands) {
  int compared = 0;
  for (std::uint32_t i = 0; i < 100; ++i) {
    const std::string text = test::random_string(i) + "\n";
    std::vector<std::int32_t> alone = small_gpt2().encode(text + "x");
    alone.pop_back();
    std::string many;
    std::vector<std::int32_t> expected;
    for (int k = 0; k < 5; ++k) {
      many += text + "x";
      expected.insert(expected.end(), alone.begin(), alone.end());
      expected.push_back(small_gpt2().encode("x").front());
    }
    // A text that begins with a letter joins the x before it.
    if (data::gpt2_piece_end("x" + text, 0) != 1) continue;
    EXPECT_EQ(small_gpt2().encode(many), expected);
    ++compared;
  }
  EXPECT_GT(compared, 50);
}

/// The definition: merge the lowest rank, of equal ones the leftmost, until there is none.
void merge_by_definition(const data::detail::MergeTable& table, std::vector<std::int32_t>& ids) {
  for (;;) {
    const data::detail::Merge* best = nullptr;
    std::size_t at = 0;
    for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
      const auto* merge = table.find(ids[i], ids[i + 1]);
      if (merge == nullptr || (best != nullptr && merge->rank >= best->rank)) continue;
      best = merge;
      at = i;
    }
    if (best == nullptr) return;
    ids[at] = best->merged;
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  }
}

TEST(BpeMerger, merges_pieces_of_every_length_by_the_definition) {
  // Tokens 0 to 3 are single; those above are pairs of lower ones, in an order of ranks that mixes.
  std::vector<data::detail::Merge> merges;
  for (std::int32_t i = 0; i < 60; ++i) {
    const std::int32_t below = 4 + i;
    const auto draw = [&](std::uint32_t key) {
      return static_cast<std::int32_t>(test::fnv1a("ab", key) % static_cast<std::uint32_t>(below));
    };
    const auto u = static_cast<std::uint32_t>(i);
    const std::int32_t left = i < 8 ? i % 4 : draw(2 * u);
    const std::int32_t right = i < 8 ? (i / 2) % 4 : draw(2 * u + 1);
    bool known = false;
    for (const auto& merge : merges) known |= merge.left == left && merge.right == right;
    if (!known) merges.push_back({left, right, below, (i * 37) % 61});
  }
  const data::detail::MergeTable table(merges);
  data::detail::BpeMerger merger(table);
  for (std::size_t length = 0; length < 200; ++length) {
    for (std::uint32_t trial = 0; trial < 5; ++trial) {
      std::vector<std::int32_t> ids{-7};  // what stands before the piece is left alone
      for (std::uint32_t i = 0; i < length; ++i) {
        ids.push_back(static_cast<std::int32_t>(test::fnv1a("c", 1000 * trial + i) >> 7 & 3U));
      }
      std::vector<std::int32_t> expected(ids.begin() + 1, ids.end());
      merge_by_definition(table, expected);
      merger.merge(ids, 1);
      expected.insert(expected.begin(), -7);
      ASSERT_EQ(ids, expected) << length;
    }
  }
}

TEST(BpeTokenizer, takes_a_piece_of_a_million_letters_in_a_moment) {
  const std::string text(1'000'000, 'e');  // quadratic would be hours
  const auto tokens = small_tiktoken().encode(text);
  EXPECT_EQ(small_tiktoken().decode(tokens), text);
}

// -- malformed files -----------------------------------------------------------------------------

class TokenizerFiles : public testing::Test {
protected:
  static std::string read(const std::string& name) {
    return io::read_file(test_data + "/" + name, 1_MiB);
  }
  static std::string replaced(std::string text, const std::string& from, const std::string& to) {
    const std::size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return text.replace(at, from.size(), to);
  }
  std::string refusal_of_ranks(const std::string& text) {
    test::write_file(folder_ / "ranks", text);
    try {
      (void)BpeTokenizer::read_tiktoken(folder_ / "ranks");
      return "no error";
    } catch (const DecodeError& error) {
      return error.what();
    }
  }
  std::string refusal(const std::string& vocabulary, const std::string& merges) {
    test::write_file(folder_ / "vocab.json", vocabulary);
    test::write_file(folder_ / "merges.txt", merges);
    try {
      (void)BpeTokenizer::read_gpt2(folder_ / "vocab.json", folder_ / "merges.txt");
      return "no error";
    } catch (const DecodeError& error) {
      return error.what();
    }
  }

  test::TemporaryFolder folder_;
};

TEST_F(TokenizerFiles, of_ranks_are_refused_with_the_line_that_is_wrong) {
  const std::string good = read("small.tiktoken");
  EXPECT_EQ(refusal_of_ranks(good), "no error");
  EXPECT_EQ(refusal_of_ranks(good.substr(0, good.size() - 1)), "no error");
  // "Ig== 1" is the byte '"'.
  EXPECT_THAT(refusal_of_ranks(replaced(good, "Ig== 1\n", "Ig=  1\n")),
              HasSubstr("ranks', line 2: 'Ig=' is no base64"));
  EXPECT_THAT(refusal_of_ranks(replaced(good, "Ig== 1\n", "Ih== 1\n")),
              HasSubstr("line 2: 'Ih==' is no base64"));
  EXPECT_THAT(refusal_of_ranks(replaced(good, "Ig== 1\n", "Ig== 1 2\n")),
              HasSubstr("line 2: after"));
  EXPECT_THAT(refusal_of_ranks(replaced(good, "Ig== 1\n", "Ig==\n")), HasSubstr("line 2: after"));
  EXPECT_THAT(refusal_of_ranks(replaced(good, "Ig== 1\n", "\n")), HasSubstr("line 2: it is empty"));
  EXPECT_THAT(refusal_of_ranks(replaced(good, "Ig== 1\n", "Ig== 7\n")),
              HasSubstr("line 2: after the token the rank 1 was expected"));
  EXPECT_THAT(refusal_of_ranks(replaced(good, "Ig== 1\n", "Ig== -1\n")), HasSubstr("line 2"));
  EXPECT_THAT(refusal_of_ranks(replaced(good, "Ig== 1\n", "IQ== 1\n")),
              HasSubstr("line 2: the token of rank 0 again"));
  EXPECT_THAT(refusal_of_ranks(replaced(good, "Ig== 1\n", "Ig8v 1\n")),
              HasSubstr("has no token for byte 34"));
  EXPECT_THAT(refusal_of_ranks(""), HasSubstr("has no token for byte 0"));
  const std::string long_line = refusal_of_ranks("\033[2J" + std::string(1 << 20, '!'));
  EXPECT_THAT(long_line, HasSubstr("'\\x1b[2J!!!"));
  EXPECT_LT(long_line.size(), 500U);
  EXPECT_THROW((void)BpeTokenizer::read_tiktoken(folder_ / "missing"), FileError);
}

TEST_F(TokenizerFiles, of_vocabulary_and_merges_are_refused_with_what_is_wrong) {
  const std::string vocabulary = read("small_vocab.json");
  const std::string merges = read("small_merges.txt");
  EXPECT_EQ(refusal(vocabulary, merges), "no error");
  const auto end = merges.find('\n') + 1;
  EXPECT_EQ(refusal(vocabulary, merges.substr(end)), "no error");  // no version line
  EXPECT_THAT(refusal("[]", merges), HasSubstr("is no object"));
  EXPECT_THAT(refusal("{", merges), HasSubstr("vocab.json:1:"));
  EXPECT_THAT(refusal(replaced(vocabulary, "\"a\":64", "\"a\":65"), merges),
              HasSubstr("has the id 65 of another token"));
  EXPECT_THAT(refusal(replaced(vocabulary, "\"a\":64", "\"a\":64000"), merges),
              HasSubstr("token 'a' has the id '64000', expected 0 to 1256"));
  EXPECT_THAT(refusal(replaced(vocabulary, "\"a\":64", "\"a\":-1"), merges), HasSubstr("id '-1'"));
  EXPECT_THAT(refusal(replaced(vocabulary, "\"a\":64", "\"a\":\"x\""), merges), HasSubstr("'a'"));
  EXPECT_THAT(refusal(replaced(vocabulary, "\"a\":64", "\"\":64"), merges), HasSubstr("is empty"));
  EXPECT_THAT(refusal(replaced(vocabulary, "\"a\":64", "\"a b\":64"), merges),
              HasSubstr("a character that stands for no byte"));
  EXPECT_THAT(refusal(replaced(vocabulary, "\"a\":64", "\"\xE4\xB8\x80\":64"), merges),
              HasSubstr("a character that stands for no byte"));
  EXPECT_THAT(refusal(replaced(vocabulary, "\"a\":64", "\"a!!!!a\":64"), merges),
              HasSubstr("has no token for byte 97"));
  const std::string first = merges.substr(end, merges.find('\n', end) - end);
  EXPECT_THAT(refusal(vocabulary, merges + first + "\n"),
              HasSubstr("merges.txt', line 1002: '" + first + "' stands in line 2 too"));
  EXPECT_THAT(refusal(vocabulary, merges + "ab\n"), HasSubstr("line 1002: 'ab' is no pair"));
  EXPECT_THAT(refusal(vocabulary, merges + "a b c\n"), HasSubstr("is no pair"));
  EXPECT_THAT(refusal(vocabulary, merges + "\n"), HasSubstr("line 1002"));
  EXPECT_THAT(refusal(vocabulary, merges + "! #!#!\n"), HasSubstr("the right half of '! #!#!'"));
  EXPECT_THAT(refusal(vocabulary, merges + "#!#! !\n"), HasSubstr("the left half"));
  EXPECT_THAT(refusal(vocabulary, merges + "~ a\n"), HasSubstr("the whole of '~ a' is no token"));
  EXPECT_THAT(refusal(vocabulary, merges + "\x01 a\n"), HasSubstr("stands for no byte"));
}

TEST_F(TokenizerFiles, that_were_cut_off_or_do_not_belong_together_are_refused) {
  const std::string vocabulary = read("small_vocab.json");
  const std::string merges = read("small_merges.txt");
  // Wherever merges.txt ends, something is missing.
  const std::size_t last_line = merges.rfind('\n', merges.size() - 2) + 1;
  for (const std::size_t size : {last_line, last_line - 1, last_line - 2, merges.size() / 2,
                                 merges.find('\n') + 1, std::size_t{0}})
    EXPECT_THAT(refusal(vocabulary, merges.substr(0, size)), HasSubstr("merges.txt'")) << size;
  EXPECT_THAT(refusal(vocabulary, merges.substr(0, last_line)),
              HasSubstr("has 999 merges, none of which makes 1 tokens of the vocabulary, such as"));
  // A vocabulary of another training: the ids are all there, a token is another.
  EXPECT_THAT(refusal(replaced(vocabulary, "\"<|endoftext|>\"", "\"endoftextendoftext\""), merges),
              HasSubstr("such as 'endoftextendoftext' of id"));
  EXPECT_EQ(refusal(replaced(vocabulary, "\"<|endoftext|>\"", "\"[MASK]\""), merges), "no error");
  EXPECT_EQ(refusal(replaced(vocabulary, "\"<|endoftext|>\"", "\"<\xE4\xB8\x80>\""), merges),
            "no error");
  const std::string ranks = read("small.tiktoken");
  const std::size_t last_rank = ranks.rfind('\n', ranks.size() - 2) + 1;
  for (std::size_t size = last_rank + 1; size + 1 < ranks.size(); ++size)
    EXPECT_THAT(refusal_of_ranks(ranks.substr(0, size)), HasSubstr("line 1256")) << size;
}

TEST_F(TokenizerFiles, may_begin_with_a_byte_order_mark) {
  const std::string mark = "\xef\xbb\xbf";
  EXPECT_EQ(refusal(mark + read("small_vocab.json"), mark + read("small_merges.txt")), "no error");
  EXPECT_EQ(refusal_of_ranks(mark + read("small.tiktoken")), "no error");
}

TEST_F(TokenizerFiles, of_added_tokens_go_on_where_the_vocabulary_ends) {
  const auto read_added = [&](const std::string& json) {
    test::write_file(folder_ / "added_tokens.json", json);
    return BpeTokenizer::read_gpt2(test_data + "/small_vocab.json", test_data + "/small_merges.txt",
                                   folder_ / "added_tokens.json");
  };
  const auto refusal_of_added = [&](const std::string& json) {
    try {
      (void)read_added(json);
      return std::string("no error");
    } catch (const DecodeError& error) {
      return std::string(error.what());
    }
  };
  const BpeTokenizer more = read_added(R"({"<|user|>": 1258, "<|endoftext|>": 1256, "  x": 1257})");
  EXPECT_EQ(more.vocabulary(), 1259);
  EXPECT_EQ(more.find("<|user|>"), 1258);
  EXPECT_EQ(more.find("<|endoftext|>"), 1256);
  EXPECT_EQ(more.find("<|nobody|>"), std::nullopt);
  EXPECT_EQ(more.decode(std::vector<std::int32_t>{1257, 1258}), "  x<|user|>");
  EXPECT_EQ(more.encode("the <|user|>"), small_gpt2().encode("the <|user|>"));
  EXPECT_THAT(refusal_of_added("[]"), HasSubstr("is no object"));
  EXPECT_THAT(refusal_of_added(R"({"<|user|>": 1258})"), HasSubstr("'<|user|>' has the id '1258'"));
  EXPECT_THAT(refusal_of_added(R"({"<a>": 1257, "<b>": 1257})"), HasSubstr("has the id '1257'"));
  EXPECT_THAT(refusal_of_added(R"({"<|endoftext|>": 1257})"), HasSubstr("in the vocabulary 1256"));
  EXPECT_THAT(refusal_of_added(R"({"<a>": -1})"), HasSubstr("has the id '-1'"));
  EXPECT_THAT(refusal_of_added(R"({"": 1257})"), HasSubstr("is empty"));
}

}  // namespace
