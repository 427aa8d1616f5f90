// Formats of numbers on the wire against known answers, bit by bit.

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <reef/codec/blockwise8.hpp>
#include <reef/codec/detail/dynamic_code.hpp>
#include <reef/codec/int8_rows.hpp>
#include <reef/codec/normal_float4.hpp>
#include <reef/codec/uniform8.hpp>

#include "case_file.hpp"

namespace reef::test {
namespace {

using Floats = std::vector<float>;

float from_bits(const io::Json& json) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(std::stoul(json.get<std::string>(), nullptr, 16)));
}

Floats numbers_of(const io::Json& json) {
  Floats numbers;
  for (const io::Json& one : json) numbers.push_back(from_bits(one));
  return numbers;
}

std::vector<std::uint32_t> bits_of(std::span<const float> numbers) {
  std::vector<std::uint32_t> bits;
  for (const float number : numbers) bits.push_back(std::bit_cast<std::uint32_t>(number));
  return bits;
}

/// s = s * 1664525 + 1013904223; a number is the sum of four s / 2^32, less 2.
Floats drawn(std::uint32_t s, std::size_t n) {
  Floats numbers(n);
  for (float& number : numbers) {
    double sum = 0;
    for (int k = 0; k < 4; ++k) {
      s = s * 1664525U + 1013904223U;
      sum += s / 4294967296.0;
    }
    number = static_cast<float>(sum - 2);
  }
  return numbers;
}

/// CRC-32 of zlib, which the files have.
std::uint32_t crc32(std::span<const std::uint8_t> bytes) {
  std::uint32_t crc = 0xffffffffU;
  for (const std::uint8_t byte : bytes) {
    crc ^= byte;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ ((crc & 1U) != 0 ? 0xedb88320U : 0U);
  }
  return ~crc;
}

Floats case_numbers(const io::Json& test, std::uint32_t seed) {
  return test.contains("x") ? numbers_of(test.at("x")) : drawn(seed, test.at("n").get<std::size_t>());
}

double relative_error(const Floats& x, const Floats& decoded) {
  double error = 0;
  double all = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    error += std::pow(static_cast<double>(x[i]) - static_cast<double>(decoded[i]), 2);
    all += std::pow(static_cast<double>(x[i]), 2);
  }
  return std::sqrt(error / all);
}

template <class Codec>
Floats through_the_wire(const Codec& codec, const Floats& x) {
  std::vector<std::byte> message(codec.encoded_bytes(static_cast<std::int64_t>(x.size())));
  EXPECT_EQ(codec.encode(x, message), message.size());
  Floats decoded(x.size());
  codec.decode(message, decoded);
  return decoded;
}

TEST(PetalsFormats, blockwise8) {
  for (const io::Json& test : read_case_file("petals_blockwise8.json").at("cases")) {
    SCOPED_TRACE(test.at("name").get<std::string>());
    if (test.at("name") == "codebook") {
      Floats values;
      for (int index = 0; index < 256; ++index) {
        values.push_back(codec::detail::dynamic_code().value(static_cast<std::uint8_t>(index)));
      }
      EXPECT_EQ(bits_of(values), bits_of(numbers_of(test.at("values"))));
      continue;
    }
    const codec::Blockwise8 codec{test.at("blocksize").get<std::int64_t>()};
    const Floats x = case_numbers(test, 1);
    Floats largest(test.at("absmax").size());
    std::vector<std::uint8_t> indices(x.size());
    codec.quantize(x, largest, indices);
    EXPECT_EQ(bits_of(largest), bits_of(numbers_of(test.at("absmax"))));
    EXPECT_EQ(crc32(indices), test.at("crc32_of_indices").get<std::uint32_t>());
    const Floats decoded = through_the_wire(codec, x);
    EXPECT_NEAR(relative_error(x, decoded), test.at("rel_l2").get<double>(), 1e-9);
    if (test.contains("indices")) {
      EXPECT_EQ(indices, test.at("indices").get<std::vector<std::uint8_t>>());
      EXPECT_EQ(bits_of(decoded), bits_of(numbers_of(test.at("dequant"))));
    }
  }
}

TEST(PetalsFormats, normal_float4) {
  for (const io::Json& test : read_case_file("petals_nf4.json").at("cases")) {
    SCOPED_TRACE(test.at("name").get<std::string>());
    if (test.at("name") == "table") continue;  // the codes of the first case are all of them
    const codec::NormalFloat4 codec{64, true};
    const Floats x = case_numbers(test, 7);
    std::vector<std::uint8_t> packed((x.size() + 1) / 2);
    const codec::NormalFloat4::Scales scales = codec.quantize(x, packed);
    const auto first = std::span(scales.largest).first(test.at("absmax_first4").size());
    EXPECT_EQ(bits_of(first), bits_of(numbers_of(test.at("absmax_first4"))));
    EXPECT_EQ(crc32(packed), test.at("crc32_packed").get<std::uint32_t>());
    const io::Json& nested = test.at("nested");
    EXPECT_EQ(bits_of({{scales.offset}}), bits_of({{from_bits(nested.at("offset"))}}));
    EXPECT_EQ(crc32(scales.indices), nested.at("idx_crc32").get<std::uint32_t>());
    EXPECT_EQ(bits_of(scales.largest_above), bits_of(numbers_of(nested.at("absmax2"))));
    const Floats decoded = through_the_wire(codec::NormalFloat4{}, x);
    EXPECT_NEAR(relative_error(x, decoded), test.at("rel_l2").get<double>(), 1e-9);
    EXPECT_NEAR(relative_error(x, through_the_wire(codec, x)), test.at("rel_l2_nested").get<double>(), 1e-9);
    if (!test.contains("packed")) continue;
    EXPECT_EQ(packed, test.at("packed").get<std::vector<std::uint8_t>>());
    EXPECT_EQ(bits_of(decoded), bits_of(numbers_of(test.at("dequant"))));
  }
}

TEST(PetalsFormats, int8_of_hivemind_and_of_rows) {
  const io::Json cases = read_case_file("petals_int8_other.json").at("cases");
  const io::Json& uniform = cases.at(0);
  const Floats x = numbers_of(uniform.at("x"));
  std::vector<std::uint8_t> indices(x.size());
  const codec::Uniform8::Scale scale = codec::Uniform8{}.quantize(x, indices);
  EXPECT_EQ(indices, uniform.at("indices").get<std::vector<std::uint8_t>>());
  EXPECT_NEAR(scale.step, uniform.at("scale").get<float>(), 3e-9F);
  const auto means = codec::Uniform8::bucket_means(x, indices);
  for (const auto& [index, mean] : uniform.at("codebook_nonzero").items()) {
    EXPECT_EQ(means.at(std::stoul(index)), mean.get<float>()) << index;
  }

  const io::Json& rows = cases.at(1);
  Floats matrix;
  std::vector<int> expected;
  for (const io::Json& row : rows.at("A")) {
    for (const float value : row) matrix.push_back(value);
  }
  for (const io::Json& row : rows.at("int8")) {
    for (const int value : row) expected.push_back(value);
  }
  const auto columns = static_cast<std::int64_t>(rows.at("A").at(0).size());
  const codec::Int8Rows found = codec::int8_rows(matrix, columns);
  EXPECT_EQ(std::vector<int>(found.values.begin(), found.values.end()), expected);
  EXPECT_EQ(found.largest, rows.at("row_absmax").get<Floats>());
  EXPECT_EQ(codec::outlier_columns(matrix, columns, rows.at("outlier_threshold").get<float>()),
            rows.at("outlier_columns").get<std::vector<std::int64_t>>());
}

}  // namespace
}  // namespace reef::test
