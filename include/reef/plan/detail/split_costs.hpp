#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <utility>
#include <vector>

#include <reef/plan/pipeline_problem.hpp>

namespace reef {
inline namespace v0 {
namespace plan::detail {

inline constexpr double no_time = (std::numeric_limits<double>::max)();  // of what cannot be

/// A plan as searches see it: its sum of all that stages compute and receive, and the longest of those.
struct Split {
  std::vector<Stage> stages{};  ///< none: there is no such plan
  double sum = no_time;
  double bottleneck = no_time;
};

/// What stages take, in constant time each.
class SplitCosts {
public:
  explicit SplitCosts(const PipelineProblem& problem) : problem_(problem) {
    flops_.push_back(0);
    memory_.push_back(0);
    for (const double flops : problem.flops) flops_.push_back(flops_.back() + flops);
    for (const Bytes bytes : problem.memory) memory_.push_back(memory_.back() + bytes);
    for (const double speed : problem.speed) {
      fastest_ = (std::max)(fastest_, speed);
      all_speeds_ += speed;
    }
  }

  [[nodiscard]] const PipelineProblem& problem() const { return problem_; }
  [[nodiscard]] int operators() const { return problem_.operators(); }
  [[nodiscard]] int devices() const { return problem_.devices(); }
  [[nodiscard]] double more_micro_batches() const {
    return static_cast<double>(problem_.micro_batches - 1);
  }

  /// Of the operators before one, were they all on that device.
  [[nodiscard]] Seconds before(int device, int end) const {
    return flops_[static_cast<std::size_t>(end)] / problem_.speed[static_cast<std::size_t>(device)];
  }
  [[nodiscard]] Seconds compute(int device, int first, int end) const {
    return (flops_[static_cast<std::size_t>(end)] - flops_[static_cast<std::size_t>(first)]) /
           problem_.speed[static_cast<std::size_t>(device)];
  }
  [[nodiscard]] Seconds receive(int from, int to, int boundary) const {
    return problem_.links.time(from, to, problem_.cut[static_cast<std::size_t>(boundary)]);
  }
  [[nodiscard]] bool holds(int device, int first, int end) const {
    return memory_[static_cast<std::size_t>(end)] - memory_[static_cast<std::size_t>(first)] <=
           problem_.capacity[static_cast<std::size_t>(device)];
  }

  /// By end, the first operator of the longest stage of a device that is within the limit; end where there is
  /// none.
  void longest(int device, double limit, std::vector<int>& firsts) const {
    firsts.resize(flops_.size());
    int first = 0;
    for (int end = 0; end <= operators(); ++end) {
      while (first < end && !(compute(device, first, end) <= limit && holds(device, first, end)))
        ++first;
      firsts[static_cast<std::size_t>(end)] = first;
    }
  }

  /// All operators on the fastest device: no sum is less.
  [[nodiscard]] Seconds least_sum() const { return flops_.back() / fastest_; }

  /// All devices busy, and every operator on the fastest: no bottleneck is less.
  [[nodiscard]] Seconds least_bottleneck() const {
    const double largest = *std::max_element(problem_.flops.begin(), problem_.flops.end());
    return (std::max)(flops_.back() / all_speeds_, largest / fastest_) * (1 - 1e-12);
  }

  /// The split that these stages are.
  [[nodiscard]] Split split_of(std::vector<Stage> stages) const {
    Split split{std::move(stages), 0, 0};
    for (std::size_t p = 0; p < split.stages.size(); ++p) {
      const Stage& stage = split.stages[p];
      const Seconds computes = compute(stage.device, stage.first, stage.end);
      const Seconds receives =
          p == 0 ? 0 : receive(split.stages[p - 1].device, stage.device, stage.first);
      split.sum += computes + receives;
      split.bottleneck = (std::max)({split.bottleneck, computes, receives});
    }
    return split;
  }

  /// T of a split.
  [[nodiscard]] Seconds time(const Split& split) const {
    return split.stages.empty() ? no_time : split.sum + more_micro_batches() * split.bottleneck;
  }

private:
  const PipelineProblem& problem_;
  std::vector<double> flops_;  // prefix sums
  std::vector<Bytes> memory_;
  double fastest_ = 0;
  double all_speeds_ = 0;
};

/// The least of the last values, as a window over them moves on.
class WindowMinimum {
public:
  void clear(std::size_t most) {
    values_.resize(most);
    places_.resize(most);
    begin_ = end_ = 0;
  }
  void push(int place, double value) {
    while (end_ > begin_ && values_[end_ - 1] >= value) --end_;
    values_[end_] = value;
    places_[end_++] = place;
  }
  void leave_before(int place) {
    while (begin_ < end_ && places_[begin_] < place) ++begin_;
  }
  [[nodiscard]] bool empty() const { return begin_ == end_; }
  [[nodiscard]] double value() const { return values_[begin_]; }
  [[nodiscard]] int place() const { return places_[begin_]; }

private:
  std::vector<double> values_;
  std::vector<int> places_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
};

}  // namespace plan::detail
}  // namespace v0
}  // namespace reef
