#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <vector>

#include <reef/plan/chain.hpp>

/// Random chains, and what is known of a partition by adding up, operator by operator.
namespace reef::test {

using plan::ChainOperator;
using plan::OperatorChain;
using plan::Ticks;

inline OperatorChain random_chain(std::mt19937_64& random, int operators) {
  const auto number = [&](std::int64_t from, std::int64_t to) {
    return std::uniform_int_distribution<std::int64_t>(from, to)(random);
  };
  const auto bytes = [&](std::int64_t from, std::int64_t to) {
    return static_cast<Bytes>(number(from, to));
  };
  OperatorChain chain;
  for (int i = 0; i < operators; ++i) {
    ChainOperator o;
    o.weights = bytes(1, 40);
    o.gradients = number(0, 3) == 0 ? bytes(0, 40) : o.weights;
    o.forward_workspace = bytes(0, 12);
    o.backward_workspace = bytes(0, 15);
    o.forward = number(0, 60);
    o.backward = number(0, 3) == 0 ? number(0, 90) : 2 * o.forward;
    o.load = static_cast<Ticks>(o.weights);
    o.leave_forward = number(0, 40);
    o.leave_backward = number(0, 40);
    chain.operators.push_back(o);
  }
  for (int i = 0; i <= operators; ++i) {
    chain.cut.push_back(i == 0 || i == operators ? 0 : bytes(0, 9));
  }
  return chain;
}

using Bounds = std::vector<int>;

/// Every partition of n operators into at least two.
inline void for_each_partition(int n, const std::function<void(const Bounds&)>& visit) {
  for (unsigned cuts = 1; cuts < 1U << (n - 1); ++cuts) {
    Bounds bounds{0};
    for (int i = 1; i < n; ++i) {
      if ((cuts >> (i - 1) & 1U) != 0) bounds.push_back(i);
    }
    bounds.push_back(n);
    visit(bounds);
  }
}

/// A sub-model, added up.
struct SubModel {
  std::int64_t weights = 0, gradients = 0, forward_workspace = 0, backward_workspace = 0, alone = 0;
  Ticks forward = 0, backward = 0, load = 0, leave_forward = 0, leave_backward = 0;

  SubModel(const OperatorChain& chain, int begin, int end, std::int64_t accumulation) {
    for (int i = begin; i < end; ++i) {
      const ChainOperator& o = chain.operators[static_cast<std::size_t>(i)];
      weights += static_cast<std::int64_t>(o.weights);
      gradients += static_cast<std::int64_t>(o.gradients);
      const auto in_forward = static_cast<std::int64_t>(o.forward_workspace);
      const auto in_backward = static_cast<std::int64_t>(o.backward_workspace);
      forward_workspace = std::max(forward_workspace, in_forward);
      backward_workspace = std::max(backward_workspace, in_backward);
      alone += static_cast<std::int64_t>(o.weights) + std::max(in_forward, in_backward);
      forward += accumulation * o.forward;
      backward += accumulation * o.backward;
      load += o.load;
      leave_forward += o.leave_forward;
      leave_backward += o.leave_backward;
    }
  }

  static std::vector<SubModel> all(const OperatorChain& chain, const Bounds& bounds,
                                   std::int64_t accumulation) {
    std::vector<SubModel> result;
    for (std::size_t i = 0; i + 1 < bounds.size(); ++i) {
      result.emplace_back(chain, bounds[i], bounds[i + 1], accumulation);
    }
    return result;
  }
};

/// The time of an iteration on two lanes.
inline Ticks time_of(const std::vector<SubModel>& s) {
  Ticks time = s.front().backward + s.back().forward;
  for (std::size_t i = 0; i + 1 < s.size(); ++i) {
    time += std::max(s[i].forward + s[i].leave_forward, s[i + 1].load) +
            std::max(s[i + 1].backward + s[i + 1].leave_backward, s[i].load);
  }
  return time;
}

/// That time where no load is waited for.
inline Ticks time_without_waits(const std::vector<SubModel>& s) {
  Ticks time = 0;
  for (std::size_t i = 0; i < s.size(); ++i) {
    time += s[i].forward + s[i].backward;
    if (i + 1 < s.size()) time += s[i].leave_forward;
    if (i > 0) time += s[i].leave_backward;
  }
  return time;
}

}  // namespace reef::test
