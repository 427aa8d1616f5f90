#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <reef/plan/chain.hpp>
#include <reef/plan/detail/chain_sums.hpp>
#include <reef/plan/variant.hpp>

namespace reef {
inline namespace v0 {
namespace plan::detail {

/// What a variant asks of two sub-models A = [a, b) and B = [b, d) that follow each other, of three, and of
/// the first and the last. Everything else about a partition follows from these.
///
///     forward    A runs, B is loaded:    w(A) + ws(A) + w(B) <= memory,         C tf(A) >= tl(B)
///     backward   B runs, A is loaded:    w(B) + g(B) + ws(B) + w(A) <= memory,  C tb(B) >= tl(A)
///     time       max(C tf(A) + of(A), tl(B)) + max(C tb(B) + ob(B), tl(A))
class PairRules {
public:
  /// Stashes are those of `stashed` micro-batches; times are those of the sums.
  PairRules(const ChainSums& sums, const OperatorChain& chain, std::int64_t memory, Variant variant,
            std::int64_t stashed)
      : sums_(sums), cut_(chain.cut), memory_(memory), variant_(variant), stashed_(stashed) {}

  /// What crosses a boundary, of a micro-batch.
  [[nodiscard]] std::int64_t cut(int boundary) const {
    return static_cast<std::int64_t>(cut_[static_cast<std::size_t>(boundary)]);
  }
  /// What is kept of so many bytes through all cuts so far.
  [[nodiscard]] std::int64_t stash(std::int64_t through_cuts) const {
    return stashes() ? through_cuts * stashed_ : 0;
  }

  [[nodiscard]] const ChainSums& sums() const { return sums_; }
  [[nodiscard]] std::int64_t memory() const { return memory_; }
  [[nodiscard]] Variant variant() const { return variant_; }
  [[nodiscard]] bool hides_loads() const { return variant_ != Variant::soft; }
  [[nodiscard]] bool hides_backward_loads() const {
    return hides_loads() && variant_ != Variant::paper;
  }
  [[nodiscard]] bool stashes() const { return plan::stashes(variant_); }
  [[nodiscard]] bool keeps_three() const { return plan::keeps_three(variant_); }

  /// What the first sub-model needs by itself, in its backward.
  [[nodiscard]] std::int64_t first(int b) const {
    return variant_ == Variant::paper ? sums_.alone(0, b) : sums_.in_backward(0, b);
  }
  /// What the last sub-model needs by itself, in its forward.
  [[nodiscard]] std::int64_t last(int a) const {
    const int end = sums_.size();
    return variant_ == Variant::paper ? sums_.alone(a, end) : sums_.in_forward(a, end);
  }

  /// What two need together, while either runs.
  [[nodiscard]] std::int64_t pair(int a, int b, int d) const {
    if (variant_ == Variant::paper) return (std::max)(sums_.alone(a, b), sums_.alone(b, d));
    std::int64_t result = (std::max)(sums_.in_forward(a, b) + sums_.weights(b, d),
                                     sums_.in_backward(b, d) + sums_.weights(a, b));
    if (variant_ != Variant::turn) return result;
    if (d == sums_.size()) {
      result = (std::max)(result, sums_.in_forward(b, d) + sums_.weights(a, b));
    }
    if (a == 0) result = (std::max)(result, sums_.in_backward(a, b) + sums_.weights(b, d));
    return result;
  }

  /// What three need together while [a, b) runs, which [z, a) leaves and for which [b, d) comes, and back.
  [[nodiscard]] std::int64_t triple(int z, int a, int b, int d) const {
    const std::int64_t forward = sums_.weights(z, a) + sums_.in_forward(a, b) + sums_.weights(b, d);
    const std::int64_t backward =
        sums_.weights(z, a) + sums_.in_backward(a, b) + sums_.weights(b, d) + sums_.gradients(b, d);
    return (std::max)(forward, backward);
  }

  /// Both loads are hidden, or need not be.
  [[nodiscard]] bool hidden(int a, int b, int d) const {
    if (!hides_loads()) return true;
    Ticks forward = sums_.forward(a, b);
    Ticks backward = sums_.backward(b, d);
    if (variant_ == Variant::turn) {
      if (a == 0) forward += sums_.backward(a, b);
      if (d == sums_.size()) backward += sums_.forward(b, d);
    }
    return forward >= sums_.load(b, d) && (!hides_backward_loads() || backward >= sums_.load(a, b));
  }

  /// From the start of A's forward to that of B's, and from the start of B's backward to that of A's.
  [[nodiscard]] Ticks time(int a, int b, int d) const {
    const Ticks forward = sums_.forward(a, b) + sums_.leave_forward(a, b);
    const Ticks backward = sums_.backward(b, d) + sums_.leave_backward(b, d);
    if (variant_ == Variant::turn)
      return forward + backward;  // its loads are hidden, if begun earlier
    return (std::max)(forward, sums_.load(b, d)) + (std::max)(backward, sums_.load(a, b));
  }

  /// Two may follow each other, beside so many bytes of stashes.
  [[nodiscard]] bool allowed(int a, int b, int d, std::int64_t stashed) const {
    return pair(a, b, d) + stashed <= memory_ && hidden(a, b, d);
  }

private:
  const ChainSums& sums_;
  const std::vector<Bytes>& cut_;
  std::int64_t memory_;
  Variant variant_;
  std::int64_t stashed_;
};

}  // namespace plan::detail
}  // namespace v0
}  // namespace reef
