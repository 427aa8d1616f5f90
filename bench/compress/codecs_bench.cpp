// Encoding and decoding numbers of a normal distribution. GB/s are of the fp32 side.
//
//   roof          memcpy of the numbers, on equal parts by the same threads
//   nth_element   top_k: std::nth_element of a copy by magnitude, the numbers above and their indices; one thread
//
// Counters: bits a number of the whole message; of top_k also those that an index takes, and the entropy's bound.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <reef/codec.hpp>
#include <reef/core/random.hpp>
#include <reef/device/for_each.hpp>

#include "support/compare.hpp"

namespace {

using namespace reef;
using device::Host;
using reef_bench::Bench;

constexpr std::int64_t million = std::int64_t{1} << 20;

/// The numbers, room for as many, and for a message.
struct Arrays {
  Arrays(Bench& bench, std::int64_t n)
      : from(bench.floats(n)), to(bench.floats(n)), message(static_cast<std::size_t>(4 * n + 4096)) {
    bench.seconds([&](Host::Lane& lane) {
      device::for_each_index(lane, n, [x = reef_bench::floats_of(from)](std::int64_t i) {
        x[i] = static_cast<float>(normal({.seed = 1}, static_cast<std::uint64_t>(i)));
      });
    });
    values = {reef_bench::floats_of(from), static_cast<std::size_t>(n)};
    decoded = {reef_bench::floats_of(to), static_cast<std::size_t>(n)};
  }

  Host::Buffer from;
  Host::Buffer to;
  std::vector<std::byte> message;
  std::span<const float> values;
  std::span<float> decoded;
};

void copy(Host::Lane& lane, const Arrays& arrays) {
  reef_bench::split(lane, std::ssize(arrays.values), [&](std::int64_t begin, std::int64_t end) {
    std::memcpy(arrays.decoded.data() + begin, arrays.values.data() + begin,
                static_cast<std::size_t>(end - begin) * sizeof(float));
  });
}

/// What one would write: a copy of all magnitudes, the k-th of them, and a scan. Returns how many were found.
std::size_t by_nth_element(std::span<const float> values, std::size_t k, std::vector<float>& magnitudes,
                           std::vector<std::pair<std::uint32_t, float>>& kept) {
  std::transform(values.begin(), values.end(), magnitudes.begin(), [](float x) { return std::abs(x); });
  const auto at = magnitudes.begin() + static_cast<std::ptrdiff_t>(k - 1);
  std::nth_element(magnitudes.begin(), at, magnitudes.end(), std::greater<>{});
  kept.clear();
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (std::abs(values[i]) >= *at) kept.emplace_back(static_cast<std::uint32_t>(i), values[i]);
  }
  return kept.size();
}

template <class Codec>
void codec_of(benchmark::State& state, const Codec& format, bool encodes, std::int64_t n, int threads) {
  Bench bench(threads);
  Arrays arrays(bench, n);
  const double bytes = static_cast<double>(n) * sizeof(float);
  Bytes used = 0;
  bench.seconds([&](Host::Lane& lane) { used = format.encode(arrays.values, arrays.message, lane); });
  const auto ours = [&] {
    return bench.seconds([&](Host::Lane& lane) {
      if (encodes) {
        format.encode(arrays.values, arrays.message, lane);
      } else {
        format.decode(std::span(arrays.message).first(used), arrays.decoded, lane);
      }
    });
  };
  std::vector<reef_bench::Contender> contenders{
      {"roof", [&] { return bench.seconds([&](Host::Lane& lane) { copy(lane, arrays); }); }}};
  std::vector<float> magnitudes;
  std::vector<std::pair<std::uint32_t, float>> kept;
  state.counters["bits"] = 8 * static_cast<double>(used) / static_cast<double>(n);
  if constexpr (std::same_as<Codec, codec::TopK>) {
    const auto k = static_cast<double>(format.kept(n));
    const double density = k / static_cast<double>(n);
    const double entropy = -std::log2(density) - (1 - density) / density * std::log2(1 - density);
    state.counters["index_bits"] = 8 * static_cast<double>(used - codec::message_head_bytes - 2) / k - 32;
    state.counters["entropy_bits"] = entropy;
    if (encodes && threads == 1) {
      magnitudes.resize(arrays.values.size());
      contenders.push_back({"nth_element", [&] {
                              return reef_bench::seconds_of([&] {
                                benchmark::DoNotOptimize(by_nth_element(
                                    arrays.values, static_cast<std::size_t>(format.kept(n)), magnitudes, kept));
                              });
                            }});
    }
  }
  reef_bench::compare(state, ours, contenders, {.bytes = bytes});
}

template <class Codec>
void add_codec(const std::string& name, const Codec& format) {
  for (const std::int64_t size : {1, 16, 64}) {
    for (const bool encodes : {true, false}) {
      for (const int threads : {1, 2}) {
        reef_bench::add(name + (encodes ? "/encode/" : "/decode/") + std::to_string(size) + "M/threads:" + std::to_string(threads),
                        size == 1 ? 101 : size == 16 ? 21 : 9,
                        [=](auto& state) { codec_of(state, format, encodes, size * million, threads); });
      }
    }
  }
}

void register_all() {
  add_codec("top_k_100", codec::TopK{.ratio = 100});
  add_codec("top_k_1000", codec::TopK{.ratio = 1000});
  add_codec("blockwise8", codec::Blockwise8{});
  add_codec("normal_float4", codec::NormalFloat4{});
  add_codec("normal_float4_nested", codec::NormalFloat4{.nested = true});
  add_codec("uniform8", codec::Uniform8{});
}

}  // namespace

int main(int argc, char** argv) { return reef_bench::run(argc, argv, register_all); }
