#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <benchmark/benchmark.h>

#include <reef/device/host.hpp>
#include <reef/device/transform.hpp>

#include "support/measure.hpp"

/// What all benchmarks share: rounds in which ours, its rivals and its roof run in turn.
namespace reef_bench {

/// `inline` code as gcc -O3 would make it of a plain loop for a machine with AVX2, whatever the flags of
/// the build: what a user would write instead.
#define REEF_BENCH_PLAIN_LOOP __attribute__((noinline, optimize("O3"), target("avx2,fma")))

/// What runs beside ours. `share` is ours in its units: it moves 24 bytes where ours moves 28, say,
/// so share = 28.0 / 24.
struct Contender {
  std::string name;  ///< "roof", or the rival's name
  std::function<double()> seconds;
  double share = 1;
};

struct Amount {
  double bytes = 0;
  double flops = 0;
  double items = 0;
};

/// What a round measures beside its times, by name.
using Notes = std::map<std::string, std::vector<double>>;

/// Runs all in turn, once per iteration after one round that is not counted; each round starts with
/// another, and the time of an entry is that of ours.
///
/// | of_NAME      | median over rounds of (contender's seconds * share / ours): of_roof is the part of  |
/// |              | the roof that is reached, of_RIVAL above 1 says that ours is faster                  |
/// | GB/s, GFLOP/s, M/s | of `amount`, by the median of ours                                           |
/// | notes        | medians over rounds, under their names                                            |
inline void compare(benchmark::State& state, const std::function<double()>& ours,
                    const std::vector<Contender>& contenders, const Amount& amount,
                    Notes* notes = nullptr) {
  std::vector<double> own;
  std::vector<std::vector<double>> ratios(contenders.size());
  ours();
  for (const Contender& contender : contenders) contender.seconds();
  if (notes != nullptr) notes->clear();
  std::size_t round = 0;
  for (auto _ : state) {
    std::vector<double> took(contenders.size() + 1);
    for (std::size_t i = 0; i < took.size(); ++i) {
      const std::size_t which = (round + i) % took.size();
      took[which] = which == 0 ? ours() : contenders[which - 1].seconds();
    }
    state.SetIterationTime(took[0]);
    own.push_back(took[0]);
    for (std::size_t i = 0; i < contenders.size(); ++i) {
      ratios[i].push_back(took[i + 1] * contenders[i].share / took[0]);
    }
    ++round;
  }
  const double typical = median(own);
  if (amount.bytes > 0) state.counters["GB/s"] = amount.bytes / typical * 1e-9;
  if (amount.flops > 0) state.counters["GFLOP/s"] = amount.flops / typical * 1e-9;
  if (amount.items > 0) state.counters["M/s"] = amount.items / typical * 1e-6;
  for (std::size_t i = 0; i < contenders.size(); ++i) {
    state.counters["of_" + contenders[i].name] = median(ratios[i]);
  }
  if (notes == nullptr) return;
  for (const auto& [name, values] : *notes) state.counters[name] = median(values);
}

/// Registers `body` under a name; `rounds` are its iterations.
inline void add(const std::string& name, int rounds,
                const std::function<void(benchmark::State&)>& body,
                benchmark::TimeUnit unit = benchmark::kMillisecond) {
  benchmark::RegisterBenchmark(name.c_str(), [body](benchmark::State& state) { body(state); })
      ->UseManualTime()
      ->Unit(unit)
      ->Iterations(rounds);
}

/// `work` by itself takes too little to be timed: the mean of so many calls.
template <class F>
std::function<double()> repeated(int times, F work) {
  return [times, work] {
    return seconds_of([&] {
             for (int i = 0; i < times; ++i) work();
           }) /
           times;
  };
}

/// A host device with its compute lane.
class Bench {
public:
  using Host = reef::device::Host;
  using Work = std::function<void(Host::Lane&)>;

  explicit Bench(int threads) : host({.threads = threads}), lane(host, "compute") {}

  /// Seconds of `work` on the lane's thread.
  double seconds(const Work& work) {
    double took = 0;
    lane.submit([&](Host::Lane& l) { took = seconds_of([&] { work(l); }); });
    lane.synchronize();
    return took;
  }

  /// `n` floats of the device, on huge pages where they are many, all `value`.
  Host::Buffer floats(std::int64_t n, float value = 0.5F) {
    Host::Buffer buffer = host.allocate(static_cast<reef::Bytes>(n) * sizeof(float), "benchmark");
    std::fill_n(static_cast<float*>(buffer.data()), n, value);
    return buffer;
  }

  Host host;
  Host::Lane lane;
};

inline float* floats_of(const reef::device::Host::Buffer& buffer) {
  return static_cast<float*>(buffer.data());
}

struct AddTo {
  float* a;
  const float* b;
  REEF_RULE template <class At>
  REEF_ALWAYS_INLINE REEF_HOST_DEVICE void operator()(const At& at) const {
    at.store(a, at.load(a) + at.load(b));
  }
};

/// The roof of what reads and writes: a += b over n floats on the same threads, 12 bytes each.
inline void add_to(Bench::Host::Lane& lane, float* a, const float* b, std::int64_t n) {
  reef::device::transform_vectors<float>(lane, n, AddTo{a, b});
}

/// function(begin, end) of equal parts of [0, n), one for each thread: how a plain loop is shared out.
template <class F>
void split(Bench::Host::Lane& lane, std::int64_t n, const F& function) {
  const std::int64_t parts = lane.threads();
  lane.parallel(parts,
                [&](std::int64_t part) { function(n * part / parts, n * (part + 1) / parts); });
}

/// The main of a program whose benchmarks `register_all` registers; `display` instead of the usual one,
/// of a process that says nothing, as another does.
inline int run(int argc, char** argv, void (*register_all)(),
               benchmark::BenchmarkReporter* display = nullptr) {
  register_all();
  benchmark::Initialize(&argc, argv);
  if (argc > 1) {
    if (display == nullptr) benchmark::ReportUnrecognizedArguments(argc, argv);
    return 1;
  }
  benchmark::AddCustomContext("instruction_set",
                              std::string(reef::device::name_of(reef::device::instruction_set())));
  benchmark::RunSpecifiedBenchmarks(display);
  benchmark::Shutdown();
  return 0;
}

}  // namespace reef_bench
