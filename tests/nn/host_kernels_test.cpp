#include <reef/nn/host.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <new>
#include <string>
#include <type_traits>
#include <vector>

#include <gtest/gtest.h>

#include <reef/core/random.hpp>
#include <reef/device/instruction_set.hpp>

namespace reef {
namespace {

using device::Host;
using device::InstructionSet;
using nn::Transpose;
using Kernels = nn::Kernels<Host>;

std::size_t size(std::int64_t n) { return static_cast<std::size_t>(n); }

// Standard normal numbers, a stream of its own for each `op`.
template <class T>
std::vector<T> normal_numbers(std::int64_t n, std::uint32_t op, double scale = 1.0) {
  std::vector<T> values(size(n));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<T>(scale * normal({.seed = 7, .op = op}, i));
  }
  return values;
}

// The lanes of hosts with 1, 2 and 3 threads.
struct Hosts {
  Host one{{.threads = 1}}, two{{.threads = 2}}, three{{.threads = 3}};
  Host::Lane first{one, "one"}, second{two, "two"}, third{three, "three"};
};

Hosts& hosts() {
  static Hosts hosts;
  return hosts;
}

void on(Host::Lane& lane, const std::function<void(Host::Lane&)>& function) {
  lane.submit(function);
  lane.synchronize();
}

// What `kernel` makes of a copy of `before`; equal bits for 1, 2 and 3 threads are checked.
template <class T>
std::vector<T> result_of(const std::vector<T>& before,
                         const std::function<void(Host::Lane&, T*)>& kernel) {
  std::vector<T> first = before;
  on(hosts().first, [&](Host::Lane& lane) { kernel(lane, first.data()); });
  for (Host::Lane* const lane : {&hosts().second, &hosts().third}) {
    std::vector<T> other = before;
    on(*lane, [&](Host::Lane& l) { kernel(l, other.data()); });
    EXPECT_TRUE(first.empty() ||
                std::memcmp(first.data(), other.data(), first.size() * sizeof(T)) == 0)
        << "other bits with " << lane->threads() << " threads";
  }
  return first;
}

/// The workspace of one call: what is behind it must be untouched when it goes.
class Space {
public:
  explicit Space(Bytes bytes)
      : bytes_(static_cast<std::size_t>(bytes)),
        memory_(static_cast<std::byte*>(::operator new(bytes_ + behind, aligned))) {
    std::memset(memory_, 0xFF, bytes_ + behind);
  }
  ~Space() {
    for (std::size_t i = 0; i < behind; ++i) {
      EXPECT_EQ(memory_[bytes_ + i], std::byte{0xFF}) << "written behind a workspace of " << bytes_;
    }
    ::operator delete(memory_, aligned);
  }
  Space(const Space&) = delete;
  Space& operator=(const Space&) = delete;

