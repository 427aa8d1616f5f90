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

#include <reef/codec.hpp>
#include <reef/codec/detail/dynamic_code.hpp>
#include <reef/core/random.hpp>

#include "messages.hpp"

namespace reef::test {
namespace {

/// Calls f with each codec, in forms that see a number wherever it is.
template <class F>
void each_codec(const F& f) {
  f(codec::Blockwise8{});
  f(codec::Blockwise8{.block = 7});
  f(codec::NormalFloat4{});
  f(codec::NormalFloat4{.block = 6, .nested = true});
  f(codec::Uniform8{});
  f(codec::TopK{.ratio = 1});
  f(codec::TopK{.ratio = 7});
  f(codec::Dense{});
  f(codec::Bf16{});
  f(codec::RandomK{.ratio = 1});
  f(codec::RandomK{.ratio = 1, .unbiased = true});
  f(codec::ChunkTopK{});
  f(codec::ChunkTopK{.chunk = 9, .keep = 2});
  f(codec::TwoBit{});
  f(codec::TwoBit{.block = 5});
  f(codec::Fp8{});
  f(codec::Fp8{.block = 11});
  f(codec::Sign{});
  f(codec::Sign{.block = 9});
  f(codec::Chain<codec::TopK, codec::Uniform8>{{.ratio = 4}, {}});
  f(codec::Chain<codec::ChunkTopK, codec::TwoBit>{{.chunk = 64, .keep = 3}, {.block = 100}});
  f(codec::Chain<codec::RandomK, codec::Chain<codec::TopK, codec::Blockwise8>>{{.ratio = 1}, {{.ratio = 2}, {}}});
}

/// Of the norm, of normal numbers.
template <class Codec>
double max_error(const Codec& format) {
  if (Codec::lossless) return 0;
  if (Codec::name == codec::Bf16::name) return 0.002;
  if (Codec::name == codec::Fp8::name) return 0.03;
  if (Codec::name == codec::TwoBit::name) return 0.45;
  if (Codec::name == codec::Sign::name) return 0.71;
  if constexpr (codec::selecting_codec<Codec>) return format.kept(1000) == 1000 ? 0 : 1;
  return Codec::name.starts_with("chain") ? 1 : 0.13;
}

TEST(Codecs, take_the_bytes_that_they_say_and_decode_near_to_what_was_encoded) {
  each_codec([](const auto& format) {
    for (const std::size_t n : {0U, 1U, 2U, 63U, 64U, 65U, 4096U, 4097U, 30000U}) {
      const Numbers values = normal_numbers(n, n);
      const Message message = encoded(format, values);
      const Bytes most = format.encoded_bytes(static_cast<std::int64_t>(n));
      EXPECT_TRUE(format.exact ? message.size() == most : message.size() <= most) << format.name << " of " << n;
      const Numbers back = decoded(format, message, n);
      double error = 0;
      double all = 1e-30;
      for (std::size_t i = 0; i < n; ++i) {
        error += std::pow(static_cast<double>(values[i]) - static_cast<double>(back[i]), 2);
        all += std::pow(static_cast<double>(values[i]), 2);
      }
      EXPECT_LE(std::sqrt(error / all), max_error(format)) << format.name << " of " << n;
      EXPECT_EQ(encoded(format, values), message) << "the same bytes again";
    }
  });
}

TEST(Codecs, refuse_a_message_of_which_any_bit_differs_and_write_nothing) {
  each_codec([](const auto& format) {
    const Numbers values = normal_numbers(100, 3);
    const Message message = encoded(format, values);
    const Numbers untouched(100, 7.0F);
    Numbers out = untouched;
    for (std::size_t bit = 0; bit < 8 * message.size(); ++bit) {
      Message damaged = message;
      damaged[bit / 8] ^= std::byte{1} << static_cast<int>(bit % 8);
      EXPECT_THROW(format.decode(damaged, out), DecodeError) << format.name << ", bit " << bit;
    }
    for (std::size_t size = 0; size < message.size(); ++size) {
      EXPECT_THROW(format.decode(std::span(message).first(size), out), DecodeError) << format.name << ", " << size << " bytes";
    }
    Message longer = message;
    longer.push_back(std::byte{});
    EXPECT_THROW(format.decode(longer, out), DecodeError);
    EXPECT_EQ(out, untouched);
    Numbers fewer(99);
    EXPECT_THROW(format.decode(message, fewer), DecodeError);
  });
  Numbers out(10);
  EXPECT_THROW((codec::Blockwise8{.block = 8}.decode(encoded(codec::Blockwise8{.block = 16}, Numbers(10)), out)),
               DecodeError);
  EXPECT_THROW(codec::Uniform8{}.decode(encoded(codec::Blockwise8{}, Numbers(10)), out), DecodeError);
  each_codec([&](const auto& one) {
    const Message message = encoded(one, Numbers(10));
    each_codec([&](const auto& other) {
      if (one.name == other.name) return;
      EXPECT_THROW(other.decode(message, out), DecodeError) << one.name << " as " << other.name;
    });
  });
  EXPECT_EQ(out, Numbers(10));
}

/// A checksum of a long message is put together of those of its parts, each of 256 KiB: every part counts, to its end.
TEST(Codecs, refuse_a_long_message_of_which_a_byte_differs_wherever_it_is) {
  const auto refuses = [](const auto& format, std::size_t n) {
    const Message message = encoded(format, normal_numbers(n, 4));
    const std::size_t part = std::size_t{1} << 18;
    ASSERT_GT(message.size(), 3 * part) << format.name;
    std::vector<std::size_t> places{message.size() - 1, message.size() - 2};
    for (std::size_t begin = 0; begin < message.size(); begin += part) {
      for (std::size_t at = begin + codec::message_head_bytes - 2;
           at < begin + codec::message_head_bytes + 2; ++at)
        places.push_back(at);
      for (std::uint32_t draw = 0; draw < 5; ++draw)
        places.push_back(begin + random_bits({7, begin, 0, 0}, draw) % part);
    }
    Numbers out(n, 7.0F);
    Message damaged = message;
    for (const std::size_t place : places) {
      const std::size_t at = std::min(place, message.size() - 1);
      damaged[at] ^= std::byte{16};
      try {
        format.decode(damaged, out);
        ADD_FAILURE() << format.name << " of " << message.size() << " bytes: byte " << at
                      << " differs, and it is decoded";
      } catch (const DecodeError& error) {
        if (at >= codec::message_head_bytes) {
          EXPECT_THAT(error.what(), testing::HasSubstr("its checksum differs"))
              << format.name << ", byte " << at;
        }
      }
      damaged[at] = message[at];
    }
    EXPECT_EQ(std::count(out.begin(), out.end(), 7.0F), std::ssize(out))
        << format.name << ": what is refused writes nothing";
    format.decode(damaged, out);
  };
  refuses(codec::Dense{}, 250'000);
  refuses(codec::Bf16{}, 500'000);
  refuses(codec::Uniform8{}, 1'000'000);
}

TEST(Codecs, refuse_a_message_of_as_many_bytes_that_has_another_parameter) {
  const codec::Blockwise8 sent{.block = 64};
  const codec::Blockwise8 expected{.block = 128};
  const Numbers values(64, 1);
  std::vector<std::byte> message(sent.encoded_bytes(64));
  ASSERT_EQ(message.size(), expected.encoded_bytes(64));
  sent.encode(values, message);
  Numbers decoded(64, 7);
  EXPECT_THAT([&] { expected.decode(message, decoded); },
              testing::ThrowsMessage<Error>(testing::HasSubstr("has the parameter 64 where 128 is expected")));
  EXPECT_EQ(decoded, Numbers(64, 7));
}

TEST(Codecs, say_where_there_is_no_room_and_which_members_cannot_be) {
  Message small(10);
  EXPECT_THROW(codec::Blockwise8{}.encode(Numbers(10), small), OptionError);
  EXPECT_THROW(static_cast<void>(codec::Blockwise8{.block = 0}.encoded_bytes(1)), OptionError);
  EXPECT_THROW(static_cast<void>(codec::NormalFloat4{.block = 3}.encoded_bytes(1)), OptionError);
  EXPECT_THROW(static_cast<void>(codec::TopK{.ratio = 0.5}.encoded_bytes(1)), OptionError);
  EXPECT_THROW(static_cast<void>(codec::RandomK{.ratio = 0.5}.encoded_bytes(1)), OptionError);
  EXPECT_THROW(static_cast<void>(codec::ChunkTopK{.chunk = 4, .keep = 5}.encoded_bytes(1)), OptionError);
  EXPECT_THROW(static_cast<void>(codec::ChunkTopK{.chunk = 4, .keep = 0}.encoded_bytes(1)), OptionError);
  EXPECT_THROW(static_cast<void>(codec::TwoBit{.block = -1}.encoded_bytes(1)), OptionError);
  EXPECT_THROW(static_cast<void>(codec::TwoBit{.sigmas = 0}.encoded_bytes(1)), OptionError);
  EXPECT_THROW(static_cast<void>(codec::Fp8{.block = 0}.encoded_bytes(1)), OptionError);
  EXPECT_THROW(static_cast<void>(codec::Sign{.block = 0}.encoded_bytes(1)), OptionError);
  each_codec([&](const auto& format) { EXPECT_THROW(format.encode(Numbers(10), small), OptionError) << format.name; });
}

TEST(Codecs, what_is_not_finite_is_seen) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity()}) {
    each_codec([bad](const auto& format) {
      Numbers values = normal_numbers(100, 5);
      values[17] = bad;
      const Numbers back = decoded(format, encoded(format, values), values.size());
      EXPECT_TRUE(std::any_of(back.begin(), back.end(), [](float v) { return !std::isfinite(v); }))
          << format.name << " of " << bad;
    });
  }
}

/// What a sort says, of numbers with ties, zeros, NaN and infinity among them.
TEST(Codecs, top_k_keeps_the_largest_and_of_ties_the_lower_index) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    const std::size_t n = 1 + random_bits({seed, 0, 0, 1}, 0) % 300;
    Numbers values = normal_numbers(n, seed);
    for (std::size_t i = 0; i < n; ++i) {
      switch (random_bits({seed, 0, 0, 2}, i) % 7) {
        case 0: values[i] = 0; break;
        case 1: values[i] = -0.5F; break;
        case 2: values[i] = 0.5F; break;
        case 3: if (seed % 3 == 0) values[i] = std::numeric_limits<float>::infinity(); break;
        case 4: if (seed % 5 == 0) values[i] = std::numeric_limits<float>::quiet_NaN(); break;
        default: break;
      }
    }
    const auto key = [&](std::uint32_t i) { return std::bit_cast<std::uint32_t>(values[i]) & 0x7fffffffU; };
    std::vector<std::uint32_t> sorted(n);
    for (std::uint32_t i = 0; i < n; ++i) sorted[i] = i;
    std::stable_sort(sorted.begin(), sorted.end(), [&](auto a, auto b) { return key(a) > key(b); });
    for (const std::size_t k : {std::size_t{0}, std::size_t{1}, n / 7, n / 2, n}) {
      std::vector<std::uint32_t> best(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(k));
      std::sort(best.begin(), best.end());
      EXPECT_EQ(codec::largest_indices(values, static_cast<std::int64_t>(k)), best) << seed << ", " << k;
    }
  }
}

