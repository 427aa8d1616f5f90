#include <reef/data/tokenizer_json.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include <reef/data/bpe_tokenizer.hpp>
#include <reef/io/file.hpp>
#include <reef/io/json.hpp>

#include "../support/temporary_folder.hpp"
#include "random_strings.hpp"

namespace {

using namespace reef;
using data::TokenizerJson;
using io::Json;
using testing::HasSubstr;
using Tokens = std::vector<std::int32_t>;

const std::string test_data = REEF_TEST_DATA;

Json byte_level(bool space, bool by_gpt2) {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", space},
          {"trim_offsets", true},
          {"use_regex", by_gpt2}};
}

Json split(const std::string& pattern) {
  return {{"type", "Split"},
          {"pattern", {{"Regex", pattern}}},
          {"behavior", "Isolated"},
          {"invert", false}};
}

Json added(std::int32_t id, const std::string& content, bool special = true) {
  return {{"id", id},        {"content", content},     {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", !special}, {"special", special}};
}

/// A tokenizer.json of the small vocabulary and its merges, cut as GPT-2 does.
Json small_json(bool pairs = false) {
  const Json vocabulary = io::read_json(test_data + "/small_vocab.json");
  std::istringstream lines(io::read_file(test_data + "/small_merges.txt", 1_MiB));
  Json merges = Json::array();
  std::string line;
  std::getline(lines, line);  // "#version"
  while (std::getline(lines, line)) {
    const std::size_t space = line.find(' ');
    merges.push_back(pairs ? Json{line.substr(0, space), line.substr(space + 1)} : Json(line));
  }
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", Json::array({added(1256, "<|endoftext|>")})},
          {"normalizer", nullptr},
          {"pre_tokenizer", byte_level(false, true)},
          {"post_processor",
           {{"type", "ByteLevel"}, {"add_prefix_space", true}, {"trim_offsets", false}}},
          {"decoder", byte_level(true, true)},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", nullptr},
            {"continuing_subword_prefix", ""},
            {"end_of_word_suffix", ""},
            {"fuse_unk", false},
            {"byte_fallback", false},
            {"vocab", vocabulary},
            {"merges", merges}}}};
}

Json bos_template(const std::string& name, std::int32_t id) {
  return {{"type", "TemplateProcessing"},
          {"single",
           {{{"SpecialToken", {{"id", name}, {"type_id", 0}}}},
            {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}}},
          {"pair", Json::array()},
          {"special_tokens",
           {{name, {{"id", name}, {"ids", Json::array({id})}, {"tokens", Json::array({name})}}}}}};
}

class TokenizerJsonTest : public testing::Test {
protected:
  TokenizerJson read(const Json& json, data::TokenizerJsonOptions options = {}) {
    return read_text(json.dump(), options);
  }
  TokenizerJson read_text(const std::string& text, data::TokenizerJsonOptions options = {}) {
    test::write_file(folder_ / "tokenizer.json", text);
    return TokenizerJson::read(folder_ / "tokenizer.json", options);
  }
  std::string refusal(const Json& json) { return refusal_of_text(json.dump()); }
  std::string refusal_of_text(const std::string& text) {
    try {
      (void)read_text(text);
      return "no error";
    } catch (const DecodeError& error) {
      return error.what();
    }
  }
  /// What is said of the small tokenizer with one value changed.
  std::string refusal_with(const std::string& pointer, const Json& value) {
    Json json = small_json();
    json[Json::json_pointer(pointer)] = value;
    return refusal(json);
  }

  test::TemporaryFolder folder_;
};

TEST_F(TokenizerJsonTest, of_gpt2_has_the_tokens_of_its_vocabulary_and_merges) {
  const auto old = data::BpeTokenizer::read_gpt2(test_data + "/small_vocab.json",
                                                 test_data + "/small_merges.txt");
  for (const bool pairs : {false, true}) {
    const TokenizerJson tokenizer = read(small_json(pairs), {.finds_added = false});
    EXPECT_EQ(tokenizer.vocabulary(), 1257);
    EXPECT_EQ(tokenizer.find("<|endoftext|>"), 1256);
    for (std::uint32_t i = 0; i < 500; ++i) {
      const std::string text = test::random_string(i);
      ASSERT_EQ(tokenizer.encode(text), old.encode(text)) << i;
      ASSERT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
    }
  }
}

