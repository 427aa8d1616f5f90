#pragma once

#include <cstdint>

#include <reef/core/error.hpp>
#include <reef/core/units.hpp>
#include <reef/plan/chain.hpp>
#include <reef/plan/detail/chain_sums.hpp>

namespace reef::inline v0::plan {

/// What Algorithm 1 of ATOM does as it is printed.
struct AtomAlgorithm1 {
  std::uint64_t calls = 0;           ///< of its recursive function
  std::uint64_t inserted = 0;        ///< partitions that it kept
  std::uint64_t inserted_empty = 0;  ///< of them, those of two sub-models, kept as empty lists
};

namespace detail {

class LiteralAlgorithm1 {
public:
  LiteralAlgorithm1(const Chain& chain, Bytes memory, std::uint64_t most)
      : sums_(chain, 1), memory_(memory), most_(most) {}

  AtomAlgorithm1 run() {
    for (int b = sums_.size() - 1; b > 0; --b) {
      for (int d = sums_.size(); d > b; --d) search(0, b, d, true);
    }
    return found_;
  }

private:
  void search(int a, int b, int d, bool first) {
    if (++found_.calls > most_) {
      throw OptionError(
          "reef::plan::atom_algorithm_1: more than ", most_, " calls for ", sums_.size(),
          " operators.\n  why: it tries every partition.\n  fix: partition_chain, or fewer "
          "operators.");
    }
    if (!fits(a, b) || !fits(b, d) || sums_.forward(a, b) < sums_.load(b, d)) return;
    if (d == sums_.size()) {
      ++found_.inserted;
      if (first) ++found_.inserted_empty;  // its list is never seeded with the first pair
      return;
    }
    for (int e = sums_.size(); e > d; --e) search(b, d, e, false);
  }

  [[nodiscard]] bool fits(int a, int b) const {
    return static_cast<Bytes>(sums_.alone(a, b)) <= memory_;
  }

  const ChainSums sums_;
  Bytes memory_;
  std::uint64_t most_;
  AtomAlgorithm1 found_;
};

}  // namespace detail

/// Searches as Algorithm 1 is printed, for one micro-batch, and counts: to see what it costs and loses. For
/// partitions, partition_chain with Variant::paper is the same search, corrected.
///
/// | literally | every split, longest sub-model first; each fits alone, workspaces added up; each forward  |
/// |           | hides the next load; the backward and accumulation are left out. Its two ranges that are  |
/// |           | off by one, of which one never ends, are not                                              |
/// | cost      | exponential; OptionError beyond `most_calls`                                              |
///
/// Source: Wu et al., ATOM, arXiv 2403.10504, Algorithm 1.
inline AtomAlgorithm1 atom_algorithm_1(const Chain& chain, Bytes memory,
                                       std::uint64_t most_calls = 100'000'000) {
  chain.validate();
  return detail::LiteralAlgorithm1(chain, memory, most_calls).run();
}

}  // namespace reef::inline v0::plan