TEST(Codecs, top_k_sends_what_it_keeps_and_what_was_decoded_again_as_the_same_bytes) {
  for (const std::size_t n : {1U, 8U, 100U, 5000U, 70000U}) {
    for (const double ratio : {1.0, 1.3, 3.0, 10.0, 100.0, 1e6}) {
      const codec::TopK format{ratio};
      const Numbers values = normal_numbers(n, n);
      const Message message = encoded(format, values);
      EXPECT_LE(message.size(), format.encoded_bytes(static_cast<std::int64_t>(n)));
      const Numbers back = decoded(format, message, n);
      Numbers expected(n, 0.0F);
      for (const std::uint32_t i : codec::largest_indices(values, format.kept(static_cast<std::int64_t>(n)))) {
        expected[i] = values[i];
      }
      EXPECT_EQ(back, expected);
      EXPECT_EQ(encoded(format, back), message) << n << " at " << ratio;
    }
  }
}

/// Of each form as many as it is the least for, and all others all the same.
TEST(Codecs, indices_come_back_in_every_form) {
  for (std::uint64_t seed = 1; seed <= 25; ++seed) {
    const auto n = static_cast<std::int64_t>(1 + random_bits({seed, 0, 0, 3}, 0) % 80000);
    const std::uint32_t one_in = 1U << (random_bits({seed, 0, 0, 3}, 1) % 14);
    std::vector<std::uint32_t> indices;
    for (std::int64_t i = 0; i < n; ++i) {
      if (random_bits({seed, 0, 0, 4}, static_cast<std::uint64_t>(i)) % one_in == 0) indices.push_back(static_cast<std::uint32_t>(i));
    }
    const codec::IndexCoding least = codec::least_coding(indices, n);
    for (const codec::IndexForm form : {codec::IndexForm::bitmap, codec::IndexForm::blocked, codec::IndexForm::rice,
                                       codec::IndexForm::all_but}) {
      const codec::IndexCoding coding = codec::coding_in(indices, n, form, 7);
      EXPECT_LE(least.bytes, coding.bytes);
      Message bytes(coding.bytes);
      codec::write_indices(indices, n, coding, bytes);
      std::vector<std::uint32_t> back(indices.size());
      EXPECT_TRUE(codec::read_indices(bytes, n, coding, back));
      EXPECT_EQ(back, indices);
      if (bytes.empty() || indices.empty()) continue;
      EXPECT_FALSE(codec::read_indices(std::span(bytes).first(bytes.size() - 1), n, coding, back)) << "cut";
      back.pop_back();
      EXPECT_FALSE(codec::read_indices(bytes, n, coding, back)) << "one too many";
    }
  }
}

/// At one in 100 of 2^20 numbers: the entropy of which are kept.
TEST(Codecs, indices_take_little_more_than_their_entropy) {
  const std::int64_t n = 1 << 20;
  const Numbers values = normal_numbers(static_cast<std::size_t>(n), 2);
  for (const double density : {0.25, 0.1, 0.01, 0.001}) {
    const auto k = static_cast<std::int64_t>(density * static_cast<double>(n));
    const codec::IndexCoding coding = codec::least_coding(codec::largest_indices(values, k), n);
    const double entropy = -density * std::log2(density) - (1 - density) * std::log2(1 - density);
    EXPECT_LT(8 * static_cast<double>(coding.bytes), 1.03 * entropy * static_cast<double>(n)) << density;
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