  [[nodiscard]] operator void*() const { return memory_; }

private:
  static constexpr std::align_val_t aligned{64};
  static constexpr std::size_t behind = 256;
  std::size_t bytes_;
  std::byte* memory_;
};

// The kernels of products, each with a workspace of its own.
template <class T, class C>
void gemm(Host::Lane& lane, Transpose ta, Transpose tb, std::int64_t m, std::int64_t n,
          std::int64_t k, sum_t<T> alpha, const T* a, std::int64_t lda, const T* b,
          std::int64_t ldb, sum_t<T> beta, C* c, std::int64_t ldc) {
  const Space space(Kernels::gemm_workspace<T>(ta, tb, m, n, k, lane.threads()));
  Kernels::gemm<T>(lane, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, space);
}

template <class T>
void linear_forward(Host::Lane& lane, T* out, const T* in, const T* w, const T* bias,
                    std::int64_t R, std::int64_t K, std::int64_t N, Transpose tw) {
  const Space space(Kernels::linear_forward_workspace<T>(R, K, N, tw, lane.threads()));
  Kernels::linear_forward<T>(lane, out, in, w, bias, R, K, N, tw, space);
}

template <class T>
void linear_backward_input(Host::Lane& lane, T* d_in, const T* d_out, const T* w, std::int64_t R,
                           std::int64_t K, std::int64_t N, Transpose tw, bool accumulate) {
  const Space space(Kernels::linear_backward_workspace<T>(R, K, N, tw, lane.threads()));
  Kernels::linear_backward_input<T>(lane, d_in, d_out, w, R, K, N, tw, accumulate, space);
}

template <class T>
void linear_backward_weight(Host::Lane& lane, sum_t<T>* d_w, sum_t<T>* d_bias, const T* in,
                            const T* d_out, std::int64_t R, std::int64_t K, std::int64_t N,
                            Transpose tw, bool accumulate) {
  const Space space(Kernels::linear_backward_workspace<T>(R, K, N, tw, lane.threads()));
  Kernels::linear_backward_weight<T>(lane, d_w, d_bias, in, d_out, R, K, N, tw, accumulate, space);
}

template <class T>
std::vector<T> nans(std::int64_t n) {
  return std::vector<T>(size(n), std::numeric_limits<T>::quiet_NaN());
}

// |value - reference| <= factor epsilon bound, where bound is the magnitude that was summed.
template <class T>
void expect_near(double value, double reference, double factor, double bound,
                 const std::string& what) {
  const double tolerance = factor * static_cast<double>(std::numeric_limits<T>::epsilon()) * bound;
  EXPECT_LE(std::abs(value - reference), tolerance)
      << what << ": " << value << " instead of " << reference;
}

// Everything under every instruction set that the machine has.
template <class T>
class HostKernels : public testing::Test {
public:
  static void each_instruction_set(const std::function<void()>& body) {
    for (const InstructionSet set :
         {InstructionSet::baseline, InstructionSet::avx2, InstructionSet::avx512}) {
      if (set > device::best_instruction_set()) break;
      device::use_instruction_set(set);
      SCOPED_TRACE(std::string(device::name_of(set)));
      body();
    }
    device::use_instruction_set(device::best_instruction_set());
  }
};

using Elements = testing::Types<float, double>;
TYPED_TEST_SUITE(HostKernels, Elements);

// -- matrix products -----------------------------------------------------------------------------

struct Matrix {
  std::int64_t m, n, k;
};

constexpr Matrix matrices[] = {{1, 1, 1},       {3, 5, 7},     {17, 48, 1},    {16, 257, 48},
                               {65, 130, 70},   {1, 384, 48},  {200, 70, 530}, {130, 600, 64},
                               {1000, 66, 260}, {20, 511, 600}};

// `product` is called as Kernels::gemm is, with the elements T of a and b, and C of c. Sums are of
// sum_t<T>, and C is rounded once.
template <class T, class C, class Product>
void expect_products(const Matrix& shape, Transpose ta, Transpose tb, double alpha, double beta,
                     const Product& product) {
  const std::int64_t m = shape.m, n = shape.n, k = shape.k;
  const std::int64_t lda = (ta == Transpose::no ? k : m) + 3;
  const std::int64_t ldb = (tb == Transpose::no ? n : k) + 1;
  const std::int64_t ldc = n + 2;
  const auto a = normal_numbers<T>((ta == Transpose::no ? m : k) * lda, 1);
  const auto b = normal_numbers<T>((tb == Transpose::no ? k : n) * ldb, 2);
  const auto before = normal_numbers<C>(m * ldc, 3, beta == 0 ? std::nan("") : 1.0);
  const auto c = result_of<C>(before, [&](Host::Lane& lane, C* out) {
    using E = sum_t<T>;
    product(lane, ta, tb, m, n, k, static_cast<E>(alpha), a.data(), lda, b.data(), ldb,
            static_cast<E>(beta), out, ldc);
  });
  constexpr double rounding = std::is_same_v<C, Bfloat16> ? 0x1p-8 : 0;
  for (std::int64_t i = 0; i < m; i += 1 + m / 11) {
    for (std::int64_t j = 0; j < ldc; ++j) {
      const std::size_t at = size(i * ldc + j);
      if (j >= n) {  // between the rows
        EXPECT_EQ(std::memcmp(&c[at], &before[at], sizeof(C)), 0);
        continue;
      }
      double sum = 0;
      double bound = 0;
      for (std::int64_t p = 0; p < k; ++p) {
        const double term =
            static_cast<double>(a[size(ta == Transpose::no ? i * lda + p : p * lda + i)]) *
            static_cast<double>(b[size(tb == Transpose::no ? p * ldb + j : j * ldb + p)]);
        sum += term;
        bound += std::abs(term);
      }
      const double old = beta == 0 ? 0 : static_cast<double>(before[at]);
      const double expected = alpha * sum + beta * old;
      const double epsilon = static_cast<double>(std::numeric_limits<sum_t<T>>::epsilon());
      const double tolerance = (static_cast<double>(k) + 4) * epsilon * (bound + std::abs(old)) +
                               rounding * std::abs(expected);
      EXPECT_LE(std::abs(static_cast<double>(c[at]) - expected), tolerance) << "gemm";
    }
  }
}

template <class T, class C, class Product>
void expect_products_of_every_kind(const Product& product,
                                   const std::vector<double>& alphas = {1, 0.5}) {
  for (const Matrix& shape : matrices) {
    for (const Transpose ta : {Transpose::no, Transpose::yes}) {
      for (const Transpose tb : {Transpose::no, Transpose::yes}) {
        for (std::size_t i = 0; i < alphas.size(); ++i) {
          expect_products<T, C>(shape, ta, tb, alphas[i], static_cast<double>(i % 2), product);
        }
      }
    }
  }
}

TYPED_TEST(HostKernels, products_match_a_scalar_loop_for_every_transpose_and_beta) {
  using T = TypeParam;
  this->each_instruction_set(
      [] { expect_products_of_every_kind<T, T>([](auto&&... call) { gemm<T>(call...); }); });
}

TEST(Bf16Products, match_a_scalar_loop_where_c_is_bf16_and_where_it_is_fp32) {
  HostKernels<Bfloat16>::each_instruction_set([] {
    const auto product = [](auto&&... call) { gemm<Bfloat16>(call...); };
    expect_products_of_every_kind<Bfloat16, Bfloat16>(product);
    expect_products_of_every_kind<Bfloat16, float>(product);
  });
}

#if defined(REEF_HAS_DNNL) && DNNL_VERSION_MAJOR == 2
// Kernels use it for bf16 where the processor multiplies that; of fp32 it can be tried everywhere.
template <class T, class C>
void expect_products_of_onednn() {
  bool has_code = true;
  const auto product = [&](Host::Lane&, Transpose ta, Transpose tb, std::int64_t m, std::int64_t n,
                           std::int64_t k, float, const T* a, std::int64_t lda, const T* b,
                           std::int64_t ldb, float beta, C* c, std::int64_t ldc) {
    nn::host::detail::prepare_dnnl();
    using nn::host::detail::DnnlMatmul;
    const DnnlMatmul::Shape shape{ta,           tb, m, n, k, lda, ldb, ldc, beta, element_of<T>,
                                  element_of<C>};
    const Bytes bytes = DnnlMatmul::scratch_bytes(shape);
    const Space space(bytes);
    const nn::host::detail::Scratch scratch(space);
    if (bytes > 0) {
      EXPECT_FALSE(DnnlMatmul::run(shape, a, b, c, scratch, bytes - 1));
    }
    has_code = DnnlMatmul::run(shape, a, b, c, scratch, bytes);
    if (has_code) return;
    gemm<T>(hosts().first, ta, tb, m, n, k, 1.0F, a, lda, b, ldb, beta, c, ldc);
  };
  for (const Matrix& shape : {Matrix{17, 48, 1}, Matrix{65, 130, 70}, Matrix{96, 64, 300}}) {
    for (const Transpose ta : {Transpose::no, Transpose::yes}) {
      for (const Transpose tb : {Transpose::no, Transpose::yes}) {
        for (const double beta : {0.0, 1.0}) {
          expect_products<T, C>(shape, ta, tb, 1, beta, product);
          if (!has_code) GTEST_SKIP() << "oneDNN has no fast code for this on this processor";
        }
      }
    }
  }
}

TEST(OneDnnMatmul, of_fp32_matches_a_scalar_loop) { expect_products_of_onednn<float, float>(); }
TEST(OneDnnMatmul, of_bf16_matches_a_scalar_loop) {
  expect_products_of_onednn<Bfloat16, Bfloat16>();
}
TEST(OneDnnMatmul, of_bf16_into_fp32_matches_a_scalar_loop) {
  expect_products_of_onednn<Bfloat16, float>();
}
#endif

TYPED_TEST(HostKernels, a_product_over_nothing_is_beta_c) {
  using T = TypeParam;
  const auto c = result_of<T>({T(1), T(2), T(3), T(4)}, [](Host::Lane& lane, T* out) {
    gemm<T>(lane, Transpose::no, Transpose::no, 2, 2, 0, T(1), out, 0, out, 2, T(0.5), out, 2);
  });
  EXPECT_EQ(c, (std::vector<T>{T(0.5), T(1), T(1.5), T(2)}));
}

#if defined(REEF_HAS_DNNL)
// What lets a batch be cut without changing a bit of what each row gives.
template <class T>
void expect_rows_alone(std::int64_t rows, const std::vector<std::int64_t>& fewer) {
  for (const auto& shape : {std::pair<std::int64_t, std::int64_t>{384, 1152},
                            {384, 256},
                            {48, 257},
                            {1536, 384},
                            {130, 65}}) {
    const std::int64_t K = shape.first, N = shape.second;
    for (const Transpose tw : {Transpose::no, Transpose::yes}) {
      const auto in = normal_numbers<T>(rows * K, 1);
      const auto w = normal_numbers<T>(K * N, 2);
      const auto bias = normal_numbers<T>(N, 3);
      const auto forward = [&](std::int64_t first, std::int64_t R) {
        return result_of<T>(normal_numbers<T>(R * N, 4), [&](Host::Lane& lane, T* out) {
          linear_forward<T>(lane, out, in.data() + first * K, w.data(), bias.data(), R, K, N, tw);
        });
      };
      const auto all = forward(0, rows);
      for (const std::int64_t R : fewer) {
        for (const std::int64_t first : {0, 5, 44}) {
          const auto part = forward(first, R);
          EXPECT_EQ(std::memcmp(part.data(), all.data() + first * N, part.size() * sizeof(T)), 0)
              << R << " rows from " << first << ", K " << K << ", N " << N;
        }
      }
    }
  }
}

TEST(HostProducts, a_row_does_not_depend_on_how_many_rows_follow_from_16_rows_on) {
  expect_rows_alone<float>(300, {16, 17, 31, 48, 100, 256});
}

TEST(Bf16Products, a_row_does_not_depend_on_how_many_rows_follow_from_16_rows_on) {
  expect_rows_alone<Bfloat16>(1100, {16, 31, 515, 530, 1040});
}

TEST(HostProducts, dnnl_itself_gives_the_same_bits_as_one_call_over_all_rows) {
  const std::int64_t m = 260, n = 384, k = 200;
  const auto a = normal_numbers<float>(m * k, 1);
  const auto b = normal_numbers<float>(k * n, 2);
  std::vector<float> whole(size(m * n));
  const Space space(
      nn::host::detail::gemm_here_bytes<float>(Transpose::no, Transpose::no, m, n, k));
  on(hosts().first, [&](Host::Lane&) {
    nn::host::detail::gemm_here<float>(Transpose::no, Transpose::no, m, n, k, 1, a.data(), k,
                                       b.data(), n, 0, whole.data(), n,
                                       nn::host::detail::Scratch(space));
  });
  const auto tiled = result_of<float>(nans<float>(m * n), [&](Host::Lane& lane, float* out) {
    gemm<float>(lane, Transpose::no, Transpose::no, m, n, k, 1, a.data(), k, b.data(), n, 0, out,
                n);
  });
  EXPECT_EQ(std::memcmp(whole.data(), tiled.data(), whole.size() * sizeof(float)), 0);
}
#endif

TYPED_TEST(HostKernels, linear_and_its_gradients_match_scalar_loops) {
  using T = TypeParam;
  this->each_instruction_set([] {
    for (const Matrix& shape : {Matrix{1, 5, 11}, {3, 48, 5}, {17, 1, 257}, {70, 48, 96}}) {
      const std::int64_t R = shape.m, K = shape.n, N = shape.k;
      for (const Transpose tw : {Transpose::no, Transpose::yes}) {
        for (const bool accumulate : {false, true}) {
          const auto at_w = [&](std::int64_t p, std::int64_t j) {
            return size(tw == Transpose::no ? p * N + j : j * K + p);
          };
          const auto in = normal_numbers<T>(R * K, 1);
          const auto w = normal_numbers<T>(K * N, 2);
          const auto bias = normal_numbers<T>(N, 3);
          const auto d_out = normal_numbers<T>(R * N, 4);
          const auto start = [&](std::int64_t n) {
            return accumulate ? normal_numbers<T>(n, 5) : nans<T>(n);
          };
          const auto old = [&](const std::vector<T>& before, std::size_t at) {
            return accumulate ? static_cast<double>(before[at]) : 0.0;
          };
          const auto out = result_of<T>(nans<T>(R * N), [&](Host::Lane& lane, T* to) {
            linear_forward<T>(lane, to, in.data(), w.data(), bias.data(), R, K, N, tw);
          });
          const auto before_in = start(R * K);
          const auto d_in = result_of<T>(before_in, [&](Host::Lane& lane, T* to) {
            linear_backward_input<T>(lane, to, d_out.data(), w.data(), R, K, N, tw, accumulate);
          });
          const auto before_w = start(K * N + N);  // the weight, then the bias
          const auto d_w = result_of<T>(before_w, [&](Host::Lane& lane, T* to) {
            linear_backward_weight<T>(lane, to, to + K * N, in.data(), d_out.data(), R, K, N, tw,
                                      accumulate);
          });
          for (std::int64_t r = 0; r < R; ++r) {
            for (std::int64_t j = 0; j < N; ++j) {
              double sum = bias[size(j)];
              double bound = std::abs(sum);
              for (std::int64_t p = 0; p < K; ++p) {
                const double term =
                    static_cast<double>(in[size(r * K + p)]) * static_cast<double>(w[at_w(p, j)]);
                sum += term;
                bound += std::abs(term);
              }
              expect_near<T>(out[size(r * N + j)], sum, static_cast<double>(K) + 4, bound, "out");
            }
            for (std::int64_t p = 0; p < K; ++p) {
              double sum = old(before_in, size(r * K + p));
              double bound = std::abs(sum);
              for (std::int64_t j = 0; j < N; ++j) {
                const double term = static_cast<double>(d_out[size(r * N + j)]) *
                                    static_cast<double>(w[at_w(p, j)]);
                sum += term;
                bound += std::abs(term);
              }
              expect_near<T>(d_in[size(r * K + p)], sum, static_cast<double>(N) + 4, bound, "d_in");
            }
          }
          for (std::int64_t j = 0; j < N; ++j) {
            double bias_sum = old(before_w, size(K * N + j));
            double bias_bound = std::abs(bias_sum);
            for (std::int64_t r = 0; r < R; ++r) {
              bias_sum += static_cast<double>(d_out[size(r * N + j)]);
              bias_bound += std::abs(static_cast<double>(d_out[size(r * N + j)]));
            }
            expect_near<T>(d_w[size(K * N + j)], bias_sum, static_cast<double>(R) + 4, bias_bound,
                           "d_bias");
            for (std::int64_t p = 0; p < K; ++p) {
              double sum = old(before_w, at_w(p, j));
              double bound = std::abs(sum);
              for (std::int64_t r = 0; r < R; ++r) {
                const double term = static_cast<double>(in[size(r * K + p)]) *
                                    static_cast<double>(d_out[size(r * N + j)]);
                sum += term;
                bound += std::abs(term);
              }
              expect_near<T>(d_w[at_w(p, j)], sum, static_cast<double>(R) + 4, bound, "d_w");
            }
          }
        }
      }
    }
  });
}

TYPED_TEST(HostKernels, linear_works_without_a_bias) {
  using T = TypeParam;
  const auto in = normal_numbers<T>(20 * 8, 1);
  const auto w = normal_numbers<T>(8 * 4, 2);
  const std::vector<T> zeros(4, T(0));
  const auto with = result_of<T>(nans<T>(80), [&](Host::Lane& lane, T* to) {
    linear_forward<T>(lane, to, in.data(), w.data(), zeros.data(), 20, 8, 4, Transpose::no);
  });
  const auto without = result_of<T>(nans<T>(80), [&](Host::Lane& lane, T* to) {
    linear_forward<T>(lane, to, in.data(), w.data(), nullptr, 20, 8, 4, Transpose::no);
  });
  EXPECT_EQ(with, without);
  result_of<T>(nans<T>(32), [&](Host::Lane& lane, T* to) {
    linear_backward_weight<T>(lane, to, nullptr, in.data(), with.data(), 20, 8, 4, Transpose::no,
                              false);
  });
}

// -- elementwise ---------------------------------------------------------------------------------

double gelu(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

double gelu_slope(double x) {
  const double c = std::sqrt(2 / M_PI);
  const double t = std::tanh(c * (x + 0.044715 * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * c * (1 + 3 * 0.044715 * x * x);
}

TYPED_TEST(HostKernels, gelu_and_its_gradient_match_the_formula) {
  using T = TypeParam;
  this->each_instruction_set([] {
    for (const std::int64_t n : {1, 5, 48, 257, 40'000}) {
      const auto in = normal_numbers<T>(n, 1, 3.0);
      const auto d_out = normal_numbers<T>(n, 2);
      const auto out = result_of<T>(nans<T>(n), [&](Host::Lane& lane, T* to) {
        Kernels::gelu_forward<T>(lane, to, in.data(), n);
      });
      const auto before = normal_numbers<T>(n, 3);
      const auto d_in = result_of<T>(nans<T>(n), [&](Host::Lane& lane, T* to) {
        Kernels::gelu_backward<T>(lane, to, d_out.data(), in.data(), n, false);
      });
      const auto added = result_of<T>(before, [&](Host::Lane& lane, T* to) {
        Kernels::gelu_backward<T>(lane, to, d_out.data(), in.data(), n, true);
      });
      const auto in_place = result_of<T>(d_out, [&](Host::Lane& lane, T* to) {
        Kernels::gelu_backward<T>(lane, to, to, in.data(), n, false);
      });
      EXPECT_EQ(in_place, d_out.empty() ? in_place : d_in);
      for (std::size_t i = 0; i < size(n); ++i) {
        const double x = in[i];
        const double slope = gelu_slope(x) * static_cast<double>(d_out[i]);
        const double magnitude = std::abs(static_cast<double>(d_out[i])) * (1 + x * x);
        expect_near<T>(out[i], gelu(x), 8, std::abs(x), "gelu at " + std::to_string(x));
        expect_near<T>(d_in[i], slope, 8, magnitude, "slope at " + std::to_string(x));
        expect_near<T>(added[i], slope + static_cast<double>(before[i]), 8,
                       magnitude + std::abs(static_cast<double>(before[i])), "added slope");
      }
    }
  });
}

TYPED_TEST(HostKernels, gelu_is_finite_for_any_finite_input_that_training_can_meet) {
  using T = TypeParam;
  this->each_instruction_set([] {
    const std::vector<T> in{T(-1e4), T(-50), T(-10), T(-0.0), T(0), T(1e-30), T(10), T(50), T(1e4)};
    const std::vector<T> ones(in.size(), T(1));
    const auto n = static_cast<std::int64_t>(in.size());
    const auto out = result_of<T>(nans<T>(n), [&](Host::Lane& lane, T* to) {
      Kernels::gelu_forward<T>(lane, to, in.data(), n);
    });
    const auto slope = result_of<T>(nans<T>(n), [&](Host::Lane& lane, T* to) {
      Kernels::gelu_backward<T>(lane, to, ones.data(), in.data(), n, false);
    });
    EXPECT_EQ(out.front(), T(0));
    EXPECT_EQ(out.back(), T(1e4));
    EXPECT_EQ(slope.front(), T(0));
    EXPECT_EQ(slope.back(), T(1));
    for (std::size_t i = 0; i < in.size(); ++i)
      EXPECT_TRUE(std::isfinite(out[i]) && std::isfinite(slope[i]));
  });
}

TYPED_TEST(HostKernels, sums_and_copies_are_exact) {
  using T = TypeParam;
  this->each_instruction_set([] {
    for (const std::int64_t n : {0, 1, 17, 100'003}) {
      const auto a = normal_numbers<T>(n, 1);
      const auto b = normal_numbers<T>(n, 2);
      std::vector<T> expected(size(n));
      for (std::size_t i = 0; i < size(n); ++i) expected[i] = a[i] + b[i];
      EXPECT_EQ(result_of<T>(nans<T>(n),
                             [&](Host::Lane& lane, T* to) {
                               Kernels::add_forward<T>(lane, to, a.data(), b.data(), n);
                             }),
                expected);
      EXPECT_EQ(result_of<T>(a, [&](Host::Lane& lane,
                                    T* to) { Kernels::add_forward<T>(lane, to, to, b.data(), n); }),
                expected);
      EXPECT_EQ(
          result_of<T>(a, [&](Host::Lane& lane,
                              T* to) { Kernels::copy_or_add<T>(lane, to, b.data(), n, true); }),
          expected);
      EXPECT_EQ(
          result_of<T>(a, [&](Host::Lane& lane,
                              T* to) { Kernels::copy_or_add<T>(lane, to, b.data(), n, false); }),
          b);
      EXPECT_EQ(result_of<T>(a, [&](Host::Lane& lane,
                                    T* to) { Kernels::copy_or_add<T>(lane, to, to, n, false); }),
                a);
    }
  });
}

TYPED_TEST(HostKernels, dropout_keeps_what_the_key_says_and_scales_it) {
  using T = TypeParam;
  this->each_instruction_set([] {
    for (const float rate : {0.0F, 0.1F, 0.5F}) {
      constexpr std::int64_t per_sample = 9001;
      constexpr std::int64_t samples = 3;
      const DrawKey key{.seed = 3, .sample = 41, .draw = 0, .op = 5};
      const auto in = normal_numbers<T>(per_sample * samples, 1);
      const auto before = normal_numbers<T>(per_sample * samples, 2);
      for (const bool accumulate : {false, true}) {
        const auto out = result_of<T>(
            accumulate ? before : nans<T>(per_sample * samples), [&](Host::Lane& lane, T* to) {
              Kernels::dropout<T>(lane, to, in.data(), per_sample, samples, rate, key, accumulate);
            });
        std::int64_t dropped = 0;
        for (std::int64_t i = 0; i < per_sample * samples; ++i) {
          DrawKey sample = key;
          sample.sample += static_cast<std::uint64_t>(i / per_sample);
          const bool kept = uniform(sample, static_cast<std::uint64_t>(i % per_sample)) >= rate;
          if (!kept) ++dropped;
          const double value =
              kept ? static_cast<double>(in[size(i)]) / (1 - static_cast<double>(rate)) : 0;
          const double old = accumulate ? static_cast<double>(before[size(i)]) : 0;
          expect_near<T>(out[size(i)], value + old, 4, std::abs(value) + std::abs(old), "dropout");
        }
        EXPECT_NEAR(static_cast<double>(dropped) / (per_sample * samples),
                    static_cast<double>(rate), 0.02);
      }
    }
  });
}

// -- layer norm ----------------------------------------------------------------------------------

TYPED_TEST(HostKernels, layer_norm_and_its_gradients_match_scalar_loops) {
  using T = TypeParam;
  this->each_instruction_set([] {
    for (const std::int64_t R : {1, 3, 17, 300}) {
      for (const std::int64_t C : {1, 5, 48, 384}) {
        if (R == 300 && C == 384) continue;
        SCOPED_TRACE("R " + std::to_string(R) + ", C " + std::to_string(C));
        const T epsilon = static_cast<T>(1e-5);
        auto in = normal_numbers<T>(R * C, 1);
        for (T& x : in) x += T(2);
        const auto weight = normal_numbers<T>(C, 2);
        const auto bias = normal_numbers<T>(C, 3);
        const auto d_out = normal_numbers<T>(R * C, 4);
        // out, mean, rstd side by side
        const auto out = result_of<T>(nans<T>(R * C + 2 * R), [&](Host::Lane& lane, T* to) {
          Kernels::layer_norm_forward<T>(lane, to, to + R * C, to + R * C + R, in.data(),
                                         weight.data(), bias.data(), R, C, epsilon);
        });
        const T* const mean = out.data() + R * C;
        const T* const rstd = mean + R;
        std::vector<std::byte> workspace(Kernels::layer_norm_backward_workspace<T>(R, C));
        for (const bool accumulate : {false, true}) {
          const auto before =
              accumulate ? normal_numbers<T>(R * C + 2 * C, 5) : nans<T>(R * C + 2 * C);
          const auto got = result_of<T>(before, [&](Host::Lane& lane, T* to) {
            Kernels::layer_norm_backward<T>(lane, to, to + R * C, to + R * C + C, d_out.data(),
                                            in.data(), weight.data(), mean, rstd, R, C, accumulate,
                                            accumulate, workspace.data());
          });
          std::vector<double> d_weight(size(C), 0), d_bias(size(C), 0), bound(size(C), 0);
          for (std::int64_t r = 0; r < R; ++r) {
            double m = 0;
            for (std::int64_t c = 0; c < C; ++c)
              m += static_cast<double>(in[size(r * C + c)]) / static_cast<double>(C);
            double variance = 0;
            for (std::int64_t c = 0; c < C; ++c) {
              variance += std::pow(static_cast<double>(in[size(r * C + c)]) - m, 2) /
                          static_cast<double>(C);
            }
            const double s = 1 / std::sqrt(variance + static_cast<double>(epsilon));
            // The error of the mean, seen through rstd; with C = 1 rstd is 316.
            const double unit = 1 + (std::abs(m) + 1) * s;
            const double terms = static_cast<double>(C) + 16;
            double mean_dn = 0, mean_dn_n = 0;
            for (std::int64_t c = 0; c < C; ++c) {
              const double n = (static_cast<double>(in[size(r * C + c)]) - m) * s;
              const double g = static_cast<double>(d_out[size(r * C + c)]);
              const double dn = g * static_cast<double>(weight[size(c)]);
              expect_near<T>(
                  out[size(r * C + c)],
                  n * static_cast<double>(weight[size(c)]) + static_cast<double>(bias[size(c)]),
                  terms,
                  unit * (std::abs(static_cast<double>(weight[size(c)])) +
                          std::abs(static_cast<double>(bias[size(c)]))),
                  "out");
              mean_dn += dn / static_cast<double>(C);
              mean_dn_n += dn * n / static_cast<double>(C);
              d_weight[size(c)] += g * n;
              d_bias[size(c)] += g;
              bound[size(c)] += std::abs(g) * (unit + std::abs(n));
            }
            if (!accumulate) {
              expect_near<T>(mean[r], m, terms, std::abs(m) + 1, "mean");
              expect_near<T>(rstd[r], s, terms, s * unit, "rstd");
            }
            for (std::int64_t c = 0; c < C; ++c) {
              const double n = (static_cast<double>(in[size(r * C + c)]) - m) * s;
              const double dn = static_cast<double>(d_out[size(r * C + c)]) *
                                static_cast<double>(weight[size(c)]);
              const double old = accumulate ? static_cast<double>(before[size(r * C + c)]) : 0;
              expect_near<T>(got[size(r * C + c)], (dn - mean_dn - n * mean_dn_n) * s + old, terms,
                             (std::abs(dn) + 1 + std::abs(n)) * s * unit * 4 + std::abs(old),
                             "d_in");
            }
          }
          for (std::int64_t c = 0; c < C; ++c) {
            const double old_w = accumulate ? static_cast<double>(before[size(R * C + c)]) : 0;
            const double old_b = accumulate ? static_cast<double>(before[size(R * C + C + c)]) : 0;
            const double terms = static_cast<double>(R + C) + 16;
            expect_near<T>(got[size(R * C + c)], d_weight[size(c)] + old_w, terms,
                           bound[size(c)] + std::abs(old_w), "d_weight");
            expect_near<T>(got[size(R * C + C + c)], d_bias[size(c)] + old_b, terms,
                           bound[size(c)] + std::abs(old_b), "d_bias");
          }
        }
      }
    }
  });
}

TYPED_TEST(HostKernels, layer_norm_backward_may_overwrite_the_gradient_that_it_reads) {
  using T = TypeParam;
  const std::int64_t R = 19, C = 37;
  const auto in = normal_numbers<T>(R * C, 1);
  const auto weight = normal_numbers<T>(C, 2);
  const auto d_out = normal_numbers<T>(R * C, 3);
  const auto saved = result_of<T>(nans<T>(R * C + 2 * R), [&](Host::Lane& lane, T* to) {
    Kernels::layer_norm_forward<T>(lane, to, to + R * C, to + R * C + R, in.data(), weight.data(),
                                   weight.data(), R, C, static_cast<T>(1e-5));
  });
  std::vector<std::byte> workspace(Kernels::layer_norm_backward_workspace<T>(R, C));
  const auto run = [&](Host::Lane& lane, T* d_in, T* parameters, const T* gradient) {
    Kernels::layer_norm_backward<T>(lane, d_in, parameters, parameters + C, gradient, in.data(),
                                    weight.data(), saved.data() + R * C, saved.data() + R * C + R,
                                    R, C, false, false, workspace.data());
  };
  const auto apart = result_of<T>(nans<T>(R * C + 2 * C), [&](Host::Lane& lane, T* to) {
    run(lane, to, to + R * C, d_out.data());
  });
  auto together_start = d_out;
  together_start.resize(size(R * C + 2 * C));
  const auto together =
      result_of<T>(together_start, [&](Host::Lane& lane, T* to) { run(lane, to, to + R * C, to); });
  EXPECT_EQ(apart, together);
}

// -- attention -----------------------------------------------------------------------------------

struct AttentionReference {
  std::vector<double> out, lse, d_qkv, bound;
};

template <class T>
AttentionReference attention(const std::vector<T>& qkv, const std::vector<T>& d_out, std::int64_t B,
                             std::int64_t T_, std::int64_t C, std::int64_t H, float rate,
                             DrawKey key) {
  const std::int64_t D = C / H;
  AttentionReference ref{std::vector<double>(size(B * T_ * C), 0),
                         std::vector<double>(size(B * H * T_)),
                         std::vector<double>(size(B * T_ * 3 * C), 0),
                         {}};
  const double scale = 1 / std::sqrt(static_cast<double>(D));
  const auto q = [&](std::int64_t b, std::int64_t t, std::int64_t part, std::int64_t h,
                     std::int64_t d) { return size(((b * T_ + t) * 3 + part) * C + h * D + d); };
  for (std::int64_t b = 0; b < B; ++b) {
    for (std::int64_t h = 0; h < H; ++h) {
      for (std::int64_t t = 0; t < T_; ++t) {
        std::vector<double> p(size(t + 1)), dp(size(t + 1)), factor(size(t + 1), 1.0);
        double total = 0;
        for (std::int64_t s = 0; s <= t; ++s) {
          for (std::int64_t d = 0; d < D; ++d) {
            p[size(s)] += scale * static_cast<double>(qkv[q(b, t, 0, h, d)]) *
                          static_cast<double>(qkv[q(b, s, 1, h, d)]);
          }
          p[size(s)] = std::exp(p[size(s)]);
          total += p[size(s)];
          if (rate > 0) {
            DrawKey sample = key;
            sample.sample += static_cast<std::uint64_t>(b);
            const auto index = static_cast<std::uint64_t>((h * T_ + t) * T_ + s);
            factor[size(s)] =
                uniform(sample, index) >= rate ? 1 / (1 - static_cast<double>(rate)) : 0;
          }
        }
        ref.lse[size((b * H + h) * T_ + t)] = std::log(total);
        double mean = 0;
        for (std::int64_t s = 0; s <= t; ++s) {
          p[size(s)] /= total;
          for (std::int64_t d = 0; d < D; ++d) {
            const std::size_t at = size((b * T_ + t) * C + h * D + d);
            ref.out[at] +=
                p[size(s)] * factor[size(s)] * static_cast<double>(qkv[q(b, s, 2, h, d)]);
            dp[size(s)] += static_cast<double>(d_out[at]) *
                           static_cast<double>(qkv[q(b, s, 2, h, d)]) * factor[size(s)];
            ref.d_qkv[q(b, s, 2, h, d)] +=
                p[size(s)] * factor[size(s)] * static_cast<double>(d_out[at]);
          }
          mean += p[size(s)] * dp[size(s)];
        }
        for (std::int64_t s = 0; s <= t; ++s) {
          const double ds = p[size(s)] * (dp[size(s)] - mean) * scale;
          for (std::int64_t d = 0; d < D; ++d) {
            ref.d_qkv[q(b, t, 0, h, d)] += ds * static_cast<double>(qkv[q(b, s, 1, h, d)]);
            ref.d_qkv[q(b, s, 1, h, d)] += ds * static_cast<double>(qkv[q(b, t, 0, h, d)]);
          }
        }
      }
    }
  }
  return ref;
}

TYPED_TEST(HostKernels, attention_and_its_gradient_match_scalar_loops) {
  using T = TypeParam;
  struct Case {
    std::int64_t B, T_, C, H;
    float rate;
  };
  this->each_instruction_set([] {
    for (const Case& c : {Case{1, 1, 4, 1, 0.0F},
                          {2, 3, 10, 2, 0.0F},
                          {1, 64, 48, 3, 0.0F},
                          {2, 65, 48, 1, 0.0F},
                          {1, 200, 14, 2, 0.0F},
                          {2, 67, 12, 2, 0.3F}}) {
      const std::int64_t B = c.B, T_ = c.T_, C = c.C, H = c.H;
      SCOPED_TRACE("B " + std::to_string(B) + ", T " + std::to_string(T_) + ", C " +
                   std::to_string(C));
      const DrawKey key{.seed = 5, .sample = 100, .draw = 0, .op = 9};
      const auto qkv = normal_numbers<T>(B * T_ * 3 * C, 1);
      const auto d_out = normal_numbers<T>(B * T_ * C, 2);
      const Space forward(Kernels::attention_forward_workspace<T>(B, T_, C, H, 3));
      const Space backward(Kernels::attention_backward_workspace<T>(B, T_, C, H, 3));
      const auto out = result_of<T>(nans<T>(B * T_ * C + B * H * T_), [&](Host::Lane& lane, T* to) {
        Kernels::attention_forward<T>(lane, to, to + B * T_ * C, qkv.data(), B, T_, C, H, forward,
                                      c.rate, key);
      });
      const auto d_qkv = result_of<T>(nans<T>(B * T_ * 3 * C), [&](Host::Lane& lane, T* to) {
        Kernels::attention_backward<T>(lane, to, d_out.data(), qkv.data(), out.data(),
                                       out.data() + B * T_ * C, B, T_, C, H, backward, c.rate, key);
      });
      const AttentionReference ref = attention(qkv, d_out, B, T_, C, H, c.rate, key);
      // Scores are at most some 5 sqrt(D) in size before the scale; sums run over D and T.
      const std::int64_t D = C / H;
      const double terms = static_cast<double>(4 * D + 4 * T_) + 64;
      for (std::size_t i = 0; i < ref.out.size(); ++i)
        expect_near<T>(out[i], ref.out[i], terms, 2, "out");
      for (std::size_t i = 0; i < ref.lse.size(); ++i) {
        expect_near<T>(out[ref.out.size() + i], ref.lse[i], terms, 2 + std::abs(ref.lse[i]), "lse");
      }
      for (std::size_t i = 0; i < ref.d_qkv.size(); ++i) {
        expect_near<T>(d_qkv[i], ref.d_qkv[i], terms, 4 + std::abs(ref.d_qkv[i]), "d_qkv");
      }
    }
  });
}

// -- embedding -----------------------------------------------------------------------------------

TYPED_TEST(HostKernels, embedding_and_its_gradient_match_scalar_loops) {
  using T = TypeParam;
  this->each_instruction_set([] {
    for (const std::int64_t C : {1, 5, 48, 130}) {
      const std::int64_t B = 3, T_ = 17, V = 11;
      const auto wte = normal_numbers<T>(V * C, 1);
      const auto wpe = normal_numbers<T>((T_ + 2) * C, 2);
      const auto d_out = normal_numbers<T>(B * T_ * C, 3);
      std::vector<std::int32_t> tokens(size(B * T_));
      for (std::size_t i = 0; i < tokens.size(); ++i)
        tokens[i] = static_cast<std::int32_t>(i * i % 9);
      const auto out = result_of<T>(nans<T>(B * T_ * C), [&](Host::Lane& lane, T* to) {
        Kernels::embedding_forward<T>(lane, to, tokens.data(), wte.data(), wpe.data(), B, T_, C, V);
      });
      for (std::int64_t r = 0; r < B * T_; ++r) {
        for (std::int64_t c = 0; c < C; ++c) {
          EXPECT_EQ(out[size(r * C + c)],
                    wte[size(tokens[size(r)] * C + c)] + wpe[size(r % T_ * C + c)]);
        }
      }
      for (const bool accumulate : {false, true}) {
        const auto before = accumulate ? normal_numbers<T>((V + T_) * C, 4) : nans<T>((V + T_) * C);
        std::vector<double> expected(before.size(), 0), bound(before.size(), 0);
        if (accumulate) std::copy(before.begin(), before.end(), expected.begin());
        for (std::int64_t r = 0; r < B * T_; ++r) {
          for (std::int64_t c = 0; c < C; ++c) {
            for (const std::size_t at :
                 {size(tokens[size(r)] * C + c), size((V + r % T_) * C + c)}) {
              expected[at] += static_cast<double>(d_out[size(r * C + c)]);
              bound[at] += std::abs(static_cast<double>(d_out[size(r * C + c)]));
            }
          }
        }
        const auto got = result_of<T>(before, [&](Host::Lane& lane, T* to) {
          Kernels::embedding_backward<T>(lane, to, to + V * C, d_out.data(), tokens.data(), B, T_,
                                         C, V, accumulate, nullptr);
        });
        for (std::size_t i = 0; i < got.size(); ++i) {
          expect_near<T>(got[i], expected[i], static_cast<double>(B * T_),
                         bound[i] + std::abs(expected[i]), "gradient");
        }
      }
    }
  });
}

TEST(HostEmbedding, a_token_outside_the_vocabulary_is_refused_by_name) {
  const std::vector<float> table(40, 1.0F);
  std::vector<float> out(40);
  for (const std::int32_t bad : {-1, 10}) {
    const std::vector<std::int32_t> tokens{1, 2, bad, 3};
    hosts().second.submit([&](Host::Lane& lane) {
      Kernels::embedding_forward<float>(lane, out.data(), tokens.data(), table.data(), table.data(),
                                        1, 4, 4, 10);
    });
    try {
      hosts().second.synchronize();
      ADD_FAILURE() << "token " << bad << " was accepted";
    } catch (const DecodeError& error) {
      EXPECT_NE(std::string(error.what()).find("token " + std::to_string(bad) + " at place 2"),
                std::string::npos)
          << error.what();
    }
  }
}

// -- cross-entropy -------------------------------------------------------------------------------

TYPED_TEST(HostKernels, cross_entropy_and_its_gradient_match_scalar_loops) {
  using T = TypeParam;
  this->each_instruction_set([] {
    for (const std::int64_t R : {1, 3, 17}) {
      for (const std::int64_t V : {1, 11, 257, 5000}) {
        const auto logits = normal_numbers<T>(R * V, 1, 3.0);
        std::vector<std::int32_t> targets(size(R));
        for (std::size_t r = 0; r < targets.size(); ++r) {
          targets[r] = r % 4 == 1 ? -1 : static_cast<std::int32_t>(r * 131 % size(V));
        }
        const auto counted =
            std::count_if(targets.begin(), targets.end(), [](auto t) { return t >= 0; });
        const auto got = result_of<T>(nans<T>(1 + R), [&](Host::Lane& lane, T* to) {
          Kernels::cross_entropy_forward<T>(lane, to, to + 1, logits.data(), targets.data(), R, V,
                                            nullptr);
        });
        const T d_loss(1.75);
        const auto d_logits = result_of<T>(nans<T>(R * V), [&](Host::Lane& lane, T* to) {
          Kernels::cross_entropy_backward<T>(lane, to, &d_loss, logits.data(), got.data() + 1,
                                             targets.data(), R, V);
        });
        const auto in_place = result_of<T>(logits, [&](Host::Lane& lane, T* to) {
          Kernels::cross_entropy_backward<T>(lane, to, &d_loss, to, got.data() + 1, targets.data(),
                                             R, V);
        });
        EXPECT_EQ(d_logits, in_place);
        double loss = 0;
        for (std::int64_t r = 0; r < R; ++r) {
          double sum = 0;
          for (std::int64_t v = 0; v < V; ++v)
            sum += std::exp(static_cast<double>(logits[size(r * V + v)]));
          const double lse = std::log(sum);
          const double terms = static_cast<double>(V) / 16 + 64;
          expect_near<T>(got[size(1 + r)], lse, terms, 1 + std::abs(lse), "lse");
          if (targets[size(r)] >= 0) {
            loss += (lse - static_cast<double>(logits[size(r * V + targets[size(r)])])) /
                    static_cast<double>(counted);
          }
          for (std::int64_t v = 0; v < V; ++v) {
            const double p = std::exp(static_cast<double>(logits[size(r * V + v)])) / sum;
            const double expected =
                targets[size(r)] < 0 ? 0
                                     : static_cast<double>(d_loss) / static_cast<double>(counted) *
                                           (p - (v == targets[size(r)] ? 1 : 0));
            expect_near<T>(
                d_logits[size(r * V + v)], expected, terms + 16 * std::abs(lse),
                1.0 / static_cast<double>(counted) * (p + (v == targets[size(r)] ? 1 : 0)) + 1e-30,
                "d_logits");
          }
        }
        expect_near<T>(got[0], loss, static_cast<double>(V) / 16 + 64, 12, "loss");
      }
    }
  });
}

TYPED_TEST(HostKernels, cross_entropy_survives_large_logits_and_no_targets) {
  using T = TypeParam;
  this->each_instruction_set([] {
    std::vector<T> logits(3000, T(-1e4));
    logits[2500] = T(1e4);
    const std::vector<std::int32_t> target{2500};
    auto got = result_of<T>(nans<T>(2), [&](Host::Lane& lane, T* to) {
      Kernels::cross_entropy_forward<T>(lane, to, to + 1, logits.data(), target.data(), 1, 3000,
                                        nullptr);
    });
    EXPECT_EQ(got[0], T(0));
    EXPECT_EQ(got[1], T(1e4));
    const std::vector<std::int32_t> none{-1};
    got = result_of<T>(nans<T>(2), [&](Host::Lane& lane, T* to) {
      Kernels::cross_entropy_forward<T>(lane, to, to + 1, logits.data(), none.data(), 1, 3000,
                                        nullptr);
    });
    EXPECT_EQ(got[0], T(0));
  });
}

TEST(HostCrossEntropy, a_not_a_number_among_the_logits_reaches_the_loss) {
  std::vector<float> logits(100, 0.0F);
  logits[57] = std::numeric_limits<float>::quiet_NaN();
  const std::vector<std::int32_t> target{3};
  const auto got = result_of<float>(nans<float>(2), [&](Host::Lane& lane, float* to) {
    std::fill_n(to, 2, 0.0F);
    Kernels::cross_entropy_forward<float>(lane, to, to + 1, logits.data(), target.data(), 1, 100,
                                          nullptr);
  });
  EXPECT_TRUE(std::isnan(got[0]));
}

TEST(HostCrossEntropy, a_target_outside_the_vocabulary_is_refused_by_name) {
  const std::vector<float> logits(20, 0.0F);
  float loss = 0;
  std::vector<float> lse(2);
  const std::vector<std::int32_t> targets{3, 10};
  hosts().first.submit([&](Host::Lane& lane) {
    Kernels::cross_entropy_forward<float>(lane, &loss, lse.data(), logits.data(), targets.data(), 2,
                                          10, nullptr);
  });
  EXPECT_THROW(hosts().first.synchronize(), DecodeError);
}

}  // namespace
}  // namespace reef
