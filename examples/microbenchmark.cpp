// Purpose  Measures a primitive of one's own, a codec, beside its rival and its roof, with Google Benchmark.
// Command  build/release/examples/microbenchmark
// Output   a table of one's own, the rival and the roof, in bytes of numbers per second
// links: reef::core benchmark::benchmark
// arguments: --benchmark_min_time=0.01
// prints: own/1048576
// prints: rival/1048576
// prints: roof/1048576
#include <cstring>
#include <vector>

#include <benchmark/benchmark.h>

#include <reef/codec/two_bit.hpp>

#include "support/ternary.hpp"

template <class Codec>  // what it takes to encode n numbers that lie in memory
void encode(benchmark::State& state) {
  const Codec format;
  std::vector<float> values(static_cast<std::size_t>(state.range(0)));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i * i % 2001) - 1000;
  std::vector<std::byte> message(static_cast<std::size_t>(format.encoded_bytes(state.range(0))));
  for (auto _ : state) benchmark::DoNotOptimize(format.encode(values, message));
  state.SetBytesProcessed(state.iterations() * state.range(0) * static_cast<std::int64_t>(sizeof(float)));
}

void copy(benchmark::State& state) {  // reads as much as a codec must
  const std::vector<float> values(static_cast<std::size_t>(state.range(0)), 1.5F);
  std::vector<float> to(values.size());
  for (auto _ : state) {
    std::memcpy(to.data(), values.data(), values.size() * sizeof(float));
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * state.range(0) * static_cast<std::int64_t>(sizeof(float)));
}

BENCHMARK_TEMPLATE(encode, reef_examples::Ternary)->Name("own")->Arg(1 << 20);
BENCHMARK_TEMPLATE(encode, reef::codec::TwoBit)->Name("rival")->Arg(1 << 20);
BENCHMARK(copy)->Name("roof")->Arg(1 << 20);

BENCHMARK_MAIN();
