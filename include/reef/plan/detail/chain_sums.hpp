#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <reef/plan/chain.hpp>

namespace reef {
inline namespace v0 {
namespace plan::detail {

/// What any segment [a, b) of a chain takes, each in constant time: sums by prefixes, the largest
/// workspace by a table of doubling ranges. Times are those of all micro-batches.
class ChainSums {
public:
  ChainSums(const OperatorChain& chain, std::int64_t accumulation)
      : count_(chain.operators.size()) {
    const auto sum = [&](auto&& of) {
      std::vector<std::int64_t> prefix(count_ + 1, 0);
      for (std::size_t i = 0; i < count_; ++i) {
        prefix[i + 1] = prefix[i] + static_cast<std::int64_t>(of(chain.operators[i]));
      }
      return prefix;
    };
    using O = ChainOperator;
    weights_ = sum([](const O& o) { return o.weights; });
    gradients_ = sum([](const O& o) { return o.gradients; });
    alone_ = sum([](const O& o) {
      return o.weights + (std::max)(o.forward_workspace, o.backward_workspace);
    });
    forward_ = sum([&](const O& o) { return o.forward * accumulation; });
    backward_ = sum([&](const O& o) { return o.backward * accumulation; });
    load_ = sum([](const O& o) { return o.load; });
    leave_forward_ = sum([](const O& o) { return o.leave_forward; });
    leave_backward_ = sum([](const O& o) { return o.leave_backward; });
    const auto largest = [&](auto&& of) {
      Levels levels(1);
      for (const O& o : chain.operators) levels[0].push_back(static_cast<std::int64_t>(of(o)));
      for (std::size_t half = 1; 2 * half <= count_; half *= 2) {
        const std::vector<std::int64_t>& below = levels.back();
        std::vector<std::int64_t> level(below.size() - half);
        for (std::size_t i = 0; i < level.size(); ++i)
          level[i] = (std::max)(below[i], below[i + half]);
        levels.push_back(std::move(level));
      }
      return levels;
    };
    forward_workspace_ = largest([](const O& o) { return o.forward_workspace; });
    backward_workspace_ = largest([](const O& o) { return o.backward_workspace; });
  }

  [[nodiscard]] int size() const { return static_cast<int>(count_); }

  [[nodiscard]] std::int64_t weights(int a, int b) const { return of(weights_, a, b); }
  [[nodiscard]] std::int64_t gradients(int a, int b) const { return of(gradients_, a, b); }
  /// Weights and workspaces, added up.
  [[nodiscard]] std::int64_t alone(int a, int b) const { return of(alone_, a, b); }
  [[nodiscard]] Ticks forward(int a, int b) const { return of(forward_, a, b); }
  [[nodiscard]] Ticks backward(int a, int b) const { return of(backward_, a, b); }
  [[nodiscard]] Ticks load(int a, int b) const { return of(load_, a, b); }
  [[nodiscard]] Ticks leave_forward(int a, int b) const { return of(leave_forward_, a, b); }
  [[nodiscard]] Ticks leave_backward(int a, int b) const { return of(leave_backward_, a, b); }

  /// Weights and workspace of its forward.
  [[nodiscard]] std::int64_t in_forward(int a, int b) const {
    return weights(a, b) + largest(forward_workspace_, a, b);
  }
  /// Weights, gradients and workspace of its backward.
  [[nodiscard]] std::int64_t in_backward(int a, int b) const {
    return weights(a, b) + gradients(a, b) + largest(backward_workspace_, a, b);
  }

private:
  using Levels = std::vector<std::vector<std::int64_t>>;

  static std::int64_t of(const std::vector<std::int64_t>& prefix, int a, int b) {
    return prefix[static_cast<std::size_t>(b)] - prefix[static_cast<std::size_t>(a)];
  }

  static std::int64_t largest(const Levels& levels, int a, int b) {
    const auto begin = static_cast<std::size_t>(a);
    const auto length = static_cast<std::size_t>(b - a);
    const auto level = static_cast<std::size_t>(std::bit_width(length)) - 1;
    const std::size_t span = std::size_t{1} << level;
    return (std::max)(levels[level][begin], levels[level][begin + length - span]);
  }

  std::size_t count_;
  std::vector<std::int64_t> weights_, gradients_, alone_;
  std::vector<std::int64_t> forward_, backward_, load_, leave_forward_, leave_backward_;
  Levels forward_workspace_, backward_workspace_;
};

}  // namespace plan::detail
}  // namespace v0
}  // namespace reef
