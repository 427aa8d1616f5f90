#include <reef/nn/cuda.cuh>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <reef/core/element.hpp>

#include <nn/cuda_reference.hpp>

namespace reef {
namespace {

using device::Copy;
using device::Cuda;
using nn::Transpose;
using reef::test::reference::Index;
using reef::test::reference::Tokens;
using reef::test::reference::Values;
using Kernels = nn::Kernels<Cuda>;

/// A device and a lane; vectors go to the device and back. Behind each lies a guard.
template <class T>
class CudaKernels : public testing::Test {
protected:
  using Sum = sum_t<T>;
  static constexpr std::size_t guard = 64;

  template <class U>
  class Memory {
  public:
    Memory(CudaKernels& test, const std::vector<U>& values)
        : test_(test),
          count_(values.size()),
          buffer_(test.cuda_->allocate(bytes() + guard, "test")) {
      std::vector<unsigned char> staging(bytes() + guard, 0xA5);
      if (count_ != 0) std::memcpy(staging.data(), values.data(), bytes());
      test_.run([&](Cuda::Lane& lane) {
        lane.copy(buffer_.data(), staging.data(), staging.size(), Copy::to_device);
      });
    }
    operator U*() const { return static_cast<U*>(buffer_.data()); }  // NOLINT: as a kernel takes it

    std::vector<U> get() const {
      std::vector<unsigned char> staging(bytes() + guard);
      test_.run([&](Cuda::Lane& lane) {
        lane.copy(staging.data(), buffer_.data(), staging.size(), Copy::to_host);
      });
      for (std::size_t i = bytes(); i < staging.size(); ++i) {
        EXPECT_EQ(staging[i], 0xA5) << "something wrote behind the end";
      }
      std::vector<U> values(count_);
      if (count_ != 0) std::memcpy(values.data(), staging.data(), bytes());
      return values;
    }

  private:
    [[nodiscard]] std::size_t bytes() const { return count_ * sizeof(U); }
    CudaKernels& test_;
    std::size_t count_;
    Cuda::Buffer buffer_;
  };

  void SetUp() override {
    std::string why;
    if (!device::cuda_available(&why)) GTEST_SKIP() << why;
    cuda_.emplace(Cuda::Options{.poison_freed = true});
    lane_.emplace(*cuda_, "compute");
  }

  template <class F>
  void run(F&& function) {
    lane_->submit(std::forward<F>(function));
    lane_->synchronize();
  }

  /// Values of T, so that the reference in fp64 sees the same numbers.
  template <class U = T>
  static std::vector<U> noise(Index n, std::uint32_t stream, double size = 1) {
    std::vector<U> values(static_cast<std::size_t>(n));
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<U>(size * normal(DrawKey{11, 0, 0, stream}, i));
    }
    return values;
  }
  template <class U = T>
  static std::vector<U> nans(Index n) {
    return std::vector<U>(static_cast<std::size_t>(n),
                          static_cast<U>(std::numeric_limits<float>::quiet_NaN()));
  }
  template <class U = T>
  static std::vector<U> numbers(std::initializer_list<double> values) {
    std::vector<U> result;
    for (const double value : values) result.push_back(static_cast<U>(value));
    return result;
  }
  template <class U>
  static Values wide(const std::vector<U>& values) {
    return Values(values.begin(), values.end());
  }

  template <class U>
  Memory<U> device(const std::vector<U>& values) {
    return Memory<U>(*this, values);
  }
  Memory<unsigned char> workspace(Bytes bytes) {
    return Memory<unsigned char>(*this, std::vector<unsigned char>(bytes, 0xFF));
  }

  /// |got - wanted| <= factor eps max(|wanted|, 1) sqrt(terms), element by element, eps of what is
  /// summed in; of bf16 besides a few roundings to 2^-9, more of them where the factor is large.
  template <class U>
  static void expect_near(const std::vector<U>& got, const Values& wanted, Index terms,
                          const std::string& what, double factor = 16) {
    ASSERT_EQ(got.size(), wanted.size()) << what;
    const double epsilon = static_cast<double>(std::numeric_limits<Sum>::epsilon());
    const double rounded = std::is_same_v<U, Sum> ? 0 : factor <= 16 ? 0x1p-7 : 0x1p-6;
    double largest = 1;
    for (const double value : wanted) largest = std::max(largest, std::abs(value));
    const double allowed =
        (factor * epsilon * std::sqrt(static_cast<double>(terms + 1)) + rounded) * largest;
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
      if (std::abs(static_cast<double>(got[i]) - wanted[i]) <= allowed) continue;
      if (wrong++ == 0) {
        ADD_FAILURE() << what << "[" << i << "] is " << static_cast<Sum>(got[i]) << ", wanted "
                      << wanted[i] << " +- " << allowed;
      }
    }
    EXPECT_EQ(wrong, 0U) << what;
  }

