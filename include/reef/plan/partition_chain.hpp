#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/text.hpp>
#include <reef/core/units.hpp>
#include <reef/plan/chain.hpp>
#include <reef/plan/detail/chain_sums.hpp>
#include <reef/plan/detail/pair_rules.hpp>
#include <reef/plan/detail/three_resident.hpp>
#include <reef/plan/detail/two_resident.hpp>
#include <reef/plan/variant.hpp>

namespace reef::inline v0::plan {

/// Of how many operators partition_chain finds the best partition with three resident sub-models.
inline constexpr int most_operators_of_three = 1024;

/// What a partition is made for.
struct PartitionOptions {
  Bytes memory = 0;  ///< of the device
  std::int64_t accumulation =
      1;  ///< C: micro-batches that pass a sub-model before the next is loaded
  Variant variant = Variant::full;
};

/// A partition of a chain into sub-models that are swapped, or why there is none.
struct Partition {
  bool feasible = false;
  bool fits = false;        ///< the whole chain fits the device: it need not be cut
  std::vector<int> bounds;  ///< sub-model i is [bounds[i], bounds[i + 1])
  std::int64_t accumulation = 1;
  Bytes cut_bytes = 0;   ///< through all cuts, of one micro-batch
  Ticks iteration = 0;   ///< of all micro-batches, in the steady state, on two lanes
  Ticks compute = 0;     ///< of it, forwards and backwards
  Bytes peak_bytes = 0;  ///< the most that the variant's rules count at once
  std::string why;       ///< where it is not feasible, and what would be

  [[nodiscard]] double utilisation() const {
    return iteration > 0 ? static_cast<double>(compute) / static_cast<double>(iteration) : 0;
  }
};

namespace detail {

/// Partitions one chain for several memories and accumulations.
class ChainPartitioner {
public:
  ChainPartitioner(const Chain& chain, Variant variant) : chain_(chain), variant_(variant) {
    chain.validate();
    if (chain.size() < 2) {
      throw OptionError(
          "reef::plan::partition_chain: a chain of one operator has no cut.\n"
          "  fix: a chain of at least two.");
    }
    const bool three = variant == Variant::three || variant == Variant::three_stash;
    if (three && chain.size() > most_operators_of_three) {
      throw OptionError(
          "reef::plan::partition_chain: ", chain.size(), " operators for the variant '",
          name_of(variant), "', which is exact for at most ", most_operators_of_three,
          ".\n  fix: join operators between which there is never a cut, or the variant "
          "'full'.");
    }
  }

  /// The bounds of the best partition; empty if there is none.
  [[nodiscard]] std::vector<int> bounds(Bytes memory, std::int64_t accumulation) const {
    chain_.validate(accumulation);
    const ChainSums sums(chain_, accumulation);
    const PairRules rules(sums, to_int(memory), variant_);
    if (rules.keeps_three()) return ThreeResident(rules, chain_.cut, accumulation).run();
    return TwoResident(rules, chain_.cut, accumulation).run();
  }

  [[nodiscard]] Partition evaluate(std::vector<int> bounds, Bytes memory,
                                   std::int64_t accumulation) const {
    const ChainSums sums(chain_, accumulation);
    const PairRules rules(sums, to_int(memory), variant_);
    const int n = chain_.size();
    Partition result;
    result.accumulation = accumulation;
    result.fits =
        sums.in_forward(0, n) <= rules.memory() && sums.in_backward(0, n) <= rules.memory();
    if (bounds.empty()) return result;
    result.feasible = true;
    result.compute = sums.forward(0, n) + sums.backward(0, n);
    const std::size_t count = bounds.size() - 1;
    result.iteration = sums.backward(0, bounds[1]) + sums.forward(bounds[count - 1], n);
    std::int64_t stash = 0;
    std::int64_t peak = 0;
    for (std::size_t i = 1; i < count; ++i) {
      const int a = bounds[i - 1];
      const int b = bounds[i];
      const int d = bounds[i + 1];
      const Bytes crossing = chain_.cut[static_cast<std::size_t>(b)];
      result.cut_bytes += crossing;
      result.iteration += rules.time(a, b, d);
      if (rules.stashes()) stash += static_cast<std::int64_t>(crossing) * accumulation;
      if (i == 1) peak = std::max(peak, rules.first(b) + stash);
      peak = std::max(peak, rules.pair(a, b, d) + stash);
      if (rules.keeps_three() && i > 1) {
        peak = std::max(peak, rules.triple(bounds[i - 2], a, b, d) + stash);
      }
    }
    peak = std::max(peak, rules.last(bounds[count - 1]) + stash);
    result.peak_bytes = static_cast<Bytes>(peak);
    result.bounds = std::move(bounds);
    return result;
  }

