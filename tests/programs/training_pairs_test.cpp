// Samples of a .jsonl as tokens: they begin as prompts of generation do; those that have nothing to learn in a context
// are left out by file and line, others are cut.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reef/core/error.hpp>
#include <reef/core/text.hpp>
#include <reef/data/detail/bpe_files.hpp>
#include <reef/io/json.hpp>

#include "../../examples/support/text_source.hpp"
#include "../data/random_strings.hpp"
#include "../support/temporary_folder.hpp"

namespace {

using reef::concat;
using reef_examples::DataOptions;
using reef_examples::Tokenizer;
using reef_examples::TrainingData;
using testing::HasSubstr;

std::string pair_of(std::size_t prompt, std::size_t completion) {
  return concat(R"({"prompt": ")", std::string(prompt, 'a'), R"(", "completion": ")", std::string(completion, 'b'), "\"}\n");
}

DataOptions options_of(std::int64_t context, const std::string& chat_template = "") {
  DataOptions options;
  options.context = context;
  options.chat_template = chat_template;
  return options;
}

class TrainingPairs : public testing::Test {
protected:
  std::filesystem::path write(const std::string& text) const {
    reef::test::write_file(folder_ / "pairs.jsonl", text);
    return folder_ / "pairs.jsonl";
  }
  Tokenizer bytes_{"bytes"};

private:
  reef::test::TemporaryFolder folder_;
};

TEST_F(TrainingPairs, whose_prompt_fills_the_context_are_left_out_by_file_and_line) {
  // A prompt of 8 in a context of 8 leaves one target, a completion of 9 is cut.
  const auto file = write(pair_of(3, 2) + pair_of(9, 1) + "\n" + pair_of(8, 1) + pair_of(20, 3) + pair_of(1, 9) + pair_of(0, 1));
  const TrainingData data({file}, bytes_, options_of(8));
  EXPECT_EQ(data.training_pairs().size() + data.validation_pairs().size(), 3U);
  for (const auto& pairs : {data.training_pairs(), data.validation_pairs()}) {
    for (const auto& pair : pairs) EXPECT_LE(pair.prompt, 8U);
  }
  ASSERT_FALSE(data.notes().empty());
  EXPECT_EQ(data.notes()[0], concat("data: 3 of 6 samples left out, which have nothing to learn: ", file.string(),
                                    ", line 2 has 9 tokens in front of what is learnt, and --context has 8; others likewise"));
  const auto rows = reef_examples::source_of_pairs(data.training_pairs(), {.context = 8}, 1, false);
  EXPECT_TRUE(rows != nullptr) << "the sampler takes what is left";
}

TEST_F(TrainingPairs, that_all_have_nothing_to_learn_are_refused_by_file_and_line) {
  const auto file = write("\n" + pair_of(9, 1) + pair_of(10, 1));
  try {
    const TrainingData data({file}, bytes_, options_of(8));
    ADD_FAILURE() << "nothing was thrown";
  } catch (const reef::OptionError& error) {
    EXPECT_THAT(error.what(), HasSubstr(concat("no sample has anything to learn: ", file.string(), ", line 2 has 9 tokens")));
    EXPECT_THAT(error.what(), HasSubstr("fix: more --context"));
  }
}

TEST_F(TrainingPairs, of_conversations_are_left_out_likewise) {
  const auto talk = [](const std::string& question) {
    return concat(R"({"messages": [{"role": "user", "content": ")", question,
                  R"("}, {"role": "assistant", "content": "yes"}]})", "\n");
  };
  const auto file = write(talk("a") + talk(std::string(50, 'q')) + talk("b"));
  const TrainingData data({file}, bytes_, options_of(40, "plain"));
  EXPECT_EQ(data.training_pairs().size() + data.validation_pairs().size(), 2U);
  EXPECT_THAT(data.notes(), testing::Contains(HasSubstr(concat("1 of 3 samples left out, which have nothing to learn: ", file.string(),
                                                               ", line 2 has "))));
}