  /// Bitwise, so that NaNs and signs of zero count.
  template <class U>
  static bool same_bits(const std::vector<U>& a, const std::vector<U>& b) {
    return a.size() == b.size() &&
           (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(U)) == 0);
  }

  static Values sum(const Values& a, const Values& b) {
    Values result = a;
    for (std::size_t i = 0; i < b.size(); ++i) result[i] += b[i];
    return result;
  }

  std::optional<Cuda> cuda_;
  std::optional<Cuda::Lane> lane_;
};

using Elements = testing::Types<float, double, Bfloat16>;
TYPED_TEST_SUITE(CudaKernels, Elements);

#define REEF_TEST_NAMES                \
  using T = TypeParam;                 \
  using E [[maybe_unused]] = sum_t<T>; \
  using Lane = Cuda::Lane;             \
  namespace reference = reef::test::reference

TYPED_TEST(CudaKernels, gemm_multiplies_every_combination_of_transposes_strides_and_scales) {
  REEF_TEST_NAMES;
  const Index shapes[][3] = {{1, 1, 1}, {3, 5, 7}, {33, 65, 17}, {130, 1, 31}, {1, 129, 64}};
  for (const auto& [m, n, k] : shapes) {
    for (const bool ta : {false, true}) {
      for (const bool tb : {false, true}) {
        const Index lda = (ta ? m : k) + 2, ldb = (tb ? k : n) + 1, ldc = n + 3;
        const auto a = this->noise((ta ? k : m) * lda, 1);
        const auto b = this->noise((tb ? n : k) * ldb, 2);
        const auto c = this->noise(m * ldc, 3);
        const auto c_sums = this->template noise<E>(m * ldc, 4);
        const Values product =
            reference::product(ta, tb, m, n, k, this->wide(a), lda, this->wide(b), ldb);
        auto da = this->device(a), db = this->device(b), dc = this->device(c);
        auto ds = this->device(c_sums);
        this->run([&](Lane& lane) {
          const Transpose turn_a = ta ? Transpose::yes : Transpose::no;
          const Transpose turn_b = tb ? Transpose::yes : Transpose::no;
          Kernels::template gemm<T, T>(lane, turn_a, turn_b, m, n, k, E(0.5), da, lda, db, ldb,
                                       E(-2), dc, ldc, nullptr);
          Kernels::template gemm<T, E>(lane, turn_a, turn_b, m, n, k, E(0.5), da, lda, db, ldb,
                                       E(-2), ds, ldc, nullptr);
        });
        const auto scaled = [&](Values wanted) {
          for (Index i = 0; i < m * n; ++i) {
            double& element = reference::at(wanted, i / n * ldc + i % n);
            element = 0.5 * reference::at(product, i) - 2 * element;
          }
          return wanted;
        };
        const std::string what =
            "gemm " + std::to_string(m) + " " + std::to_string(ta) + std::to_string(tb);
        this->expect_near(dc.get(), scaled(this->wide(c)), k, what);
        this->expect_near(ds.get(), scaled(this->wide(c_sums)), k, what + " into sums");
      }
    }
  }
}

TYPED_TEST(CudaKernels, gemm_reads_no_target_that_beta_0_overwrites_and_no_factor_without_terms) {
  REEF_TEST_NAMES;
  auto a = this->device(this->noise(6, 1)), b = this->device(this->noise(6, 2));
  auto fresh = this->device(this->nans(4)), zeroed = this->device(this->nans(4));
  auto doubled = this->device(this->numbers({1, 2, 3, 4}));
  this->run([&](Lane& lane) {
    const auto no = Transpose::no;
    Kernels::template gemm<T, T>(lane, no, no, 2, 2, 3, E(1), a, 3, b, 2, E(0), fresh, 2, nullptr);
    Kernels::template gemm<T, T>(lane, no, no, 2, 2, 0, E(1), a, 3, b, 2, E(0), zeroed, 2, nullptr);
    Kernels::template gemm<T, T>(lane, no, no, 2, 2, 0, E(1), a, 3, b, 2, E(2), doubled, 2,
                                 nullptr);
    Kernels::template gemm<T, T>(lane, no, no, 0, 2, 3, E(1), a, 3, b, 2, E(0), doubled, 2,
                                 nullptr);
  });
  for (const T value : fresh.get()) EXPECT_TRUE(std::isfinite(value));
  EXPECT_EQ(zeroed.get(), this->numbers({0, 0, 0, 0}));
  EXPECT_EQ(doubled.get(), this->numbers({2, 4, 6, 8}));
}

