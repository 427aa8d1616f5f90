// CRC-32C of a tensor. The rival: copying the same bytes.

#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include <reef/io/checksum.hpp>

namespace {

void count_bytes(benchmark::State& state) {
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

void crc32c(benchmark::State& state) {
  const std::vector<std::byte> bytes(static_cast<std::size_t>(state.range(0)), std::byte{3});
  for (auto _ : state) benchmark::DoNotOptimize(reef::io::crc32c(bytes));
  count_bytes(state);
}
BENCHMARK(crc32c)->Arg(4096)->Arg(1 << 20);

void crc32c_portable(benchmark::State& state) {
  const std::vector<std::byte> bytes(static_cast<std::size_t>(state.range(0)), std::byte{3});
  for (auto _ : state) {
    benchmark::DoNotOptimize(reef::io::detail::crc32c_portable(1, bytes.data(), bytes.size()));
  }
  count_bytes(state);
}
BENCHMARK(crc32c_portable)->Arg(4096)->Arg(1 << 20);

void rival_copy(benchmark::State& state) {
  const std::vector<std::byte> bytes(static_cast<std::size_t>(state.range(0)), std::byte{3});
  std::vector<std::byte> to(bytes.size());
  for (auto _ : state) {
    std::memcpy(to.data(), bytes.data(), bytes.size());
    benchmark::ClobberMemory();
  }
  count_bytes(state);
}
BENCHMARK(rival_copy)->Arg(4096)->Arg(1 << 20);

}  // namespace

BENCHMARK_MAIN();
