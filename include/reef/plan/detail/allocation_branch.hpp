#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include <reef/core/units.hpp>
#include <reef/plan/allocation.hpp>
#include <reef/plan/detail/allocation_bound.hpp>
#include <reef/plan/detail/arrangement.hpp>
#include <reef/plan/detail/bottleneck_matching.hpp>
#include <reef/plan/detail/device_order.hpp>

namespace reef {
inline namespace v0 {
namespace plan::detail {

/// Branch and bound over what groups are composed of: how many devices of each class, stage by stage along
/// the path. Where all devices differ this enumerates partitions.
///
/// Classes that could be swapped as a whole are told apart only once they are used differently: of those with
/// an equal history, the first gets the most devices. A branch is cut where its cost so far, with the least
/// that AllocationBound leaves for the rest of the path, is not below the best known.
///
/// | cost   | at most `work` compositions and matchings of up to a dozen devices and stages; of   |
/// |        | more, as many fewer as each takes longer: D^2 for sums and matchings, S^2 for paths |
/// | result | the best placement found, of class indices, and whether all was searched            |
class AllocationBranch {
public:
  AllocationBranch(const DeviceOrder& order, const AllocationBound& bound, int stages,
                   int pipelines)
      : order_(order),
        bound_(bound),
        stages_(stages),
        pipelines_(pipelines),
        left_(order.sizes),
        twin_(order.sizes.size(), -1),
        equal_(order.sizes.size(), true),
        matching_(pipelines) {
    const int classes = order.classes.size;
    for (int c = 0; c < classes; ++c) {
      for (int before = c - 1; before >= 0 && twin_.data()[c] < 0; --before) {
        if (swaps(before, c)) twin_.data()[c] = before;
      }
    }
  }

  /// How many compositions a group may have, at most `most`.
  [[nodiscard]] double compositions(double most) const {
    std::vector<double> ways(static_cast<std::size_t>(pipelines_) + 1, 0);
    ways[0] = 1;
    for (const int size : order_.sizes) {
      for (int total = pipelines_; total > 0; --total) {
        for (int taken = 1; taken <= (std::min)(size, total); ++taken) {
          ways.data()[total] = (std::min)(most, ways.data()[total] + ways.data()[total - taken]);
        }
      }
    }
    return ways.back();
  }

  /// Searches for less than `known`. `stop` is asked now and then.
  void search(Seconds known, std::uint64_t work, const std::function<bool()>& stop) {
    best_ = known;
    work_left_ = work;
    stop_ = &stop;
    complete_ = true;
    asked_ = 0;
    found_.clear();
    path_.clear();
    edges_.clear();
    descend(bound_.compute, bound_.datap);
  }

  [[nodiscard]] bool complete() const { return complete_; }

  /// The devices of the best placement, [stage * pipelines + pipeline] before matching; none where
  /// nothing better than what was known was found.
  [[nodiscard]] std::vector<int> found() const {
    std::vector<int> next(order_.sizes.size(), 0);
    std::partial_sum(order_.sizes.begin(), order_.sizes.end() - 1, next.begin() + 1);
    std::vector<int> devices;
    for (const int c : found_) devices.push_back(next.data()[c]++);
    return devices;
  }

private:
  struct Child {
    Seconds bound = 0;
    Seconds compute = 0;
    Seconds datap = 0;
    Seconds edge = 0;
    std::vector<int> group;  // class of each device
  };

  [[nodiscard]] bool swaps(int a, int b) const {
    const LinkWeights& w = order_.classes;
    if (order_.sizes.data()[a] != order_.sizes.data()[b] || w.compute_of(a) != w.compute_of(b) ||
        w.dp_of(a)[a] != w.dp_of(b)[b] || w.pp_of(a)[a] != w.pp_of(b)[b])
      return false;
    for (int c = 0; c < w.size; ++c) {
      if (c == a || c == b) continue;
      if (w.dp_of(a)[c] != w.dp_of(b)[c] || w.pp_of(a)[c] != w.pp_of(b)[c]) return false;
    }
    return true;
  }

  /// Below the best known by more than rounding.
  [[nodiscard]] bool promises(Seconds bound) const { return bound < best_ - best_ * 1e-12; }

  /// Pays for one step over so many numbers. `stop` is asked after each 1024 that were paid.
  bool spend(std::int64_t numbers) {
    const auto price = static_cast<std::uint64_t>(1 + numbers / 256);
    asked_ += price;
    const bool asks = asked_ >= 1024;
    if (asks) asked_ = 0;
    if (work_left_ < price || (asks && (*stop_)())) {
      work_left_ = 0;
      complete_ = false;
      return false;
    }
    work_left_ -= price;
    return true;
  }

  void descend(Seconds compute, Seconds datap) {
    const int stage = static_cast<int>(path_.size()) / pipelines_;
    if (stage == stages_) {
      best_ = AllocationCost{compute, datap, bound_.path_with(edges_)}.total();
      found_ = path_;
      return;
    }
    std::vector<Child> children;
    std::vector<int> group;
    compose(0, compute, datap, bound_.path_with(edges_), group, children);
    std::stable_sort(children.begin(), children.end(),
                     [](const Child& a, const Child& b) { return a.bound < b.bound; });
    for (const Child& child : children) {
      if (!complete_ || !promises(child.bound)) return;
      const std::vector<char> equal = equal_;
      std::vector<int> taken(left_.size(), 0);
      for (const int c : child.group) ++taken.data()[c];
      for (std::size_t c = 0; c < left_.size(); ++c) {
        left_[c] -= taken[c];
        if (twin_[c] >= 0 && taken[c] != taken.data()[twin_[c]]) equal_[c] = 0;
      }
      path_.insert(path_.end(), child.group.begin(), child.group.end());
      if (stage > 0) edges_.push_back(child.edge);
      descend(child.compute, child.datap);
      if (stage > 0) edges_.pop_back();
      path_.resize(path_.size() - child.group.size());
      for (std::size_t c = 0; c < left_.size(); ++c) left_[c] += taken[c];
      equal_ = equal;
    }
  }

  /// All groups that may come next, of classes from `c` on beside what `group` has.
  void compose(int c, Seconds compute, Seconds datap, Seconds path, std::vector<int>& group,
               std::vector<Child>& children) {
    const LinkWeights& w = order_.classes;
    const auto size = static_cast<std::int64_t>(group.size());
    const int open = pipelines_ - static_cast<int>(size);
    const std::int64_t path_numbers = open == 0 ? std::int64_t{stages_} * stages_ : w.size;
    if (!spend(size * size + path_numbers)) return;
    if (open == 0) {
      finish(compute, datap, group, children);
      return;
    }
    if (c == w.size) return;
    int most = (std::min)(open, left_.data()[c]);
    if (twin_.data()[c] >= 0 && equal_.data()[c] != 0) {
      most = (std::min)(most,
                        static_cast<int>(std::count(group.begin(), group.end(), twin_.data()[c])));
    }
    const int later = std::accumulate(left_.begin() + c + 1, left_.end(), 0);
    const std::size_t before = group.size();
    for (int taken = (std::max)(0, open - later); taken <= most; ++taken) {
      group.resize(before);
      group.insert(group.end(), static_cast<std::size_t>(taken), c);
      const Seconds slowest = taken > 0 ? (std::max)(compute, w.compute_of(c)) : compute;
      const Seconds sums =
          taken > 0 ? (std::max)(datap, datap_of(w, group.data(), static_cast<int>(group.size())))
                    : datap;
      if (!promises(AllocationCost{slowest, sums, path}.total())) break;  // more of c costs no less
      compose(c + 1, slowest, sums, path, group, children);
    }
    group.resize(before);
  }

  void finish(Seconds compute, Seconds datap, const std::vector<int>& group,
              std::vector<Child>& children) {
    Child child{0, compute, datap, 0, group};
    if (!path_.empty()) {
      child.edge =
          matching_.solve(order_.classes, path_.data() + path_.size() - group.size(), group.data());
      edges_.push_back(child.edge);
    }
    child.bound = AllocationCost{compute, datap, bound_.path_with(edges_)}.total();
    if (!path_.empty()) edges_.pop_back();
    if (promises(child.bound)) children.push_back(std::move(child));
  }

  const DeviceOrder& order_;
  const AllocationBound& bound_;
  int stages_;
  int pipelines_;
  std::vector<int> left_;    // devices of each class
  std::vector<int> twin_;    // the class before with which it can be swapped, or -1
  std::vector<char> equal_;  // whether both were used alike so far
  BottleneckMatching matching_;
  std::vector<int> path_;
  std::vector<Seconds> edges_;
  std::vector<int> found_;
  Seconds best_ = std::numeric_limits<Seconds>::infinity();
  std::uint64_t work_left_ = 0;
  std::uint64_t asked_ = 0;  // paid since `stop` was asked
  const std::function<bool()>* stop_ = nullptr;
  bool complete_ = false;
};

}  // namespace plan::detail
}  // namespace v0
}  // namespace reef