TEST_F(TokenizerJsonTest, finds_the_longest_added_token_and_may_leave_them_alone) {
  Json json = small_json();
  json["added_tokens"] = {added(1256, "<|endoftext|>"), added(1258, "<|im|>"),
                          added(1257, "<|im|><|x|>"), added(1259, "    ", false)};
  const TokenizerJson tokenizer = read(json);
  EXPECT_EQ(tokenizer.vocabulary(), 1260);
  EXPECT_EQ(tokenizer.encode("<|im|><|x|><|im|><|endoftext|>"), (Tokens{1257, 1258, 1256}));
  const Tokens a = tokenizer.encode("a");
  EXPECT_EQ(tokenizer.encode("a<|im|>    a"), (Tokens{a[0], 1258, 1259, a[0]}));
  EXPECT_EQ(tokenizer.decode(Tokens{1259, 1258}), "    <|im|>");
  const TokenizerJson plain = read(json, {.finds_added = false});
  for (const std::int32_t token : plain.encode("a<|im|>    <|endoftext|>")) EXPECT_LT(token, 1256);
  EXPECT_EQ(plain.decode(plain.encode("a<|im|>    ")), "a<|im|>    ");
}

TEST_F(TokenizerJsonTest, puts_what_its_template_says_in_front_of_the_begin_of_a_text) {
  Json json = small_json();
  json["added_tokens"].push_back(added(1257, "<|begin|>"));
  json["post_processor"] = {
      {"type", "Sequence"},
      {"processors", {byte_level(true, true), bos_template("<|begin|>", 1257)}}};
  const TokenizerJson tokenizer = read(json);
  const Tokens a = tokenizer.encode("a");
  EXPECT_EQ(a.size(), 1U);
  EXPECT_EQ(tokenizer.encode_begin("a"), (Tokens{1257, a[0]}));
  EXPECT_EQ(tokenizer.encode_begin(""), Tokens{1257});
  EXPECT_EQ(read(small_json()).encode_begin("a"), a);
}

TEST_F(TokenizerJsonTest, puts_its_space_in_front_of_a_text_and_not_of_what_goes_on) {
  Json json = small_json();
  json["added_tokens"].push_back(added(1257, "<|x|>"));
  const TokenizerJson without = read(json);
  json["pre_tokenizer"] = byte_level(true, true);
  const TokenizerJson tokenizer = read(json);
  EXPECT_EQ(tokenizer.encode("a"), without.encode(" a"));
  EXPECT_EQ(tokenizer.encode_more("a"), without.encode("a"));
  EXPECT_EQ(tokenizer.encode_more(" a"), without.encode(" a"));
  EXPECT_EQ(tokenizer.encode_more("a<|x|>a"), without.encode("a<|x|> a"));
  EXPECT_EQ(tokenizer.encode_more("<|x|>a"), without.encode("<|x|> a"));
  EXPECT_EQ(without.encode_more("a b"), without.encode("a b"));
}

