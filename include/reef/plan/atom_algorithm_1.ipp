#pragma once

#include <reef/core/inline.hpp>
#include <reef/plan/atom_algorithm_1.hpp>
#include <reef/plan/detail/chain_sums.hpp>

namespace reef {
inline namespace v0 {
namespace plan {

namespace detail {

class LiteralAlgorithm1 {
public:
  LiteralAlgorithm1(const OperatorChain& chain, Bytes memory, std::uint64_t most)
      : sums_(chain, 1), memory_(memory), max_(most) {}

  AtomAlgorithm1 run() {
    for (int b = sums_.size() - 1; b > 0; --b) {
      for (int d = sums_.size(); d > b; --d) search(0, b, d, true);
    }
    return found_;
  }

private:
  void search(int a, int b, int d, bool first) {
    if (++found_.calls > max_) {
      throw OptionError(
          "reef::plan::atom_algorithm_1: more than ", max_, " calls for ", sums_.size(),
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
  std::uint64_t max_;
  AtomAlgorithm1 found_;
};

}  // namespace detail

REEF_INLINE AtomAlgorithm1 atom_algorithm_1(const OperatorChain& chain, Bytes memory,
                                            std::uint64_t max_calls) {
  chain.validate();
  return detail::LiteralAlgorithm1(chain, memory, max_calls).run();
}

}  // namespace plan
}  // namespace v0
}  // namespace reef
