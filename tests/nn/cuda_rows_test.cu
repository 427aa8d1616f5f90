// Kernels for rows on Cuda: the host's bits, and rows that do not know their neighbours.

#include <reef/nn/cuda/rows.cuh>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include <gtest/gtest.h>

#include <reef/core/bfloat16.hpp>
#include <reef/nn/host/rows.hpp>

#include "cuda_rows.hpp"

namespace reef::test {
namespace {

using graph::WeightForm;
using Elements = testing::Types<float, double, Bfloat16>;

template <class T>
class CudaRowsProduct : public CudaRows<T> {
protected:
  /// The packed bytes of w, (N, K) where it is transposed, and what rows times it are.
  struct Outcome {
    std::vector<std::byte> packed;
    std::vector<T> out;
  };

  template <class Device>
  static Outcome outcome_on(RowsOn<Device>& on, const std::vector<T>& in, const std::vector<T>& w, const std::vector<T>& bias,
                            std::int64_t R, std::int64_t K, std::int64_t N, nn::Transpose tw, WeightForm form) {
    using Kernels = nn::RowKernels<Device>;
    const Bytes bytes = Kernels::template packed_bytes<T>(K, N, form);
    void* const packed = on.memory(bytes);
    const T* const given = on.put(w);
    const T* const rows = on.put(in);
    const T* const added = bias.empty() ? nullptr : on.put(bias);
    T* const out = static_cast<T*>(on.memory(static_cast<Bytes>(R * N) * sizeof(T)));
    void* const workspace = on.memory(Kernels::template rows_product_workspace<T>(R, K, 2) + 64);
    on.run([&](auto& lane) {
      Kernels::template pack<T>(lane, packed, given, K, N, tw, form);
      Kernels::template rows_product<T>(lane, out, rows, packed, added, R, K, N, form, workspace);
    });
    return {on.template get<std::byte>(packed, bytes), on.template get<T>(out, static_cast<std::size_t>(R * N))};
  }
};
TYPED_TEST_SUITE(CudaRowsProduct, Elements);

TYPED_TEST(CudaRowsProduct, has_the_bytes_and_the_bits_of_the_host_in_every_form) {
  using T = TypeParam;
  RowsOn<Host> host;
  RowsOn<Cuda> cuda({.poison_freed = true});
  // Less than a panel and a pack; blocks and tiles that end in the middle; several panels, and groups of scales.
  struct Case {
    std::int64_t R, K, N;
  };
  for (const auto& [R, K, N] : {Case{1, 5, 3}, {2, 64, 32}, {8, 131, 70}, {9, 200, 33}, {41, 77, 65}, {3, 1500, 40}}) {
    const std::vector<T> w = drawn<T>(N * K, 1);
    const std::vector<T> in = drawn<T>(R * K, 3);
    for (const WeightForm form : weight_forms()) {
      for (const bool biased : {false, true}) {
        const std::vector<T> bias = biased ? drawn<T>(N, 2) : std::vector<T>();
        const nn::Transpose tw = biased ? nn::Transpose::yes : nn::Transpose::no;
        const auto wanted = this->outcome_on(host, in, w, bias, R, K, N, tw, form);
        const auto got = this->outcome_on(cuda, in, w, bias, R, K, N, tw, form);
        const std::string what = "form " + std::to_string(static_cast<int>(form)) + ", R " + std::to_string(R) + ", K " +
                                 std::to_string(K) + ", N " + std::to_string(N);
        EXPECT_EQ(got.packed, wanted.packed) << what;
        if constexpr (std::is_same_v<T, double>) {  // the host's vectors of doubles do not fuse
          for (std::size_t i = 0; i < got.out.size(); ++i) ASSERT_NEAR(got.out[i], wanted.out[i], 1e-12) << what;
        } else {
          EXPECT_EQ(got.out, wanted.out) << what;
        }
      }
    }
  }
}

TYPED_TEST(CudaRowsProduct, gives_a_row_the_same_bits_alone_and_beside_any_others) {
  using T = TypeParam;
  constexpr std::int64_t K = 150, N = 45, most = 70;
  RowsOn<Cuda> cuda({.poison_freed = true});
  const std::vector<T> w = drawn<T>(N * K, 1);
  const std::vector<T> in = drawn<T>(most * K, 3);
  for (const WeightForm form : weight_forms()) {
    const auto all = this->outcome_on(cuda, in, w, {}, most, K, N, nn::Transpose::yes, form).out;
    for (const std::int64_t R : {1, 8, 9, 33}) {
      for (const std::int64_t first : {std::int64_t{0}, most - R}) {
        const std::vector<T> rows(in.begin() + first * K, in.begin() + (first + R) * K);
        const auto got = this->outcome_on(cuda, rows, w, {}, R, K, N, nn::Transpose::yes, form).out;
        EXPECT_EQ(got, std::vector<T>(all.begin() + first * N, all.begin() + (first + R) * N))
            << "form " << static_cast<int>(form) << ", rows " << first << " to " << first + R;
      }
    }
  }
}

// Each weight is off by at most a part of the largest magnitude that scales it: half a step of int8; 0.0278 of the dynamic
// code beside 1; 0.152 of NormalFloat4, and what its nested scale is off. A sum of K products is off by K times as much.
TEST(CudaRowsProductForms, are_off_the_dense_product_by_no_more_than_their_codes) {
  std::string why;
  if (!device::cuda_available(&why)) GTEST_SKIP() << why;
  constexpr std::int64_t R = 5, K = 320, N = 50;
  RowsOn<Cuda> cuda({.poison_freed = true});
  using Kernels = nn::RowKernels<Cuda>;
  const std::vector<float> w = drawn<float>(N * K, 1);
  const std::vector<float> in = drawn<float>(R * K, 3);
  const std::array<double, 5> parts = {1e-6, 0x1p-9, 0.5 / 127 + 1e-6, 0.0279, 0.16};
  for (const WeightForm form : weight_forms()) {
    void* const packed = cuda.memory(Kernels::packed_bytes<float>(K, N, form));
    const float* const given = cuda.put(w);
    const float* const rows = cuda.put(in);
    float* const out = static_cast<float*>(cuda.memory(R * N * sizeof(float)));
    cuda.run([&](Cuda::Lane& lane) {
      Kernels::pack<float>(lane, packed, given, K, N, nn::Transpose::yes, form);
      Kernels::rows_product<float>(lane, out, rows, packed, nullptr, R, K, N, form, nullptr);
    });
    const auto got = cuda.get<float>(out, R * N);
    double worst = 0;
    for (std::int64_t r = 0; r < R; ++r) {
      for (std::int64_t n = 0; n < N; ++n) {
        double dense = 0;
        double magnitudes = 0;
        double largest = 0;
        for (std::int64_t k = 0; k < K; ++k) {
          const double x = in[static_cast<std::size_t>(r * K + k)];
          const double weight = w[static_cast<std::size_t>(n * K + k)];
          dense += x * weight;
          magnitudes += std::abs(x);
          largest = std::max(largest, std::abs(weight));
        }
        const double off = std::abs(got[static_cast<std::size_t>(r * N + n)] - dense) / (magnitudes * largest);
        worst = std::max(worst, off);
      }
    }
    const double part = parts[static_cast<std::size_t>(form)];
    EXPECT_LE(worst, part) << "form " << static_cast<int>(form);
    if (form != WeightForm::as_given) EXPECT_GT(worst, part / 1000) << "form " << static_cast<int>(form);
  }
}

}  // namespace
}  // namespace reef::test