TEST_F(TokenizerJsonTest, gives_bytes_back_that_are_no_utf8) {
  std::vector<Json> kinds{byte_level(false, true)};
#ifdef REEF_HAS_PCRE2
  kinds.push_back({{"type", "Sequence"},
                   {"pretokenizers",
                    {split(" ?\\p{L}+|\\p{N}{1,3}|\\s+(?!\\S)|\\s+"), byte_level(false, false)}}});
#endif
  for (const Json& kind : kinds) {
    Json json = small_json();
    json["pre_tokenizer"] = kind;
    const TokenizerJson tokenizer = read(json);
    std::string text;
    for (std::uint32_t i = 0; i < 20'000; ++i)
      text += static_cast<char>(test::fnv1a(std::string_view("x"), i) >> 9);
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
    for (std::uint32_t i = 0; i < 100; ++i) {
      const std::string whole = test::random_string(i);
      for (std::size_t at = 0; at <= whole.size(); at += 5) {
        ASSERT_EQ(tokenizer.decode(tokenizer.encode(whole.substr(at))), whole.substr(at));
        ASSERT_EQ(tokenizer.decode(tokenizer.encode(whole.substr(0, at))), whole.substr(0, at));
      }
    }
    EXPECT_THROW((void)tokenizer.decode(Tokens{1257}), DecodeError);
    EXPECT_THROW((void)tokenizer.decode(Tokens{-1}), DecodeError);
  }
}

// See write_tokenizer_cases.py: the answers are of Python's module regex and of plain merging.
TEST_F(TokenizerJsonTest, has_the_known_tokens_under_every_pattern) {
  const Json known = io::read_json(test_data + "/tokenizer_json_cases.json");
  const auto texts = known.at("texts").get<std::vector<std::string>>();
  int compared = 0;
  for (const Json& one : known.at("cases")) {
    Json json = small_json();
    json["pre_tokenizer"] = one.at("pre_tokenizer");
    json["model"]["ignore_merges"] = one.at("ignore_merges");
#ifndef REEF_HAS_PCRE2
    if (one.at("pre_tokenizer").at("type") == "Sequence") {
      EXPECT_THROW((void)read(json), OptionError);
      continue;
    }
#endif
    const TokenizerJson tokenizer = read(json);
    for (std::size_t i = 0; i < texts.size(); ++i) {
      EXPECT_EQ(tokenizer.encode(texts[i]), one.at("tokens").at(i).get<Tokens>())
          << one.at("name") << ": " << in_quotes(texts[i], 200);
      ++compared;
    }
  }
  EXPECT_GE(compared, 2 * 180);
}

TEST_F(TokenizerJsonTest, takes_many_letters_or_spaces_in_a_moment) {
  Json json = small_json();
#ifdef REEF_HAS_PCRE2
  json["pre_tokenizer"] = {{"type", "Sequence"},
                           {"pretokenizers",
                            {split("(?i:'s|'t)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| "
                                   "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"),
                             byte_level(false, false)}}};
#endif
  const TokenizerJson tokenizer = read(json);
  for (const char c : {'e', ' ', '\n', '7', '!', '\x80', '<'}) {
    const std::string text(300'000, c);
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text) << c;
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text + "a")), text + "a") << c;
  }
}

#ifdef REEF_HAS_PCRE2
TEST_F(TokenizerJsonTest, ends_a_pattern_that_tries_too_many_ways_with_an_error) {
  for (const char* const pattern : {"(?:a+)+b", "(?:a|aa)+$b", "(?:a*)*b", "(?:\\p{L}+\\s?)+!"}) {
    Json json = small_json();
    json["pre_tokenizer"] = {{"type", "Sequence"},
                             {"pretokenizers", {split(pattern), byte_level(false, false)}}};
    if (std::string(pattern).find('$') != std::string::npos) {
      EXPECT_THAT(refusal(json), HasSubstr("has '$'"));
      continue;
    }
    const TokenizerJson tokenizer = read(json);
    EXPECT_THROW((void)tokenizer.encode(std::string(100'000, 'a') + "c. b!"), DecodeError)
        << pattern;
    EXPECT_EQ(tokenizer.decode(tokenizer.encode("ab a!")), "ab a!");
  }
}

TEST_F(TokenizerJsonTest, cuts_by_a_class_within_a_class_and_by_digits) {
  const auto cut_by = [&](const std::vector<Json>& steps) {
    Json all = steps;
    all.push_back(byte_level(false, false));
    Json json = small_json();
    json["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", all}};
    return read(json);
  };
  const std::string text = "(the|then.the,then(the)";
  EXPECT_EQ(data::pcre2_form("[^(a[bc[d]]e)]+"), "[^(abcde)]+");
  EXPECT_EQ(data::pcre2_form(" ?[^(\\s|[.,!?\xE2\x80\xA6]x)]+"), " ?[^(\\t-\\r\\x{85}\\p{Z}|.,!?\xE2\x80\xA6x)]+");
  EXPECT_EQ(cut_by({split(" ?[^(\\s|[.,!?])]+")}).encode(text), cut_by({split("[^(|.,)]+")}).encode(text));
  const auto digits = [](bool alone) { return Json{{"type", "Digits"}, {"individual_digits", alone}}; };
  const std::string number = "then 2024the 11";
  EXPECT_EQ(cut_by({digits(true)}).encode(number), cut_by({split("[0-9]")}).encode(number));
  EXPECT_EQ(cut_by({digits(false)}).encode(number), cut_by({split("[0-9]+")}).encode(number));
}

TEST_F(TokenizerJsonTest, cuts_at_empty_matches_and_goes_on) {
  Json json = small_json();
  json["pre_tokenizer"] = {{"type", "Sequence"},
                           {"pretokenizers", {split("(?=\\p{Lu})"), byte_level(false, false)}}};
  const TokenizerJson tokenizer = read(json);
  Tokens expected = tokenizer.encode("the");
  for (const int i : {0, 1}) {
    (void)i;
    const Tokens more = tokenizer.encode("\xC3\x89the");
    expected.insert(expected.end(), more.begin(), more.end());
  }
  EXPECT_EQ(tokenizer.encode("the\xC3\x89the\xC3\x89the"), expected);
}
#endif

TEST_F(TokenizerJsonTest, of_a_normal_form_encodes_ascii_and_refuses_or_composes_the_rest) {
  Json json = small_json();
  const TokenizerJson plain = read(json);
  json["normalizer"] = {{"type", "NFC"}};
  const TokenizerJson tokenizer = read(json);
  EXPECT_EQ(tokenizer.encode("Hello"), plain.encode("Hello"));
#ifdef REEF_HAS_UTF8PROC
  EXPECT_EQ(tokenizer.encode("e\xCC\x81t"), plain.encode("\xC3\xA9t"));
  EXPECT_EQ(tokenizer.encode("\x80"
                             "e\xCC\x81\xFF"),
            plain.encode("\x80\xC3\xA9\xFF"));
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("\xE4\xB8\xAD \xC3\xA9")), "\xE4\xB8\xAD \xC3\xA9");
#else
  EXPECT_THROW((void)tokenizer.encode("\xC3\xA9"), OptionError);
#endif
}