TYPED_TEST(CudaKernels, linear_and_its_gradients_agree_with_loops) {
  REEF_TEST_NAMES;
  const Index shapes[][3] = {{1, 1, 1}, {5, 33, 7}, {131, 16, 45}, {700, 9, 35}};
  for (const auto& [R, K, N] : shapes) {
    for (const bool turned : {false, true}) {
      const Transpose tw = turned ? Transpose::yes : Transpose::no;
      const std::string what = "linear R " + std::to_string(R) + (turned ? " turned" : "");
      const auto in = this->noise(R * K, 1), w = this->noise(K * N, 2), bias = this->noise(N, 3);
      const auto d_out = this->noise(R * N, 4);
      const auto former_in = this->noise(R * K, 5);
      const auto former_w = this->template noise<E>(K * N, 6);
      const auto former_bias = this->template noise<E>(N, 7);
      const Values wide_in = this->wide(in), wide_w = this->wide(w), wide_d = this->wide(d_out);
      const Index ldw = turned ? K : N;
      Values out = reference::product(false, turned, R, N, K, wide_in, K, wide_w, ldw);
      Values d_bias = reference::zeros(N);
      for (Index i = 0; i < R * N; ++i) {
        reference::at(out, i) += static_cast<double>(bias[static_cast<std::size_t>(i % N)]);
        reference::at(d_bias, i % N) += reference::at(wide_d, i);
      }
      const Values d_in = reference::product(false, !turned, R, K, N, wide_d, N, wide_w, ldw);
      const Values d_w = turned ? reference::product(true, false, N, K, R, wide_d, N, wide_in, K)
                                : reference::product(true, false, K, N, R, wide_in, K, wide_d, N);

      auto gpu_in = this->device(in), gpu_w = this->device(w), gpu_bias = this->device(bias);
      auto gpu_d_out = this->device(d_out), gpu_out = this->device(this->nans(R * N));
      auto gpu_d_in = this->device(this->nans(R * K));
      auto gpu_d_w = this->device(this->template nans<E>(K * N));
      auto gpu_d_bias = this->device(this->template nans<E>(N));
      this->run([&](Lane& lane) {
        Kernels::template linear_forward<T>(lane, gpu_out, gpu_in, gpu_w, gpu_bias, R, K, N, tw,
                                            nullptr);
        Kernels::template linear_backward_input<T>(lane, gpu_d_in, gpu_d_out, gpu_w, R, K, N, tw,
                                                   false, nullptr);
        Kernels::template linear_backward_weight<T>(lane, gpu_d_w, gpu_d_bias, gpu_in, gpu_d_out, R,
                                                    K, N, tw, false, nullptr);
      });
      this->expect_near(gpu_out.get(), out, K, what + " out");
      this->expect_near(gpu_d_in.get(), d_in, N, what + " d_in");
      this->expect_near(gpu_d_w.get(), d_w, R, what + " d_w");
      this->expect_near(gpu_d_bias.get(), d_bias, R, what + " d_bias");

      auto sum_in = this->device(former_in);
      auto sum_w = this->device(former_w);
      auto sum_bias = this->device(former_bias);
      this->run([&](Lane& lane) {
        Kernels::template linear_backward_input<T>(lane, sum_in, gpu_d_out, gpu_w, R, K, N, tw,
                                                   true, nullptr);
        Kernels::template linear_backward_weight<T>(lane, sum_w, sum_bias, gpu_in, gpu_d_out, R, K,
                                                    N, tw, true, nullptr);
        Kernels::template linear_forward<T>(lane, gpu_out, gpu_in, gpu_w, nullptr, R, K, N, tw,
                                            nullptr);
      });
      this->expect_near(sum_in.get(), this->sum(this->wide(former_in), d_in), N,
                        what + " d_in added");
      this->expect_near(sum_w.get(), this->sum(this->wide(former_w), d_w), R, what + " d_w added");
      this->expect_near(sum_bias.get(), this->sum(this->wide(former_bias), d_bias), R,
                        what + " bias added");
      this->expect_near(gpu_out.get(),
                        reference::product(false, turned, R, N, K, wide_in, K, wide_w, ldw), K,
                        what + " without bias");
    }
  }
}

