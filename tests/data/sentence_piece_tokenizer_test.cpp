#include <reef/data/sentence_piece_tokenizer.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#ifdef REEF_HAS_SENTENCEPIECE
#include <sentencepiece_trainer.h>
#endif

#include <reef/io/file.hpp>

#include "../support/temporary_folder.hpp"
#include "random_strings.hpp"

namespace {

using namespace reef;
using data::SentencePieceTokenizer;
using testing::HasSubstr;

#ifdef REEF_HAS_SENTENCEPIECE

/// A model of Llama 2's kind, bytes for what it has no piece of, trained here.
class SentencePiece : public testing::Test {
protected:
  SentencePiece() {
    std::string text;
    for (const char* const line :
         {"the quick brown fox jumps over the lazy dog", "pack my box with five dozen jugs",
          "how vexingly quick daft zebras jump", "the five boxing wizards jump quickly"}) {
      for (int i = 0; i < 20; ++i) text += std::string(line) + "\n";
    }
    test::write_file(folder_ / "text", text);
    const auto trained = sentencepiece::SentencePieceTrainer::Train(concat(
        "--input=", (folder_ / "text").string(),
        " --model_prefix=", (folder_ / "tokenizer").string(),
        " --vocab_size=330 --model_type=bpe --byte_fallback=true --normalization_rule_name=identity"
        " --remove_extra_whitespaces=false --character_coverage=1.0 --minloglevel=2"));
    EXPECT_TRUE(trained.ok()) << trained.ToString();
  }
  [[nodiscard]] std::string model() const { return (folder_ / "tokenizer.model").string(); }

  test::TemporaryFolder folder_;
};

TEST_F(SentencePiece, has_the_tokens_of_the_library_and_gives_the_text_back) {
  const auto tokenizer = SentencePieceTokenizer::read(model());
  sentencepiece::SentencePieceProcessor library;
  ASSERT_TRUE(library.Load(model()).ok());
  EXPECT_EQ(tokenizer.vocabulary(), 330);
  for (const std::string text : {"the quick fox", "  two  spaces ",
                                 "\xE4\xB8\xAD\xE6\x96\x87 \xF0\x9F\x99\x82", "", "a\n\tb"}) {
    std::vector<int> expected;
    ASSERT_TRUE(library.Encode(text, &expected).ok());
    const auto tokens = tokenizer.encode(text);
    EXPECT_EQ(tokens, std::vector<std::int32_t>(expected.begin(), expected.end())) << text;
    EXPECT_EQ(tokenizer.decode(tokens), text);
  }
  for (std::uint32_t i = 0; i < 100; ++i) {
    const std::string text = "x" + test::random_string(i);
    if (text.find("\xE2\x96\x81") != std::string::npos || text.find('\0') != std::string::npos)
      continue;
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text) << in_quotes(text, 400);
  }
}

TEST_F(SentencePiece, knows_the_begin_and_the_end_of_a_text) {
  const auto tokenizer = SentencePieceTokenizer::read(model());
  EXPECT_EQ(tokenizer.begin_of_text(), 1);
  EXPECT_EQ(tokenizer.end_of_text(), 2);
  EXPECT_EQ(tokenizer.find("</s>"), 2);
  EXPECT_EQ(tokenizer.find("no such piece"), std::nullopt);
  auto tokens = tokenizer.encode("the fox");
  tokens.insert(tokens.begin(), 1);
  EXPECT_EQ(tokenizer.encode_begin("the fox"), tokens);
  EXPECT_EQ(tokenizer.decode(tokens), "the fox");
}