TEST_F(TokenizerJsonTest, is_refused_by_the_field_that_is_not_known) {
  EXPECT_EQ(refusal(small_json()), "no error");
  EXPECT_THAT(refusal_of_text("[]"), HasSubstr("the whole is no object"));
  EXPECT_THAT(refusal_of_text("{"), HasSubstr("tokenizer.json:1:"));
  EXPECT_THAT(refusal_with("/normalizer", {{"type", "NFKC"}}),
              HasSubstr("'{\"type\":\"NFKC\"}', not NFC or null"));
  EXPECT_THAT(refusal_with("/normalizer", {{"type", "Lowercase"}}), HasSubstr("normalizer is"));
  EXPECT_THAT(refusal_with("/normalizer", {{"type", "Sequence"},
                                           {"normalizers", Json::array({{{"type", "Prepend"}}})}}),
              HasSubstr("normalizer.normalizers.0 is"));
  EXPECT_THAT(refusal_with("/pre_tokenizer", nullptr), HasSubstr("pre_tokenizer is 'null'"));
  EXPECT_THAT(refusal_with("/pre_tokenizer", {{"type", "Metaspace"}}),
              HasSubstr("tokenizer.model, by SentencePiece"));
  EXPECT_THAT(refusal_with("/pre_tokenizer", split("a")), HasSubstr("ends with it"));
  const auto sequence = [](const Json& first) {
    return Json{{"type", "Sequence"}, {"pretokenizers", {first, byte_level(false, false)}}};
  };
  EXPECT_THAT(refusal_with("/pre_tokenizer", sequence(byte_level(false, false))),
              HasSubstr("comes behind ByteLevel"));
  Json other = split("a");
  other["behavior"] = "Removed";
  EXPECT_THAT(refusal_with("/pre_tokenizer", sequence(other)),
              HasSubstr("pre_tokenizer.pretokenizers.0.behavior is '\"Removed\"', not Isolated"));
  other = split("a");
  other["invert"] = true;
  EXPECT_THAT(refusal_with("/pre_tokenizer", sequence(other)), HasSubstr("invert is 'true'"));
  other = split("a");
  other["pattern"] = {{"String", " "}};
  EXPECT_THAT(refusal_with("/pre_tokenizer", sequence(other)), HasSubstr("not a Regex"));
  for (const char* const pattern : {"\\w+", "a\\b", "[[:alpha:]]", "[a&&b]", "[a[b&&c]]", "[a[^b]]", "[a-[b]]", "[[a]-b]", "[a[b-]]",
                                    "[a[-b]]", "[a[b]", "[a[]]", "[a[\\S]]", "^a", "(?m:.)",
                                    "(*COMMIT)a", "\\1", "[a", "[]a]", "a\\"}) {
    EXPECT_THAT(refusal_with("/pre_tokenizer", sequence(split(pattern))),
                HasSubstr("0.pattern.Regex cannot be read"))
        << pattern;
  }
#ifdef REEF_HAS_PCRE2
  EXPECT_THAT(refusal_with("/pre_tokenizer", sequence(split("(a"))),
              HasSubstr("is no regular expression"));
  EXPECT_THAT(refusal_with("/pre_tokenizer", sequence(split("a{2,1}"))),
              HasSubstr("is no regular expression"));
  EXPECT_THAT(refusal_with("/pre_tokenizer", sequence(split("(?<=a+)b"))),
              testing::AllOf(HasSubstr("tokenizer.json': pre_tokenizer.pretokenizers.0.pattern.Regex cannot be read"),
                             HasSubstr("is no regular expression")));
#endif
  EXPECT_THAT(refusal_with("/decoder", {{"type", "ByteFallback"}}), HasSubstr("decoder is"));
  EXPECT_THAT(refusal_with("/decoder", nullptr), HasSubstr("decoder is 'null', not ByteLevel"));
  EXPECT_THAT(refusal_with("/post_processor", {{"type", "BertProcessing"}}),
              HasSubstr("post_processor.type is"));
  Json bad_template = bos_template("<|b|>", 9999);
  EXPECT_THAT(refusal_with("/post_processor", bad_template),
              HasSubstr("has what is no token's id"));
  bad_template["single"] = Json::array();
  EXPECT_THAT(refusal_with("/post_processor", bad_template),
              HasSubstr("has no place for the text"));
}

