// The update of 100 million parameters in the 148 tensors of a GPT-2: each rule as Update runs it, and
// with the pass before it that sums squares, finds what is not finite, and so gives the clipping scale.
//
//   roof          a += b over the same arrays, on the same threads
//   plain_loop    what one would write: a loop over each tensor as gcc -O3 -fno-math-errno makes it

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <reef/device/sum_of_squares.hpp>
#include <reef/optim/adamw.hpp>
#include <reef/optim/detail/rule_kernel.hpp>
#include <reef/optim/momentum.hpp>
#include <reef/optim/sgd.hpp>

#include "support/compare.hpp"

namespace {

using namespace reef;
using device::Host;
using reef_bench::Bench;

struct Tensor {
  std::int64_t begin, size;
  bool decays;
};

/// GPT-2's 148 tensors with 12 layers of 768 channels; the vocabulary makes them 100 million.
std::vector<Tensor> tensors() {
  constexpr std::int64_t C = 768;
  std::vector<Tensor> all;
  std::int64_t at = 0;
  const auto add = [&](std::int64_t size, bool decays) {
    all.push_back({at, size, decays});
    at += (size + 15) / 16 * 16;
  };
  add(18432 * C, true);
  add(1024 * C, true);
  for (int layer = 0; layer < 12; ++layer) {
    for (const auto& [rows, columns] : {std::pair{C, 3 * C}, {C, C}, {C, 4 * C}, {4 * C, C}}) {
      add(rows * columns, true);
      add(columns, false);
    }
    for (int i = 0; i < 4; ++i) add(C, false);
  }
  add(C, false);
  add(C, false);
  return all;
}

/// Weights, gradients and two moments of all tensors, one after another in one arena as a Trainer has
/// them. Four allocations of equal size would lie at equal distances to a large power of two, where the
/// first cache of some processors (Zen's way predictor) cannot keep lines of all of them.
struct Arrays {
  explicit Arrays(Bench& bench)
      : list(tensors()),
        n(list.back().begin + list.back().size),
        arena(bench.floats(4 * n, 1e-3F)) {
    w = reef_bench::floats_of(arena);
    g = w + n;
    m = g + n;
    v = m + n;
    sums.resize(static_cast<std::size_t>((n + 4095) / 4096));
  }
  std::vector<Tensor> list;
  std::int64_t n;
  Host::Buffer arena;
  float *w, *g, *m, *v;
  std::vector<double> sums;
};

template <class Rule>
void update(Host::Lane& lane, const Arrays& a, const Rule& rule, float scale) {
  const auto decaying = rule.template coefficients<float>(7, 1e-3, true);
  const auto plain = rule.template coefficients<float>(7, 1e-3, false);
  for (const Tensor& tensor : a.list) {
    optim::detail::RuleKernel<Rule, float> kernel;
    kernel.weight = a.w + tensor.begin;
    kernel.g = a.g + tensor.begin;
    for (std::size_t k = 0; k < Rule::states; ++k) {
      kernel.state[k] = (k == 0 ? a.m : a.v) + tensor.begin;
    }
    kernel.scale = scale;
    kernel.c = tensor.decays ? decaying : plain;
    device::transform_vectors<float>(lane, tensor.size, kernel);
  }
}

double squares(Host::Lane& lane, Arrays& a) {
  device::block_sums_of_squares<float>(lane, a.n, a.g, a.sums.data());
  double sum = 0;
  for (const double block : a.sums) sum += block;
  return sum;
}

float clip_scale(double sum) { return sum > 1 ? static_cast<float>(1 / std::sqrt(sum)) : 1.0F; }

/// a += b over the weights and gradients, then over the moments: 24 bytes a parameter.
void roof(Host::Lane& lane, const Arrays& a) {
  reef_bench::add_to(lane, a.w, a.g, a.n);
  reef_bench::add_to(lane, a.m, a.v, a.n);
}

#define REEF_BENCH_UPDATE_LOOP \
  __attribute__((noinline, optimize("O3", "no-math-errno", "no-trapping-math"), target("avx2,fma")))

REEF_BENCH_UPDATE_LOOP void plain_adamw(float* __restrict w, const float* __restrict g,
                                        float* __restrict m, float* __restrict v, std::int64_t n,
                                        optim::AdamW::Coefficients<float> c, float scale) {
  for (std::int64_t i = 0; i < n; ++i) {
    const float gradient = scale * g[i];
    m[i] = c.beta1 * m[i] + c.one_minus_beta1 * gradient;
    v[i] = c.beta2 * v[i] + c.one_minus_beta2 * gradient * gradient;
    w[i] = c.keep * w[i] - c.step * m[i] / (sqrtf(v[i]) * c.root + c.epsilon);
  }
}

REEF_BENCH_UPDATE_LOOP void plain_momentum(float* __restrict w, const float* __restrict g,
                                           float* __restrict m, std::int64_t n, float beta,
                                           float lr, float scale) {
  for (std::int64_t i = 0; i < n; ++i) {
    m[i] = beta * m[i] + scale * g[i];
    w[i] -= lr * m[i];
  }
}

REEF_BENCH_UPDATE_LOOP void plain_sgd(float* __restrict w, const float* __restrict g,
                                      std::int64_t n, float lr, float scale) {
  for (std::int64_t i = 0; i < n; ++i) w[i] -= lr * scale * g[i];
}

REEF_BENCH_PLAIN_LOOP double plain_squares(const float* x, std::int64_t n) {
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return sum;
}

/// What reading alone takes: a sum of integers, which vectorises in any order.
REEF_BENCH_PLAIN_LOOP std::uint32_t read_all(const std::uint32_t* x, std::int64_t n) {
  std::uint32_t sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += x[i];
  return sum;
}

struct Case {
  const char* name;
  double bytes;  ///< of a parameter
  void (*ours)(Host::Lane&, Arrays&);
  void (*plain)(Host::Lane&, Arrays&);
};

template <class F>
void for_tensors(Host::Lane& lane, const Arrays& a, const F& function) {
  for (const Tensor& t : a.list) {
    reef_bench::split(lane, t.size, [&](std::int64_t begin, std::int64_t end) {
      function(t, t.begin + begin, end - begin);
    });
  }
}

void loop_adamw(Host::Lane& lane, Arrays& a, float scale) {
  const optim::AdamW rule;
  for_tensors(lane, a, [&](const Tensor& t, std::int64_t at, std::int64_t n) {
    plain_adamw(a.w + at, a.g + at, a.m + at, a.v + at, n,
                rule.coefficients<float>(7, 1e-3, t.decays), scale);
  });
}

double loop_squares(Host::Lane& lane, Arrays& a) {
  std::vector<double> sums(64);
  reef_bench::split(lane, a.n, [&](std::int64_t begin, std::int64_t end) {
    sums[static_cast<std::size_t>(begin * lane.threads() / a.n)] =
        plain_squares(a.g + begin, end - begin);
  });
  double sum = 0;
  for (const double part : sums) sum += part;
  return sum;
}

const Case cases[] = {
    {"adamw", 28, [](Host::Lane& l, Arrays& a) { update(l, a, optim::AdamW{}, 0.5F); },
     [](Host::Lane& l, Arrays& a) { loop_adamw(l, a, 0.5F); }},
    {"adamw_and_norm", 32,
     [](Host::Lane& l, Arrays& a) { update(l, a, optim::AdamW{}, clip_scale(squares(l, a))); },
     [](Host::Lane& l, Arrays& a) { loop_adamw(l, a, clip_scale(loop_squares(l, a))); }},
    {"momentum", 20, [](Host::Lane& l, Arrays& a) { update(l, a, optim::Momentum{}, 0.5F); },
     [](Host::Lane& l, Arrays& a) {
       for_tensors(l, a, [&](const Tensor&, std::int64_t at, std::int64_t n) {
         plain_momentum(a.w + at, a.g + at, a.m + at, n, 0.9F, 1e-3F, 0.5F);
       });
     }},
    {"sgd", 12, [](Host::Lane& l, Arrays& a) { update(l, a, optim::Sgd{}, 0.5F); },
     [](Host::Lane& l, Arrays& a) {
       for_tensors(l, a, [&](const Tensor&, std::int64_t at, std::int64_t n) {
         plain_sgd(a.w + at, a.g + at, n, 1e-3F, 0.5F);
       });
     }},
};

constexpr int rounds = 9;

void register_all() {
  for (const int threads : {1, 2}) {
    const std::string suffix = "/threads:" + std::to_string(threads);
    for (const Case& c : cases) {
      reef_bench::add(c.name + suffix, rounds, [&c, threads](benchmark::State& state) {
        Bench bench(threads);
        Arrays a(bench);
        const auto n = static_cast<double>(a.n);
        reef_bench::compare(
            state, [&] { return bench.seconds([&](Host::Lane& l) { c.ours(l, a); }); },
            {{"roof", [&] { return bench.seconds([&](Host::Lane& l) { roof(l, a); }); },
              c.bytes / 24},
             {"plain_loop", [&] { return bench.seconds([&](Host::Lane& l) { c.plain(l, a); }); }}},
            {.bytes = c.bytes * n});
      });
    }
    reef_bench::add("sum_of_squares" + suffix, rounds, [threads](benchmark::State& state) {
      Bench bench(threads);
      Arrays a(bench);
      const auto on_lane = [&](const auto& work) {
        return [&bench, work] { return bench.seconds(work); };
      };
      reef_bench::compare(
          state, on_lane([&](Host::Lane& l) { benchmark::DoNotOptimize(squares(l, a)); }),
          {{"roof", on_lane([&](Host::Lane& l) {
              reef_bench::split(l, a.n, [&](std::int64_t begin, std::int64_t end) {
                benchmark::DoNotOptimize(
                    read_all(reinterpret_cast<const std::uint32_t*>(a.g) + begin, end - begin));
              });
            })},
           {"plain_loop",
            on_lane([&](Host::Lane& l) { benchmark::DoNotOptimize(loop_squares(l, a)); })}},
          {.bytes = 4.0 * static_cast<double>(a.n)});
    });
  }
}

}  // namespace

int main(int argc, char** argv) { return reef_bench::run(argc, argv, register_all); }
