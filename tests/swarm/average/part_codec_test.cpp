#include <reef/swarm/average/part_codec.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reef/codec/bf16.hpp>
#include <reef/codec/blockwise8.hpp>
#include <reef/codec/error_feedback.hpp>
#include <reef/codec/two_bit.hpp>
#include <reef/core/error.hpp>
#include <reef/swarm/average/dense_parts.hpp>
#include <reef/swarm/average/detail/own_contributions.hpp>
#include <reef/swarm/net/sha256.hpp>

namespace reef::swarm {
namespace {

using testing::HasSubstr;

// A reducer changes with the members, so that it can keep no memory of what it has encoded.
static_assert(std::is_constructible_v<PartCodec, codec::Bf16, codec::Blockwise8>);
static_assert(std::is_constructible_v<PartCodec, codec::ErrorFeedback<codec::Bf16>, codec::Bf16>);
static_assert(!std::is_constructible_v<PartCodec, codec::Bf16, codec::ErrorFeedback<codec::Bf16>>);
static_assert(!std::is_constructible_v<PartCodec, codec::Bf16, codec::Chosen>);

constexpr std::int64_t numbers = 10;
constexpr std::int64_t piece = 4;

std::vector<float> some_numbers(int seed) {
  std::vector<float> values(numbers);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = std::sin(static_cast<float>(seed) + 1.7F * static_cast<float>(i)) * static_cast<float>(1 + i % 3);
  }
  return values;
}

std::vector<Bulk> parts_of(const PartCodec& codec, std::span<const float> values) {
  return ContributionEncoder(codec, numbers, piece).encode(values);
}

/// Returns the results of a round of these contributions, in their order.
std::vector<Bulk> fold(const PartCodec& codec, const std::vector<std::vector<Bulk>>& contributions) {
  const core::RoundFunctions functions = part_functions(codec, numbers, piece);
  std::vector<Bulk> results;
  for (std::size_t at = 0; at < 3; ++at) {
    std::vector<Bulk> parts;
    for (const std::vector<Bulk>& one : contributions) parts.push_back(one.at(at));
    results.push_back(functions.fold(static_cast<std::int64_t>(at), parts));
  }
  return results;
}

std::vector<float> read(const PartCodec& codec, const std::vector<Bulk>& results) {
  std::vector<float> values(numbers);
  read_results(codec, results, piece, values);
  return values;
}

std::string refusal_of(std::string_view text) {
  try {
    static_cast<void>(PartCodec::of(text));
  } catch (const OptionError& error) {
    return error.what();
  }
  return {};
}

TEST(PartCodec, a_sum_is_that_of_decoded_parts_in_their_order_and_is_encoded_once) {
  const PartCodec codec = PartCodec::of("bf16");
  const std::vector<float> one = some_numbers(1);
  const std::vector<float> two = some_numbers(2);
  const std::vector<float> sum = read(codec, fold(codec, {parts_of(codec, one), parts_of(codec, two)}));
  const auto rounded = [](std::span<const float> values) {
    std::vector<std::byte> message(codec::Bf16{}.encoded_bytes(numbers));
    codec::Bf16{}.encode(values, message);
    std::vector<float> decoded(values.size());
    codec::Bf16{}.decode(message, decoded);
    return decoded;
  };
  std::vector<float> expected = rounded(one);
  const std::vector<float> second = rounded(two);
  for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += second[i];
  EXPECT_NE(expected, rounded(expected)) << "the sum is encoded, too";
  EXPECT_EQ(sum, rounded(expected));
}

TEST(PartCodec, the_order_of_contributors_decides_the_bits) {
  const PartCodec codec = PartCodec::of("bf16,fp32");
  const std::vector<float> large(numbers, 1e8F);
  const std::vector<float> one(numbers, 1);
  const std::vector<float> negative(numbers, -1e8F);
  const auto parts = [&](const std::vector<float>& values) { return parts_of(codec, values); };
  EXPECT_EQ(read(codec, fold(codec, {parts(large), parts(one), parts(negative)})), std::vector<float>(numbers, 0));
  EXPECT_EQ(read(codec, fold(codec, {parts(large), parts(negative), parts(one)})), std::vector<float>(numbers, 1));
}

TEST(PartCodec, fp32_has_the_bytes_of_dense_parts) {
  const std::vector<float> values = some_numbers(3);
  const std::vector<Bulk> dense = dense_parts(values, piece);
  for (const char* text : {"", "fp32", "fp32,fp32"}) {
    const PartCodec codec = PartCodec::of(text);
    EXPECT_TRUE(codec.is_fp32());
    const std::vector<Bulk> parts = parts_of(codec, values);
    ASSERT_EQ(parts.size(), dense.size());
    for (std::size_t at = 0; at < parts.size(); ++at) EXPECT_EQ(*parts[at], *dense[at]);
  }
}

TEST(PartCodec, a_round_without_parts_sums_to_zeros) {
  const PartCodec codec = PartCodec::of("blockwise8:4");
  for (const float value : read(codec, fold(codec, {}))) EXPECT_EQ(value, 0);
}

TEST(PartCodec, accepts_what_decodes_to_finite_numbers_of_its_piece_alone) {
  const PartCodec codec = PartCodec::of("blockwise8:4");
  const core::RoundFunctions functions = part_functions(codec, numbers, piece);
  const std::vector<Bulk> parts = parts_of(codec, some_numbers(4));
  EXPECT_TRUE(functions.accepts(0, parts[0]));
  EXPECT_TRUE(functions.accepts(2, parts[2]));
  EXPECT_FALSE(functions.accepts(2, parts[0])) << "of another length";
  EXPECT_FALSE(functions.accepts(0, dense_parts(some_numbers(4), piece)[0])) << "of no codec";
  EXPECT_FALSE(functions.accepts(0, parts_of(PartCodec::of("blockwise8:2"), some_numbers(4))[0])) << "of another";
  EXPECT_FALSE(functions.accepts(0, std::make_shared<const std::vector<std::byte>>()));
  auto cut = *parts[0];
  cut.pop_back();
  EXPECT_FALSE(functions.accepts(0, std::make_shared<const std::vector<std::byte>>(cut)));
  auto damaged = *parts[0];
  damaged.back() ^= std::byte{1};
  EXPECT_FALSE(functions.accepts(0, std::make_shared<const std::vector<std::byte>>(damaged)));
}

TEST(PartCodec, numbers_that_are_not_finite_are_refused_by_reducers_and_skip_the_round_of_an_own_part) {
  std::vector<float> values = some_numbers(5);
  values[5] = INFINITY;
  for (const char* text : {"bf16", "two-bit", "sign", "blockwise8:4", "ef+top-k:2", "fp32,bf16"}) {
    const PartCodec codec = PartCodec::of(text);
    const core::RoundFunctions functions = part_functions(codec, numbers, piece);
    const std::vector<Bulk> parts = parts_of(codec, values);
    EXPECT_TRUE(functions.accepts(0, parts[0])) << text;
    EXPECT_FALSE(functions.accepts(1, parts[1])) << text;
    const std::vector<Bulk> results = fold(codec, {parts_of(codec, some_numbers(6)), parts});
    EXPECT_FALSE(functions.judge(results, 2, 1).finite) << text;
  }
}

TEST(PartCodec, a_sum_beyond_the_largest_number_of_the_codec_skips_the_round) {
  const PartCodec codec = PartCodec::of("bf16");
  const std::vector<float> large(numbers, 3e38F);
  const std::vector<Bulk> parts = parts_of(codec, large);
  const core::RoundFunctions functions = part_functions(codec, numbers, piece);
  EXPECT_TRUE(functions.accepts(0, parts[0]));
  EXPECT_FALSE(functions.judge(fold(codec, {parts, parts}), 2, 1).finite);
}

TEST(PartCodec, the_verdict_is_of_what_results_decode_to) {
  const PartCodec codec = PartCodec::of("two-bit");
  const std::vector<Bulk> results = fold(codec, {parts_of(codec, some_numbers(7))});
  double squares = 0;
  for (const double value : read(codec, results)) squares += value * value;
  const core::RoundFunctions functions = part_functions(codec, numbers, piece);
  const RoundVerdict verdict = functions.judge(results, 4, 8);
  EXPECT_TRUE(verdict.finite);
  EXPECT_NEAR(verdict.norm, std::sqrt(squares) / 4, 1e-12);
  EXPECT_EQ(verdict.loss, 2);
  EXPECT_FALSE(functions.judge(results, 4, NAN).finite);
  std::vector<Bulk> damaged = results;
  damaged[1] = results[2];
  EXPECT_FALSE(functions.judge(damaged, 4, 8).finite) << "a result of another length";
}

TEST(PartCodec, results_of_another_job_are_refused) {
  const PartCodec codec = PartCodec::of("bf16");
  std::vector<Bulk> results = fold(codec, {parts_of(codec, some_numbers(8))});
  EXPECT_THROW(read(PartCodec::of("two-bit"), results), DecodeError);
  results.pop_back();
  EXPECT_THROW(read(codec, results), DecodeError);
}

TEST(PartCodec, texts_name_codecs_of_contributions_and_of_results) {
  EXPECT_EQ(PartCodec::of("bf16").text(), "bf16");
  EXPECT_EQ(PartCodec::of("two-bit,bf16").text(), "two-bit,bf16");
  EXPECT_EQ(PartCodec::of("ef+two-bit").text(), "ef+two-bit,fp32") << "results have no memory";
  EXPECT_EQ(PartCodec::of("top-k:10").text(), "top-k:10,fp32") << "results keep all numbers";
  EXPECT_EQ(PartCodec::of("fp32,bf16").text(), "fp32,bf16");
  EXPECT_EQ(PartCodec::of("ef+two-bit").state(piece), piece);
  EXPECT_EQ(PartCodec::of("two-bit").state(piece), 0);
}

TEST(PartCodec, texts_that_name_none_are_refused_and_say_why) {
  EXPECT_THAT(refusal_of("zip"), HasSubstr("there is no 'zip'"));
  EXPECT_THAT(refusal_of("bf16,ef+two-bit"), HasSubstr("a codec of results has no memory"));
  EXPECT_THAT(refusal_of("ef21+two-bit"), HasSubstr("its receiver keeps a memory"));
  EXPECT_THAT(refusal_of("ef+random-k:8"), HasSubstr("the same numbers in each round"));
  EXPECT_THAT(refusal_of("none"), HasSubstr("it says none of contributions"));
  EXPECT_THAT(refusal_of("bf16,"), HasSubstr("it says none of results"));
  EXPECT_THAT(refusal_of(",bf16"), HasSubstr("it says none of contributions"));
  EXPECT_NE(refusal_of("bf16,bf16,bf16"), "");
}

TEST(ContributionEncoder, has_a_memory_that_advances_when_it_is_told_to) {
  const codec::ErrorFeedback<codec::TwoBit> format;
  const PartCodec codec(format, codec::Bf16{});
  ContributionEncoder encoder(codec, numbers, piece);
  EXPECT_TRUE(encoder.has_memory());
  EXPECT_FALSE(ContributionEncoder(PartCodec::of("two-bit"), numbers, piece).has_memory());
  const std::vector<float> values = some_numbers(9);
  const auto encoded = [&] {
    std::vector<std::byte> bytes;
    for (const Bulk& part : encoder.encode(values)) bytes.insert(bytes.end(), part->begin(), part->end());
    return bytes;
  };
  const auto first = encoded();
  EXPECT_EQ(encoded(), first) << "nothing has been added by anybody";
  encoder.advance();
  encoder.advance();
  const auto second = encoded();
  EXPECT_NE(second, first);

  // The last piece, of 2 numbers, by hand.
  std::vector<float> state(2);
  const std::span<const float> own = std::span(values).last(2);
  std::vector<std::byte> message(format.encoded_bytes(2));
  message.resize(format.encode(own, state, state, message));
  message.resize(format.encoded_bytes(2));
  message.resize(format.encode(own, state, state, message));
  const Bulk last = encoder.encode(values).back();
  EXPECT_EQ(*last, message);
}

/// Returns the bytes of the second contribution of a peer, after its first, to round 0, and these committed rounds.
std::vector<std::byte> second_contribution(const std::vector<Ledger::Round>& rounds) {
  detail::OwnContributions own(PartCodec::of("ef+two-bit"), numbers, piece);
  const std::vector<float> values = some_numbers(9);
  static_cast<void>(own.encode(0, values));
  own.settle({"a", 1}, Ledger(0, {}, {}, rounds));
  return *own.encode(1, values).front();
}

TEST(OwnContributions, advance_the_memory_by_rounds_that_were_applied_with_them_alone) {
  ContributionEncoder encoder(PartCodec::of("ef+two-bit"), numbers, piece);
  std::vector<Digest> digests;
  for (const Bulk& part : encoder.encode(some_numbers(9))) digests.push_back(sha256(*part));
  const Share own{{"a", 1}, {{0, 1, 1}}, 1, root_of(digests, sha256)};
  const auto before = *encoder.encode(some_numbers(9)).front();
  encoder.advance();
  const auto after = *encoder.encode(some_numbers(9)).front();
  ASSERT_NE(before, after);

  EXPECT_EQ(second_contribution({{0, {own}, true}}), after);
  EXPECT_EQ(second_contribution({}), before) << "the round is not committed";
  EXPECT_EQ(second_contribution({{0, {own}, false}}), before) << "the round was skipped";
  Share other = own;
  other.id = {"a", 2};
  EXPECT_EQ(second_contribution({{0, {other}, true}}), before) << "another process of that name";
  other = own;
  other.digest = sha256({});
  EXPECT_EQ(second_contribution({{0, {other}, true}}), before) << "another attempt at the round";
}

}  // namespace
}  // namespace reef::swarm
