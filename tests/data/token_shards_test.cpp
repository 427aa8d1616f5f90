#include <reef/data/token_shards.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>
#include <string>
#include <vector>

#include <reef/data/sampler.hpp>

#include "../support/temporary_folder.hpp"

namespace {

using namespace reef;
using testing::HasSubstr;
namespace fs = std::filesystem;

template <class T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

/// An llm.c file as its scripts write it.
template <class T>
std::string shard(std::int32_t magic, std::int32_t version, std::int32_t count,
                  const std::vector<T>& tokens) {
  std::vector<std::int32_t> header(256, 0);
  header[0] = magic;
  header[1] = version;
  header[2] = count;
  return bytes_of(header) + bytes_of(tokens);
}

std::vector<std::int32_t> counting(std::size_t size, std::int32_t from = 0) {
  std::vector<std::int32_t> tokens(size);
  std::iota(tokens.begin(), tokens.end(), from);
  return tokens;
}

std::vector<std::int32_t> all_of(const data::TokenView& view) {
  std::vector<std::int32_t> tokens(view.size());
  view.copy(0, tokens);
  return tokens;
}

class TokenFiles : public testing::Test {
protected:
  fs::path write(const std::string& name, const std::string& bytes) {
    test::write_file(folder_ / name, bytes);
    return folder_ / name;
  }
  template <class Error, class F>
  static std::string message(F&& f) {
    try {
      f();
      return "no error";
    } catch (const Error& error) {
      return error.what();
    }
  }
  static std::vector<std::int32_t> tokens_of(const fs::path& path) {
    const data::TokenFile file(path);
    return all_of(file.tokens());
  }
  std::string refusal(const std::string& bytes) {
    return message<DecodeError>([&] { const data::TokenFile file(write("bad.bin", bytes)); });
  }

