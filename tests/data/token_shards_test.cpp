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
  std::string refusal(const std::string& bytes) {
    return message<DecodeError>([&] { const data::TokenFile file(write("bad.bin", bytes)); });
  }

  test::TemporaryFolder folder_;
};

TEST_F(TokenFiles, are_read_in_all_three_formats) {
  const std::vector<std::uint16_t> shorts{1, 50256, 65535};
  const std::vector<std::uint32_t> words{128'000, 7};
  EXPECT_EQ(all_of(data::TokenFile(write("a", shard(20240520, 1, 3, shorts))).tokens()),
            (std::vector<std::int32_t>{1, 50256, 65535}));
  EXPECT_EQ(all_of(data::TokenFile(write("b", shard(20240801, 7, 2, words))).tokens()),
            (std::vector<std::int32_t>{128'000, 7}));
  EXPECT_EQ(all_of(data::TokenFile(write("c", bytes_of(shorts))).tokens()),
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
