#include <reef/io/checksum.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include <reef/core/random.hpp>

namespace {

using namespace reef;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// RFC 3720, appendix B.4, and the check value of the catalogue of parametrised CRC algorithms.
TEST(Crc32c, gives_the_published_values) {
  EXPECT_EQ(io::crc32c(bytes_of("123456789")), 0xE3069283U);
  EXPECT_EQ(io::crc32c({}), 0U);
  std::vector<std::byte> bytes(32, std::byte{0});
  EXPECT_EQ(io::crc32c(bytes), 0x8A9136AAU);
  bytes.assign(32, std::byte{0xFF});
  EXPECT_EQ(io::crc32c(bytes), 0x62A8AB43U);
  for (std::size_t i = 0; i < 32; ++i) bytes[i] = static_cast<std::byte>(i);
  EXPECT_EQ(io::crc32c(bytes), 0x46DD794EU);
  for (std::size_t i = 0; i < 32; ++i) bytes[i] = static_cast<std::byte>(31 - i);
  EXPECT_EQ(io::crc32c(bytes), 0x113FDB5CU);
}

TEST(Crc32c, is_the_same_bit_by_bit_by_table_by_instruction_and_in_parts) {
  std::vector<std::byte> bytes(300);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::byte>(random_bits({1, 0, 0, 0}, i));
  }
  for (std::size_t begin = 0; begin < 9; ++begin) {
    std::uint32_t slow = 0xFFFFFFFFU;
    for (std::size_t size = 0; begin + size < bytes.size(); ++size) {
      const auto part = std::span<const std::byte>(bytes).subspan(begin, size);
      EXPECT_EQ(io::crc32c(part), ~slow);
      EXPECT_EQ(io::detail::crc32c_portable(0xFFFFFFFFU, part.data(), size), slow);
      EXPECT_EQ(io::crc32c(part.subspan(size / 3), io::crc32c(part.first(size / 3))), ~slow);
      slow ^= static_cast<std::uint32_t>(bytes[begin + size]);
      for (int bit = 0; bit < 8; ++bit) slow = slow >> 1 ^ ((slow & 1U) != 0 ? 0x82F63B78U : 0U);
    }
  }
}

TEST(Crc32c, of_two_ranges_is_joined_from_theirs) {
  std::vector<std::byte> bytes(70000);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(random_bits({3, 0, 0, 0}, i));
  const std::span<const std::byte> all = bytes;
  for (const std::size_t at : {0U, 1U, 7U, 4096U, 65536U, 69999U, 70000U}) {
    EXPECT_EQ(io::crc32c_joined(io::crc32c(all.first(at)), io::crc32c(all.subspan(at)), all.size() - at), io::crc32c(all)) << at;
  }
}

TEST(Crc32c, of_many_bytes_is_that_of_the_table) {
  std::vector<std::byte> bytes(3 * 6 * 1024 + 20);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::byte>(random_bits({2, 0, 0, 0}, i));
  }
  for (std::size_t begin = 0; begin < 9; ++begin) {
    for (std::size_t size = 6 * 1024 - 9; begin + size <= bytes.size(); size += 509) {
      const auto part = std::span<const std::byte>(bytes).subspan(begin, size);
      EXPECT_EQ(io::crc32c(part), ~io::detail::crc32c_portable(~0U, part.data(), size)) << size;
    }
  }
}

}  // namespace