TYPED_TEST(CudaKernels, gelu_and_its_gradient_agree_with_the_formula_also_far_out) {
  REEF_TEST_NAMES;
  for (const Index n : {0, 1, 257, 1000}) {
    auto in = this->noise(n, 1, 3);
    if (n > 4) in[0] = T(60), in[1] = T(-60), in[2] = T(0), in[3] = T(-6);
    const auto d_out = this->noise(n, 2), former = this->noise(n, 3);
    Values out(in.size()), d_in(in.size());
    for (std::size_t i = 0; i < in.size(); ++i) {
      out[i] = reference::gelu(static_cast<double>(in[i]));
      d_in[i] = static_cast<double>(d_out[i]) * reference::gelu_slope(static_cast<double>(in[i]));
    }
    auto gpu_in = this->device(in), gpu_out = this->device(this->nans(n)),
         gpu_d = this->device(d_out);
    auto sum = this->device(former);
    this->run([&](Lane& lane) {
      Kernels::template gelu_forward<T>(lane, gpu_out, gpu_in, n);
      Kernels::template gelu_backward<T>(lane, sum, gpu_d, gpu_in, n, true);
      Kernels::template gelu_backward<T>(lane, gpu_d, gpu_d, gpu_in, n, false);
    });
    this->expect_near(gpu_out.get(), out, 1, "gelu");
    this->expect_near(sum.get(), this->sum(this->wide(former), d_in), 1, "gelu d_in added");
    this->expect_near(gpu_d.get(), d_in, 1, "gelu d_in in place");
  }
}

TYPED_TEST(CudaKernels, layer_norm_and_its_gradients_agree_with_loops) {
  REEF_TEST_NAMES;
  const Index shapes[][2] = {{1, 1}, {9, 3}, {65, 33}, {300, 128}, {8, 257}};
  for (const auto& [R, C] : shapes) {
    const auto in = this->noise(R * C, 1, 2), weight = this->noise(C, 2), bias = this->noise(C, 3);
    const auto d_out = this->noise(R * C, 4);
    const reference::LayerNorm wanted(this->wide(in), this->wide(weight), this->wide(bias),
                                      this->wide(d_out), R, C, 1e-5);
    auto x = this->device(in), w = this->device(weight), b = this->device(bias),
         dy = this->device(d_out);
    const auto former_w = this->template noise<E>(C, 5), former_b = this->template noise<E>(C, 6);
    auto out = this->device(this->nans(R * C)), dx = this->device(this->nans(R * C));
    auto mean = this->device(this->template nans<E>(R)),
         rstd = this->device(this->template nans<E>(R));
    auto dw = this->device(this->template nans<E>(C)), db = this->device(this->template nans<E>(C));
    auto sum_x = this->device(in);
    auto sum_w = this->device(former_w), sum_b = this->device(former_b);
    auto space = this->workspace(Kernels::template layer_norm_backward_workspace<T>(R, C));
    this->run([&](Lane& lane) {
      Kernels::template layer_norm_forward<T>(lane, out, mean, rstd, x, w, b, R, C, E(1e-5));
      Kernels::template layer_norm_backward<T>(lane, dx, dw, db, dy, x, w, mean, rstd, R, C, false,
                                               false, space);
      Kernels::template layer_norm_backward<T>(lane, sum_x, sum_w, sum_b, dy, x, w, mean, rstd, R,
                                               C, true, true, space);
    });
    // With C = 1 the gradient of the input is a difference of equal numbers times 316.
    const double factor = C == 1 ? 1000 : 64;
    this->expect_near(out.get(), wanted.out, C, "layer norm out", factor);
    this->expect_near(mean.get(), wanted.mean, C, "layer norm mean");
    this->expect_near(rstd.get(), wanted.rstd, C, "layer norm rstd");
    this->expect_near(dx.get(), wanted.d_in, C, "layer norm d_in", factor);
    this->expect_near(dw.get(), wanted.d_weight, R, "layer norm d_weight", factor);
    this->expect_near(db.get(), wanted.d_bias, R, "layer norm d_bias");
    this->expect_near(sum_x.get(), this->sum(this->wide(in), wanted.d_in), C, "d_in added", factor);
    this->expect_near(sum_w.get(), this->sum(this->wide(former_w), wanted.d_weight), R,
                      "d_weight added", factor);
    this->expect_near(sum_b.get(), this->sum(this->wide(former_b), wanted.d_bias), R,
                      "d_bias added");
    // The gradient may take the place of what it is made from.
    this->run([&](Lane& lane) {
      Kernels::template layer_norm_backward<T>(lane, dy, dw, db, dy, x, w, mean, rstd, R, C, false,
                                               false, space);
    });
    EXPECT_TRUE(this->same_bits(dy.get(), dx.get()));
    space.get();
  }
}

