// Codecs: what is decoded, which bytes are refused, and the 8-bit code against a search of all its values.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <reef/codec/blockwise8.hpp>
#include <reef/codec/detail/dynamic_code.hpp>
#include <reef/codec/int8_rows.hpp>
#include <reef/codec/normal_float4.hpp>
#include <reef/codec/uniform8.hpp>
#include <reef/core/random.hpp>

namespace reef::test {
namespace {

using Numbers = std::vector<float>;
using Message = std::vector<std::byte>;

Numbers normal_numbers(std::size_t n, std::uint64_t seed) {
  Numbers values(n);
  for (std::size_t i = 0; i < n; ++i) values[i] = static_cast<float>(normal({seed, 0, 0, 0}, i));
  return values;
}

template <class Codec>
Message encoded(const Codec& codec, const Numbers& values) {
  Message message(codec.encoded_bytes(static_cast<std::int64_t>(values.size())));
  message.resize(codec.encode(values, message));
  return message;
}

template <class Codec>
Numbers decoded(const Codec& codec, const Message& message, std::size_t n) {
  Numbers values(n, 7.0F);
  codec.decode(message, values);
  return values;
}

/// Calls f with each codec.
template <class F>
void each_codec(const F& f) {
  f(codec::Blockwise8{});
  f(codec::Blockwise8{.block = 7});
  f(codec::NormalFloat4{});
  f(codec::NormalFloat4{.block = 6, .nested = true});
  f(codec::Uniform8{});
}

TEST(Codecs, take_the_bytes_that_they_say_and_decode_near_to_what_was_encoded) {
  each_codec([](const auto& codec) {
    for (const std::size_t n : {0U, 1U, 2U, 63U, 64U, 65U, 4096U, 4097U, 30000U}) {
      const Numbers values = normal_numbers(n, n);
      const Message message = encoded(codec, values);
      EXPECT_EQ(message.size(), codec.encoded_bytes(static_cast<std::int64_t>(n)));
      const Numbers back = decoded(codec, message, n);
      double error = 0;
      double all = 1e-30;
      for (std::size_t i = 0; i < n; ++i) {
        error += std::pow(static_cast<double>(values[i]) - static_cast<double>(back[i]), 2);
        all += std::pow(static_cast<double>(values[i]), 2);
      }
      EXPECT_LT(std::sqrt(error / all), 0.13) << codec.name << " of " << n;
      EXPECT_EQ(encoded(codec, values), message) << "the same bytes again";
    }
  });
}

TEST(Codecs, refuse_a_message_of_which_any_bit_differs_and_write_nothing) {
  each_codec([](const auto& codec) {
    const Numbers values = normal_numbers(100, 3);
    const Message message = encoded(codec, values);
    const Numbers untouched(100, 7.0F);
    Numbers out = untouched;
    for (std::size_t bit = 0; bit < 8 * message.size(); ++bit) {
      Message damaged = message;
      damaged[bit / 8] ^= std::byte{1} << static_cast<int>(bit % 8);
      EXPECT_THROW(codec.decode(damaged, out), DecodeError) << codec.name << ", bit " << bit;
    }
    for (std::size_t size = 0; size < message.size(); ++size) {
      EXPECT_THROW(codec.decode(std::span(message).first(size), out), DecodeError) << codec.name << ", " << size << " bytes";
    }
    Message longer = message;
    longer.push_back(std::byte{});
    EXPECT_THROW(codec.decode(longer, out), DecodeError);
    EXPECT_EQ(out, untouched);
    Numbers fewer(99);
    EXPECT_THROW(codec.decode(message, fewer), DecodeError);
  });
  Numbers out(10);
  EXPECT_THROW((codec::Blockwise8{.block = 8}.decode(encoded(codec::Blockwise8{.block = 16}, Numbers(10)), out)),
               DecodeError);
  EXPECT_THROW(codec::Uniform8{}.decode(encoded(codec::Blockwise8{}, Numbers(10)), out), DecodeError);
}

TEST(Codecs, say_where_there_is_no_room_and_which_members_cannot_be) {
  Message small(10);
  EXPECT_THROW(codec::Blockwise8{}.encode(Numbers(10), small), OptionError);
  EXPECT_THROW(static_cast<void>(codec::Blockwise8{.block = 0}.encoded_bytes(1)), OptionError);
  EXPECT_THROW(static_cast<void>(codec::NormalFloat4{.block = 3}.encoded_bytes(1)), OptionError);
}

TEST(Codecs, what_is_not_finite_is_seen) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity()}) {
    each_codec([bad](const auto& codec) {
      Numbers values = normal_numbers(100, 5);
      values[17] = bad;
      const Numbers back = decoded(codec, encoded(codec, values), values.size());
      EXPECT_TRUE(std::any_of(back.begin(), back.end(), [](float v) { return !std::isfinite(v); }))
          << codec.name << " of " << bad;
    });
  }
}

/// Every value, every middle between two, and what lies beside them.
TEST(Codecs, the_dynamic_code_gives_the_nearest_value_and_of_two_the_lower) {
  const codec::detail::DynamicCode& code = codec::detail::dynamic_code();
  const auto searched = [&code](float v) {
    std::size_t best = 0;
    for (std::size_t k = 1; k < 256; ++k) {
      const auto distance = [&](std::size_t index) {
        return std::abs(static_cast<double>(v) - static_cast<double>(code.value(static_cast<std::uint8_t>(index))));
      };
      if (distance(k) < distance(best)) best = k;
    }
    return best;
  };
  Numbers tried{0.0F, -0.0F, 1.0F, -1.0F, 1e-30F, -1e-30F, std::numeric_limits<float>::denorm_min()};
  for (int k = 0; k < 256; ++k) {
    const float value = code.value(static_cast<std::uint8_t>(k));
    const float next = code.value(static_cast<std::uint8_t>(std::min(k + 1, 255)));
    for (const float v : {value, static_cast<float>((static_cast<double>(value) + static_cast<double>(next)) / 2)}) {
      tried.push_back(v);
      tried.push_back(std::nextafter(v, 2.0F));
      tried.push_back(std::nextafter(v, -2.0F));
    }
  }
  for (std::uint64_t i = 0; i < 20000; ++i) {
    const double exponent = -8.0 * static_cast<double>(random_bits({9, 0, 0, 0}, i)) / 4294967296.0;
    tried.push_back((i % 2 == 0 ? 1.0F : -1.0F) * static_cast<float>(std::pow(10.0, exponent)));
  }
  for (const float v : tried) {
    if (std::abs(v) > 1) continue;
    EXPECT_EQ(code.index_of(v), searched(v)) << v;
  }
}

TEST(Codecs, rows_of_int8_bear_zeros_and_what_is_not_finite) {
  const Numbers matrix{0, 0, std::numeric_limits<float>::quiet_NaN(), 1};
  const codec::Int8Rows rows = codec::int8_rows(matrix, 2);
  EXPECT_EQ(rows.largest[0], 0);
  EXPECT_TRUE(std::isnan(rows.largest[1]));
}

}  // namespace
}  // namespace reef::test
