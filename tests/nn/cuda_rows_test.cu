// Kernels for rows on Cuda: the host's bits, and rows that do not know their neighbours.

#include <reef/nn/cuda/rows.cuh>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
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
                            std::int64_t R, std::int64_t K, std::int64_t N, nn::Transpose tw, WeightForm form,
                            std::int64_t outliers = 0, std::span<const float> magnitudes = {}) {
    using Kernels = nn::RowKernels<Device>;
    const Bytes bytes = Kernels::template packed_bytes<T>(K, N, form, outliers);
    void* const packed = on.memory(bytes);
    const T* const given = on.put(w);
    const T* const rows = on.put(in);
    const T* const added = bias.empty() ? nullptr : on.put(bias);
    T* const out = static_cast<T*>(on.memory(static_cast<Bytes>(R * N) * sizeof(T)));
    void* const workspace = on.memory(Kernels::template rows_product_workspace<T>(R, K, 2, outliers) + 64);
    on.run([&](auto& lane) {
      Kernels::template pack<T>(lane, packed, given, K, N, tw, form, outliers, magnitudes);
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

TYPED_TEST(CudaRowsProduct, adds_outliers_of_int8_with_the_bytes_and_the_bits_of_the_host) {
  using T = TypeParam;
  RowsOn<Host> host;
  RowsOn<Cuda> cuda({.poison_freed = true});
  struct Case {
    std::int64_t R, K, N, outliers;
  };
  // One outlier, headers of one and several 64 bytes, and all inputs; one row, a tile and several.
  for (const auto& [R, K, N, outliers] :
       {Case{1, 5, 3, 1}, {1, 200, 70, 2}, {8, 131, 33, 15}, {9, 131, 70, 16}, {41, 77, 65, 40}, {3, 64, 32, 64}}) {
    std::vector<T> w = drawn<T>(N * K, 1);
    for (std::int64_t n = 0; n < N; ++n) w[static_cast<std::size_t>(n * K + K / 2)] = T(40.0F);
    const std::vector<T> in = drawn<T>(R * K, 3);
    std::vector<float> magnitudes(static_cast<std::size_t>(K));
    for (std::size_t k = 0; k < magnitudes.size(); ++k) magnitudes[k] = static_cast<float>(k * 37 % magnitudes.size());
    for (const bool calibrated : {false, true}) {
      const std::vector<T> bias = calibrated ? drawn<T>(N, 2) : std::vector<T>();
      const std::span<const float> given = calibrated ? std::span<const float>(magnitudes) : std::span<const float>();
      const auto on = [&](auto& device) {
        return this->outcome_on(device, in, w, bias, R, K, N, nn::Transpose::yes, WeightForm::int8, outliers, given);
      };
      const auto wanted = on(host);
      const auto got = on(cuda);
      const std::string what = "R " + std::to_string(R) + ", K " + std::to_string(K) + ", N " + std::to_string(N) + ", " +
                               std::to_string(outliers) + " outliers";
      EXPECT_EQ(got.packed, wanted.packed) << what;
      const auto none = this->outcome_on(cuda, in, w, bias, R, K, N, nn::Transpose::yes, WeightForm::int8);
      if (K > 5) EXPECT_NE(got.out, none.out) << what;  // few numbers of bf16 may round to the same
      if constexpr (std::is_same_v<T, double>) {  // the host's vectors of doubles do not fuse
        for (std::size_t i = 0; i < got.out.size(); ++i) ASSERT_NEAR(got.out[i], wanted.out[i], 1e-11) << what;
      } else {
        EXPECT_EQ(got.out, wanted.out) << what;
      }
      if (R == 1) continue;
      const std::vector<T> last(in.end() - K, in.end());
      const auto alone = this->outcome_on(cuda, last, w, bias, 1, K, N, nn::Transpose::yes, WeightForm::int8, outliers, given);
      EXPECT_EQ(alone.out, std::vector<T>(got.out.end() - N, got.out.end())) << what << ": a row alone";
    }
  }
}

TYPED_TEST(CudaRowsProduct, reads_vectors_of_a_table_with_outliers_of_int8_as_the_host_does) {
  using T = TypeParam;
  constexpr std::int64_t C = 40, V = 70, outliers = 5;
  const std::vector<T> table = drawn<T>(V * C, 1);
  const std::vector<std::int32_t> tokens{0, 33, 69, 5};
  const std::vector<graph::Row> rows{{0, 0}, {0, 1}, {1, 0}, {1, 1}};
  const auto vectors = [&](auto& on, auto kernels) {
    using Kernels = decltype(kernels);
    void* const packed = on.memory(Kernels::template packed_bytes<T>(C, V, WeightForm::int8, outliers));
    const T* const given = on.put(table);
    const std::int32_t* const read = on.put(tokens);
    T* const out = static_cast<T*>(on.memory(static_cast<Bytes>(std::ssize(tokens) * C) * sizeof(T)));
    on.run([&](auto& lane) {
      Kernels::template pack<T>(lane, packed, given, C, V, nn::Transpose::yes, WeightForm::int8, outliers);
      Kernels::template rows_vectors<T>(lane, out, read, packed, nullptr, rows, C, V, 0, WeightForm::int8);
    });
    return on.template get<T>(out, tokens.size() * static_cast<std::size_t>(C));
  };
  RowsOn<Host> host;
  RowsOn<Cuda> cuda({.poison_freed = true});
  const std::vector<T> got = vectors(cuda, nn::RowKernels<Cuda>());
  EXPECT_EQ(got, vectors(host, nn::RowKernels<Host>()));
  std::int64_t as_given = 0;
  for (std::size_t c = 0; c < C; ++c) as_given += got[C + c] == table[33 * C + c] ? 1 : 0;
  EXPECT_GE(as_given, outliers);
  EXPECT_LT(as_given, C / 2);
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

/// Rows of two sequences, the second of which is short, with pages of their own behind another operator's states.
template <class T>
class CudaRowsAttention : public CudaRows<T> {
protected:
  using E = sum_t<T>;
  struct Case {
    std::int64_t H, G, D, window;
    bool alibi;
    graph::StateForm states;
    std::int64_t length = 70;
    [[nodiscard]] std::string text() const {
      return "H " + std::to_string(H) + ", D " + std::to_string(D) + ", window " + std::to_string(window) + ", length " +
             std::to_string(length) + ", form " + std::to_string(static_cast<int>(states));
    }
  };
  struct Outcome {
    std::vector<std::byte> pages;
    std::vector<T> out;
    std::vector<T> again;  // of the last row of the first sequence, alone
  };

  template <class Device>
  static Outcome outcome_on(RowsOn<Device>& on, const Case& c) {
    using Kernels = nn::RowKernels<Device>;
    constexpr std::int64_t other = 5;
    constexpr Bytes offset = 128;
    const std::int64_t R = c.length + other;
    const Bytes bytes = offset + 64 * Kernels::template rows_attention_state<T>(c.G, c.D, c.states);
    const std::int64_t count = (c.length + 63) / 64;
    auto* const memory = static_cast<std::byte*>(on.memory(bytes * static_cast<Bytes>(count + 1)));
    std::vector<std::byte*> addresses;
    for (std::int64_t i = 0; i <= count; ++i) addresses.push_back(memory + static_cast<Bytes>(count - i) * bytes);
    const std::array<graph::Pages, 2> pages = {graph::Pages(addresses).first(static_cast<std::size_t>(count)),
                                               graph::Pages(addresses).subspan(static_cast<std::size_t>(count))};
    std::vector<graph::Row> rows;
    for (std::int64_t i = 0; i < c.length; ++i) rows.push_back({0, i});
    for (std::int64_t i = 0; i < other; ++i) rows.push_back({1, i});
    const T* const q = on.put(drawn<T>(R * (c.H * c.D + 3), 1));
    const T* const k = on.put(drawn<T>(R * c.G * c.D, 2));
    const T* const v = on.put(drawn<T>(R * c.G * c.D, 3));
    T* const out = static_cast<T*>(on.memory(static_cast<Bytes>(R * c.H * c.D) * sizeof(T)));
    const graph::RowOptions options{.positions = c.length, .states = c.states};
    void* const workspace = on.memory(Kernels::template rows_attention_workspace<T>(R, c.H, c.D, c.length, 2) + 64);
    const auto attend = [&](T* to, std::int64_t first, std::int64_t number) {
      const std::int64_t pitch = c.H * c.D + 3;
      on.run([&](auto& lane) {
        Kernels::template rows_attention<T>(lane, to, q + first * pitch, k + first * c.G * c.D, v + first * c.G * c.D, pitch,
                                            c.G * c.D, std::span(rows).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(number)),
                                            pages, offset, c.H, c.G, c.D, c.window, c.alibi, options, workspace);
      });
    };
    attend(out, 0, R);
    T* const alone = static_cast<T*>(on.memory(static_cast<Bytes>(c.H * c.D) * sizeof(T)));
    attend(alone, c.length - 1, 1);
    return {on.template get<std::byte>(memory, bytes * static_cast<Bytes>(count + 1)),
            on.template get<T>(out, static_cast<std::size_t>(R * c.H * c.D)),
            on.template get<T>(alone, static_cast<std::size_t>(c.H * c.D))};
  }
};
TYPED_TEST_SUITE(CudaRowsAttention, Elements);

TYPED_TEST(CudaRowsAttention, has_the_hosts_pages_and_agrees_with_the_host_in_every_form) {
  using T = TypeParam;
  using enum graph::StateForm;
  RowsOn<Host> host;
  RowsOn<Cuda> cuda({.poison_freed = true});
  using Setting = typename TestFixture::Case;
  std::vector<Setting> cases;
  for (const auto form : {as_given, bf16, int8}) {
    cases.push_back({4, 2, 10, 0, false, form});
    cases.push_back({2, 2, 130, 20, true, form});  // more channels than threads
  }
  cases.push_back({1, 1, 5, 0, false, as_given, 1030});  // three parts of 512 positions
  cases.push_back({1, 1, 5, 40, true, int8, 540});       // a window that begins in the part before
  for (const Setting& c : cases) {
    const auto wanted = this->outcome_on(host, c);
    const auto got = this->outcome_on(cuda, c);
    EXPECT_EQ(got.pages, wanted.pages) << c.text();
    const double bound = std::is_same_v<T, double> ? 1e-14 : std::is_same_v<T, Bfloat16> ? 0x1p-8 : 2e-6;
    for (std::size_t i = 0; i < wanted.out.size(); ++i) {
      ASSERT_NEAR(static_cast<double>(got.out[i]), static_cast<double>(wanted.out[i]), bound) << c.text() << ", element " << i;
    }
    const auto own = got.out.begin() + (c.length - 1) * c.H * c.D;
    EXPECT_EQ(got.again, std::vector<T>(own, own + c.H * c.D)) << c.text() << ": a row alone";
  }
}

}  // namespace
}  // namespace reef::test
