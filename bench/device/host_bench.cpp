// What a lane costs, and how near an update rule and a norm come to the memory. Rivals in the same run:
// a += b over as many bytes, memcpy.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include <reef/device/host.hpp>
#include <reef/device/sum_of_squares.hpp>
#include <reef/device/transform.hpp>

namespace {

using namespace reef;
using device::Host;

Host& host() {
  static Host host;
  return host;
}

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// 1000 functions submitted and done: the law is 0.2 ms.
void thousand_functions(benchmark::State& state) {
  Host::Lane lane(host(), "compute");
  std::int64_t runs = 0;
  for (auto _ : state) {
    for (int i = 0; i < 1000; ++i) lane.submit([&runs](Host::Lane&) { ++runs; });
    lane.synchronize();
  }
  benchmark::DoNotOptimize(runs);
}
BENCHMARK(thousand_functions)->Unit(benchmark::kMicrosecond)->UseRealTime()->Iterations(200);

// Two lanes that wait for each other, 100 times there and back.
void event_ping_pong(benchmark::State& state) {
  Host::Lane first(host(), "first");
  Host::Lane second(host(), "second");
  Host::Event ping(host());
  Host::Event pong(host());
  std::uint64_t epoch = 0;
  for (auto _ : state) {
    for (int i = 0; i < 100; ++i) {
      ++epoch;
      first.submit([&, epoch](Host::Lane& lane) {
        lane.record(ping);
        lane.wait(pong, epoch);
      });
      second.submit([&, epoch](Host::Lane& lane) {
        lane.wait(ping, epoch);
        lane.record(pong);
      });
    }
    first.synchronize();
    second.synchronize();
  }
}
BENCHMARK(event_ping_pong)->Unit(benchmark::kMicrosecond)->UseRealTime()->Iterations(50);

// A fork and a join of the pool.
void empty_parallel(benchmark::State& state) {
  Host::Lane lane(host(), "compute");
  for (auto _ : state) {
    double took = 0;
    lane.submit([&took](Host::Lane& l) {
      const double begin = seconds();
      for (int i = 0; i < 100; ++i) l.parallel(2, [](std::int64_t) {});
      took = (seconds() - begin) / 100;
    });
    lane.synchronize();
    state.SetIterationTime(took);
  }
}
BENCHMARK(empty_parallel)->Unit(benchmark::kNanosecond)->UseManualTime()->Iterations(200);

struct AddTo {
  float* a;
  const float* b;
  REEF_RULE template <class At>
  REEF_ALWAYS_INLINE REEF_HOST_DEVICE void operator()(const At& at) const {
    at.store(a, at.load(a) + at.load(b));
  }
};

struct AdamWLike {
  float* w;
  float* m;
  float* v;
  const float* g;
  REEF_RULE template <class At>
  REEF_ALWAYS_INLINE REEF_HOST_DEVICE void operator()(const At& at) const {
    using device::fma;
    using device::sqrt;
    using V = typename At::Vector;
    const V gradient = at.load(g);
    const V first = fma(V(0.9F), at.load(m), V(0.1F) * gradient);
    const V second = fma(V(0.95F), at.load(v), V(0.05F) * gradient * gradient);
    const V weight = at.load(w);
    at.store(m, first);
    at.store(v, second);
    at.store(w, fma(V(-1e-3F), first / (sqrt(second) + V(1e-8F)) + V(0.1F) * weight, weight));
  }
};

double on_lane(Host::Lane& lane, const std::function<void(Host::Lane&)>& work) {
  double took = 0;
  lane.submit([&](Host::Lane& l) {
    const double begin = seconds();
    work(l);
    took = seconds() - begin;
  });
  lane.synchronize();
  return took;
}

// `of_rival`: our bytes a second over those of a += b, best times of interleaved rounds.
void against_memory(benchmark::State& state, double bytes,
                    const std::function<void(Host::Lane&, float*, std::int64_t)>& work) {
  constexpr std::int64_t n = 1 << 23;
  Host::Lane lane(host(), "compute");
  const auto memory = host().allocate(4 * n * sizeof(float), "arrays");
  auto* const x = static_cast<float*>(memory.data());
  std::fill_n(x, 4 * n, 0.5F);
  double best = std::numeric_limits<double>::infinity();
  double rival = best;
  for (auto _ : state) {
    rival = std::min(rival, on_lane(lane, [&](Host::Lane& l) {
                       device::transform_vectors<float>(l, n, AddTo{x, x + n});
                     }));
    const double took = on_lane(lane, [&](Host::Lane& l) { work(l, x, n); });
    best = std::min(best, took);
    state.SetIterationTime(took);
  }
  state.counters["GB/s"] = bytes * n / best * 1e-9;
  state.counters["of_rival"] = bytes / 12.0 * rival / best;
}

void adamw(benchmark::State& state) {
  against_memory(state, 28, [](Host::Lane& lane, float* x, std::int64_t n) {
    device::transform_vectors<float>(lane, n, AdamWLike{x, x + n, x + 2 * n, x + 3 * n});
  });
}
BENCHMARK(adamw)->Unit(benchmark::kMillisecond)->UseManualTime()->Iterations(15);

void block_sums_of_squares(benchmark::State& state) {
  std::vector<double> sums((1 << 23) / 4096);
  against_memory(state, 4, [&](Host::Lane& lane, float* x, std::int64_t n) {
    device::block_sums_of_squares<float>(lane, n, x, sums.data());
  });
}
BENCHMARK(block_sums_of_squares)->Unit(benchmark::kMillisecond)->UseManualTime()->Iterations(15);

void copy_on_device(benchmark::State& state) {
  against_memory(state, 8, [](Host::Lane& lane, float* x, std::int64_t n) {
    lane.copy(x + n, x, static_cast<Bytes>(n) * sizeof(float), device::Copy::on_device);
  });
}
BENCHMARK(copy_on_device)->Unit(benchmark::kMillisecond)->UseManualTime()->Iterations(15);

}  // namespace

BENCHMARK_MAIN();
