// Products of rows with packed matrices, RowKernels<Host>::rows_product, beside oneDNN's sgemm and the rate of reading.
//
//   nn-rows-bench [THREADS [ROWS]]     one table; run with 1 thread under taskset -c 0
//
// The matrices are those of a layer of a GPT of 768 channels, in copies of 128 MiB or more, so that no cache has them. In
// each of `rounds` rounds all contenders run once, one after the other; said are medians, and the median of the ratios.
//
//   products   ROWS rows (256): GFLOP/s of Reef by form, beside dnnl_sgemm of fp32 with as many OpenMP threads
//   passes     1 row: GB/s of packed bytes, beside a sum over as many bytes on the same threads

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include <dlfcn.h>

#if defined(REEF_HAS_DNNL)
#include <oneapi/dnnl/dnnl.h>
#endif

#include <reef/core/random.hpp>
#include <reef/device/for_each.hpp>
#include <reef/device/host.hpp>
#include <reef/device/simd.hpp>
#include <reef/nn/host/rows.hpp>

#include "support/measure.hpp"
#include "support/read_rate.hpp"

namespace {

using namespace reef;
using device::Host;
using graph::WeightForm;
using Kernels = nn::RowKernels<Host>;

constexpr int rounds = 9;

struct Matrix {
  std::int64_t K, N;
};
constexpr Matrix layer[] = {{768, 2304}, {768, 768}, {768, 3072}, {3072, 768}};

constexpr std::pair<const char*, WeightForm> forms[] = {{"fp32", WeightForm::as_given},
                                                        {"bf16", WeightForm::bf16},
                                                        {"int8", WeightForm::int8},
                                                        {"blockwise8", WeightForm::blockwise8},
                                                        {"nf4", WeightForm::nf4}};

std::vector<float> numbers(std::int64_t count, std::uint64_t seed) {
  std::vector<float> result(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < result.size(); ++i) result[i] = static_cast<float>(uniform({.seed = seed}, i)) - 0.5F;
  return result;
}

Bytes bytes_of_layer(WeightForm form) {
  Bytes bytes = 0;
  for (const Matrix& m : layer) bytes += round_up(Kernels::packed_bytes<float>(m.K, m.N, form), 64);
  return bytes;
}

/// The packed matrices of some layers, all with the numbers of the first.
class Layers {
public:
  Layers(Host& host, Host::Lane& lane, WeightForm form)
      : form_(form),
        layer_bytes_(bytes_of_layer(form)),
        count_(static_cast<std::int64_t>((Bytes{128} << 20) / layer_bytes_ + 1)),
        memory_(host.allocate(layer_bytes_ * static_cast<Bytes>(count_), "layers")) {
    auto* const first = static_cast<std::byte*>(memory_.data());
    Bytes at = 0;
    for (const Matrix& m : layer) {
      const std::vector<float> given = numbers(m.K * m.N, 1);
      Kernels::pack<float>(lane, first + at, given.data(), m.K, m.N, nn::Transpose::no, form);
      at += round_up(Kernels::packed_bytes<float>(m.K, m.N, form), 64);
    }
    for (std::int64_t i = 1; i < count_; ++i) std::memcpy(first + static_cast<Bytes>(i) * layer_bytes_, first, layer_bytes_);
  }

  [[nodiscard]] Bytes bytes() const { return layer_bytes_ * static_cast<Bytes>(count_); }

  /// Multiplies R rows with the matrices of the first `count` layers; returns the seconds of one layer.
  double seconds(Host::Lane& lane, float* out, const float* in, std::int64_t R, void* workspace, std::int64_t count) const {
    const double all = reef_bench::seconds_of([&] {
      const auto* at = static_cast<const std::byte*>(memory_.data());
      for (std::int64_t i = 0; i < count; ++i) {
        for (const Matrix& m : layer) {
          Kernels::rows_product<float>(lane, out, in, at, nullptr, R, m.K, m.N, form_, workspace);
          at += round_up(Kernels::packed_bytes<float>(m.K, m.N, form_), 64);
        }
      }
    });
    return all / static_cast<double>(count);
  }
  [[nodiscard]] std::int64_t count() const { return count_; }

private:
  WeightForm form_;
  Bytes layer_bytes_;
  std::int64_t count_;
  Host::Buffer memory_;
};

/// The seconds of oneDNN's sgemm for the matrices of a layer, R rows; 0 where there is no oneDNN.
double seconds_of_dnnl([[maybe_unused]] float* out, [[maybe_unused]] const float* in, [[maybe_unused]] const float* w,
                       [[maybe_unused]] std::int64_t R, [[maybe_unused]] int threads) {
#if defined(REEF_HAS_DNNL)
  if (void* const set = dlsym(RTLD_DEFAULT, "omp_set_num_threads")) reinterpret_cast<void (*)(int)>(set)(threads);
  return reef_bench::seconds_of([&] {
    for (const Matrix& m : layer) {
      dnnl_sgemm('N', 'N', R, m.N, m.K, 1.0F, in, m.K, w, m.N, 0.0F, out, m.N);
      w += m.K * m.N;
    }
  });
#else
  return 0;
#endif
}

}  // namespace

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 1;
  const std::int64_t R = argc > 2 ? std::atoll(argv[2]) : 256;
  Host host({.threads = threads});
  const reef_bench::Reading reading(host);
  Host::Lane lane(host, "compute");
  lane.submit([&](Host::Lane& own) {
    const std::vector<float> in = numbers(R * 3072, 2);
    std::vector<float> out(static_cast<std::size_t>(R * 3072));
    std::vector<float> given;
    double flop = 0;
    for (const Matrix& m : layer) {
      const std::vector<float> part = numbers(m.K * m.N, 1);
      given.insert(given.end(), part.begin(), part.end());
      flop += 2 * static_cast<double>(R) * static_cast<double>(m.K * m.N);
    }
    const auto workspace = host.allocate(Kernels::rows_product_workspace<float>(R, 3072, threads), "workspace");
    std::printf("%d threads, %s; medians of %d rounds\n\n", threads, device::name_of(device::instruction_set()).data(), rounds);
    std::printf("| weights | %lld rows, GFLOP/s | oneDNN fp32 | of oneDNN | 1 row, GB/s | reading | of reading |\n|---|---|---|---|---|---|---|\n",
                static_cast<long long>(R));
    for (const auto& [name, form] : forms) {
      const Layers layers(host, own, form);
      std::vector<double> ours, theirs, times, rate, read, share;
      for (int round = -1; round < rounds; ++round) {
        const double a = layers.seconds(own, out.data(), in.data(), R, workspace.data(), 2);
        const double b = seconds_of_dnnl(out.data(), in.data(), given.data(), R, threads);
        const double c = layers.seconds(own, out.data(), in.data(), 1, workspace.data(), layers.count());
        const double d = reading.rate(own, 1);
        if (round < 0) continue;
        ours.push_back(flop / a * 1e-9);
        theirs.push_back(flop / b * 1e-9);
        times.push_back(b / a);
        rate.push_back(static_cast<double>(layers.bytes()) / static_cast<double>(layers.count()) / c * 1e-9);
        read.push_back(d);
        share.push_back(rate.back() / d);
      }
      std::printf("| %s | %.0f | %.0f | %.2f | %.1f | %.1f | %.2f |\n", name, reef_bench::median(ours),
                  reef_bench::median(theirs), reef_bench::median(times), reef_bench::median(rate),
                  reef_bench::median(read), reef_bench::median(share));
    }
  });
  lane.synchronize();
  return 0;
}
