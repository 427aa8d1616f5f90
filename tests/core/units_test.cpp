#include <reef/core/units.hpp>

#include <cstdint>
#include <limits>

#include <gtest/gtest.h>

namespace {

using namespace reef::literals;

TEST(Units, the_literals_are_binary) {
  EXPECT_EQ(64_KiB, 65536u);
  EXPECT_EQ(3_MiB, 3u * 1024u * 1024u);
  EXPECT_EQ(5_GiB, std::uint64_t{5} << 30);
}

TEST(Units, round_up_gives_the_least_multiple_that_is_not_smaller) {
  for (const reef::Bytes unit : {1u, 3u, 64u}) {
    for (reef::Bytes value = 0; value < 200; ++value) {
      const reef::Bytes rounded = reef::round_up(value, unit);
      EXPECT_EQ(rounded % unit, 0u);
      EXPECT_GE(rounded, value);
      EXPECT_LT(rounded, value + unit);
    }
  }
}

TEST(Units, divide_up_counts_the_parts_also_at_the_end_of_the_range) {
  EXPECT_EQ(reef::divide_up(0, 4), 0u);
  EXPECT_EQ(reef::divide_up(1, 4), 1u);
  EXPECT_EQ(reef::divide_up(8, 4), 2u);
  EXPECT_EQ(reef::divide_up(9, 4), 3u);
  constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
  EXPECT_EQ(reef::divide_up(most, 1), most);
  EXPECT_EQ(reef::divide_up(most, most), 1u);
}

TEST(Units, bytes_are_printed_in_the_largest_unit_that_is_at_most_the_value) {
  EXPECT_EQ(reef::format_bytes(0), "0 B");
  EXPECT_EQ(reef::format_bytes(1023), "1023 B");
  EXPECT_EQ(reef::format_bytes(1024), "1.00 KiB");
  EXPECT_EQ(reef::format_bytes(12_MiB + 512_KiB), "12.50 MiB");
  EXPECT_EQ(reef::format_bytes(2048_GiB), "2.00 TiB");
}

TEST(Units, seconds_are_printed_with_three_digits) {
  EXPECT_EQ(reef::format_seconds(1.25), "1.25 s");
  EXPECT_EQ(reef::format_seconds(0.00125), "1.25 ms");
  EXPECT_EQ(reef::format_seconds(3.5e-6), "3.5 us");
  EXPECT_EQ(reef::format_seconds(-0.5), "-500 ms");
  EXPECT_EQ(reef::format_seconds(1), "1 s");
  EXPECT_EQ(reef::format_seconds(1e-3), "1 ms");
}

}  // namespace
