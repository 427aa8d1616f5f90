// What it takes to cut a chain of operators into sub-models that are swapped: GPT-3's 96 blocks at five
// operators each, with an embedding and a head, 482; and a thousand.
//
//   roof     every pair of bounds is looked at once: an addition and a comparison for each
//   loops    the recurrence of `full` as one would write it down: three loops, and no order in which states
//            are looked up. Of the other variants it is no rival, but a measure

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <reef/plan/partition_chain.hpp>

#include "support/compare.hpp"

namespace {

using namespace reef;
using plan::OperatorChain;
using plan::Ticks;
using plan::Variant;

/// Figures of 175 B parameters on a V100 behind 12 GB/s, in microseconds; more operators are more blocks.
OperatorChain gpt3(int operators) {
  constexpr double channels = 12288;
  constexpr double context = 2048;
  const auto add = [](OperatorChain& chain, double parameters, double flops, double outputs) {
    plan::ChainOperator o;
    o.weights = o.gradients = static_cast<Bytes>(4 * parameters);
    o.forward_workspace = static_cast<Bytes>(8 * outputs);
    o.backward_workspace = static_cast<Bytes>(16 * outputs);
    o.forward = static_cast<Ticks>(flops / 7.85e12 * 1e6);
    o.backward = 2 * o.forward;
    o.load = static_cast<Ticks>(4 * parameters / 12e9 * 1e6);
    o.leave_backward = o.load;
    chain.operators.push_back(o);
    chain.cut.push_back(static_cast<Bytes>(4 * outputs));
  };
  constexpr double c2 = channels * channels;
  constexpr double rows = context * channels;
  OperatorChain chain;
  chain.cut.push_back(0);
  add(chain, 50257 * channels, rows, rows);
  for (int i = 0; chain.size() + 1 < operators; ++i) {
    const int kind = i % 5;
    const double parameters[] = {3 * c2, 0, c2, 4 * c2, 4 * c2};
    const double flops[] = {6 * context * c2, 4 * context * context * channels, 2 * context * c2,
                            8 * context * c2, 8 * context * c2};
    const double outputs[] = {4 * rows, 2 * rows, rows, 5 * rows, rows};
    add(chain, parameters[kind], flops[kind], outputs[kind]);
  }
  add(chain, 50257 * channels, 2 * context * channels * 50257, 1);
  chain.cut.back() = 0;
  return chain;
}

constexpr std::int64_t accumulation = 4;
constexpr Bytes memory = Bytes{80} << 30;

/// Sums and the largest workspaces of [a, b), by a and b.
struct Ranges {
  explicit Ranges(const OperatorChain& chain) : n(chain.size()) {
    const auto cells = static_cast<std::size_t>((n + 1) * (n + 1));
    for (auto* table : {&weights, &forward, &backward, &load, &in_forward, &in_backward})
      table->assign(cells, 0);
    for (int a = 0; a < n; ++a) {
      for (int b = a; b < n; ++b) {
        const plan::ChainOperator& o = chain.operators[static_cast<std::size_t>(b)];
        const auto grow = [&](auto& table, std::int64_t by) {
          table[at(a, b + 1)] = table[at(a, b)] + by;
        };
        grow(weights, static_cast<std::int64_t>(o.weights));
        grow(forward, o.forward);
        grow(backward, o.backward);
        grow(load, o.load);
        in_forward[at(a, b + 1)] =
            std::max(in_forward[at(a, b)], static_cast<std::int64_t>(o.forward_workspace));
        in_backward[at(a, b + 1)] =
            std::max(in_backward[at(a, b)], static_cast<std::int64_t>(o.backward_workspace));
      }
    }
  }
  [[nodiscard]] std::size_t at(int a, int b) const {
    return static_cast<std::size_t>(a) * static_cast<std::size_t>(n + 1) +
           static_cast<std::size_t>(b);
  }
  int n;
  std::vector<std::int64_t> weights, forward, backward, load, in_forward, in_backward;
};

/// The bytes through all cuts of the best partition.
std::int64_t loops(const OperatorChain& chain) {
  const Ranges r(chain);
  constexpr std::int64_t none = std::numeric_limits<std::int64_t>::max();
  const auto room = static_cast<std::int64_t>(memory);
  std::vector<std::int64_t> best(r.weights.size(), none);
  for (int b = 1; b < r.n; ++b) best[r.at(0, b)] = 0;
  for (int b = 1; b < r.n; ++b) {
    for (int d = b + 1; d <= r.n; ++d) {
      for (int a = 0; a < b; ++a) {
        const std::size_t first = r.at(a, b);
        const std::size_t second = r.at(b, d);
        const std::int64_t both = r.weights[first] + r.weights[second];
        if (best[first] == none || accumulation * r.forward[first] < r.load[second] ||
            accumulation * r.backward[second] < r.load[first] ||
            both + r.in_forward[first] > room ||
            both + r.weights[second] + r.in_backward[second] > room) {
          continue;
        }
        best[second] = std::min(
            best[second],
            best[first] + static_cast<std::int64_t>(chain.cut[static_cast<std::size_t>(b)]));
      }
    }
  }
  std::int64_t least = none;
  for (int b = 1; b < r.n; ++b) least = std::min(least, best[r.at(b, r.n)]);
  return least;
}

/// Reads n^2 / 2 numbers that are there.
std::int64_t look_at_pairs(const std::vector<std::int64_t>& sums) {
  std::int64_t most = 0;
  for (std::size_t a = 0; a < sums.size(); ++a) {
    for (std::size_t b = a; b < sums.size(); ++b) most = std::max(most, sums[b] - sums[a]);
  }
  return most;
}

void register_all() {
  for (const int operators : {482, 1000}) {
    for (const Variant variant : {Variant::paper, Variant::full, Variant::turn, Variant::soft,
                                  Variant::stash, Variant::three}) {
      const bool slow = plan::stashes(variant) || plan::keeps_three(variant);
      const std::string name(plan::name_of(variant));
      reef_bench::add(
          name + "/operators:" + std::to_string(operators), slow ? 3 : 9,
          [=](benchmark::State& state) {
            const OperatorChain chain = gpt3(operators);
            std::vector<std::int64_t> sums{0};
            for (const auto& o : chain.operators) sums.push_back(sums.back() + o.forward);
            const auto timed = [](auto function) {
              return [function] { return reef_bench::seconds_of(function); };
            };
            reef_bench::compare(
                state, timed([&] {
                  benchmark::DoNotOptimize(
                      plan::partition_chain(chain, {memory, accumulation, variant}));
                }),
                {{"roof", timed([&] { benchmark::DoNotOptimize(look_at_pairs(sums)); })},
                 {"loops", timed([&] { benchmark::DoNotOptimize(loops(chain)); })}},
                {.items = static_cast<double>(operators)});
          });
    }
  }
}

}  // namespace

int main(int argc, char** argv) { return reef_bench::run(argc, argv, register_all); }