TEST_F(SentencePiece, has_the_added_tokens_of_its_folder) {
  test::write_file(folder_ / "added_tokens.json", R"({"<pad>": 330, "</s>": 2})");
  test::write_file(folder_ / "tokenizer_config.json", R"({"added_tokens_decoder": {"331": {"content": "<|im_end|>"}}})");
  const auto added = data::read_added_tokens(folder_.path());
  const auto plain = SentencePieceTokenizer::read(model());
  const auto as_characters = SentencePieceTokenizer::read(model(), {.added = added});
  const auto finds = SentencePieceTokenizer::read(model(), {.added = added, .finds_added = true});
  const std::string text = "the fox<|im_end|>jumps</s> <pad>";
  for (const auto* tokenizer : {&as_characters, &finds}) {
    EXPECT_EQ(tokenizer->vocabulary(), 332);
    EXPECT_EQ(tokenizer->find("<|im_end|>"), 331);
    EXPECT_EQ(tokenizer->find("<pad>"), 330);
    EXPECT_EQ(tokenizer->find("</s>"), 2);
    EXPECT_EQ(tokenizer->decode(std::vector<std::int32_t>{330, 331}), "<pad><|im_end|>");
    EXPECT_EQ(tokenizer->decode_more(std::vector<std::int32_t>{331}), "<|im_end|>");
    EXPECT_THROW((void)tokenizer->decode(std::vector<std::int32_t>{332}), DecodeError);
    EXPECT_EQ(tokenizer->encode("the fox"), plain.encode("the fox"));
  }
  EXPECT_EQ(as_characters.encode(text), plain.encode(text));
  std::vector<std::int32_t> tokens;
  const auto append = [&](const std::vector<std::int32_t>& more) { tokens.insert(tokens.end(), more.begin(), more.end()); };
  append({1});
  append(plain.encode("the fox"));
  append({331});
  append(plain.encode("jumps"));
  append({2});
  append(plain.encode(" "));
  append({330});
  EXPECT_EQ(finds.encode_begin(text), tokens);
  EXPECT_EQ(finds.decode(tokens), "the fox<|im_end|>jumps  <pad>")
      << "control tokens are empty text, and the library keeps the space of a text behind one";
}

TEST_F(SentencePiece, refuses_added_tokens_that_are_not_its_own) {
  using Added = std::vector<data::AddedToken>;
  const auto refusal = [&](const Added& added, bool finds) -> std::string {
    try {
      (void)SentencePieceTokenizer::read(model(), {.added = added, .finds_added = finds});
      return "it was read";
    } catch (const DecodeError& error) {
      return error.what();
    }
  };
  EXPECT_THAT(refusal({{.content = "<a>", .id = 331}}, false), HasSubstr("not the next, 330"));
  EXPECT_THAT(refusal({{.content = "<a>", .id = 1}}, false), HasSubstr("has the id of '<s>'"));
  EXPECT_THAT(refusal({{.content = "</s>", .id = 330}}, false), HasSubstr("is the token 2 too"));
  const Added stripped{{.content = "<a>", .id = 330, .takes_beside = true}};
  EXPECT_THAT(refusal(stripped, true), HasSubstr("spaces or words"));
  EXPECT_EQ(refusal(stripped, false), "it was read");
}

TEST_F(SentencePiece, decodes_what_goes_on_token_by_token) {
  const auto tokenizer = SentencePieceTokenizer::read(model());
  const std::string text = "the quick\n \xE4\xB8\xAD \xF0\x9F\x99\x82 fox";
  std::string found;
  for (const std::int32_t token : tokenizer.encode_begin(text))
    found += tokenizer.decode_more(std::span(&token, 1));
  EXPECT_EQ(found, " " + text);
  EXPECT_THROW((void)tokenizer.decode_more(std::vector<std::int32_t>{-1}), DecodeError);
}

TEST_F(SentencePiece, encodes_what_goes_on_without_a_space_of_its_own) {
  test::write_file(folder_ / "added_tokens.json", R"({"<pad>": 330})");
  const auto tokenizer = SentencePieceTokenizer::read(
      model(), {.added = data::read_added_tokens(folder_.path()), .finds_added = true});
  const auto both = [&](const std::string& first, const std::string& second) {
    std::vector<std::int32_t> tokens = tokenizer.encode(first);
    for (const std::int32_t token : tokenizer.encode_more(second)) tokens.push_back(token);
    return tokens;
  };
  for (const std::string second : {" quick fox", "  fox", "\nfox", " \xE4\xB8\xAD", "", "</s>the fox", " <pad>the"})
    EXPECT_EQ(both("the", second), tokenizer.encode("the" + second)) << second;
  EXPECT_EQ(tokenizer.decode_more(tokenizer.encode("jumps")), " jumps");
  EXPECT_EQ(tokenizer.decode_more(tokenizer.encode_more("jumps")), "jumps");
  for (std::uint32_t i = 0; i < 50; ++i) {
    const std::string text = test::random_string(i);
    if (text.find("\xE2\x96\x81") != std::string::npos || text.find('\0') != std::string::npos) continue;
    EXPECT_EQ(tokenizer.decode(both("x", text)), "x" + text) << in_quotes(text, 400);
  }
}

