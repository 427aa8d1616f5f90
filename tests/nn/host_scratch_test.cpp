// What products take beside their matrices is in the workspaces that they are given: by hooks in the
// allocator.

#include <algorithm>
#include <cstdint>
#include <type_traits>
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
  constexpr std::int64_t most = 2100;
  const std::vector<float> a(static_cast<std::size_t>(most * most), 1.0F);
  std::vector<float> c(a.size());
  double largest = 0;
  for (const Transpose ta : both) {
    for (const Transpose tb : both) {
      for (const std::int64_t m : {1, 16, 100, 256, 400, 1000}) {
        for (const std::int64_t n : {1, 64, 384, 500, 2053}) {
          for (const std::int64_t k : {1, 16, 129, 300, 385, 768}) {
            const auto product = [&] {
              dnnl_sgemm(ta == Transpose::no ? 'N' : 'T', tb == Transpose::no ? 'N' : 'T', m, n, k,
                         1.0F, a.data(), ta == Transpose::no ? k : m, a.data(),
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
  RecordProperty("largest_part_of_the_bound", std::to_string(largest));
}
#endif

struct Product {
  std::int64_t R, K, N;
};

/// What a linear layer and its gradients take from the heap after their first call, beside what stands in
/// the workspace for dnnl_sgemm.
template <class T>
void expect_nothing_but_the_workspace() {
#if !defined(REEF_TEST_HOOKS)
  GTEST_SKIP() << "the allocator cannot be hooked here";
#endif
  Host host({.threads = 2});
  Host::Lane lane(host, "lane");
  for (const auto& [R, K, N] : {Product{16, 64, 96}, {300, 512, 520}, {64, 128, 1024}}) {
    for (const Transpose tw : both) {
      const auto of = [](std::int64_t n) { return std::vector<T>(static_cast<std::size_t>(n)); };
      const auto in = of(R * K), w = of(K * N), d_out = of(R * N);
      auto out = of(R * N), d_in = of(R * K);
      std::vector<sum_t<T>> d_w(static_cast<std::size_t>(K * N));
      const auto workspace =
          host.allocate(std::max(Kernels::linear_forward_workspace<T>(R, K, N, tw, 2),
                                 Kernels::linear_backward_workspace<T>(R, K, N, tw, 2)),
                        "workspace");
      const auto layer = [&, R = R, K = K, N = N] {
        lane.submit([&](Host::Lane& l) {
          Kernels::linear_forward<T>(l, out.data(), in.data(), w.data(), nullptr, R, K, N, tw,
                                     workspace.data());
          Kernels::linear_backward_input<T>(l, d_in.data(), d_out.data(), w.data(), R, K, N, tw,
                                            false, workspace.data());
          Kernels::linear_backward_weight<T>(l, d_w.data(), nullptr, in.data(), d_out.data(), R, K,
                                             N, tw, false, workspace.data());
        });
        lane.synchronize();
      };
      for (int round = 0; round < 4; ++round)
        layer();              // oneDNN makes code for a shape once a thread
      double allowed = 8192;  // the lane's own, of a submission
#if defined(REEF_HAS_DNNL)
      const std::int64_t most = std::max(R, std::max(K, N));
      if (!std::is_same_v<T, double>) {
        allowed += 2 * static_cast<double>(DnnlSgemm::heap_bytes(most, most, most));
      }
#endif
      EXPECT_LT(taken_while(layer), allowed) << R << " x " << K << " x " << N;
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
  for (const auto& [R, K, N] : {Product{16, 64, 192},
                                {128, 384, 1152},
                                {512, 768, 3072},
                                {2048, 768, 768},
                                {256, 3072, 768},
                                {1024, 768, 50257},
                                {1024, 50257, 768},
                                {4096, 5120, 20480}}) {
    for (const Transpose ta : both) {
      for (const Transpose tb : both) {
        const DnnlMatmul::Shape shape{ta,
                                      tb,
                                      R,
                                      N,
                                      K,
                                      ta == Transpose::no ? K : R,
                                      tb == Transpose::no ? N : K,
                                      N,
                                      0.0F,
                                      Element::bfloat16,
                                      ta == Transpose::no ? Element::bfloat16 : Element::float32};
        EXPECT_LE(DnnlMatmul::scratch_bytes(shape),
                  nn::host::detail::gemm_here_bytes<Bfloat16>(ta, tb, R, N, K))
            << R << " x " << K << " x " << N;
      }
    }
  }
}
#endif

}  // namespace
}  // namespace reef::test