TYPED_TEST(CudaKernels, attention_and_its_gradient_agree_with_loops) {
  REEF_TEST_NAMES;
  const Index shapes[][4] = {{1, 1, 1, 1},   {2, 3, 8, 2},    {1, 65, 5, 1},    {2, 67, 48, 4},
                             {1, 33, 65, 1}, {1, 70, 128, 1}, {1, 130, 128, 2}, {3, 16, 30, 2}};
  const DrawKey key{5, 1000, 2, 3};
  for (const auto& [B, L, C, H] : shapes) {
    for (const float rate : {0.0F, 0.3F}) {
      const std::string what = "attention B " + std::to_string(B) + " T " + std::to_string(L) +
                               " C " + std::to_string(C) + " H " + std::to_string(H);
      const auto qkv = this->noise(B * L * 3 * C, 1), d_out = this->noise(B * L * C, 2);
      const reference::Attention wanted(this->wide(qkv), this->wide(d_out), B, L, C, H, rate, key);
      auto x = this->device(qkv), dy = this->device(d_out),
           out = this->device(this->nans(B * L * C));
      auto lse = this->device(this->template nans<E>(B * H * L));
      auto dx = this->device(this->nans(B * L * 3 * C));
      auto forward =
          this->workspace(Kernels::template attention_forward_workspace<T>(B, L, C, H, 1));
      auto backward =
          this->workspace(Kernels::template attention_backward_workspace<T>(B, L, C, H, 1));
      this->run([&](Lane& lane) {
        Kernels::template attention_forward<T>(lane, out, lse, x, B, L, C, H, forward, rate, key);
        Kernels::template attention_backward<T>(lane, dx, dy, x, out, lse, B, L, C, H, backward,
                                                rate, key);
      });
      this->expect_near(out.get(), wanted.out, L + C / H, what + " out");
      this->expect_near(lse.get(), wanted.lse, L + C / H, what + " lse");
      this->expect_near(dx.get(), wanted.d_qkv, L + C / H, what + " d_qkv", 64);
      backward.get();
    }
  }
}

TYPED_TEST(CudaKernels, attention_survives_scores_that_overflow_exp) {
  REEF_TEST_NAMES;
  constexpr Index L = 70, C = 4;
  auto x = this->device(this->noise(L * 3 * C, 1, 60)), out = this->device(this->nans(L * C));
  auto lse = this->device(this->template nans<E>(L));
  this->run([&](Lane& lane) {
    Kernels::template attention_forward<T>(lane, out, lse, x, 1, L, C, 1, nullptr, 0.0F, {});
  });
  for (const T value : out.get()) EXPECT_TRUE(std::isfinite(value));
  for (const E value : lse.get()) EXPECT_TRUE(std::isfinite(value));
}

TYPED_TEST(CudaKernels, attention_refuses_heads_that_no_kernel_takes) {
  REEF_TEST_NAMES;
  for (const Index heads : {Index{1}, Index{7}, Index{0}}) {
    this->lane_->submit([&](Lane& lane) {
      T* const none = nullptr;
      E* const no_sums = nullptr;
      Kernels::template attention_forward<T>(lane, none, no_sums, none, 1, 4, 258, heads, nullptr,
                                             0.0F, {});
    });
    EXPECT_THROW(this->lane_->synchronize(), ShapeError) << heads;
  }
}

TYPED_TEST(CudaKernels, embedding_adds_rows_and_its_gradient_folds_positions_ascending) {
  REEF_TEST_NAMES;
  const Index shapes[][4] = {{1, 1, 1, 1}, {3, 7, 5, 11}, {2, 150, 33, 6}, {1, 40, 1030, 300}};
  for (const auto& [B, L, C, V] : shapes) {
    Tokens tokens(static_cast<std::size_t>(B * L));
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      tokens[i] =
          static_cast<std::int32_t>(random_bits(DrawKey{1}, i) % static_cast<std::uint32_t>(V));
    }
    const auto wte = this->noise(V * C, 1), wpe = this->noise((L + 2) * C, 2);
    const auto d_out = this->noise(B * L * C, 3);
    const auto former_wte = this->template noise<E>(V * C, 4);
    const auto former_wpe = this->template noise<E>((L + 2) * C, 5);
    std::vector<T> out(d_out.size());
    std::vector<E> d_wte(wte.size()), d_wpe(static_cast<std::size_t>(L * C));
    for (Index i = 0; i < B * L * C; ++i) {
      const Index position = i / C, c = i % C;
      const auto row = static_cast<std::size_t>(reference::at(tokens, position) * C + c);
      const auto place = static_cast<std::size_t>(position % L * C + c);
      const auto here = static_cast<std::size_t>(i);
      out[here] = T(wte[row] + wpe[place]);
      d_wte[row] += d_out[here];  // ascending in the position, as promised: the same bits
      d_wpe[place] += d_out[here];
    }
    auto gpu_tokens = this->device(tokens);
    auto gpu_wte = this->device(wte), gpu_wpe = this->device(wpe), gpu_d = this->device(d_out);
    auto gpu_out = this->device(this->nans(B * L * C));
    auto gpu_d_wte = this->device(this->template nans<E>(V * C));
    auto gpu_d_wpe = this->device(this->template nans<E>(L * C));
    auto sum_wte = this->device(former_wte), sum_wpe = this->device(former_wpe);
    auto space = this->workspace(Kernels::template embedding_backward_workspace<T>(B, L, C, V));
    this->run([&](Lane& lane) {
      Kernels::template embedding_forward<T>(lane, gpu_out, gpu_tokens, gpu_wte, gpu_wpe, B, L, C,
                                             V);
      Kernels::template embedding_backward<T>(lane, gpu_d_wte, gpu_d_wpe, gpu_d, gpu_tokens, B, L,
                                              C, V, false, space);
      Kernels::template embedding_backward<T>(lane, sum_wte, sum_wpe, gpu_d, gpu_tokens, B, L, C, V,
                                              true, space);
    });
    EXPECT_TRUE(this->same_bits(gpu_out.get(), out));
    EXPECT_TRUE(this->same_bits(gpu_d_wte.get(), d_wte));
    EXPECT_TRUE(this->same_bits(gpu_d_wpe.get(), d_wpe));
    this->expect_near(sum_wte.get(), this->sum(this->wide(former_wte), this->wide(d_wte)), B * L,
                      "d_wte added");
    this->expect_near(sum_wpe.get(), this->sum(this->wide(former_wpe), this->wide(d_wpe)), B,
                      "d_wpe added");
    space.get();
  }
}

