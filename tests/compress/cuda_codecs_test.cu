// Codecs on a GPU: the host's messages, byte by byte, and what they decode to.

#include <reef/compress/cuda.cuh>

#include <gtest/gtest.h>

#include "support/same_bits.hpp"

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <reef/core/random.hpp>

namespace reef::test {
namespace {

using codec::Bf16;
using codec::Blockwise8;
using device::Copy;
using device::Cuda;

/// Numbers of many sizes; every number of the code and both of its neighbours; what is not finite, where that is asked for.
std::vector<float> numbers(std::int64_t n, bool all_finite = true) {
  std::vector<float> values(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint32_t drawn = random_bits({7, 0, 0, 0}, i);
    const float sign = (drawn & 1U) != 0 ? -1.0F : 1.0F;
    values[i] = sign * std::ldexp(static_cast<float>(drawn >> 8) * 0x1p-24F, -static_cast<int>(drawn >> 4 & 15U));
  }
  const auto& thresholds = codec::detail::dynamic_code().thresholds();
  for (std::size_t i = 0; i < thresholds.size() && 3 * i + 2 < values.size(); ++i) {
    values[3 * i] = thresholds[i];
    values[3 * i + 1] = std::nextafter(thresholds[i], 2.0F);
    values[3 * i + 2] = std::nextafter(thresholds[i], -2.0F);
  }
  if (n > 3) values[2] = 1, values[3] = -0.0F;
  if (all_finite) return values;
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const float others[]{std::numeric_limits<float>::quiet_NaN(), infinity, -infinity, std::numeric_limits<float>::max()};
  for (std::size_t i = 0; i < values.size(); i += 997) values[i] = others[i / 997 % 4];
  return values;
}

/// Every NaN is one.
std::vector<std::uint32_t> bits_of(std::span<const float> values) {
  std::vector<std::uint32_t> bits;
  for (const float value : values) {
    bits.push_back(value == value ? std::bit_cast<std::uint32_t>(value) : 0x7fc00000U);
  }
  return bits;
}

template <class T>
std::vector<float> widened(const std::vector<T>& values) {
  return {values.begin(), values.end()};
}

template <class C>
std::vector<std::byte> on_host(const C& format, const std::vector<float>& values) {
  std::vector<std::byte> message(format.encoded_bytes(static_cast<std::int64_t>(values.size())));
  message.resize(format.encode(values, message));
  return message;
}

class CudaCodecs : public testing::Test {
protected:
  void SetUp() override {
    std::string why;
    if (!device::cuda_available(&why)) GTEST_SKIP() << why;
    cuda_.emplace(Cuda::Options{.poison_freed = true});
    lane_.emplace(*cuda_, "compute");
  }

  /// What the device makes of values, at that many bytes into page-locked memory.
  template <class C, class T>
  std::vector<std::byte> encoded(const C& format, const std::vector<T>& values, std::size_t offset = 0) {
    const auto n = static_cast<std::int64_t>(values.size());
    const std::size_t bytes = format.encoded_bytes(n);
    auto of_device = cuda_->allocate(values.size() * sizeof(T), "values");
    auto pinned = cuda_->allocate_pinned(offset + bytes + 1, "message");
    auto* const at = static_cast<std::byte*>(pinned.data());
    at[offset + bytes] = std::byte{77};
    Bytes used = 0;
    lane_->submit([&](Cuda::Lane& lane) {
      lane.copy(of_device.data(), values.data(), values.size() * sizeof(T), Copy::to_device);
      used = compress::cuda::encode(lane, format, static_cast<const T*>(of_device.data()), n, {at + offset, bytes});
    });
    lane_->synchronize();
    EXPECT_EQ(used, bytes);
    EXPECT_EQ(at[offset + bytes], std::byte{77}) << "something wrote behind the end";
    return {at + offset, at + offset + used};
  }

  /// What the device makes of a message.
  template <class T, class C>
  std::vector<T> decoded(const C& format, const std::vector<std::byte>& message, std::size_t n, std::size_t offset = 0) {
    std::vector<T> values(n + 1, T(77.0F));
    auto of_device = cuda_->allocate(values.size() * sizeof(T), "values");
    auto pinned = cuda_->allocate_pinned(offset + message.size(), "message");
    std::memcpy(static_cast<std::byte*>(pinned.data()) + offset, message.data(), message.size());
    lane_->submit([&](Cuda::Lane& lane) {
      lane.copy(of_device.data(), values.data(), values.size() * sizeof(T), Copy::to_device);
      compress::cuda::decode(lane, format, {static_cast<const std::byte*>(pinned.data()) + offset, message.size()},
                             static_cast<T*>(of_device.data()), static_cast<std::int64_t>(n));
      lane.copy(values.data(), of_device.data(), values.size() * sizeof(T), Copy::to_host);
    });
    lane_->synchronize();
    EXPECT_EQ(static_cast<float>(values.back()), 77) << "something wrote behind the end";
    values.pop_back();
    return values;
  }

