#include <reef/device/cuda.cuh>

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <reef/core/random.hpp>

namespace reef {
namespace {

using device::Copy;
using device::Cuda;

class CudaTransform : public testing::Test {
protected:
  void SetUp() override {
    std::string why;
    if (!device::cuda_available(&why)) GTEST_SKIP() << why;
    cuda_.emplace(Cuda::Options{.poison_freed = true});
    lane_.emplace(*cuda_, "compute");
  }

  /// Values on the device after `function(lane, pointer)`; a guard of one element behind them.
  template <class U, class F>
  std::vector<U> after(std::vector<U> values, const F& function) {
    values.push_back(U(77));
    const Bytes bytes = values.size() * sizeof(U);
    auto buffer = cuda_->allocate(bytes, "values");
    lane_->submit([&](Cuda::Lane& lane) {
      lane.copy(buffer.data(), values.data(), bytes, Copy::to_device);
      function(lane, static_cast<U*>(buffer.data()));
      lane.copy(values.data(), buffer.data(), bytes, Copy::to_host);
    });
    lane_->synchronize();
    EXPECT_EQ(values.back(), U(77)) << "something wrote behind the end";
    values.pop_back();
    return values;
  }

  std::optional<Cuda> cuda_;
  std::optional<Cuda::Lane> lane_;
};

constexpr std::int64_t sizes[] = {0, 1, 255, 256, 257, 4095, 4096, 4097, 100'000};

struct Visit {
  std::int32_t* visits;
  __device__ void operator()(std::int64_t i) const {
    visits[i] += static_cast<std::int32_t>(i % 7) + 1;
  }
};

TEST_F(CudaTransform, for_each_index_visits_every_index_once) {
  for (const std::int64_t n : sizes) {
    const auto count = static_cast<std::size_t>(n);
    std::vector<std::int32_t> wanted(count);
    for (std::size_t i = 0; i < count; ++i) wanted[i] = static_cast<std::int32_t>(i % 7) + 1;
    const auto got = after(
        std::vector<std::int32_t>(count, 0),
        [&](Cuda::Lane& lane, std::int32_t* at) { device::for_each_index(lane, n, Visit{at}); });
    EXPECT_EQ(got, wanted) << n;
  }
}

/// a + 2 b + index, exact in all elements.
template <class T>
struct AddTwice {
  __device__ sum_t<T> operator()(std::int64_t i, T a, T b) const {
    return a + 2 * b + static_cast<sum_t<T>>(i % 4);
  }
};

template <class T>
class CudaMap : public CudaTransform {};
using CudaMapElements = testing::Types<float, double, Bfloat16>;
TYPED_TEST_SUITE(CudaMap, CudaMapElements);

// From 16 bytes on by packs, and from one element behind that one by one, with the same results.
TYPED_TEST(CudaMap, computes_every_element_once_in_place_and_wherever_arrays_begin) {
  using T = TypeParam;
  for (const std::int64_t n : sizes) {
    const auto count = static_cast<std::size_t>(n);
    for (const std::int64_t begin : {0, 1}) {
      // Behind one another in one allocation: a, which takes the sum, and b.
      const std::int64_t second = (begin + n + 15) / 16 * 16 + begin;
      std::vector<T> values(static_cast<std::size_t>(second) + count, T(9));
      std::vector<T> wanted = values;
      for (std::size_t i = 0; i < count; ++i) {
        const auto a = static_cast<std::size_t>(begin) + i;
        const auto b = static_cast<std::size_t>(second) + i;
        values[a] = T(static_cast<float>(i % 5));
        values[b] = wanted[b] = T(static_cast<float>(i % 3));
        wanted[a] = T(static_cast<float>(i % 5 + 2 * (i % 3) + i % 4));
      }
      const auto got = this->after(values, [&](Cuda::Lane& lane, T* at) {
        const T* const a = at + begin;
        const T* const b = at + second;
        device::map(lane, n, at + begin, AddTwice<T>{}, a, b);
      });
      EXPECT_EQ(got, wanted) << n << " from " << begin;
    }
  }
}

template <class T>
struct Decay {
  T* w;
  T factor;
  template <class At>
  REEF_HOST_DEVICE void operator()(const At& at) const {
    using V = typename At::Vector;
    at.store(w, at.load(w) * V(factor));
  }
};

TEST_F(CudaTransform, a_rule_written_for_vectors_runs_element_by_element) {
  for (const std::int64_t n : sizes) {
    std::vector<double> values(static_cast<std::size_t>(n));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = normal(DrawKey{4}, i);
    std::vector<double> wanted = values;
    for (double& value : wanted) value *= 0.75;
    const auto got = after(values, [&](Cuda::Lane& lane, double* at) {
      device::transform_vectors<double>(lane, n, Decay<double>{at, 0.75});
    });
    EXPECT_EQ(got, wanted) << n;
  }
}

/// Weights of 2 bytes beside a master of 4, as an update rule has them.
struct DecayMaster {
  Bfloat16* w;
  float* master;
  template <class At>
  REEF_HOST_DEVICE void operator()(const At& at) const {
    using V = typename At::Vector;
    const V decayed = at.load(master) * V(0.75F) + at.load(w);
    at.store(master, decayed);
    at.store(w, decayed);
  }
};

TEST_F(CudaTransform, a_rule_of_bf16_computes_in_fp32_and_rounds_what_it_stores) {
  for (const std::int64_t n : sizes) {
    const auto count = static_cast<std::size_t>(n);
    std::vector<Bfloat16> weights(count);
    std::vector<float> master(count);
    for (std::size_t i = 0; i < count; ++i) {
      master[i] = static_cast<float>(normal(DrawKey{6}, i));
      weights[i] = Bfloat16(master[i]);
    }
    std::vector<float> wanted(count);
    for (std::size_t i = 0; i < count; ++i) wanted[i] = std::fma(master[i], 0.75F, weights[i]);
    auto w = cuda_->allocate(static_cast<Bytes>(n) * sizeof(Bfloat16), "weights");
    std::vector<Bfloat16> rounded(count);
    const auto got = after(master, [&](Cuda::Lane& lane, float* at) {
      auto* const narrow = static_cast<Bfloat16*>(w.data());
      lane.copy(narrow, weights.data(), w.bytes(), Copy::to_device);
      device::transform_vectors<Bfloat16>(lane, n, DecayMaster{narrow, at});
      lane.copy(rounded.data(), narrow, w.bytes(), Copy::to_host);
    });
    for (std::size_t i = 0; i < count; ++i) {
      EXPECT_FLOAT_EQ(got[i], wanted[i]) << n;  // a fused multiply-add or none
      EXPECT_EQ(rounded[i].bits(), Bfloat16(got[i]).bits()) << n;
    }
  }
}

TEST_F(CudaTransform, sums_of_squares_are_of_whole_blocks_and_carry_nans) {
  for (const std::int64_t n : sizes) {
    for (const std::int64_t block : {std::int64_t{100}, std::int64_t{4096}}) {
      std::vector<float> values(static_cast<std::size_t>(n));
      for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = static_cast<float>(normal(DrawKey{5}, i));
      const auto of_block = static_cast<std::size_t>(block);
      std::vector<double> wanted(static_cast<std::size_t>((n + block - 1) / block), 0.0);
      for (std::size_t i = 0; i < values.size(); ++i) {
        wanted[i / of_block] += static_cast<double>(values[i]) * static_cast<double>(values[i]);
      }
      const auto sums = [&] {
        auto x = cuda_->allocate(static_cast<Bytes>(n) * sizeof(float), "values");
        return after(std::vector<double>(wanted.size(), -1.0), [&](Cuda::Lane& lane, double* to) {
          lane.copy(x.data(), values.data(), x.bytes(), Copy::to_device);
          device::block_sums_of_squares(lane, n, static_cast<const float*>(x.data()), to, block);
        });
      };
      const std::vector<double> got = sums();
      for (std::size_t i = 0; i < got.size(); ++i)
        EXPECT_NEAR(got[i], wanted[i], 1e-12 * wanted[i]);
      EXPECT_EQ(sums(), got) << "not the same bits again";
      if (n == 0) continue;
      values.back() = std::numeric_limits<float>::quiet_NaN();
      EXPECT_TRUE(std::isnan(sums().back()));
    }
  }
}

}  // namespace
}  // namespace reef
