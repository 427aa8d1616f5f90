// What a lane and the pool cost, and how near one pass over memory comes to the memory.
//
//   thousand_functions   1000 functions submitted and done. roof: calls of a std::function; condition: a
//                        thread with a deque, a mutex and a condition variable
//   event_ping_pong      two lanes that wait for each other, 100 times there and back. condition: two
//                        threads, a mutex and a condition variable
//   empty_parallel       a fork and a join. roof: two atomic operations by one thread; threads: a
//                        std::thread made and joined
//   adamw, sums, copy    roof: a += b over as many bytes; plain_loop, memcpy: on equal parts

#include <atomic>
#include <cmath>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <reef/device/sum_of_squares.hpp>

#include "support/compare.hpp"

namespace {

using namespace reef;
using device::Host;
using reef_bench::Bench;
using reef_bench::seconds_of;

constexpr int functions = 1000;
constexpr int turns = 100;
constexpr int threads = 2;

/// A lane as one would write it.
class Condition {
public:
  Condition() : thread_([this] { work(); }) {}
  ~Condition() {
    submit({});
    thread_.join();
  }
  Condition(const Condition&) = delete;
  Condition& operator=(const Condition&) = delete;

  /// An empty function ends it.
  void submit(std::function<void()> function) {
    {
      const std::lock_guard lock(mutex_);
      queue_.push_back(std::move(function));
    }
    changed_.notify_all();
  }
  void synchronize() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return queue_.empty(); });
  }

private:
  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return !queue_.empty(); });
      if (!queue_.front()) return;
      lock.unlock();
      queue_.front()();  // a deque leaves the others where they are
      lock.lock();
      queue_.pop_front();
      if (queue_.empty()) changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  std::thread thread_;
};

void thousand_functions(benchmark::State& state) {
  Host host({.threads = 1});
  Host::Lane lane(host, "lane");
  Condition condition;
  std::int64_t runs = 0;
  const std::vector<std::function<void()>> calls(functions,
                                                 [&runs] { benchmark::DoNotOptimize(++runs); });
  reef_bench::compare(state,
                      [&] {
                        return seconds_of([&] {
                          for (int i = 0; i < functions; ++i)
                            lane.submit([&runs](Host::Lane&) { ++runs; });
                          lane.synchronize();
                        });
                      },
                      {{"roof",
                        [&] {
                          return seconds_of([&] {
                            for (const auto& call : calls) call();
                          });
                        }},
                       {"condition",
                        [&] {
                          return seconds_of([&] {
                            for (int i = 0; i < functions; ++i)
                              condition.submit([&runs] { ++runs; });
                            condition.synchronize();
                          });
                        }}},
                      {.items = functions});
}

/// Two threads that take turns by a mutex and a condition variable.
void condition_turns() {
  std::mutex mutex;
  std::condition_variable changed;
  int turn = 0;
  const auto play = [&](int parity) {
    for (int i = 0; i < turns; ++i) {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return turn % 2 == parity; });
      ++turn;
      changed.notify_all();
    }
  };
  std::thread other([&] { play(1); });
  play(0);
  other.join();
}

