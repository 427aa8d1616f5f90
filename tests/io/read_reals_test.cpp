#include <reef/io/read_reals.hpp>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../support/temporary_folder.hpp"

namespace {

using namespace reef;

/// What a number of 1 sign bit, `exponent_bits` and `fraction_bits` stands for, by the definition.
double value_of(std::uint32_t bits, int exponent_bits, int fraction_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = static_cast<int>(bits >> fraction_bits) & ((1 << exponent_bits) - 1);
  const double fraction =
      std::ldexp(static_cast<double>(bits & ((1U << fraction_bits) - 1)), -fraction_bits);
  const double sign = (bits >> (exponent_bits + fraction_bits) & 1U) != 0 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1) {
    return fraction != 0 ? std::numeric_limits<double>::quiet_NaN() : sign * HUGE_VAL;
  }
  return exponent == 0 ? sign * std::ldexp(fraction, 1 - bias)
                       : sign * std::ldexp(1 + fraction, exponent - bias);
}

class ReadReals : public testing::Test {
protected:
  /// A file of one tensor "x" (n,) of that dtype.
  io::SafetensorsFile file(const std::string& dtype, const void* data, std::size_t n,
                           std::size_t width) {
    const std::string header = concat("{\"x\":{\"dtype\":\"", dtype, "\",\"shape\":[", n,
                                      "],\"data_offsets\":[0,", n * width, "]}}");
    const std::uint64_t length = header.size();
    std::string bytes(reinterpret_cast<const char*>(&length), sizeof length);
    bytes += header;
    bytes.append(static_cast<const char*>(data), n * width);
    io::write_atomically(folder_ / "x.safetensors", bytes);
    return io::SafetensorsFile(folder_ / "x.safetensors");
  }

private:
  test::TemporaryFolder folder_;
};

TEST_F(ReadReals, every_number_of_16_bits_is_itself_in_fp32_and_fp64) {
  // Twice and a bit, so that a tensor is read in several pieces, the last one smaller.
  std::vector<std::uint16_t> bits(2 * 65536 + 77);
  for (std::size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<std::uint16_t>(i);
  for (const std::string dtype : {"F16", "BF16"}) {
    const auto stored = file(dtype, bits.data(), bits.size(), 2);
    std::vector<float> narrow(bits.size());
    std::vector<double> wide(bits.size());
    io::read_reals(stored, stored.at("x"), std::span(narrow));
    io::read_reals(stored, stored.at("x"), std::span(wide));
    int wrong = 0;
    for (std::size_t i = 0; i < bits.size(); ++i) {
      const double wanted = dtype == "F16" ? value_of(bits[i], 5, 10) : value_of(bits[i], 8, 7);
      const bool both_nan = std::isnan(wanted) && std::isnan(narrow[i]) && std::isnan(wide[i]);
      const bool same = narrow[i] == wanted && wide[i] == wanted &&
                        std::signbit(narrow[i]) == std::signbit(wanted);
      wrong += both_nan || same ? 0 : 1;
    }
    EXPECT_EQ(wrong, 0) << dtype;
  }
}

TEST_F(ReadReals, wider_and_narrower_numbers_are_converted) {
  const std::vector<float> floats{0.1F, -3.0F, 0x1p-140F};
  const auto narrow = file("F32", floats.data(), floats.size(), 4);
  std::vector<float> same(3);
  io::read_reals(narrow, narrow.at("x"), std::span(same));
  EXPECT_EQ(same, floats);
  std::vector<double> doubles(3);
  io::read_reals(narrow, narrow.at("x"), std::span(doubles));
  EXPECT_EQ(doubles, std::vector<double>(floats.begin(), floats.end()));

  doubles = {0.1, 1 + 0x1p-24 + 0x1p-50, -7.0};
  const auto wide = file("F64", doubles.data(), doubles.size(), 8);
  io::read_reals(wide, wide.at("x"), std::span(same));
  EXPECT_EQ(same, (std::vector<float>{0.1F, 1 + 0x1p-23F, -7.0F})) << "rounded to nearest";
}

TEST_F(ReadReals, other_numbers_and_other_counts_are_refused) {
  const std::vector<std::int32_t> integers{1, 2};
  const auto whole = file("I32", integers.data(), 2, 4);
  std::vector<float> values(2);
  EXPECT_THROW(io::read_reals(whole, whole.at("x"), std::span(values)), DecodeError);
  const auto halves = file("F16", integers.data(), 4, 2);
  EXPECT_THROW(io::read_reals(halves, halves.at("x"), std::span(values)), DecodeError);
  std::vector<float> none;
  EXPECT_THROW(io::read_reals(halves, halves.at("x"), std::span(none)), DecodeError);
  const auto empty = file("F16", integers.data(), 0, 2);
  io::read_reals(empty, empty.at("x"), std::span(none));
}

TEST_F(ReadReals, a_part_of_a_tensor_ends_inside_it) {
  const std::vector<std::uint16_t> bits{1, 2, 3, 4};
  const auto stored = file("F16", bits.data(), bits.size(), 2);
  std::vector<std::byte> part(4);
  stored.read(stored.at("x"), 2, part);
  EXPECT_EQ(std::memcmp(part.data(), bits.data() + 1, 4), 0);
  EXPECT_THROW(stored.read(stored.at("x"), 5, part), DecodeError);
  EXPECT_THROW(stored.read(stored.at("x"), ~Bytes{0}, part), DecodeError);
}

}  // namespace
