// What products take beside their matrices is in the workspaces that they are given: by hooks in the
// allocator.

#include <algorithm>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <reef/nn/host.hpp>

#include "../support/counted_heap.hpp"

namespace reef::test {
namespace {

using device::Host;
using nn::Transpose;
using Kernels = nn::Kernels<Host>;

constexpr Transpose both[] = {Transpose::no, Transpose::yes};

#if defined(REEF_HAS_DNNL)
using nn::host::detail::DnnlSgemm;

TEST(HostScratch, what_dnnl_sgemm_takes_from_the_heap_is_within_its_bound) {
#if !defined(REEF_TEST_HOOKS)
  GTEST_SKIP() << "the allocator cannot be hooked here";
#endif
  nn::host::detail::prepare_dnnl();
  const std::vector<float> a(256 * 20'000, 1.0F);  // the largest of all matrices
  std::vector<float> c(a.size());
  double largest = 0;
  const auto try_all = [&](const std::vector<std::int64_t>& ms, const std::vector<std::int64_t>& ns,
                           const std::vector<std::int64_t>& ks) {
    for (const Transpose ta : both) {
      for (const Transpose tb : both) {
        for (const std::int64_t m : ms) {
          for (const std::int64_t n : ns) {
            for (const std::int64_t k : ks) {
              const auto product = [&] {
                dnnl_sgemm(ta == Transpose::no ? 'N' : 'T', tb == Transpose::no ? 'N' : 'T', m, n,
                           k, 1.0F, a.data(), ta == Transpose::no ? k : m, a.data(),
                           tb == Transpose::no ? n : k, 0.0F, c.data(), n);
              };
              product();  // may make code
              const auto bytes = taken_while(product);
              const auto bound = static_cast<double>(DnnlSgemm::heap_bytes(m, n, k));
              EXPECT_LE(bytes, bound) << m << " x " << n << " x " << k;
              largest = std::max(largest, bytes / bound);
            }
          }
        }
      }
    }
  };
  try_all({1, 16, 100, 256, 400, 1000}, {1, 64, 384, 500, 2053}, {1, 16, 129, 300, 385, 768});
  try_all({1, 64, 256}, {16, 192}, {8192, 8193, 20'000});
  try_all({16, 256}, {12'000}, {64, 400});
  RecordProperty("largest_part_of_the_bound", std::to_string(largest));
}
#endif

struct Product {
  std::int64_t R, K, N;
};

/// What dnnl_sgemm may take from the heap for a product on `threads` threads.
template <class T>
double heap_of([[maybe_unused]] Transpose ta, [[maybe_unused]] const Product& product,
               [[maybe_unused]] int threads) {
#if defined(REEF_HAS_DNNL)
  if (std::is_same_v<T, double>) return 0;
  const auto& [m, k, n] = product;
  const auto grid = nn::host::detail::GemmGrid::of(ta, m, n, k);
  return threads * static_cast<double>(DnnlSgemm::heap_bytes(m - grid.row(grid.across - 1),
                                                             n - grid.column(grid.along - 1), k));
#else
  return 0;
#endif
}

/// What a linear layer and its gradients take from the heap, on threads that have multiplied nothing yet,
/// beside what stands in the workspace for dnnl_sgemm.
template <class T>
void expect_nothing_but_the_workspace() {
#if !defined(REEF_TEST_HOOKS)
  GTEST_SKIP() << "the allocator cannot be hooked here";
#endif
  constexpr int threads = 2;
  for (const auto& [R, K, N] : {Product{16, 64, 96}, {300, 512, 512}, {64, 128, 1024}}) {
    for (const Transpose tw : both) {
      const auto of = [](std::int64_t n) { return std::vector<T>(static_cast<std::size_t>(n)); };
      const auto in = of(R * K), w = of(K * N), d_out = of(R * N);
      auto out = of(R * N), d_in = of(R * K);
      std::vector<sum_t<T>> d_w(static_cast<std::size_t>(K * N));
      const auto taken = [&, R = R, K = K, N = N] {
        Host host({.threads = threads});
        Host::Lane lane(host, "lane");
        const auto workspace =
            host.allocate(std::max(Kernels::linear_forward_workspace<T>(R, K, N, tw, threads),
                                   Kernels::linear_backward_workspace<T>(R, K, N, tw, threads)),
                          "workspace");
        return taken_while([&] {
          lane.submit([&](Host::Lane& l) {
            Kernels::linear_forward<T>(l, out.data(), in.data(), w.data(), nullptr, R, K, N, tw,
                                       workspace.data());
            Kernels::linear_backward_input<T>(l, d_in.data(), d_out.data(), w.data(), R, K, N, tw,
                                              false, workspace.data());
            Kernels::linear_backward_weight<T>(l, d_w.data(), nullptr, in.data(), d_out.data(), R,
                                               K, N, tw, false, workspace.data());
          });
          lane.synchronize();
        });
      };
      taken();  // oneDNN makes code for a shape once
      const bool as_is = tw == Transpose::no;
      const double heap =
          std::max({heap_of<T>(Transpose::no, {R, K, N}, threads),
                    heap_of<T>(Transpose::no, {R, N, K}, threads),
                    heap_of<T>(Transpose::yes, {as_is ? K : N, R, as_is ? N : K}, threads)});
      EXPECT_LT(taken(), heap + 128e3) << R << " x " << K << " x " << N;
    }
  }
}

TEST(HostScratch, a_linear_layer_of_fp64_takes_nothing_but_its_workspace) {
  expect_nothing_but_the_workspace<double>();
}
TEST(HostScratch, a_linear_layer_of_fp32_takes_nothing_but_its_workspace) {
  expect_nothing_but_the_workspace<float>();
}
TEST(HostScratch, a_linear_layer_of_bf16_takes_nothing_but_its_workspace) {
  expect_nothing_but_the_workspace<Bfloat16>();
}

#if defined(REEF_HAS_DNNL) && DNNL_VERSION_MAJOR == 2
// Else they would be widened, in a workspace of the same size.
TEST(HostScratch, what_onednn_wants_for_bf16_fits_in_what_widening_would) {
  using nn::host::detail::DnnlMatmul;
  if (!nn::host::detail::multiplies_bf16()) GTEST_SKIP() << "this processor multiplies no bf16";
  nn::host::detail::prepare_dnnl();
  for (const std::int64_t R : {16, 17, 64, 100, 256, 1000}) {
    for (const auto& [K, N] : {std::pair<std::int64_t, std::int64_t>{64, 192},
                               {384, 1152},
                               {768, 3072},
                               {3072, 768},
                               {768, 50257},
                               {50257, 768},
                               {5120, 20480}}) {
      for (const Transpose ta : both) {
        for (const Transpose tb : both) {
          for (const float beta : {0.0F, 1.0F}) {
            const DnnlMatmul::Shape shape{
                ta,
                tb,
                R,
                N,
                K,
                ta == Transpose::no ? K : R,
                tb == Transpose::no ? N : K,
                N,
                beta,
                Element::bfloat16,
                ta == Transpose::no ? Element::bfloat16 : Element::float32};
            EXPECT_LE(DnnlMatmul::scratch_bytes(shape),
                      nn::host::detail::gemm_here_bytes<Bfloat16>(ta, tb, R, N, K))
                << R << " x " << K << " x " << N;
          }
        }
      }
    }
  }
}
#endif

}  // namespace
}  // namespace reef::test
