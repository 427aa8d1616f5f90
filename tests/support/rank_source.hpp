#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <utility>

#include "small_gpt.hpp"

/// Samples by rank and by how many it has read, for optimizers that read the same micro-batches in another order.
namespace reef::test {

inline nn::GptConfig unmasked_config() {
  nn::GptConfig config = small_config();
  config.dropout = 0;
  return config;
}

/// The n-th micro-batch that a rank reads.
using RankSource =
    std::function<double(int rank, std::uint64_t n, std::span<const AnyView> inputs)>;

/// Every rank reads its own micro-batches in one order, however many there are in a phase.
inline run::Source by_rank(RankSource fill, int ranks, int phase) {
  return
      [fill = std::move(fill), ranks, phase](std::uint64_t first, std::span<const AnyView> inputs) {
        const std::uint64_t m = first / static_cast<std::uint64_t>(small_config().batch);
        const auto in_phase = static_cast<std::uint64_t>(phase);
        const std::uint64_t of_all = in_phase * static_cast<std::uint64_t>(ranks);
        const auto rank = static_cast<int>(m % of_all / in_phase);
        return fill(rank, m / of_all * in_phase + m % in_phase, inputs);
      };
}

/// Other samples on each rank.
inline double different_samples(int rank, std::uint64_t n, std::span<const AnyView> inputs) {
  static const run::Source plain = small_source();
  const auto number =
      n * static_cast<std::uint64_t>(world_size()) + static_cast<std::uint64_t>(rank);
  return plain(number * static_cast<std::uint64_t>(small_config().batch), inputs);
}

}  // namespace reef::test