  template <class C>
  void expect_the_hosts(const C& format, const std::vector<float>& values, std::size_t offset = 0) {
    const std::vector<std::byte> message = on_host(format, values);
    EXPECT_TRUE(same_bits(encoded(format, values, offset), message)) << C::name << " of " << values.size() << ", at " << offset;
    std::vector<float> wanted(values.size());
    format.decode(message, wanted);
    EXPECT_EQ(bits_of(decoded<float>(format, message, values.size(), offset)), bits_of(wanted))
        << C::name << " of " << values.size() << ", at " << offset;
  }

  std::optional<Cuda> cuda_;
  std::optional<Cuda::Lane> lane_;
};

TEST_F(CudaCodecs, make_the_messages_of_the_host_and_decode_them_to_its_bits) {
  for (const std::int64_t n : {0, 1, 2, 3, 5, 1021, 4095, 4096, 4097, 9001}) {
    expect_the_hosts(Bf16(), numbers(n));
    expect_the_hosts(Blockwise8(), numbers(n));
  }
}

TEST_F(CudaCodecs, have_blocks_of_any_size) {
  for (const std::int64_t block : {1, 3, 64, 300, 10'000}) expect_the_hosts(Blockwise8{.block = block}, numbers(1021));
}

TEST_F(CudaCodecs, write_and_read_messages_that_begin_anywhere) {
  for (const std::size_t offset : {1, 2, 3, 6}) {
    expect_the_hosts(Bf16(), numbers(77), offset);
    expect_the_hosts(Blockwise8{.block = 16}, numbers(77), offset);
  }
}

TEST_F(CudaCodecs, let_what_is_not_finite_be_seen) {
  expect_the_hosts(Bf16(), numbers(5000, false));
  expect_the_hosts(Blockwise8{.block = 512}, numbers(5000, false));
  expect_the_hosts(Blockwise8(), std::vector<float>(70, 0.0F));
  expect_the_hosts(Blockwise8(), std::vector<float>(70, 1e-44F));
}

TEST_F(CudaCodecs, widen_bfloat16_and_round_back_to_it) {
  const std::vector<float> wide = numbers(4500);
  std::vector<Bfloat16> values;
  for (const float value : wide) values.emplace_back(value);
  const auto expect = [&](const auto& format) {
    const std::vector<std::byte> message = on_host(format, widened(values));
    EXPECT_TRUE(same_bits(encoded(format, values), message));
    std::vector<float> wanted(values.size());
    format.decode(message, wanted);
    for (float& value : wanted) value = Bfloat16(value);
    EXPECT_EQ(bits_of(widened(decoded<Bfloat16>(format, message, values.size()))), bits_of(wanted));
  };
  expect(Bf16());
  expect(Blockwise8());
}

TEST_F(CudaCodecs, refuse_what_is_not_as_it_was_sent_and_write_nothing) {
  const std::vector<float> values = numbers(600);
  for (const std::size_t at : {std::size_t{5}, std::size_t{28}, std::size_t{40}, std::size_t{600}}) {
    std::vector<std::byte> message = on_host(Blockwise8(), values);
    message[at] ^= std::byte{4};
    EXPECT_THROW(decoded<float>(Blockwise8(), message, values.size()), DecodeError) << at;
  }
  const std::vector<std::byte> of_others = on_host(Blockwise8{.block = 64}, values);
  EXPECT_THROW(decoded<float>(Blockwise8(), of_others, values.size()), DecodeError);
}

/// Products are rounded before they are added.
TEST_F(CudaCodecs, add_as_the_host_adds) {
  const Blockwise8 format;
  std::vector<float> sum = numbers(4321);
  const std::vector<float> others(sum.rbegin(), sum.rend());
  const std::vector<std::byte> message = on_host(format, others);
  std::vector<float> wanted(others.size());
  format.decode(message, wanted);
  for (std::size_t i = 0; i < sum.size(); ++i) wanted[i] = sum[i] + wanted[i];
  auto of_device = cuda_->allocate(sum.size() * sizeof(float), "values");
  auto pinned = cuda_->allocate_pinned(message.size(), "message");
  std::memcpy(pinned.data(), message.data(), message.size());
  lane_->submit([&](Cuda::Lane& lane) {
    lane.copy(of_device.data(), sum.data(), sum.size() * sizeof(float), Copy::to_device);
    compress::cuda::decode_payload(lane, format, static_cast<const std::byte*>(pinned.data()) + codec::message_head_bytes,
                                   static_cast<float*>(of_device.data()), std::int64_t{4321}, true);
    lane.copy(sum.data(), of_device.data(), sum.size() * sizeof(float), Copy::to_host);
  });
  lane_->synchronize();
  EXPECT_EQ(bits_of(sum), bits_of(wanted));
}

}  // namespace
}  // namespace reef::test