  /// The smallest number of micro-batches from `least` on with which there is a partition; 0 if none up
  /// to 2^20 has one. More of them hide more, and stashes take more memory: so those are tried one by one.
  [[nodiscard]] std::int64_t smallest_accumulation(Bytes memory, std::int64_t least = 1) const {
    constexpr std::int64_t most = 1 << 20;
    constexpr std::int64_t tries = 64;
    const bool stashes = variant_ == Variant::stash || variant_ == Variant::three_stash;
    const auto enough = [&](std::int64_t accumulation) {
      return !bounds(memory, accumulation).empty();
    };
    if (stashes) {
      const Variant without = variant_ == Variant::stash ? Variant::full : Variant::three;
      const std::int64_t first =
          ChainPartitioner(chain_, without).smallest_accumulation(memory, least);
      for (std::int64_t c = first; first > 0 && c < first + tries; ++c) {
        if (enough(c)) return c;
      }
      return 0;
    }
    std::int64_t fails = least - 1;
    std::int64_t works = least;
    while (!enough(works)) {
      if (works >= most) return 0;
      fails = works;
      works = std::min(2 * works, most);
    }
    while (works - fails > 1) {
      const std::int64_t middle = fails + (works - fails) / 2;
      (enough(middle) ? works : fails) = middle;
    }
    return works;
  }

  /// The least memory with which there is a partition, to a thousandth; 0 if none has one.
  [[nodiscard]] Bytes smallest_memory(std::int64_t accumulation) const {
    constexpr Bytes all = Bytes{1} << 61;
    const std::vector<int> loosest = bounds(all, accumulation);
    if (loosest.empty()) return 0;
    Bytes works = evaluate(loosest, all, accumulation).peak_bytes;
    Bytes fails = 0;
    while (works - fails > 1 + works / 1024) {
      const Bytes middle = fails + (works - fails) / 2;
      (bounds(middle, accumulation).empty() ? fails : works) = middle;
    }
    return works;
  }

  /// Why there is no partition, and what is enough for one.
  [[nodiscard]] std::string why(Bytes memory, std::int64_t accumulation) const {
    const ChainSums sums(chain_, accumulation);
    const bool paper = variant_ == Variant::paper;
    std::string result;
    for (int i = 0; i < chain_.size() && result.empty(); ++i) {
      const std::int64_t needs =
          paper ? sums.alone(i, i + 1)
                : std::max(sums.in_forward(i, i + 1), sums.in_backward(i, i + 1));
      if (needs <= to_int(memory)) continue;
      result =
          concat("operator ", chain_.name(i), " alone needs ", needs, " of ", memory, " bytes");
    }
    const std::int64_t more = result.empty() ? smallest_accumulation(memory, accumulation) : 0;
    if (result.empty()) {
      result = more > 0
                   ? concat("no partition hides its loads behind ", accumulation, " micro-batches")
                   : concat("no partition keeps the rules of '", name_of(variant_), "' in ", memory,
                            " bytes");
    }
    const Bytes enough = smallest_memory(accumulation);
    result += "; enough would be ";
    if (more > 0) result += concat(more, " micro-batches");
    if (more > 0 && enough > 0) result += ", or ";
    if (enough > 0) result += concat(enough, " bytes");
    if (more == 0 && enough == 0) result += "more of both, or a faster link";
    return result;
  }

private:
  static std::int64_t to_int(Bytes bytes) {
    return static_cast<std::int64_t>(std::min(bytes, Bytes{1} << 62));
  }

