// Products of one row, as when one sequence is generated, with the weights of a Llama of 7 billion parameters in each form. A call
// multiplies with the next of several matrices, which are too large for the cache together. Bytes are those of the packed matrix,
// and the rival is a copy on the device that moves as many, half of them each way: of_rival 1 is the roof of the memory. `rows8` and
// `rows64`: 8 and 64 rows at once, which read the matrix once.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>

#include <benchmark/benchmark.h>

#include <reef/core/text.hpp>
#include <reef/nn/cuda/rows.cuh>

#include "support/cuda_measure.hpp"

namespace {

using namespace reef;
using device::Cuda;
using graph::WeightForm;
using Kernels = nn::RowKernels<Cuda>;
using Lane = Cuda::Lane;
using reef_bench::Numbers;

constexpr Bytes beyond_cache = 512 << 20;

void add(Cuda& cuda, Lane& lane, const std::shared_ptr<Numbers>& weights,
         const std::shared_ptr<Numbers>& rows, std::int64_t R, std::int64_t K, std::int64_t N,
         const char* name, WeightForm form) {
  const Bytes bytes = round_up(Kernels::packed_bytes<float>(K, N, form), 64);
  const Bytes matrices = std::max<Bytes>(1, beyond_cache / bytes);
  const auto next = std::make_shared<Bytes>(0);
  const auto turn = [=] {
    return static_cast<std::byte*>(*weights) + (*next)++ % matrices * bytes;
  };
  reef_bench::add_beside(
      lane, concat("rows", R, "/", K, "x", N, "/", name),
      [=](Lane& self) {
        float* const numbers = *rows;
        Kernels::rows_product<float>(self, numbers + R * K, numbers, turn(), nullptr, R, K, N, form,
                                     nullptr);
      },
      [=](Lane& self) {
        std::byte* const from = turn();
        self.copy(from + bytes / 2, from, bytes / 2, device::Copy::on_device);
      },
      "a copy", static_cast<double>(bytes), "bytes");
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
  constexpr std::array<std::pair<const char*, WeightForm>, 5> forms = {
      {{"fp32", WeightForm::as_given},
       {"bf16", WeightForm::bf16},
       {"int8", WeightForm::int8},
       {"blockwise8", WeightForm::blockwise8},
       {"nf4", WeightForm::nf4}}};
  // Of zeros: no kernel's time depends on its numbers.
  const auto weights = std::make_shared<Numbers>(
      cuda, lane, static_cast<std::int64_t>(beyond_cache / sizeof(float)));
  const auto rows = std::make_shared<Numbers>(cuda, lane, std::int64_t{64} * 2 * 11008);
  for (const std::int64_t R : {1, 8, 64}) {
    for (const auto& [K, N] :
         {std::pair<std::int64_t, std::int64_t>{4096, 4096}, {4096, 11008}, {11008, 4096}}) {
      for (const auto& [name, form] : forms) add(cuda, lane, weights, rows, R, K, N, name, form);
    }
  }
  benchmark::RunSpecifiedBenchmarks();
  benchmark::ClearRegisteredBenchmarks();  // what they hold is of the device
}