void event_ping_pong(benchmark::State& state) {
  Host host({.threads = 1});
  Host::Lane first(host, "first");
  Host::Lane second(host, "second");
  Host::Event ping(host);
  Host::Event pong(host);
  std::uint64_t epoch = 0;
  reef_bench::compare(state,
                      [&] {
                        return seconds_of([&] {
                          for (int i = 0; i < turns; ++i) {
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
                        });
                      },
                      {{"condition", [] { return seconds_of(condition_turns); }}},
                      {.items = turns});
}

void empty_parallel(benchmark::State& state) {
  Bench bench(threads);
  std::atomic<int> count{0};
  constexpr int times = 100;
  reef_bench::compare(state,
                      [&] {
                        return bench.seconds([](Host::Lane& lane) {
                          for (int i = 0; i < times; ++i)
                            lane.parallel(threads, [](std::int64_t) {});
                        }) / times;
                      },
                      {{"roof", reef_bench::repeated(times,
                                                     [&] {
                                                       count.fetch_add(1);
                                                       count.fetch_sub(1);
                                                     })},
                       {"threads", reef_bench::repeated(times, [] { std::thread([] {}).join(); })}},
                      {.items = 1});
}

// -- memory --------------------------------------------------------------------------------------

constexpr std::int64_t n = 1 << 23;

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

REEF_BENCH_PLAIN_LOOP void plain_adamw(float* __restrict w, float* __restrict m,
                                       float* __restrict v, const float* __restrict g,
                                       std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    m[i] = 0.9F * m[i] + 0.1F * g[i];
    v[i] = 0.95F * v[i] + 0.05F * g[i] * g[i];
    w[i] -= 1e-3F * (m[i] / (sqrtf(v[i]) + 1e-8F) + 0.1F * w[i]);
  }
}

REEF_BENCH_PLAIN_LOOP double plain_squares(const float* x, std::int64_t count) {
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  }
  return sum;
}

using Pass = std::function<void(Host::Lane&, float*)>;

/// `ours` and `rival` over four arrays of n at `x`; `bytes` an element.
void over_memory(benchmark::State& state, double bytes, const char* rival_name, const Pass& ours,
                 const std::function<void(float*, std::int64_t, std::int64_t)>& rival) {
  Bench bench(threads);
  const auto memory = bench.floats(4 * n);
  float* const x = reef_bench::floats_of(memory);
  reef_bench::compare(
      state, [&] { return bench.seconds([&](Host::Lane& lane) { ours(lane, x); }); },
      {{"roof",
        [&] {
          return bench.seconds([&](Host::Lane& lane) { reef_bench::add_to(lane, x, x + n, n); });
        },
        bytes / 12},
       {rival_name,
        [&] {
          return bench.seconds([&](Host::Lane& lane) {
            reef_bench::split(lane, n, [&](std::int64_t begin, std::int64_t end) {
              rival(x, begin, end - begin);
            });
          });
        }}},
      {.bytes = bytes * static_cast<double>(n)});
}

void adamw(benchmark::State& state) {
  over_memory(
      state, 28, "plain_loop",
      [](Host::Lane& lane, float* x) {
        device::transform_vectors<float>(lane, n, AdamWLike{x, x + n, x + 2 * n, x + 3 * n});
      },
      [](float* x, std::int64_t at, std::int64_t count) {
        plain_adamw(x + at, x + n + at, x + 2 * n + at, x + 3 * n + at, count);
      });
}

void block_sums_of_squares(benchmark::State& state) {
  std::vector<double> sums(n / 4096);
  over_memory(
      state, 4, "plain_loop",
      [&](Host::Lane& lane, float* x) {
        device::block_sums_of_squares<float>(lane, n, x, sums.data());
      },
      [](float* x, std::int64_t at, std::int64_t count) {
        benchmark::DoNotOptimize(plain_squares(x + at, count));
      });
}

void copy_on_device(benchmark::State& state) {
  over_memory(
      state, 8, "memcpy",
      [](Host::Lane& lane, float* x) {
        lane.copy(x + n, x, static_cast<Bytes>(n) * sizeof(float), device::Copy::on_device);
      },
      [](float* x, std::int64_t at, std::int64_t count) {
        std::memcpy(x + n + at, x + at, static_cast<std::size_t>(count) * sizeof(float));
      });
}

void register_all() {
  reef_bench::add("thousand_functions", 101, thousand_functions);
  reef_bench::add("event_ping_pong", 51, event_ping_pong);
  reef_bench::add("empty_parallel", 101, empty_parallel);
  reef_bench::add("adamw", 15, adamw);
  reef_bench::add("block_sums_of_squares", 15, block_sums_of_squares);
  reef_bench::add("copy_on_device", 15, copy_on_device);
}

}  // namespace

int main(int argc, char** argv) { return reef_bench::run(argc, argv, register_all); }
