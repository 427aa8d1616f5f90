// The CUDA kernels in the shapes of two training configurations, each beside its rival in the same
// run: attention beside the matrix products that it would take without a mask, what memory bounds
// beside a copy on the device of as many bytes. Products report FLOP/s, the rest bytes per second;
// `of_rival` is the rival's time over ours: 1 is equal, more is faster. Of fp32, and as
// .../bf16/... of bf16.
//
//   b256   6 heads, 384 channels, vocabulary 256, T = 256, B = 8
//   gpt2   12 heads, 768 channels, vocabulary 50304, T = 1024, B = 8

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include <benchmark/benchmark.h>

#include <reef/core/text.hpp>
#include <reef/nn/cuda.cuh>

#include "support/cuda_measure.hpp"

namespace {

using namespace reef;
using device::Cuda;
using nn::Transpose;
using reef_bench::add_beside;
using reef_bench::Numbers;
using Kernels = nn::Kernels<Cuda>;
using Lane = Cuda::Lane;

struct Configuration {
  std::string name;
  std::int64_t H, C, V, T_, B;
  [[nodiscard]] std::int64_t rows() const { return B * T_; }
};

template <real T>
void add(const Configuration& c, Cuda& cuda, Lane& lane) {
  using E = sum_t<T>;
  const std::int64_t R = c.rows(), C = c.C, D = C / c.H;
  const auto memory = [&](std::int64_t count) {
    return std::make_shared<Numbers>(cuda, lane, count);
  };
  const auto wide = memory(R * 4 * C), narrow = memory(R * C), qkv = memory(R * 3 * C);
  const auto d_qkv = memory(R * 3 * C), weights = memory(4 * C * C), lse = memory(c.B * c.H * c.T_);
  const auto space = memory(std::max(R * 2, 128 * C));
  const auto rstd = memory(R);
  const auto logits = memory(R * c.V), tokens = memory(R), table = memory(c.V * C);
  const std::string element = std::is_same_v<T, E> ? "/" : concat("/", name_of(element_of<T>), "/");
  std::vector<std::int32_t> cycle(static_cast<std::size_t>(R));
  for (std::size_t i = 0; i < cycle.size(); ++i)
    cycle[i] = static_cast<std::int32_t>(i % static_cast<std::size_t>(c.V));
  lane.submit([&](Lane& self) {
    self.copy(*tokens, cycle.data(), cycle.size() * 4, device::Copy::to_device);
  });
  lane.synchronize();
  const auto positions = memory(c.T_ * C), presence = memory(c.V);
  const auto other = memory(R * 4 * C);
  const auto entry = [&](const char* name, auto function, auto rival, double amount,
                         const char* unit) {
    add_beside(lane, c.name + element + name, function, rival,
               unit == std::string("flops") ? "products" : "a copy", amount, unit);
  };
  const auto copy = [=](std::int64_t elements) {  // moves them twice, from and to
    return [=](Lane& self) {
      self.copy(*other, *wide, static_cast<Bytes>(elements) * sizeof(T), device::Copy::on_device);
    };
  };
  const auto flops = [](std::int64_t m, std::int64_t n, std::int64_t k) {
    return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  };
  const auto bytes = [](std::int64_t elements) {
    return static_cast<double>(sizeof(T)) * static_cast<double>(elements);
  };

  const auto product = [=](Lane& self) {
    Kernels::gemm<T, T>(self, Transpose::no, Transpose::no, R, 4 * C, C, E(1), *narrow, C, *weights,
                        4 * C, E(0), *wide, 4 * C, nullptr);
  };
  entry(
      "linear_forward",
      [=](Lane& self) {
        Kernels::linear_forward<T>(self, *wide, *narrow, *weights, *positions, R, C, 4 * C,
                                   Transpose::no, nullptr);
      },
      product, flops(R, 4 * C, C), "flops");
  entry(
      "linear_backward_weight",
      [=](Lane& self) {
        Kernels::linear_backward_weight<T>(self, *weights, *positions, *narrow, *wide, R, C, 4 * C,
                                           Transpose::no, false, nullptr);
      },
      product, flops(R, 4 * C, C), "flops");

  // Per head two products of T x T x D forward and five backward, of which the mask leaves half. The
  // rival is one product of as many operations, whose result is all heads' scores.
  const std::int64_t heads = c.B * c.H;
  const auto left = memory(R * 5 * C), scores = memory(heads * c.T_ * c.T_);
  const auto products = [=](std::int64_t count) {
    return [=](Lane& self) {
      Kernels::gemm<T, T>(self, Transpose::no, Transpose::yes, heads * c.T_, c.T_, count * D, E(1),
                          *left, count * D, *left, count * D, E(0), *scores, c.T_, nullptr);
    };
  };
  entry(
      "attention_forward",
      [=](Lane& self) {
        Kernels::attention_forward<T>(self, *narrow, *lse, *qkv, c.B, c.T_, C, c.H, nullptr, 0.0F,
                                      {});
      },
      products(2), static_cast<double>(heads) * flops(c.T_, c.T_, D), "flops");
  entry(
      "attention_backward",
      [=](Lane& self) {
        Kernels::attention_backward<T>(self, *d_qkv, *narrow, *qkv, *narrow, *lse, c.B, c.T_, C,
                                       c.H, *wide, 0.0F, {});
      },
      products(5), 2.5 * static_cast<double>(heads) * flops(c.T_, c.T_, D), "flops");

  entry(
      "gelu_forward", [=](Lane& self) { Kernels::gelu_forward<T>(self, *other, *wide, R * 4 * C); },
      copy(R * 4 * C), bytes(2 * R * 4 * C), "bytes");
  entry(
      "gelu_backward",
      [=](Lane& self) { Kernels::gelu_backward<T>(self, *other, *other, *wide, R * 4 * C, false); },
      copy(R * 4 * C), bytes(3 * R * 4 * C), "bytes");
  entry(
      "layer_norm_forward",
      [=](Lane& self) {
        Kernels::layer_norm_forward<T>(self, *other, *space, *rstd, *narrow, *weights, *weights, R,
                                       C, E(1e-5));
      },
      copy(R * C), bytes(2 * R * C), "bytes");
  entry(
      "layer_norm_backward",
      [=](Lane& self) {
        Kernels::layer_norm_backward<T>(self, *other, *weights, *positions, *wide, *narrow,
                                        *weights, *lse, *lse, c.B * c.T_, C, false, false, *qkv);
      },
      copy(R * C), bytes(3 * R * C), "bytes");
  entry(
      "embedding_backward",
      [=](Lane& self) {
        Kernels::embedding_backward<T>(self, *table, *positions, *narrow, *tokens, c.B, c.T_, C,
                                       c.V, false, *presence);
      },
      copy(R * C), bytes(R * C + c.V * C), "bytes");
  entry(
      "cross_entropy",
      [=](Lane& self) {
        Kernels::cross_entropy_forward<T>(self, *lse, *space, *logits, *tokens, R, c.V, *other);
        Kernels::cross_entropy_backward<T>(self, *logits, *lse, *logits, *space, *tokens, R, c.V);
      },
      copy(std::min(R * c.V, R * 4 * C)), bytes(3 * R * c.V), "bytes");
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  std::string why;
  if (!device::cuda_available(&why)) {
    std::printf("skipped: %s\n", why.c_str());
    return 0;
  }
  Cuda cuda;
  Lane lane(cuda, "compute");
  std::printf("%s\n", cuda.properties().name);
  const auto add_both = [&](const Configuration& c) {
    add<float>(c, cuda, lane);
    add<Bfloat16>(c, cuda, lane);
  };
  add_both({"b256", 6, 384, 256, 256, 8});
  add_both({"gpt2", 12, 768, 50304, 1024, 8});
  benchmark::RunSpecifiedBenchmarks();
  benchmark::ClearRegisteredBenchmarks();  // what they hold is of the device
}
