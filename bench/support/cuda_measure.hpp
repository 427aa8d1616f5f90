#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include <benchmark/benchmark.h>

#include <reef/device/cuda.hpp>

/// What is measured on a lane of a GPU, beside a rival in the same run.
namespace reef_bench {

/// Device memory of zeros: no kernel's time depends on its numbers.
class Numbers {
public:
  Numbers(reef::device::Cuda& cuda, reef::device::Cuda::Lane& lane, std::int64_t count)
      : buffer_(cuda.allocate(static_cast<reef::Bytes>(count) * sizeof(float), "numbers")) {
    lane.submit([this](reef::device::Cuda::Lane& self) {
      self.fill_zero(buffer_.data(), buffer_.bytes());
    });
    lane.synchronize();
  }
  template <class U>
  operator U*() const {  // NOLINT: as a kernel takes it
    return static_cast<U*>(buffer_.data());
  }

private:
  reef::device::Cuda::Buffer buffer_;
};

/// Seconds of one call: the best of five batches, each long enough that its end does not count. What is cold is
/// so in a batch that is too short.
template <class F>
double best(reef::device::Cuda::Lane& lane, const F& function) {
  double seconds = std::numeric_limits<double>::infinity();
  std::int64_t calls = 1;
  bool warm = false;
  for (int batch = 0; batch < 5;) {
    const auto begin = std::chrono::steady_clock::now();
    lane.submit([&](reef::device::Cuda::Lane& self) {
      for (std::int64_t i = 0; i < calls; ++i) function(self);
    });
    lane.synchronize();
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    if (!std::exchange(warm, true)) continue;
    if (taken.count() < 0.02) {
      calls *= 2;
      continue;
    }
    seconds = std::min(seconds, taken.count() / static_cast<double>(calls));
    ++batch;
  }
  return seconds;
}

/// Registers `name`: `amount` of `unit` in a call of `function`, and `of_rival`, the rival's time over ours: 1 is
/// equal, more is faster. The label says what the rival is.
template <class F, class Rival>
void add_beside(reef::device::Cuda::Lane& lane, const std::string& name, F function, Rival rival,
                const std::string& label, double amount, const char* unit) {
  benchmark::RegisterBenchmark(name.c_str(),
                               [=, &lane](benchmark::State& state) {
                                 const double theirs = best(lane, rival);
                                 double ours = 0;
                                 for (auto _ : state) {
                                   ours = best(lane, function);
                                   state.SetIterationTime(ours);
                                 }
                                 state.counters[unit] = amount / ours;
                                 state.counters["of_rival"] = theirs / ours;
                                 state.SetLabel(label);
                               })
      ->UseManualTime()
      ->Iterations(1)
      ->Unit(benchmark::kMicrosecond);
}

}  // namespace reef_bench