TEST_F(TokenizerJsonTest, is_refused_by_what_is_wrong_with_its_model) {
  EXPECT_THAT(refusal_with("/model/type", "Unigram"),
              HasSubstr("model.type is '\"Unigram\"', not BPE"));
  EXPECT_THAT(refusal_with("/model/dropout", 0.1), HasSubstr("model.dropout is '0.1', not null"));
  EXPECT_EQ(refusal_with("/model/dropout", 0.0), "no error");
  EXPECT_THAT(refusal_with("/model/byte_fallback", true),
              HasSubstr("model.byte_fallback is 'true'"));
  EXPECT_THAT(refusal_with("/model/continuing_subword_prefix", "##"),
              HasSubstr("model.continuing_subword_prefix is"));
  EXPECT_THAT(refusal_with("/model/end_of_word_suffix", "</w>"),
              HasSubstr("model.end_of_word_suffix is"));
  EXPECT_EQ(refusal_with("/model/unk_token", "<|endoftext|>"), "no error");  // no byte is unknown
  EXPECT_THAT(refusal_with("/model/vocab", Json::array()),
              HasSubstr("no object of tokens and ids"));
  EXPECT_THAT(refusal_with("/model/vocab/a", 65), HasSubstr("of another token"));
  EXPECT_THAT(refusal_with("/model/merges", "x"), HasSubstr("model.merges is no list"));
  for (const Json& merge : {Json("ab"), Json("a b c"), Json{"a"}, Json{"a", 1}, Json(7)}) {
    EXPECT_THAT(refusal_with("/model/merges/3", merge),
                HasSubstr("model.merges.3 is no pair of tokens"))
        << merge;
  }
  EXPECT_THAT(refusal_with("/model/merges/3", "~ a"), HasSubstr("its whole is no token"));
  for (const char* const key : {"single_word", "lstrip", "rstrip"}) {
    EXPECT_THAT(refusal_with(concat("/added_tokens/0/", key), true),
                HasSubstr(concat("added_tokens.0.", key, " is true")));
  }
  EXPECT_THAT(refusal_with("/added_tokens/0/id", 3),
              HasSubstr("which the vocabulary has under another"));
  EXPECT_THAT(refusal_with("/added_tokens/0/content", ""), HasSubstr("is empty"));
  EXPECT_THAT(refusal_with("/added_tokens", Json::array({added(1258, "x y")})),
              HasSubstr("from 1257 on, without a gap"));
  EXPECT_THAT(refusal_with("/added_tokens", {added(1257, "x y"), added(1257, "y z")}),
              HasSubstr("is 1257 again"));
  EXPECT_THAT(refusal_with("/added_tokens", 3), HasSubstr("added_tokens is no list"));
  const std::int32_t space = small_json()["model"]["vocab"]["\xC4\xA0"].get<std::int32_t>();
  EXPECT_THAT(refusal_with("/added_tokens", Json::array({added(space, "\xC4\xA0")})),
              HasSubstr("stands for other bytes"));
}

TEST_F(TokenizerJsonTest, is_refused_wherever_it_ends) {
  const std::string text = small_json().dump();
  for (std::size_t size = 0; size < text.size(); size += 1 + text.size() / 50) {
    EXPECT_NE(refusal_of_text(text.substr(0, size)), "no error") << size;
  }
}

}  // namespace