TEST_F(SentencePiece, encodes_what_goes_on_also_where_the_model_drops_line_ends) {
  const auto trained = sentencepiece::SentencePieceTrainer::Train(
      concat("--input=", (folder_ / "text").string(), " --model_prefix=", (folder_ / "usual").string(),
             " --vocab_size=60 --hard_vocab_limit=false --model_type=unigram --minloglevel=2"));
  ASSERT_TRUE(trained.ok()) << trained.ToString();
  const auto tokenizer = SentencePieceTokenizer::read(folder_ / "usual.model");
  EXPECT_TRUE(tokenizer.encode("\n").empty());
  EXPECT_EQ(tokenizer.decode_more(tokenizer.encode("jumps")), " jumps");
  EXPECT_EQ(tokenizer.decode_more(tokenizer.encode_more("jumps")), "jumps");
  EXPECT_EQ(tokenizer.decode_more(tokenizer.encode_more(" jumps")), " jumps");
  // Of characters that the model does not have, side by side, it makes one token.
  const auto unknown = tokenizer.encode_more("\xE4\xB8\xAD");
  ASSERT_EQ(unknown.size(), 1U);
  EXPECT_EQ(unknown, tokenizer.encode_more("."));
}

TEST_F(SentencePiece, bears_bytes_that_are_no_utf8_and_long_texts) {
  const auto tokenizer = SentencePieceTokenizer::read(model());
  std::string text;
  for (std::uint32_t i = 0; i < 20'000; ++i)
    text += static_cast<char>(test::fnv1a(std::string_view("x"), i) >> 9);
  for (const std::int32_t token : tokenizer.encode(text)) EXPECT_LT(token, tokenizer.vocabulary());
  const std::string many(100'000, 'e');
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(many)), many);
}

TEST_F(SentencePiece, refuses_what_is_no_model_and_tokens_that_it_has_not) {
  const auto tokenizer = SentencePieceTokenizer::read(model());
  for (const std::int32_t bad : {-1, 330}) {
    EXPECT_THROW((void)tokenizer.decode(std::vector<std::int32_t>{5, bad}), DecodeError);
  }
  const std::string whole = io::read_file(model(), 16_MiB);
  for (const std::string& text : {std::string(), std::string("no model"), std::string(1000, '\0'),
                                  whole.substr(0, whole.size() / 2)}) {
    test::write_file(folder_ / "other", text);
    try {
      (void)SentencePieceTokenizer::read(folder_ / "other");
      ADD_FAILURE() << text.size();
    } catch (const DecodeError& error) {
      EXPECT_THAT(error.what(), HasSubstr("other'"));
      EXPECT_THAT(error.what(), HasSubstr("  fix: the tokenizer.model"));
    }
  }
  EXPECT_THROW((void)SentencePieceTokenizer::read(folder_ / "missing"), FileError);
}

TEST_F(SentencePiece, refuses_rules_of_normalisation_whose_offsets_the_library_would_follow_anywhere) {
  test::write_file(folder_ / "rules.tsv", "41\t61\n42\t62\n43 44\t63\n");
  const auto trained = sentencepiece::SentencePieceTrainer::Train(
      concat("--input=", (folder_ / "text").string(), " --model_prefix=", (folder_ / "ruled").string(),
             " --vocab_size=60 --hard_vocab_limit=false --model_type=unigram --normalization_rule_tsv=",
             (folder_ / "rules.tsv").string(), " --minloglevel=2"));
  ASSERT_TRUE(trained.ok()) << trained.ToString();
  const std::string whole = io::read_file(folder_ / "ruled.model", 16_MiB);
  const auto tokenizer = SentencePieceTokenizer::read(folder_ / "ruled.model");
  EXPECT_EQ(tokenizer.encode("ABCD"), tokenizer.encode("abc"));
  int flaws = 0;
  for (std::size_t i = 0; i < whole.size(); i += 3) {
    std::string changed = whole;
    changed[i] = static_cast<char>(~changed[i]);
    test::write_file(folder_ / "other", changed);
    try {
      (void)SentencePieceTokenizer::read(folder_ / "other").encode("ABCD the fox");
    } catch (const DecodeError& error) {
      flaws += std::string(error.what()).find("rules of normalisation") == std::string::npos ? 0 : 1;
    }
  }
  EXPECT_GT(flaws, 10);
}

#else

TEST(SentencePiece, is_refused_by_the_name_of_its_package_where_it_is_not) {
  try {
    (void)SentencePieceTokenizer::read("tokenizer.model");
    ADD_FAILURE();
  } catch (const OptionError& error) {
    EXPECT_THAT(error.what(), HasSubstr("apt-get install libsentencepiece-dev"));
  }
}

#endif

}  // namespace