  const Chain& chain_;
  Variant variant_;
};

}  // namespace detail

/// The best partition of a chain into at least two sub-models: of all that keep the variant's rules.
///
/// Sub-models are swapped through the device in turn: the next is loaded while one runs, and all C
/// micro-batches pass one before it leaves.
///
///     time = C tb(S_1) + sum over neighbours (A, B) of max(C tf(A) + of(A), tl(B))
///                                                    + max(C tb(B) + ob(B), tl(A)) + C tf(S_K)
///
/// | cost   | O(n^2 log n): a thousand operators in a tenth of a second; O(n^3) and seconds with stashes or  |
/// |        | three resident sub-models. Where there is none, some dozens of searches for what is enough     |
/// | order  | deterministic                                                                                 |
/// | errors | OptionError for a chain that is none, or too long for the variant                             |
///
/// Source: Wu et al., ATOM, arXiv 2403.10504, section III, Algorithm 1. Deviation: exact, by dynamic
/// programming, with both directions, accumulation and what is on the device at once.
inline Partition partition_chain(const Chain& chain, const PartitionOptions& options) {
  const detail::ChainPartitioner partitioner(chain, options.variant);
  chain.validate(options.accumulation);
  Partition result = partitioner.evaluate(partitioner.bounds(options.memory, options.accumulation),
                                          options.memory, options.accumulation);
  if (!result.feasible) result.why = partitioner.why(options.memory, options.accumulation);
  return result;
}

/// The best partition with the smallest accumulation that has one. Loads that need not be hidden need
/// none. Errors and cost as partition_chain.
inline Partition smallest_accumulation(const Chain& chain, PartitionOptions options) {
  const detail::ChainPartitioner partitioner(chain, options.variant);
  options.accumulation =
      std::max<std::int64_t>(1, partitioner.smallest_accumulation(options.memory));
  return partition_chain(chain, options);
}

/// What user-given bounds come to under the same rules. Throws OptionError unless they cut the chain.
inline Partition evaluate_partition(const Chain& chain, std::vector<int> bounds,
                                    const PartitionOptions& options) {
  const bool whole = bounds.size() >= 3 && bounds.front() == 0 && bounds.back() == chain.size();
  if (!whole ||
      std::adjacent_find(bounds.begin(), bounds.end(), std::greater_equal<>()) != bounds.end()) {
    throw OptionError("reef::plan::evaluate_partition: ", bounds.size(),
                      " bounds do not cut a chain of ", chain.size(),
                      " operators.\n  fix: ascending, the first 0, the last ", chain.size(),
                      ", and one between them at least.");
  }
  const detail::ChainPartitioner partitioner(chain, options.variant);
  chain.validate(options.accumulation);
  Partition result = partitioner.evaluate(std::move(bounds), options.memory, options.accumulation);
  const detail::ChainSums sums(chain, options.accumulation);
  const detail::PairRules rules(sums, 0, options.variant);
  for (std::size_t i = 1; i + 1 < result.bounds.size() && result.why.empty(); ++i) {
    if (!rules.hidden(result.bounds[i - 1], result.bounds[i], result.bounds[i + 1])) {
      result.why = concat("a load at the cut before operator ", chain.name(result.bounds[i]),
                          " takes longer than what hides it");
    }
  }
  if (result.peak_bytes > options.memory) {
    result.why = concat("it needs ", result.peak_bytes, " of ", options.memory, " bytes");
  }
  result.feasible = result.why.empty();
  return result;
}

}  // namespace reef::inline v0::plan
