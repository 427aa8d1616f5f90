#include <reef/data/byte_tokenizer.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

namespace {

using namespace reef;

TEST(ByteTokenizer, decoding_what_was_encoded_gives_every_byte_back) {
  std::string all;
  for (int c = 0; c < 256; ++c) all += static_cast<char>(c);
  const std::vector<std::int32_t> tokens = data::ByteTokenizer::encode(all);
  ASSERT_EQ(tokens.size(), 256U);
  for (std::int32_t c = 0; c < 256; ++c) EXPECT_EQ(tokens[static_cast<std::size_t>(c)], c);
  EXPECT_EQ(data::ByteTokenizer::decode(tokens), all);
  EXPECT_EQ(data::ByteTokenizer::decode({}), "");
}

TEST(ByteTokenizer, refuses_a_token_that_is_no_byte) {
  for (const std::int32_t bad : {-1, 256, 50'256}) {
    const std::vector<std::int32_t> tokens{65, bad};
    EXPECT_THROW((void)data::ByteTokenizer::decode(tokens), DecodeError);
  }
}

}  // namespace
