// Random numbers by counter, in order, a million at a time: uniform words, uniform floats, normal numbers.
//
//   roof          memset of as many bytes
//   mt19937       std::mt19937, with std::normal_distribution for normal numbers

#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include <reef/core/random.hpp>

#include "support/compare.hpp"

namespace {

using namespace reef;

constexpr std::size_t n = 1 << 20;
constexpr int rounds = 31;

template <class T, class Ours, class Rival>
void numbers(const char* name, const Ours& ours, const Rival& rival) {
  reef_bench::add(name, rounds, [=](benchmark::State& state) {
    std::vector<T> to(n);
    const auto timed = [&](const auto& fill) {
      return [&to, fill] {
        return reef_bench::seconds_of([&] {
          fill(to);
          benchmark::ClobberMemory();
        });
      };
    };
    reef_bench::compare(
        state, timed(ours),
        {{"roof", timed([](std::vector<T>& x) { std::memset(x.data(), 1, n * sizeof(T)); })},
         {"mt19937", timed(rival)}},
        {.bytes = n * sizeof(T), .items = n});
  });
}

constexpr DrawKey key{.seed = 1, .sample = 2, .draw = 3, .op = 4};

/// function(element, word) of every element, four of a block at once.
template <class T, class F>
void by_blocks(std::vector<T>& x, const F& function) {
  const RandomStream stream(key);
  for (std::size_t i = 0; i < n; i += 4) {
    const Philox block = stream.block(i / 4);
    for (std::size_t j = 0; j < 4; ++j) x[i + j] = function(block.word[j]);
  }
}

void register_all() {
  numbers<std::uint32_t>(
      "words", [](auto& x) { by_blocks(x, [](std::uint32_t word) { return word; }); },
      [](auto& x) {
        std::mt19937 engine(1);
        for (auto& value : x) value = static_cast<std::uint32_t>(engine());
      });
  numbers<float>(
      "uniform", [](auto& x) { by_blocks(x, uniform_from); },
      [](auto& x) {
        std::mt19937 engine(1);
        std::uniform_real_distribution<float> uniform;
        for (auto& value : x) value = uniform(engine);
      });
  numbers<double>(
      "normal", [](auto& x) { by_blocks(x, normal_from); },
      [](auto& x) {
        std::mt19937 engine(1);
        std::normal_distribution<double> normal;
        for (auto& value : x) value = normal(engine);
      });
  // One element by its index alone: what initialisers of shards and resumed samplers do.
  numbers<std::uint32_t>(
      "words_by_index",
      [](auto& x) {
        for (std::size_t i = 0; i < n; ++i) x[i] = random_bits(key, i);
      },
      [](auto& x) {
        std::mt19937 engine(1);
        for (auto& value : x) value = static_cast<std::uint32_t>(engine());
      });
}

}  // namespace

int main(int argc, char** argv) { return reef_bench::run(argc, argv, register_all); }