TYPED_TEST(CudaKernels, a_token_outside_the_vocabulary_gives_nans_and_no_gradient) {
  REEF_TEST_NAMES;
  auto tokens = this->device(Tokens{1, 2, -1, 0});
  auto wte = this->device(this->numbers({10, 20}));
  auto wpe = this->device(this->numbers({1, 2, 3, 4}));
  auto out = this->device(this->nans(4)), d_out = this->device(this->numbers({5, 6, 7, 8}));
  auto d_wte = this->device(this->template nans<E>(2));
  auto d_wpe = this->device(this->template nans<E>(4));
  auto space = this->workspace(Kernels::template embedding_backward_workspace<T>(1, 4, 1, 2));
  this->run([&](Lane& lane) {
    Kernels::template embedding_forward<T>(lane, out, tokens, wte, wpe, 1, 4, 1, 2);
    Kernels::template embedding_backward<T>(lane, d_wte, d_wpe, d_out, tokens, 1, 4, 1, 2, false,
                                            space);
  });
  const std::vector<T> got = out.get();
  EXPECT_EQ(got[0], T(21));
  EXPECT_TRUE(std::isnan(got[1]));
  EXPECT_TRUE(std::isnan(got[2]));
  EXPECT_EQ(got[3], T(14));
  EXPECT_EQ(d_wte.get(), this->template numbers<E>({8, 5}));
}

TYPED_TEST(CudaKernels, sums_copies_and_dropout_are_exact_and_dropout_draws_the_hosts_bits) {
  REEF_TEST_NAMES;
  constexpr Index per_sample = 37, samples = 9, n = per_sample * samples;
  const auto a = this->noise(n, 1), b = this->noise(n, 2);
  const DrawKey key{17, 41, 0, 6};
  constexpr float rate = 0.25F;
  std::vector<T> added(a.size()), dropped(a.size()), dropped_added(a.size());
  std::size_t kept = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const Index index = static_cast<Index>(i);
    const E factor = static_cast<E>(reference::dropout_factor(
        rate, key, static_cast<std::uint64_t>(index / per_sample), index % per_sample));
    kept += factor != 0;
    added[i] = T(a[i] + b[i]);
    dropped[i] = T(a[i] * factor);
    dropped_added[i] = T(b[i] + a[i] * factor);
  }
  auto gpu_a = this->device(a), gpu_b = this->device(b), out = this->device(this->nans(n));
  auto copy = this->device(this->nans(n)), in_place = this->device(a),
       drop = this->device(this->nans(n));
  auto drop_added = this->device(b), same = this->device(a), passed = this->device(this->nans(n));
  this->run([&](Lane& lane) {
    Kernels::template add_forward<T>(lane, out, gpu_a, gpu_b, n);
    Kernels::template copy_or_add<T>(lane, copy, gpu_a, n, false);
    Kernels::template copy_or_add<T>(lane, copy, gpu_b, n, true);
    Kernels::template copy_or_add<T>(lane, same, same, n, false);
    Kernels::template dropout<T>(lane, drop, gpu_a, per_sample, samples, rate, key, false);
    Kernels::template dropout<T>(lane, drop_added, gpu_a, per_sample, samples, rate, key, true);
    Kernels::template dropout<T>(lane, in_place, in_place, per_sample, samples, rate, key, false);
    Kernels::template dropout<T>(lane, passed, gpu_a, per_sample, samples, 0.0F, key, false);
  });
  EXPECT_TRUE(this->same_bits(out.get(), added));
  EXPECT_TRUE(this->same_bits(copy.get(), added));
  EXPECT_TRUE(this->same_bits(same.get(), a));
  EXPECT_TRUE(this->same_bits(passed.get(), a));
  this->expect_near(drop.get(), this->wide(dropped), 1, "dropout");
  this->expect_near(in_place.get(), this->wide(dropped), 1, "dropout in place");
  this->expect_near(drop_added.get(), this->wide(dropped_added), 1, "dropout added");
  std::size_t gpu_kept = 0;
  for (const T value : drop.get()) gpu_kept += value != 0;
  EXPECT_EQ(gpu_kept, kept);
  EXPECT_NEAR(static_cast<double>(kept) / static_cast<double>(n), 0.75, 0.08);
}

