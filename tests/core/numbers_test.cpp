#include <reef/core/numbers.hpp>

#include <cstdint>
#include <limits>

#include <gtest/gtest.h>

namespace reef::test {
namespace {

TEST(Numbers, are_what_a_person_reads) {
  EXPECT_EQ(parse_number<int>("10"), 10);
  EXPECT_EQ(parse_number<int>("010"), 10) << "no octal number";
  EXPECT_EQ(parse_number<std::int64_t>("000"), 0);
  EXPECT_EQ(parse_number<int>("-3"), -3);
  EXPECT_EQ(parse_number<std::uint64_t>("18446744073709551615"),
            std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(parse_number<double>("010.50"), 10.5);
  EXPECT_EQ(parse_number<double>("3e-4"), 3e-4);
}

TEST(Numbers, are_nothing_that_only_a_compiler_reads) {
  for (const char* text : {"", " ", "0x10", "0b1", "1e3", "10.0", "10.5", " 10", "10 ", "+10",
                           "1_000", "1'000", "1,000", "10k", "--1", "99999999999999999999"}) {
    EXPECT_FALSE(parse_number<int>(text).has_value()) << text;
    EXPECT_FALSE(parse_number<std::uint64_t>(text).has_value()) << text;
  }
  EXPECT_FALSE(parse_number<int>("2147483648").has_value());
  EXPECT_FALSE(parse_number<std::uint64_t>("-1").has_value()) << "it does not wrap";
  for (const char* text :
       {"", "0x1p3", "nan", "NaN", "inf", "-Infinity", "1,5", "1.5.2", "1e", "1e999", " 1", "1f"}) {
    EXPECT_FALSE(parse_number<double>(text).has_value()) << text;
  }
}

}  // namespace
}  // namespace reef::test
