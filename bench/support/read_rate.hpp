#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <reef/device/for_each.hpp>
#include <reef/device/host.hpp>
#include <reef/device/simd.hpp>

#include "support/measure.hpp"

/// The rate at which threads read memory: the roof of whatever reads all of its numbers once.
namespace reef_bench {

/// Sums floats, so that they are read and nothing else is done: by eight sums, written out so that they stay in registers.
struct Sum {
  template <class V>
  void run(const float* from, std::int64_t n, float* to) const {
    eight<V>(std::make_index_sequence<8>(), from, n, to);
  }

private:
  template <class V, std::size_t... i>
  static void eight(std::index_sequence<i...> /*sums*/, const float* from, std::int64_t n, float* to) {
    V sums[sizeof...(i)] = {V((void(i), 0.0F))...};
    for (const float* end = from + n; from < end; from += sizeof...(i) * V::width) {
      ((sums[i] = sums[i] + V::load(from + i * V::width)), ...);
    }
    *to = (sum(sums[i]) + ...);
  }
};

/// 256 MiB of a host's memory, to be read.
class Reading {
public:
  explicit Reading(reef::device::Host& host) : memory_(host.allocate(count * sizeof(float), "read")) {
    std::fill_n(static_cast<float*>(memory_.data()), count, 0.5F);
  }

  /// Returns the GB/s at which a lane's threads read the memory, the best of some rounds. Call it on the lane's thread.
  double rate(reef::device::Host::Lane& lane, int rounds) const {
    const auto* const numbers = static_cast<const float*>(memory_.data());
    std::vector<float> sums(parts);
    double best = 0;
    for (int round = 0; round < rounds; ++round) {
      const double seconds = seconds_of([&] {
        reef::device::for_each_in_slots(lane, parts, [&](std::int64_t /*slot*/, std::int64_t part) {
          reef::device::run_vectors<float>(Sum{}, numbers + part * (count / parts), count / parts,
                                           &sums[static_cast<std::size_t>(part)]);
        });
      });
      best = std::max(best, static_cast<double>(count) * sizeof(float) / seconds * 1e-9);
    }
    return best;
  }

private:
  static constexpr std::int64_t count = std::int64_t{1} << 26;
  static constexpr std::int64_t parts = 64;
  reef::device::Host::Buffer memory_;
};

}  // namespace reef_bench