TYPED_TEST(CudaKernels, cross_entropy_and_its_gradient_agree_with_loops) {
  REEF_TEST_NAMES;
  const Index shapes[][2] = {{1, 1}, {7, 3}, {33, 257}, {1500, 5}, {5, 4112}};
  for (const auto& [R, V] : shapes) {
    const auto logits = this->noise(R * V, 1, 5);
    Tokens targets(static_cast<std::size_t>(R));
    for (std::size_t i = 0; i < targets.size(); ++i) {
      targets[i] = i % 4 == 3 ? -1 : static_cast<std::int32_t>(i % static_cast<std::size_t>(V));
    }
    const reference::CrossEntropy wanted(this->wide(logits), targets, 0.75, R, V);
    auto x = this->device(logits);
    auto loss = this->device(this->template nans<E>(1)),
         lse = this->device(this->template nans<E>(R));
    auto t = this->device(targets);
    auto d_loss = this->device(this->template numbers<E>({0.75}));
    auto dx = this->device(this->nans(R * V));
    auto space = this->workspace(Kernels::template cross_entropy_forward_workspace<T>(R, V));
    this->run([&](Lane& lane) {
      Kernels::template cross_entropy_forward<T>(lane, loss, lse, x, t, R, V, space);
      Kernels::template cross_entropy_backward<T>(lane, dx, d_loss, x, lse, t, R, V);
      Kernels::template cross_entropy_backward<T>(lane, x, d_loss, x, lse, t, R, V);  // in place
    });
    this->expect_near(loss.get(), {wanted.loss}, 1, "loss");
    this->expect_near(lse.get(), wanted.lse, V, "lse");
    this->expect_near(dx.get(), wanted.d_logits, 1, "d_logits");
    EXPECT_TRUE(this->same_bits(x.get(), dx.get()));
    space.get();
  }
}

TYPED_TEST(CudaKernels, cross_entropy_without_targets_is_zero_and_a_target_beyond_the_end_is_nan) {
  REEF_TEST_NAMES;
  auto logits = this->device(this->numbers({1, 2, 3, 4}));
  auto lse = this->device(this->template nans<E>(2));
  auto none = this->device(Tokens{-1, -1}), beyond = this->device(Tokens{0, 2});
  auto loss = this->device(this->template nans<E>(1));
  auto bad = this->device(this->template numbers<E>({0}));
  auto d_loss = this->device(this->template numbers<E>({1}));
  auto d_logits = this->device(this->nans(4));
  auto space = this->workspace(Kernels::template cross_entropy_forward_workspace<T>(2, 2));
  this->run([&](Lane& lane) {
    Kernels::template cross_entropy_forward<T>(lane, loss, lse, logits, none, 2, 2, space);
    Kernels::template cross_entropy_backward<T>(lane, d_logits, d_loss, logits, lse, none, 2, 2);
    Kernels::template cross_entropy_forward<T>(lane, bad, lse, logits, beyond, 2, 2, space);
  });
  EXPECT_EQ(loss.get()[0], E(0));
  EXPECT_EQ(d_logits.get(), this->numbers({0, 0, 0, 0}));
  EXPECT_TRUE(std::isnan(bad.get()[0]));
}