/// A tokenizer.json of bytes and two merges, "ab" and " c", whose template puts bos, 258, before a text.
std::string json_with_bos() {
  reef::io::Json vocabulary = reef::io::Json::object();
  const auto characters = reef::data::detail::byte_characters();
  const auto visible = [&](std::string_view text) {
    std::string result;
    for (const char c : text) reef::test::append_utf8(result, characters[static_cast<unsigned char>(c)]);
    return result;
  };
  for (int b = 0; b < 256; ++b) vocabulary[visible(std::string(1, static_cast<char>(b)))] = b;
  vocabulary["ab"] = 256;
  vocabulary[visible(" c")] = 257;
  const reef::io::Json level{{"type", "ByteLevel"}, {"add_prefix_space", false}};
  const reef::io::Json bos{{"SpecialToken", {{"id", "bos"}, {"type_id", 0}}}};
  const reef::io::Json text{{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
  return reef::io::Json{
      {"pre_tokenizer", level},
      {"decoder", level},
      {"added_tokens",
       reef::io::Json::array({{{"id", 258}, {"content", "bos"}, {"special", true}, {"normalized", false}},
                              {{"id", 259}, {"content", "<|im_start|>"}, {"special", true}, {"normalized", false}},
                              {{"id", 260}, {"content", "<|im_end|>"}, {"special", true}, {"normalized", false}}})},
      {"post_processor",
       {{"type", "TemplateProcessing"},
        {"single", reef::io::Json::array({bos, text})},
        {"special_tokens", {{"bos", {{"id", "bos"}, {"ids", reef::io::Json::array({258})}}}}}}},
      {"model",
       {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", reef::io::Json::array({"a b", visible(" ") + " c"})}}}}
      .dump();
}

class TextsWithBos : public TrainingPairs {
protected:
  using Tokens = std::vector<std::int32_t>;

  TextsWithBos() { reef::test::write_file(tokenizer_folder_ / "tokenizer.json", json_with_bos()); }
  [[nodiscard]] Tokenizer tokenizer() const {
    return Tokenizer(concat("json:", (tokenizer_folder_ / "tokenizer.json").string()));
  }
  /// Returns what one line is trained on.
  [[nodiscard]] reef::data::TokenPair pair_of_line(const std::string& line, const DataOptions& options) const {
    const Tokenizer own = tokenizer();
    const TrainingData data({write(line + "\n")}, own, options);
    return data.training_pairs()[0];
  }

private:
  reef::test::TemporaryFolder tokenizer_folder_;
};

TEST_F(TextsWithBos, begin_with_it_as_a_prompt_of_generation_does) {
  const auto pair = pair_of_line(R"({"prompt": "ab", "completion": " c"})", options_of(16));
  EXPECT_EQ(pair.tokens, (Tokens{258, 256, 257}));
  EXPECT_EQ(pair.prompt, 2U);
  const auto empty = pair_of_line(R"({"prompt": "", "completion": "ab"})", options_of(16));
  EXPECT_EQ(empty.tokens, (Tokens{258, 256}));
  EXPECT_EQ(empty.prompt, 1U);
  DataOptions classes = options_of(3);
  classes.classes = 2;
  const auto text = pair_of_line(R"({"text": "abxy", "label": 1})", classes);
  EXPECT_EQ(text.tokens, (Tokens{258, 256, 'x', 1})) << "a text is cut at its end";
  EXPECT_EQ(text.prompt, 3U);
}

TEST_F(TextsWithBos, have_the_tokens_of_the_prompt_where_a_token_would_reach_into_the_completion) {
  const auto pair = pair_of_line(R"({"prompt": "xa", "completion": "b c"})", options_of(16));
  EXPECT_EQ(pair.tokens, (Tokens{258, 'x', 'a', 'b', 257}));
  EXPECT_EQ(pair.prompt, 3U);
}

TEST_F(TextsWithBos, of_conversations_begin_with_it_once) {
  const std::string line =
      R"({"messages": [{"role": "user", "content": "ab"}, {"role": "assistant", "content": "x"}, )"
      R"({"role": "user", "content": "y"}, {"role": "assistant", "content": "z"}]})";
  const auto plain = pair_of_line(line, options_of(99, "plain"));
  EXPECT_EQ(plain.tokens.front(), 258);
  EXPECT_EQ(plain.tokens[1], 'u');
  EXPECT_EQ(plain.tokens[plain.prompt], 'x');
  ASSERT_EQ(plain.skipped.size(), 1U);
  EXPECT_EQ(plain.tokens[plain.skipped[0].end], 'z');
  const auto chat = pair_of_line(line, options_of(99, "chatml"));
  EXPECT_EQ(chat.tokens[0], 258);
  EXPECT_EQ(chat.tokens[1], 259);
  EXPECT_EQ(chat.tokens[chat.prompt], 'x');
  auto own = chat;
  tokenizer().begin_pair(own);
  EXPECT_EQ(own.tokens, chat.tokens) << "a form that begins with bos gets no other";
}

}  // namespace
