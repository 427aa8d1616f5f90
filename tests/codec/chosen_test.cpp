// Codecs by their names.

#include <reef/codec/chosen.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <reef/codec/chain.hpp>
#include <reef/codec/chunk_top_k.hpp>
#include <reef/codec/error_feedback.hpp>
#include <reef/codec/two_bit.hpp>

namespace reef::test {
namespace {

using codec::Chosen;

std::vector<float> numbers(std::size_t n) {
  std::vector<float> result(n);
  for (std::size_t i = 0; i < n; ++i) result[i] = static_cast<float>((i * 7919) % 1013) / 500 - 1;
  return result;
}

TEST(Chosen, gives_the_messages_and_memory_of_the_codec_that_is_named) {
  using Own = codec::ErrorFeedback<codec::Chain<codec::ChunkTopK, codec::TwoBit>>;
  const Own own{{{.chunk = 256, .keep = 8}, {}}, 0.5F};
  const Chosen chosen = Chosen::of("ef:0.5+chunk-top-k:8/256+two-bit");
  const std::vector<float> values = numbers(1000);
  const std::vector<float> state = numbers(1000);
  std::vector<float> next(1000), other_next(1000), decoded(1000), other_decoded(1000);
  ASSERT_EQ(chosen.encoded_bytes(1000), own.encoded_bytes(1000));
  ASSERT_EQ(chosen.state(1000), own.state(1000));
  std::vector<std::byte> message(own.encoded_bytes(1000)), other(message.size());
  message.resize(own.encode(values, state, next, message));
  other.resize(chosen.encode(values, state, other_next, other));
  EXPECT_EQ(message, other);
  EXPECT_EQ(next, other_next);
  own.decode(message, {}, {}, decoded);
  chosen.decode(message, {}, {}, other_decoded);
  EXPECT_EQ(decoded, other_decoded);
}

TEST(Chosen, says_what_it_is_and_takes_another_ratio) {
  const Chosen none = Chosen::of("none");
  EXPECT_FALSE(none);
  EXPECT_TRUE(none.is_lossless());
  EXPECT_THROW(static_cast<void>(none.encoded_bytes(1)), OptionError);
  const Chosen dense = Chosen::of("dense");
  EXPECT_TRUE(dense && dense.is_lossless() && dense.is_exact());
  const Chosen selected = Chosen::of("ef21+top-k:100+uniform8");
  EXPECT_EQ(selected.text(), "ef21+top-k:100+uniform8");
  EXPECT_FALSE(selected.is_lossless());
  EXPECT_EQ(codec::ratio_of(selected), 100);
  EXPECT_EQ(codec::ratio_of(codec::with_ratio(selected, 4)), 4);
  EXPECT_GT(codec::with_ratio(selected, 4).encoded_bytes(10'000), selected.encoded_bytes(10'000));
  EXPECT_THROW(static_cast<void>(codec::with_ratio(dense, 4)), OptionError);
}

/// One that draws chooses other numbers for each message.
TEST(Chosen, draws_anew_for_each_message) {
  const Chosen random = Chosen::of("random-k:10");
  const std::vector<float> values = numbers(1000);
  const auto decoded_of = [&](std::uint64_t number) {
    const Chosen own = codec::for_message(random, number);
    std::vector<std::byte> message(own.encoded_bytes(1000));
    message.resize(own.encode(values, {}, {}, message));
    std::vector<float> decoded(1000);
    own.decode(message, {}, {}, decoded);
    return decoded;
  };
  EXPECT_EQ(decoded_of(1), decoded_of(1));
  EXPECT_NE(decoded_of(1), decoded_of(2));
}

TEST(Chosen, of_another_text_is_refused) {
  for (const std::string text :
       {"", "top-k", "top-k:", "top-k:x", "top-k:0.5", "blockwise9", "dense:4", "uniform8+top-k:10", "top-k:10+random-k:3",
        "top-k:10+uniform8+bf16", "ef", "ef:2+top-k:10", "ef21:1+dense", "chunk-top-k:64", "blockwise8:0", "ef+ef+dense"}) {
    EXPECT_THROW(static_cast<void>(Chosen::of(text)), OptionError) << text;
  }
}

}  // namespace
}  // namespace reef::test
