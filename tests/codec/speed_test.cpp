// What codecs give by vectors and threads, under each instruction set, against loops over single numbers: bit by bit.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include <reef/codec/blockwise8.hpp>
#include <reef/codec/detail/dynamic_code.hpp>
#include <reef/codec/detail/largest.hpp>
#include <reef/codec/normal_float4.hpp>
#include <reef/codec/threads.hpp>
#include <reef/codec/top_k.hpp>
#include <reef/codec/uniform8.hpp>
#include <reef/core/random.hpp>
#include <reef/device/host.hpp>
#include <reef/device/instruction_set.hpp>
#include <reef/io/checksum.hpp>

namespace reef::test::plain {
namespace {

using Floats = std::vector<float>;
using Bytes8 = std::vector<std::uint8_t>;

std::uint32_t bits_of(float value) { return std::bit_cast<std::uint32_t>(value); }

// -- what is encoded ------------------------------------------------------------------------------

enum class Kind { normal, constant, zeros, denormal, not_finite, tied, any_bits, huge, few_large };
constexpr std::array kinds{Kind::normal,   Kind::constant, Kind::zeros, Kind::denormal, Kind::not_finite,
                           Kind::tied, Kind::any_bits, Kind::huge,  Kind::few_large};

Floats numbers(Kind kind, std::size_t n) {
  const std::uint64_t seed = 100 + static_cast<std::uint64_t>(kind);
  Floats values(n);
  for (std::size_t i = 0; i < n; ++i) {
    const auto x = static_cast<float>(normal({seed, 0, 0, 0}, i));
    const std::uint32_t word = random_bits({seed, 0, 0, 1}, i);
    switch (kind) {
      case Kind::normal: values[i] = x; break;
      case Kind::constant: values[i] = -0.37F; break;
      case Kind::zeros: values[i] = word % 2 == 0 ? 0.0F : -0.0F; break;
      case Kind::denormal: values[i] = x * 1e-39F; break;
      case Kind::not_finite:
        values[i] = word % 97 == 0   ? std::bit_cast<float>(0x7fc00000U | (word & 0x803fffffU))
                    : word % 61 == 0 ? std::copysign(std::numeric_limits<float>::infinity(), x)
                                     : x;
        break;
      case Kind::tied: values[i] = std::nearbyint(x); break;
      case Kind::any_bits: values[i] = std::bit_cast<float>(word); break;
      case Kind::huge: values[i] = x * 1e37F; break;
      case Kind::few_large: values[i] = word % 64 == 0 ? x * 1e6F : 0.0F; break;
    }
  }
  return values;
}

// -- loops over single numbers --------------------------------------------------------------------

float largest_of(std::span<const float> block) {
  float largest = 0;
  for (const float value : block) {
    if (std::isnan(value)) return std::numeric_limits<float>::quiet_NaN();
    largest = std::max(largest, std::abs(value));
  }
  return largest;
}

/// Middles between the values of the dynamic code, which fp64 has exactly.
const std::array<double, 255>& dynamic_middles() {
  static const auto middles = [] {
    std::array<double, 255> made{};
    const auto& values = codec::detail::dynamic_code().values();
    for (std::size_t i = 0; i < made.size(); ++i) {
      made[i] = (static_cast<double>(values[i]) + static_cast<double>(values[i + 1])) / 2;
    }
    return made;
  }();
  return middles;
}

std::uint8_t dynamic_index(float scaled) {
  if (std::isnan(scaled)) return 0;
  const auto& middles = dynamic_middles();
  return static_cast<std::uint8_t>(std::lower_bound(middles.begin(), middles.end(), static_cast<double>(scaled)) - middles.begin());
}

struct Encoded {
  Floats heads{};   ///< what stands before the codes
  Bytes8 codes{};
  Floats decoded{};
};

Encoded blockwise8(const Floats& values, std::size_t block) {
  Encoded result;
  for (std::size_t begin = 0; begin < values.size(); begin += block) {
    const std::size_t end = std::min(values.size(), begin + block);
    const float largest = largest_of(std::span(values).subspan(begin, end - begin));
    const float scale = 1 / largest;
    result.heads.push_back(largest);
    for (std::size_t i = begin; i < end; ++i) {
      const float scaled = values[i] * scale;
      result.codes.push_back(dynamic_index(scaled > 1 ? 1 : scaled < -1 ? -1 : scaled));
      result.decoded.push_back(codec::detail::dynamic_code().value(result.codes.back()) * largest);
    }
  }
  return result;
}

Encoded normal_float4(const Floats& values, std::size_t block) {
  constexpr std::array<std::uint32_t, 16> levels{
      0xbf800000, 0xbf3239b1, 0xbf066b30, 0xbeca32a0, 0xbe91a24d, 0xbe3d353f, 0xbdba7871, 0x00000000,
      0x3da2faff, 0x3e24cae3, 0x3e7c04dd, 0x3ead033a, 0x3ee1a4b8, 0x3f1007ab, 0x3f3913b3, 0x3f800000};
  Encoded result;
  result.codes.resize((values.size() + 1) / 2);
  for (std::size_t begin = 0; begin < values.size(); begin += block) {
    const std::size_t end = std::min(values.size(), begin + block);
    const float largest = largest_of(std::span(values).subspan(begin, end - begin));
    const float scale = 1 / largest;
    result.heads.push_back(largest);
    for (std::size_t i = begin; i < end; ++i) {
      const float scaled = values[i] * scale;
      unsigned code = 0;
      for (std::size_t k = 0; k < 15; ++k) {
        const double sum = static_cast<double>(std::bit_cast<float>(levels[k])) + static_cast<double>(std::bit_cast<float>(levels[k + 1]));
        code += scaled > static_cast<float>(sum / 2) ? 1U : 0U;
      }
      result.codes[i / 2] = static_cast<std::uint8_t>(result.codes[i / 2] | code << (i % 2 == 0 ? 4 : 0));
      result.decoded.push_back(std::bit_cast<float>(levels[code]) * largest);
    }
  }
  return result;
}

/// f(x) added up in sixteen interleaved sums, halves onto halves.
template <class F>
double sum_of(std::span<const float> values, const F& f) {
  std::array<double, 16> lane{};
  for (std::size_t i = 0; i < values.size(); ++i) lane[i % 16] += f(values[i]);
  for (std::size_t half = 8; half > 0; half /= 2) {
    for (std::size_t j = 0; j < half; ++j) lane[j] += lane[j + half];
  }
  return lane[0];
}

Encoded uniform8(const Floats& values) {
  Encoded result;
  const auto n = static_cast<double>(values.size());
  std::vector<std::span<const float>> parts;
  for (std::size_t begin = 0; begin < values.size(); begin += 65536) {
    parts.push_back(std::span(values).subspan(begin, std::min<std::size_t>(values.size() - begin, 65536)));
  }
  double sum = 0;
  for (const auto part : parts) sum += sum_of(part, [](float x) { return static_cast<double>(x); });
  const float mean = values.empty() ? 0 : static_cast<float>(sum / n);
  double squares = 0;
  for (const auto part : parts) {
    const double own = sum_of(part, [](float x) { return static_cast<double>(x); });
    const auto count = static_cast<double>(part.size());
    const auto centre = static_cast<float>(own / count);
    const double moved = static_cast<double>(centre) - static_cast<double>(mean);
    squares += sum_of(part, [centre](float x) { return std::pow(static_cast<double>(x - centre), 2); }) +
               moved * (2 * (own - count * static_cast<double>(centre)) + count * moved);
  }
  const float step = values.empty() ? 0 : static_cast<float>(6 * std::sqrt(std::max(squares, 0.0) / std::max(n - 1, 1.0)) / 256);
  const float inverse = step > 0 ? 1 / step : 0;
  result.heads = {mean, step};
  for (const float value : values) {
    const float index = std::nearbyint((value - mean) * inverse) + 128;
    result.codes.push_back(static_cast<std::uint8_t>(index > 0 ? std::min(index, 255.0F) : 0.0F));
    result.decoded.push_back(mean + static_cast<float>(result.codes.back() - 128) * step);
  }
  return result;
}

/// Of the k largest magnitudes, by a sort.
Encoded top_k(const Floats& values, std::size_t k) {
  const auto magnitude = [&](std::uint32_t i) { return bits_of(values[i]) & 0x7fffffffU; };
  std::vector<std::uint32_t> order(values.size());
  for (std::uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return magnitude(a) > magnitude(b); });
  order.resize(k);
  std::sort(order.begin(), order.end());
  const auto n = static_cast<std::int64_t>(values.size());
  const codec::IndexCoding coding = codec::least_coding(order, n);
  Encoded result;
  result.decoded.assign(values.size(), 0.0F);
  for (const std::uint32_t i : order) {
    result.heads.push_back(values[i]);
    result.decoded[i] = values[i];
  }
  std::vector<std::byte> indices(coding.bytes);
  codec::write_indices(order, n, coding, indices);
  result.codes = {static_cast<std::uint8_t>(coding.form), coding.parameter};
  for (const std::byte byte : indices) result.codes.push_back(std::to_integer<std::uint8_t>(byte));
  return result;
}

// -- the comparison -------------------------------------------------------------------------------

bool same(float a, float b) { return bits_of(a) == bits_of(b) || (std::isnan(a) && std::isnan(b)); }

/// The message of these numbers has these parts behind `before` bytes of payload, and decodes so.
template <class Codec>
void expect_encoded(const Codec& format, const Floats& values, const Encoded& expected, std::size_t before,
                    const codec::Threads& threads) {
  std::vector<std::byte> message(format.encoded_bytes(std::ssize(values)), std::byte{0xee});
  message.resize(format.encode(values, message, threads));
  const std::size_t heads = codec::message_head_bytes + before;
  const std::size_t codes = heads + 4 * expected.heads.size();
  ASSERT_EQ(message.size(), codes + expected.codes.size());
  for (std::size_t i = 0; i < expected.heads.size(); ++i) {
    float head = 0;
    std::memcpy(&head, message.data() + heads + 4 * i, sizeof head);
    ASSERT_TRUE(same(head, expected.heads[i])) << head << " before the codes, not " << expected.heads[i] << ", at " << i;
  }
  for (std::size_t i = 0; i < expected.codes.size(); ++i) {
    ASSERT_EQ(std::to_integer<int>(message[codes + i]), expected.codes[i]) << "byte " << i << " of the codes";
  }
  std::uint32_t checksum = 0;
  std::memcpy(&checksum, message.data() + 28, sizeof checksum);
  EXPECT_EQ(checksum, io::crc32c(std::span(message).subspan(32), io::crc32c(std::span(message).first(28))));
  Floats decoded(values.size(), 7.0F);
  format.decode(message, decoded, threads);
  for (std::size_t i = 0; i < values.size(); ++i) {
    ASSERT_TRUE(same(decoded[i], expected.decoded[i])) << decoded[i] << ", not " << expected.decoded[i] << ", at " << i;
  }
}

/// Calls run(check) with a check of each codec: what it has to give is worked out once.
template <class Run>
void each_codec(const Floats& values, const Run& run) {
  const auto n = std::ssize(values);
  const auto check = [&](const std::string& name, const auto& format, const Encoded& expected, std::size_t before) {
    SCOPED_TRACE(name);
    run([&](const codec::Threads& threads) { expect_encoded(format, values, expected, before, threads); });
  };
  for (const std::int64_t block : {1, 7, 64, 300, 4096}) {
    check("blockwise8 of " + std::to_string(block), codec::Blockwise8{block},
          blockwise8(values, static_cast<std::size_t>(block)), 0);
  }
  for (const std::int64_t block : {2, 6, 64, 4096}) {
    check("normal_float4 of " + std::to_string(block), codec::NormalFloat4{block, false},
          normal_float4(values, static_cast<std::size_t>(block)), 0);
  }
  check("uniform8", codec::Uniform8{}, uniform8(values), 0);
  for (const double ratio : {1.5, 9.0, 100.0, 5000.0}) {
    const codec::TopK format{ratio};
    check("top_k of one in " + std::to_string(ratio), format, top_k(values, static_cast<std::size_t>(format.kept(n))), 0);
  }
}

/// Of so many numbers of every kind, under every instruction set, with so many threads.
void compare_everywhere(const std::vector<std::size_t>& sizes, int threads) {
  device::Host host({.threads = threads});
  device::Host::Lane lane(host, "codec");
  for (const Kind kind : kinds) {
    for (const std::size_t n : sizes) {
      SCOPED_TRACE("numbers of kind " + std::to_string(static_cast<int>(kind)) + ", " + std::to_string(n));
      each_codec(numbers(kind, n), [&](const auto& check) {
        for (const auto set : {device::InstructionSet::baseline, device::InstructionSet::avx2, device::InstructionSet::avx512}) {
          if (set > device::best_instruction_set()) break;
          SCOPED_TRACE(std::string(device::name_of(set)));
          device::use_instruction_set(set);
          lane.submit([&](device::Host::Lane& own) { check(own); });
          lane.synchronize();
        }
        device::use_instruction_set(device::best_instruction_set());
      });
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST(CodecSpeed, a_few_numbers_are_encoded_as_one_by_one_under_every_instruction_set) {
  std::vector<std::size_t> sizes;
  for (std::size_t n = 0; n <= 40; ++n) sizes.push_back(n);
  for (const std::size_t n : {63U, 64U, 65U, 129U, 1023U, 1024U, 1025U}) sizes.push_back(n);
  compare_everywhere(sizes, 1);
}

TEST(CodecSpeed, many_numbers_are_encoded_as_one_by_one_with_any_threads) {
  compare_everywhere({70001}, 3);
  compare_everywhere({300007}, 2);
}

/// The sample sees none of the numbers that count, or too many: what is kept is the same.
TEST(CodecSpeed, top_k_is_exact_where_a_sample_misleads) {
  const std::size_t n = 200000;
  for (const int pattern : {0, 1, 2, 3}) {
    Floats values(n);
    for (std::size_t i = 0; i < n; ++i) {
      const auto x = static_cast<float>(normal({5, 0, 0, 0}, i));
      switch (pattern) {
        case 0: values[i] = i < n / 100 ? 5 + x : 0.0F; break;                    // all at the beginning
        case 1: values[i] = static_cast<float>(i); break;                        // ascending
        case 2: values[i] = i % 50 == 0 ? 2.0F : i % 2 == 0 ? 1.0F : x / 8; break;  // half as large as the k-th
        default: values[i] = i == n - 1 ? 3.0F : 1e-40F; break;
      }
    }
    for (const std::size_t k : {std::size_t{1}, n / 1000, n / 100, n / 45, n / 10}) {
      const codec::detail::Selected found = codec::detail::largest(values, static_cast<std::int64_t>(k), {});
      const Encoded expected = top_k(values, k);
      ASSERT_EQ(found.values, expected.heads) << pattern << ", " << k;
      for (std::size_t i = 0; i < k; ++i) ASSERT_EQ(bits_of(values[found.indices[i]]), bits_of(found.values[i]));
      ASSERT_TRUE(std::is_sorted(found.indices.begin(), found.indices.end(), std::less_equal<>{}));
    }
  }
}

/// Every key of a number near a threshold, and of what is no number of [-1, 1].
TEST(CodecSpeed, steps_are_those_of_a_search) {
  const auto& steps = codec::detail::dynamic_code().steps();
  for (std::uint64_t i = 0; i < 400000; ++i) {
    const auto value = std::bit_cast<float>(random_bits({8, 0, 0, 0}, i));
    if (std::abs(value) > 1) continue;
    ASSERT_EQ(steps(value), dynamic_index(value)) << value;
  }
  for (const double middle : dynamic_middles()) {
    for (float value = std::nextafter(static_cast<float>(middle), -2.0F); static_cast<double>(value) <= middle + 1e-7;
         value = std::nextafter(value, 2.0F)) {
      ASSERT_EQ(steps(value), dynamic_index(value)) << value;
    }
  }
}

}  // namespace
}  // namespace reef::test::plain
