// The deterministic collectives against MPI's own, which promise no order of summation.
//
//   mpiexec -n 4 build/release/bench/comm_collectives_bench
//
// Times are the slowest rank's. bytes_per_second is the size of the array over the time; "bus" is
// 2 (P - 1) / P of that (half for one direction): what each rank must at least send, so that figures
// for different P compare. The roof is a memcpy of the same array on every rank at once. The rivals:
// MPI_Allreduce as it is, and in place in chunks of 1 and 8 MiB, which avoids page faults on MPI's
// temporary buffers. "shaped" compares a transfer over an emulated link with the time of the model.

#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include <reef/comm/functions.hpp>

namespace {

using namespace reef;
using namespace reef::comm;

struct Setting {
  Communicator world;
  std::unique_ptr<Progress> progress;

  /// One Progress object at a time: `transport` and `network` replace the one before. Collective.
  Progress& use(Transport transport, NetworkShape network = {}) {
    progress.reset();
    ProgressOptions options;
    options.deadline = 120;
    if (network.empty()) options.transport = transport;
    options.network = std::move(network);
    progress = std::make_unique<Progress>(world, options);
    return *progress;
  }
};
Setting* setting = nullptr;

constexpr int repetitions = 12;

/// Runs `work` with all ranks starting together; counts the slowest rank's time.
template <class Work>
void measure(benchmark::State& state, double bytes, double bus, Work&& work) {
  work();  // buffers grow once
  for (auto _ : state) {
    MPI_Barrier(MPI_COMM_WORLD);
    const auto begin = std::chrono::steady_clock::now();
    work();
    double mine = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    double slowest = 0;
    MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    state.SetIterationTime(slowest);
  }
  const double done = static_cast<double>(state.iterations()) * bytes;
  state.SetBytesProcessed(static_cast<std::int64_t>(done));
  state.counters["bus"] =
      benchmark::Counter(done * bus, benchmark::Counter::kIsRate, benchmark::Counter::kIs1000);
}

double share() {
  const double ranks = setting->world.size();
  return (ranks - 1) / ranks;
}

template <Transport Way>
void all_reduce(benchmark::State& state) {
  Progress& progress = setting->use(Way);
  std::vector<float> data(static_cast<std::size_t>(state.range(0)) / sizeof(float), 1e-3F);
  AllReduceTask<float> task("bench", std::span(data), progress.size());
  measure(state, static_cast<double>(state.range(0)), 2 * share(), [&] { run(progress, task); });
  setting->progress.reset();
}

template <Transport Way>
void reduce_scatter(benchmark::State& state) {
  Progress& progress = setting->use(Way);
  const std::size_t n = static_cast<std::size_t>(state.range(0)) / sizeof(float);
  std::vector<float> data(n, 1e-3F);
  auto offsets = even_offsets(static_cast<std::int64_t>(n), progress.size());
  const auto rank = static_cast<std::size_t>(progress.rank());
  std::vector<float> shard(static_cast<std::size_t>(offsets[rank + 1] - offsets[rank]));
  ReduceScatterTask<float> task("bench", std::span<const float>(data), std::span(shard), offsets);
  measure(state, static_cast<double>(state.range(0)), share(), [&] { run(progress, task); });
  setting->progress.reset();
}

template <Transport Way>
void all_gather(benchmark::State& state) {
  Progress& progress = setting->use(Way);
  const std::size_t n = static_cast<std::size_t>(state.range(0)) / sizeof(float);
  std::vector<float> data(n, 1e-3F);
  auto offsets = even_offsets(static_cast<std::int64_t>(n), progress.size());
  const auto rank = static_cast<std::size_t>(progress.rank());
  const std::vector<float> shard(static_cast<std::size_t>(offsets[rank + 1] - offsets[rank]));
  AllGatherTask<float> task("bench", std::span(shard), std::span(data), offsets);
  measure(state, static_cast<double>(state.range(0)), share(), [&] { run(progress, task); });
  setting->progress.reset();
}

/// MPI_Allreduce; with a chunk, in place and that many bytes at a time.
template <int Chunk>
void mpi_all_reduce(benchmark::State& state) {
  std::vector<float> data(static_cast<std::size_t>(state.range(0)) / sizeof(float), 1e-3F);
  std::vector<float> sum(data.size());
  measure(state, static_cast<double>(state.range(0)), 2 * share(), [&] {
    if constexpr (Chunk == 0) {
      MPI_Allreduce(data.data(), sum.data(), static_cast<int>(data.size()), MPI_FLOAT, MPI_SUM,
                    MPI_COMM_WORLD);
    } else {
      constexpr std::size_t chunk = static_cast<std::size_t>(Chunk) / sizeof(float);
      for (std::size_t begin = 0; begin < data.size(); begin += chunk) {
        MPI_Allreduce(MPI_IN_PLACE, data.data() + begin,
                      static_cast<int>(std::min(chunk, data.size() - begin)), MPI_FLOAT, MPI_SUM,
                      MPI_COMM_WORLD);
      }
    }
  });
}

void roof_memcpy(benchmark::State& state) {
  std::vector<char> from(static_cast<std::size_t>(state.range(0)), 'x');
  std::vector<char> to(from.size());
  measure(state, static_cast<double>(state.range(0)), 1, [&] {
    std::memcpy(to.data(), from.data(), from.size());
    benchmark::DoNotOptimize(to.data());
  });
}

/// A transfer from rank 0 to rank 1 over one emulated link of 5 ms and 2 Gbit/s.
void shaped_transfer(benchmark::State& state) {
  constexpr double bandwidth = 0.25e9;
  constexpr Seconds latency = 5e-3;
  Progress& progress = setting->use(
      Transport::messages, NetworkShape::uniform(setting->world.size(), latency, bandwidth));
  const auto bytes = static_cast<Bytes>(state.range(0));
  std::vector<char> data(bytes, 'x');
  double best = 1e9;
  double total = 0;
  for (auto _ : state) {
    MPI_Barrier(MPI_COMM_WORLD);
    const auto begin = std::chrono::steady_clock::now();
    if (progress.rank() == 0) send(progress, "shaped", 1, std::span(data));
    if (progress.rank() == 1) receive(progress, "shaped", 0, std::span(data));
    double mine = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    double slowest = 0;
    MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    state.SetIterationTime(slowest);
    total += slowest;
    best = std::min(best, slowest);
  }
  const double model = latency + static_cast<double>(SendTask::cost(bytes).bytes) / bandwidth;
  state.SetBytesProcessed(static_cast<std::int64_t>(bytes) * state.iterations());
  state.counters["mean/model"] = total / (model * static_cast<double>(state.iterations()));
  state.counters["best/model"] = best / model;
  setting->progress.reset();
}

void sizes(benchmark::internal::Benchmark* bench) {
  for (const std::int64_t bytes : {64 << 10, 4 << 20, 64 << 20}) bench->Arg(bytes);
  bench->UseManualTime()->Iterations(repetitions)->Unit(benchmark::kMillisecond);
}

BENCHMARK(all_reduce<Transport::window>)->Name("all_reduce/window")->Apply(sizes);
BENCHMARK(all_reduce<Transport::messages>)->Name("all_reduce/messages")->Apply(sizes);
BENCHMARK(mpi_all_reduce<0>)->Name("rival/MPI_Allreduce")->Apply(sizes);
BENCHMARK(mpi_all_reduce<(1 << 20)>)->Name("rival/MPI_Allreduce_1MiB_chunks")->Apply(sizes);
BENCHMARK(mpi_all_reduce<(8 << 20)>)->Name("rival/MPI_Allreduce_8MiB_chunks")->Apply(sizes);
BENCHMARK(roof_memcpy)->Name("roof/memcpy")->Apply(sizes);
BENCHMARK(reduce_scatter<Transport::window>)->Name("reduce_scatter/window")->Apply(sizes);
BENCHMARK(reduce_scatter<Transport::messages>)->Name("reduce_scatter/messages")->Apply(sizes);
BENCHMARK(all_gather<Transport::window>)->Name("all_gather/window")->Apply(sizes);
BENCHMARK(all_gather<Transport::messages>)->Name("all_gather/messages")->Apply(sizes);

class Silent : public benchmark::BenchmarkReporter {
  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<Run>&) override {}
};

}  // namespace

int main(int argc, char** argv) {
  const Environment environment(argc, argv);
  Setting own;
  setting = &own;
  if (own.world.size() > 1) {
    BENCHMARK(shaped_transfer)
        ->Arg(64 << 10)
        ->Arg(1 << 20)
        ->Arg(16 << 20)
        ->UseManualTime()
        ->Iterations(repetitions)
        ->Unit(benchmark::kMillisecond);
  }
  benchmark::Initialize(&argc, argv);
  Silent silent;
  if (own.world.rank() == 0) {
    benchmark::RunSpecifiedBenchmarks();
  } else {
    benchmark::RunSpecifiedBenchmarks(&silent);
  }
  return 0;
}
