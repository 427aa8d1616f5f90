// Top-k on a GPU: the host's messages, byte by byte.

#include <reef/compress/cuda/top_k.cuh>

#include <gtest/gtest.h>

#include "support/same_bits.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include <reef/core/random.hpp>

namespace reef::test {
namespace {

using device::Copy;
using device::Cuda;

class CudaTopK : public testing::Test {
protected:
  void SetUp() override {
    std::string why;
    if (!device::cuda_available(&why)) GTEST_SKIP() << why;
    cuda_.emplace(Cuda::Options{.poison_freed = true});
    lane_.emplace(*cuda_, "compute");
    encoder_.emplace(*cuda_);
  }

  void expect_the_hosts(double ratio, const std::vector<float>& values) {
    const codec::TopK format{ratio};
    const auto n = static_cast<std::int64_t>(values.size());
    std::vector<std::byte> wanted(format.encoded_bytes(n));
    wanted.resize(format.encode(values, wanted));
    std::vector<std::byte> message(format.encoded_bytes(n));
    auto of_device = cuda_->allocate(values.size() * sizeof(float), "values");
    lane_->submit([&](Cuda::Lane& lane) {
      lane.copy(of_device.data(), values.data(), values.size() * sizeof(float), Copy::to_device);
      message.resize(encoder_->encode(lane, format, static_cast<const float*>(of_device.data()), n, message));
    });
    lane_->synchronize();
    EXPECT_TRUE(same_bits(message, wanted)) << "one in " << ratio << " of " << n;
  }

  std::optional<Cuda> cuda_;
  std::optional<Cuda::Lane> lane_;
  std::optional<compress::cuda::TopKEncoder> encoder_;
};

/// So many numbers, drawn; of `distinct` magnitudes if that is not 0.
std::vector<float> drawn(std::size_t n, std::uint32_t distinct = 0) {
  std::vector<float> values(n);
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint32_t bits = random_bits({3, 0, 0, 0}, i);
    const auto magnitude = static_cast<float>(distinct == 0 ? bits >> 8 : (bits >> 8) % distinct);
    values[i] = (bits & 1U) != 0 ? -magnitude : magnitude;
  }
  return values;
}

TEST_F(CudaTopK, makes_the_messages_of_the_host) {
  for (const std::size_t n : {std::size_t{1}, std::size_t{7}, std::size_t{1000}, std::size_t{70'000}, std::size_t{1'000'003}, std::size_t{0}}) {
    for (const double ratio : {1.0, 3.0, 100.0}) expect_the_hosts(ratio, drawn(n));
  }
}

TEST_F(CudaTopK, takes_the_lower_of_two_as_large) {
  for (const std::uint32_t distinct : {1U, 2U, 50U}) {
    for (const double ratio : {1.5, 7.0, 1000.0}) expect_the_hosts(ratio, drawn(100'000, distinct));
  }
}

TEST_F(CudaTopK, ranks_what_is_not_finite_above_all) {
  std::vector<float> values = drawn(10'000);
  values[17] = -std::numeric_limits<float>::infinity();
  values[9000] = std::numeric_limits<float>::quiet_NaN();
  for (const double ratio : {5000.0, 10'000.0, 10.0}) expect_the_hosts(ratio, values);
}

TEST_F(CudaTopK, refuses_a_ratio_below_1) {
  EXPECT_THROW(encoder_->encode(*lane_, codec::TopK{0.5}, nullptr, 10, {}), OptionError);
}

}  // namespace
}  // namespace reef::test