TYPED_TEST(CudaKernels, a_second_run_gives_the_same_bits_beside_other_work) {
  REEF_TEST_NAMES;
  constexpr Index B = 2, L = 96, C = 64, H = 2, V = 50, R = B * L;
  Tokens tokens(R);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = static_cast<std::int32_t>(random_bits(DrawKey{2}, i) % V);
  }
  auto t = this->device(tokens);
  auto qkv = this->device(this->noise(R * 3 * C, 1)), d_out = this->device(this->noise(R * C, 2));
  auto w = this->device(this->noise(C * 3 * C, 3)), gain = this->device(this->noise(C, 4));
  auto x = this->device(this->noise(R * C, 5));
  Cuda::Lane noise_lane(*this->cuda_, "noise");
  auto scratch = this->device(this->noise(R * 3 * C, 6));

  const auto outcome = [&] {
    const auto sums = [&](Index n) { return this->device(this->template nans<E>(n)); };
    auto out = this->device(this->nans(R * C)), d_x = this->device(this->nans(R * C));
    auto d_qkv = this->device(this->nans(R * 3 * C));
    auto lse = sums(B * H * L), d_w = sums(C * 3 * C), d_bias = sums(3 * C);
    auto mean = sums(R), rstd = sums(R), d_gain = sums(C), d_shift = sums(C);
    auto d_wte = sums(V * C), d_wpe = sums(L * C);
    auto space = this->workspace(Kernels::template attention_backward_workspace<T>(B, L, C, H, 1) +
                                 Kernels::template layer_norm_backward_workspace<T>(R, C) +
                                 Kernels::template embedding_backward_workspace<T>(B, L, C, V));
    this->run([&](Lane& lane) {
      const DrawKey key{1, 2, 3, 4};
      Kernels::template attention_forward<T>(lane, out, lse, qkv, B, L, C, H, space, 0.1F, key);
      Kernels::template attention_backward<T>(lane, d_qkv, d_out, qkv, out, lse, B, L, C, H, space,
                                              0.1F, key);
      Kernels::template linear_backward_weight<T>(lane, d_w, d_bias, x, d_qkv, R, C, 3 * C,
                                                  Transpose::no, false, nullptr);
      Kernels::template linear_backward_input<T>(lane, d_x, d_qkv, w, R, C, 3 * C, Transpose::no,
                                                 false, nullptr);
      Kernels::template layer_norm_forward<T>(lane, out, mean, rstd, x, gain, gain, R, C, E(1e-5));
      Kernels::template layer_norm_backward<T>(lane, d_x, d_gain, d_shift, d_x, x, gain, mean, rstd,
                                               R, C, false, false, space);
      Kernels::template embedding_backward<T>(lane, d_wte, d_wpe, d_x, t, B, L, C, V, false, space);
    });
    std::vector<E> all;
    const auto append = [&](const auto& values) {
      all.insert(all.end(), values.begin(), values.end());
    };
    for (const auto* part : {&d_qkv, &d_x}) append(part->get());
    for (const auto* part : {&d_w, &d_bias, &d_gain, &d_shift, &d_wte, &d_wpe}) append(part->get());
    return all;
  };
  const std::vector<E> first = outcome();
  for (const E value : first) ASSERT_TRUE(std::isfinite(value));
  for (int round = 0; round < 5; ++round) {
    for (int i = 0; i < 20; ++i) {
      noise_lane.submit([&](Lane& lane) {
        Kernels::template gelu_forward<T>(lane, scratch, scratch, R * 3 * C);
      });
    }
    EXPECT_TRUE(this->same_bits(outcome(), first)) << "round " << round;
    noise_lane.synchronize();
  }
}

TYPED_TEST(CudaKernels, products_do_not_depend_on_where_their_matrices_lie) {
  REEF_TEST_NAMES;
  constexpr Index m = 64, n = 96, k = 128;
  const auto a = this->noise(m * k, 1), b = this->noise(k * n, 2);
  const auto product = [&](std::size_t shift) {
    std::vector<T> shifted_a(shift), shifted_b(shift);
    shifted_a.insert(shifted_a.end(), a.begin(), a.end());
    shifted_b.insert(shifted_b.end(), b.begin(), b.end());
    auto da = this->device(shifted_a), db = this->device(shifted_b);
    auto dc = this->device(this->nans(static_cast<Index>(shift) + m * n));
    this->run([&](Lane& lane) {
      Kernels::template gemm<T, T>(lane, Transpose::no, Transpose::no, m, n, k, E(1), da + shift, k,
                                   db + shift, n, E(0), dc + shift, n, nullptr);
    });
    std::vector<T> c = dc.get();
    c.erase(c.begin(), c.begin() + static_cast<std::ptrdiff_t>(shift));
    return c;
  };
  // The first pair that lies alike: bf16 makes a difference between 16 bytes and less.
  constexpr std::size_t whole = 16 / sizeof(T);
  EXPECT_TRUE(this->same_bits(product(0), product(whole)));
  EXPECT_TRUE(this->same_bits(product(1), product(whole + 1)));
  if (std::is_same_v<T, E>) {
    EXPECT_TRUE(this->same_bits(product(0), product(1)));
  }
}

}  // namespace
}  // namespace reef