  test::TemporaryFolder folder_;
};

TEST_F(TokenFiles, are_read_in_all_three_formats) {
  const std::vector<std::uint16_t> shorts{1, 50256, 65535};
  const std::vector<std::uint32_t> words{128'000, 7};
  EXPECT_EQ(tokens_of(write("a", shard(20240520, 1, 3, shorts))),
            (std::vector<std::int32_t>{1, 50256, 65535}));
  EXPECT_EQ(tokens_of(write("b", shard(20240801, 7, 2, words))),
            (std::vector<std::int32_t>{128'000, 7}));
  EXPECT_EQ(tokens_of(write("c", bytes_of(shorts))),
            (std::vector<std::int32_t>{1, 50256, 65535}));
  EXPECT_EQ(data::TokenFile(write("d", bytes_of(std::vector<std::uint16_t>{9}))).size(), 1U);
}

TEST_F(TokenFiles, written_here_are_llm_c_files_byte_for_byte) {
  data::write_token_file(folder_ / "t.bin", std::vector<std::int32_t>{5, 0, 65535});
  std::ifstream file(folder_ / "t.bin", std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), {});
  EXPECT_EQ(bytes, shard(20240520, 1, 3, std::vector<std::uint16_t>{5, 0, 65535}));
  EXPECT_THROW(data::write_token_file(folder_ / "u", {}), OptionError);
  for (const std::int32_t bad : {-1, 65536}) {
    const std::vector<std::int32_t> tokens{1, bad};
    EXPECT_THROW(data::write_token_file(folder_ / "u", tokens), OptionError);
  }
  EXPECT_FALSE(fs::exists(folder_ / "u"));
}

TEST_F(TokenFiles, whose_header_does_not_tell_the_truth_are_refused) {
  const std::vector<std::uint16_t> tokens{1, 2, 3};
  EXPECT_THAT(refusal(shard(20240520, 1, 4, tokens)), HasSubstr("promises 4 tokens"));
  EXPECT_THAT(refusal(shard(20240520, 1, 2, tokens)), HasSubstr("promises 2 tokens"));
  EXPECT_THAT(refusal(shard(20240520, 1, -1, tokens)), HasSubstr("promises -1 tokens"));
  EXPECT_THAT(refusal(shard(20240520, 1, INT32_MAX, tokens)), HasSubstr("promises 2147483647"));
  EXPECT_THAT(refusal(shard(20240520, 1, 3, tokens) + "x"), HasSubstr("promises 3 tokens"));
  EXPECT_THAT(refusal(shard(20240801, 7, 3, tokens)), HasSubstr("promises 3 tokens of 4 bytes"));
  EXPECT_THAT(refusal(shard(20240520, 2, 3, tokens)), HasSubstr("version 2, expected 1"));
  EXPECT_THAT(refusal(shard(20240801, 1, 3, tokens)), HasSubstr("version 1, expected 7"));
  EXPECT_THAT(refusal(shard(20240520, 1, 0, std::vector<std::uint16_t>{})),
              HasSubstr("has no tokens"));
  const std::string whole = shard(20240520, 1, 3, tokens);
  for (const std::size_t size : {4U, 5U, 11U, 12U, 512U, 1023U, 1024U, 1025U, 1029U}) {
    EXPECT_THAT(refusal(whole.substr(0, size)), HasSubstr("bad.bin")) << size;
  }
}

TEST_F(TokenFiles, without_a_header_are_refused_if_they_cannot_be_tokens) {
  EXPECT_THAT(refusal("abc"), HasSubstr("3 bytes, an odd number"));
  EXPECT_THAT(refusal(""), HasSubstr("has no tokens"));
  // A model of llm.c.
  EXPECT_THAT(refusal(shard(20240326, 3, 1024, std::vector<float>{1})),
              HasSubstr("it begins with 20240326"));
  EXPECT_THROW(data::TokenFile(folder_ / "missing"), FileError);
}

TEST_F(TokenFiles, of_another_width_are_told_by_their_values) {
  std::vector<std::uint32_t> four(600);
  for (std::size_t i = 0; i < four.size(); ++i)
    four[i] = static_cast<std::uint32_t>((i * 7919 + 11) % 128'000);
  const data::TokenFile wide(write("wide.bin", bytes_of(four)));
  EXPECT_EQ(wide.width(), 4U);
  EXPECT_EQ(wide.width_from(), "its values");
  EXPECT_EQ(all_of(wide.tokens()), std::vector<std::int32_t>(four.begin(), four.end()));
  EXPECT_THAT(refusal(bytes_of(four) + "xy"), HasSubstr("are no multiple of 4"));
  EXPECT_THAT(refusal(bytes_of(std::vector<std::int64_t>(four.begin(), four.end()))),
              HasSubstr("8 bytes each"));
  EXPECT_THAT(refusal(bytes_of(std::vector<float>(four.begin(), four.end()))),
              HasSubstr("floating-point"));
  for (std::uint32_t& token : four) token = token << 24 | (token & 0xff00U) << 8;
  EXPECT_THAT(refusal(bytes_of(four)), HasSubstr("big-endian"));
  std::vector<std::uint8_t> one(600);
  for (std::size_t i = 0; i < one.size(); ++i) one[i] = static_cast<std::uint8_t>(i * 31 % 65);
  EXPECT_THAT(refusal(bytes_of(one)), HasSubstr("1 byte each"));
  // Tokens of 2 bytes, whatever their vocabulary.
  for (const std::uint32_t vocabulary : {2U, 65U, 256U, 300U, 1257U, 50257U, 65536U}) {
    std::vector<std::uint16_t> two(3000);
    for (std::size_t i = 0; i < two.size(); ++i)
      two[i] = static_cast<std::uint16_t>((i * 48271 + i * i % 83) % vocabulary);
    EXPECT_EQ(data::TokenFile(write("two.bin", bytes_of(two))).size(), two.size()) << vocabulary;
  }
}

TEST_F(TokenFiles, are_judged_by_pages_all_over_the_file) {
  // Padding first: a page of it may be of any width.
  std::vector<std::uint32_t> four(40'000);
  for (std::size_t i = 1500; i < four.size(); ++i)
    four[i] = static_cast<std::uint32_t>(i * 7919 % 50'257);
  EXPECT_EQ(data::TokenFile(write("wide.bin", bytes_of(four))).width(), 4U);
  EXPECT_THAT(refusal(bytes_of(std::vector<std::int64_t>(four.begin(), four.end()))),
              HasSubstr("8 bytes each"));
  EXPECT_THAT(refusal(bytes_of(std::vector<float>(four.begin(), four.end()))),
              HasSubstr("floating-point"));
  std::vector<std::uint16_t> two(four.begin(), four.end());
  two[0] = 50'256;  // alone on its page
  EXPECT_EQ(data::TokenFile(write("two.bin", bytes_of(two))).width(), 2U);
  EXPECT_THAT(refusal(bytes_of(four) + bytes_of(two)), HasSubstr("on some of its pages"));
  EXPECT_THAT(refusal(bytes_of(two) + bytes_of(four)), HasSubstr("as .npy"));
}

TEST_F(TokenFiles, that_are_something_else_are_named_as_what_they_are) {
  const std::string rest(500, '\0');
  EXPECT_THAT(refusal("\x7f"
                      "ELF" +
                      rest),
              HasSubstr("a program (ELF)"));
  EXPECT_THAT(refusal("PK\x03\x04" + rest), HasSubstr("a zip archive"));
  EXPECT_THAT(refusal("\x1f\x8b\x08" + rest + "x"), HasSubstr("compressed (gzip)"));
  EXPECT_THAT(refusal(std::string("\x40\0\0\0\0\0\0\0{\"a\"", 12) + rest),
              HasSubstr("safetensors"));
  std::string text;
  while (text.size() < 600) text += "It was the best of times, it was the worst of times. ";
  EXPECT_THAT(refusal(text.substr(0, 600)), HasSubstr("it is text, no tokens"));
}

/// A .npy file as NumPy writes it.
std::string npy(const std::string& dictionary, const std::string& elements, char version = 1) {
  std::string header = dictionary;
  const std::size_t prefix = version == 1 ? 10 : 12;
  while ((prefix + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';
  std::string length;
  for (std::size_t i = 0; i < prefix - 8; ++i)
    length += static_cast<char>(header.size() >> (8 * i) & 0xffU);
  return "\x93NUMPY" + std::string{version, '\0'} + length + header + elements;
}

TEST_F(TokenFiles, of_numpy_are_read_by_their_header) {
  const auto of = [](const std::string& descr, std::size_t count) {
    return "{'descr': '" + descr + "', 'fortran_order': False, 'shape': (" + std::to_string(count) +
           ",), }";
  };
  const std::vector<std::uint16_t> shorts{1, 50256, 65535};
  const std::vector<std::int32_t> words{128'000, 7};
  for (const char version : {'\1', '\2', '\3'}) {
    const data::TokenFile file(write("a.npy", npy(of("<u2", 3), bytes_of(shorts), version)));
    EXPECT_EQ(all_of(file.tokens()), (std::vector<std::int32_t>{1, 50256, 65535}));
    EXPECT_EQ(file.width_from(), "NumPy's header");
  }
  EXPECT_EQ(tokens_of(write("b", npy(of("<i4", 2), bytes_of(words)))),
            words);
  EXPECT_EQ(tokens_of(write("c", npy(of("|u1", 3), "abc"))),
            (std::vector<std::int32_t>{'a', 'b', 'c'}));
  EXPECT_THAT(refusal(npy(of("<i8", 2), std::string(16, 'x'))),
              HasSubstr("its elements are '<i8'"));
  EXPECT_THAT(refusal(npy(of(">u2", 2), "abcd")), HasSubstr("its elements are '>u2'"));
  EXPECT_THAT(refusal(npy(of("<f4", 1), "abcd")), HasSubstr("its elements are '<f4'"));
  EXPECT_THAT(refusal(npy(of("<u2", 4), bytes_of(shorts))), HasSubstr("promises 4 tokens"));
  EXPECT_THAT(refusal(npy(of("<u2", 2), bytes_of(shorts))), HasSubstr("promises 2 tokens"));
  EXPECT_THAT(refusal(npy(of("<u2", 0), "")), HasSubstr("has no tokens"));
  EXPECT_THAT(refusal(npy("{'descr': '<u2', 'fortran_order': False, 'shape': (2, 3), }",
                          std::string(12, 'x'))),
              HasSubstr("has 2 axes"));
  EXPECT_THAT(refusal(npy("{'descr': '<u2', 'fortran_order': False, 'shape': (), }", "ab")),
              HasSubstr("has 0 axes"));
  EXPECT_THAT(refusal(npy("{'descr': [('a', '<u2')], 'shape': (1,), }", "ab")),
              HasSubstr("is none of NumPy's"));
  const std::string whole = npy(of("<u2", 3), bytes_of(shorts));
  for (std::size_t size = 6; size < whole.size(); ++size)
    EXPECT_THAT(refusal(whole.substr(0, size)), HasSubstr("bad.bin")) << size;
}

TEST_F(TokenFiles, are_held_out_by_a_word_of_their_name_and_not_by_a_part_of_one) {
  for (const char* name : {"val.bin", "fineweb_val_000000.bin", "x-val.bin", "VAL.bin",
                           "a.val0.bin", "valid.bin", "my validation.npy", "val"})
    EXPECT_TRUE(data::names_held_out(name)) << name;
  for (const char* name :
       {"medieval.bin", "valley.bin", "interval_3.bin", "evaluation.bin", "festival-train.bin",
        "train.bin", "validated.bin", "vals.bin", "r\xc3\xa9val.bin", ""})
    EXPECT_FALSE(data::names_held_out(name)) << name;
  data::write_token_file(folder_ / "medieval.bin", counting(50));
  const data::TokenShards shards({folder_ / "medieval.bin"});
  EXPECT_EQ(shards.validation().size(), 5U);
}

TEST_F(TokenFiles, follow_each_other_by_name_and_the_last_tenth_is_held_out) {
  data::write_token_file(folder_ / "b.bin", counting(30, 70));
  const auto a = write("a.bin", bytes_of(std::vector<std::uint16_t>(70, 9)));
  const data::TokenShards shards({folder_ / "b.bin", a});
  std::vector<std::int32_t> training(70, 9);
  for (std::int32_t i = 70; i < 90; ++i) training.push_back(i);
  EXPECT_EQ(all_of(shards.training()), training);
  EXPECT_EQ(all_of(shards.validation()), counting(10, 90));
  ASSERT_EQ(shards.files().size(), 2U);
  EXPECT_EQ(shards.files()[0].path(), a);
}

TEST_F(TokenFiles, named_val_are_held_out_whole) {
  data::write_token_file(folder_ / "x_train_2.bin", counting(5, 5));
  data::write_token_file(folder_ / "x_train_1.bin", counting(5));
  data::write_token_file(folder_ / "x_val_0.bin", counting(4, 40));
  const data::TokenShards shards(
      {folder_ / "x_train_2.bin", folder_ / "x_val_0.bin", folder_ / "x_train_1.bin"});
  EXPECT_EQ(all_of(shards.training()), counting(10));
  EXPECT_EQ(all_of(shards.validation()), counting(4, 40));
  EXPECT_THAT(message<OptionError>([&] { data::TokenShards({folder_ / "x_val_0.bin"}); }),
              HasSubstr("no file to train on"));
}

TEST_F(TokenFiles, of_no_use_are_told_in_a_sentence) {
  data::write_token_file(folder_ / "a.bin", counting(19));
  const auto twice = std::vector<fs::path>{folder_ / "a.bin", folder_ / "a.bin"};
  EXPECT_THAT(message<OptionError>([&] { const data::TokenShards shards(twice); }),
              HasSubstr("named twice"));
  fs::create_symlink(folder_ / "a.bin", folder_ / "b.bin");
  const auto linked = std::vector<fs::path>{folder_ / "a.bin", folder_ / "b.bin"};
  EXPECT_THAT(message<OptionError>([&] { const data::TokenShards shards(linked); }),
              HasSubstr("named twice"));
  EXPECT_THAT(message<OptionError>([&] { data::TokenShards({folder_ / "a.bin"}); }),
              HasSubstr("too few"));
  EXPECT_THAT(message<OptionError>([&] { data::TokenShards({}); }), HasSubstr("no file to train"));
}

TEST_F(TokenFiles, with_a_token_outside_the_vocabulary_are_named_with_its_place) {
  data::write_token_file(folder_ / "a.bin", counting(50));
  std::vector<std::uint32_t> words(60, 3);
  words[41] = 0xFFFF'FFFF;
  const auto b = write("b.bin", shard(20240801, 7, 60, words));
  const data::TokenShards good({folder_ / "a.bin"});
  EXPECT_NO_THROW(good.require_below(50));
  EXPECT_THAT(message<DecodeError>([&] { good.require_below(49); }),
              HasSubstr("a.bin': token 49 is 49, outside the vocabulary of 49"));
  const data::TokenShards bad({folder_ / "a.bin", b});
  EXPECT_THAT(message<DecodeError>([&] { bad.require_below(50'000); }),
              HasSubstr("b.bin': token 41 is 4294967295"));
}

TEST_F(TokenFiles, have_the_fingerprint_of_their_tokens) {
  data::write_token_file(folder_ / "a.bin", counting(40));
  data::write_token_file(folder_ / "b.bin", counting(40));
  std::vector<std::int32_t> other = counting(40);
  other[17] = 18;
  data::write_token_file(folder_ / "c.bin", other);
  const auto of = [&](const char* name) {
    return data::TokenShards({folder_ / name}).fingerprint();
  };
  EXPECT_EQ(of("a.bin"), of("b.bin"));
  EXPECT_NE(of("a.bin"), of("c.bin"));
}

/// The law of the sampler: a sample depends on seed, T, tokens and number, not on how they lie.
TEST_F(TokenFiles, give_the_samples_that_the_same_tokens_in_memory_give) {
  std::vector<std::uint8_t> bytes(1000);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(i * 7);
  const std::vector<std::int32_t> tokens(bytes.begin(), bytes.end());
  for (std::size_t i = 0; i < 10; ++i) {
    const auto part = std::span(tokens).subspan(i * 100, 100);
    const fs::path path = folder_ / ("train_" + std::to_string(i) + ".bin");
    if (i % 2 == 0) {
      data::write_token_file(path, part);
    } else {
      test::write_file(path, shard(20240801, 7, 100, std::vector(part.begin(), part.end())));
    }
  }
  data::write_token_file(folder_ / "val.bin", counting(9));
  std::vector<fs::path> paths;
  for (const auto& entry : fs::directory_iterator(folder_.path())) paths.push_back(entry.path());
  const data::TokenShards shards(paths);
  const data::Sampler in_files(shards.training(), 33, 5);
  const data::Sampler in_memory(bytes, 33, 5);
  const data::Validation held_out_files(shards.training(), 33);
  const data::Validation held_out_memory(bytes, 33);
  const auto fill = [](const auto& source, auto first) {
    std::vector<std::int32_t> both(2 * 4 * 33);
    const Shape shape{4, 33};
    const std::vector<AnyView> inputs{{both.data(), shape, Element::int32},
                                      {both.data() + 4 * 33, shape, Element::int32}};
    source.fill(first, inputs);
    return both;
  };
  for (std::uint64_t first = 0; first < 200; first += 4) {
    EXPECT_EQ(fill(in_files, first), fill(in_memory, first));
  }
  for (std::int64_t first = 0; first < 40; first += 4) {
    EXPECT_EQ(fill(held_out_files, first), fill(held_out_memory, first));
  }
}

}  // namespace
