// reef-plan encode: what each format makes of numbers, as the codecs themselves do.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reef/codec.hpp>
#include <reef/core/random.hpp>
#include <reef/io/json.hpp>

#include "reef_plan_case.hpp"

namespace reef::test {
namespace {

class ReefPlanEncode : public ReefPlan {
protected:
  ReefPlanEncode() {
    for (std::uint64_t i = 0; i < x_.size(); ++i) x_[i] = static_cast<float>(normal({.seed = 1}, i));
  }

  io::Json encoded(const std::string& codec, io::Json options = io::Json::object()) {
    options["x"] = x_;
    options["codec"] = codec;
    return answer("encode", options);
  }

  static std::vector<float> numbers_of(const io::Json& bits) {
    std::vector<float> numbers;
    for (const io::Json& one : bits) {
      numbers.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(std::stoul(one.get<std::string>(), nullptr, 16))));
    }
    return numbers;
  }

  /// That an answer is what a codec makes of x.
  template <class Codec>
  void expect_as(const io::Json& said, const Codec& codec) const {
    std::vector<std::byte> message(codec.encoded_bytes(static_cast<std::int64_t>(x_.size())));
    message.resize(codec.encode(x_, message));
    std::vector<float> decoded(x_.size());
    codec.decode(message, decoded);
    EXPECT_EQ(said.at("wire_bytes"), message.size()) << codec.name;
    EXPECT_EQ(numbers_of(said.at("dequant")), decoded) << codec.name;
  }

  std::vector<float> x_ = std::vector<float>(300);
};

TEST_F(ReefPlanEncode, decodes_and_weighs_as_each_codec_does) {
  expect_as(encoded("dense"), codec::Dense{});
  expect_as(encoded("bf16"), codec::Bf16{});
  expect_as(encoded("blockwise8", {{"blocksize", 64}}), codec::Blockwise8{.block = 64});
  expect_as(encoded("nf4"), codec::NormalFloat4{});
  expect_as(encoded("nf4-nested"), codec::NormalFloat4{.nested = true});
  expect_as(encoded("uniform8"), codec::Uniform8{});
  expect_as(encoded("two-bit", {{"blocksize", 50}}), codec::TwoBit{.block = 50});
  const io::Json fp8 = encoded("fp8", {{"blocksize", 90}});
  expect_as(fp8, codec::Fp8{.block = 90});
  EXPECT_EQ(fp8.at("absmax").size(), 4);
  EXPECT_EQ(fp8.at("indices").size(), x_.size());
  expect_as(encoded("sign", {{"blocksize", 70}}), codec::Sign{.block = 70});
  expect_as(encoded("top-k", {{"ratio", 8}}), codec::TopK{.ratio = 8});
  expect_as(encoded("top_k"), codec::TopK{});
  expect_as(encoded("random-k", {{"ratio", 3}, {"seed", 5}, {"draw", 2}, {"unbiased", true}}), codec::RandomK{3, 5, 2, true});
  expect_as(encoded("chunk-top-k", {{"chunk", 32}, {"keep", 5}}), codec::ChunkTopK{32, 5});
  expect_as(encoded("chunk-top-k+two-bit"), codec::Chain<codec::ChunkTopK, codec::TwoBit>{});
  expect_as(encoded("top-k+blockwise8", {{"ratio", 4}, {"blocksize", 16}}),
            codec::Chain<codec::TopK, codec::Blockwise8>{{4}, {16}});
}

TEST_F(ReefPlanEncode, shows_the_first_message_of_one_with_memory) {
  const codec::PowerSgd codec{.columns = 20, .rank = 2, .seed = 3};
  std::vector<std::byte> message(codec.encoded_bytes(300));
  std::vector<float> memory(40);
  codec.encode(x_, memory, memory, message);
  std::vector<float> decoded(300);
  codec.decode(message, decoded);
  const io::Json said = encoded("power-sgd", {{"columns", 20}, {"rank", 2}, {"seed", 3}});
  EXPECT_EQ(said.at("wire_bytes"), 32 + 4 * 2 * (15 + 20));
  EXPECT_EQ(numbers_of(said.at("dequant")), decoded);
}

TEST_F(ReefPlanEncode, shows_what_is_selected_and_what_travels_of_it) {
  const io::Json said = encoded("chunk-top-k", {{"chunk", 100}, {"keep", 2}});
  const auto indices = said.at("indices").get<std::vector<std::uint32_t>>();
  EXPECT_EQ(indices, (codec::ChunkTopK{100, 2}.select(x_)));
  const std::vector<float> values = numbers_of(said.at("values"));
  ASSERT_EQ(values.size(), indices.size());
  for (std::size_t i = 0; i < indices.size(); ++i) EXPECT_EQ(values[i], x_[indices[i]]);
  EXPECT_EQ(said.at("wire_bytes"), 32 + 4 * indices.size() + said.at("index_bytes").get<std::size_t>());
  EXPECT_EQ(encoded("chunk-top-k+sign", {{"chunk", 100}, {"keep", 2}}).at("indices"), said.at("indices"));
  EXPECT_EQ(encoded("random-k").at("index_bytes"), 0);
}

TEST_F(ReefPlanEncode, shows_the_codes_of_one_and_two_bits_and_their_means) {
  x_ = {1, -2, 3, -4, 5};
  const io::Json sign = encoded("sign");
  EXPECT_EQ(sign.at("packed"), (io::Json{0b01010}));
  EXPECT_EQ(sign.at("means"), (io::Json{"0x40400000"}));
  x_ = {-1, 1, 1, -1, 1, -1};
  const io::Json two = encoded("two-bit");
  EXPECT_EQ(two.at("packed"), (io::Json{0b01101001, 0b0110}));
  EXPECT_EQ(two.at("means"), (io::Json{"0x00000000", "0xbf800000", "0x3f800000", "0x00000000"}));
}

TEST_F(ReefPlanEncode, tells_a_format_by_what_a_case_has_where_it_has_no_name) {
  expect_as(answer("encode", {{"x", x_}, {"blocksize", 32}}), codec::Blockwise8{.block = 32});
  expect_as(answer("encode", {{"x", x_}, {"packed", io::Json::array()}}), codec::NormalFloat4{});
  expect_as(answer("encode", {{"x", x_}, {"codebook_nonzero", io::Json::object()}}), codec::Uniform8{});
}

TEST_F(ReefPlanEncode, names_what_there_is_where_a_name_is_none) {
  for (const char* name : {"", "zip", "top-k+zip", "two-bit+top-k", "top-k+top-k", "+"}) {
    refused("encode", {{"x", x_}, {"codec", name}}, "chunk-top-k+two-bit");
  }
  refused("encode", {{"x", x_}, {"codec", "top-k"}, {"ratio", 0.5}}, "the ratio of top_k is 0.5");
  refused("encode", {{"x", x_}, {"codec", "chunk-top-k"}, {"keep", 5000}}, "of 4096 numbers 5000 are kept");
}

}  // namespace
}  // namespace reef::test
