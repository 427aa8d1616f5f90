#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/hash.hpp>
#include <reef/core/text.hpp>
#include <reef/core/units.hpp>
#include <reef/plan/clusters.hpp>
#include <reef/plan/detail/bottleneck_sweep.hpp>
#include <reef/plan/detail/draws.hpp>
#include <reef/plan/detail/free_split.hpp>
#include <reef/plan/detail/order_search.hpp>
#include <reef/plan/detail/split_costs.hpp>
#include <reef/plan/detail/structural_order.hpp>
#include <reef/plan/pipeline_problem.hpp>

namespace reef {
inline namespace v0 {
namespace plan {

std::vector<int> fence_order(const PipelineProblem& problem, const Clusters& clusters);
Clusters clusters_of(const PipelineProblem& problem);

namespace detail {

/// The problem with its devices in that order.
inline PipelineProblem reordered(const PipelineProblem& problem, const std::vector<int>& order) {
  PipelineProblem result = problem;
  const std::size_t n = order.size();
  result.links.names.clear();
  for (std::size_t i = 0; i < n; ++i) {
    const auto from = static_cast<std::size_t>(order[i]);
    result.speed[i] = problem.speed[from];
    result.capacity[i] = problem.capacity[from];
    for (std::size_t j = 0; j < n; ++j) {
      const auto cell = from * n + static_cast<std::size_t>(order[j]);
      result.links.latencies[i * n + j] = problem.links.latencies[cell];
      result.links.rates[i * n + j] = problem.links.rates[cell];
    }
  }
  return result;
}

/// An order of the devices that does not depend on the one that they came in.
inline std::vector<int> canonical_devices(const PipelineProblem& problem) {
  const auto n = static_cast<std::size_t>(problem.devices());
  std::vector<std::uint64_t> own(n);
  std::vector<std::uint64_t> links(n * n);
  for (std::size_t i = 0; i < n; ++i) {
    own[i] = Hash().add(problem.speed[i]).add(problem.capacity[i]).value();
    for (std::size_t j = 0; j < n; ++j) {
      links[i * n + j] = Hash()
                             .add(problem.links.latencies[i * n + j] + 0.0)
                             .add(problem.links.rates[i * n + j])
                             .value();
    }
  }
  return StructuralOrder(own, std::move(links)).order();
}

/// Order and split together: a search from above, and a bound from below that becomes a proof.
class OpFenceSearch {
public:
  /// `every`: no device is left out.
  OpFenceSearch(const PipelineProblem& problem, std::uint64_t seed, bool every = false)
      : problem_(problem), costs_(problem), orders_(costs_, seed, every), free_(costs_), every_(every) {
    add_starts();
    const Split& best = orders_.best();
    lower_ = costs_.least_sum() + costs_.more_micro_batches() * costs_.least_bottleneck();
    lower_ = best.stages.empty() ? lower_ : (std::min)(lower_, costs_.time(best));
  }

  [[nodiscard]] bool proven() const { return proven_; }
  [[nodiscard]] const Split& best() const { return orders_.best(); }
  [[nodiscard]] Seconds lower_bound() const { return lower_; }

  /// False, and best, bound and proof are as they were, where `stop` ended it; no round may follow.
  bool round(const std::function<bool()>& stop) {
    constexpr std::uint64_t work = 50'000'000;  // of either, about a quarter of a second
    const Split best_before = orders_.best();
    const Seconds lower_before = lower_;
    // A proof that ran out of work begins again with twice as much, when so much has been put by.
    saved_ += work;
    if (saved_ >= needed_ && !bounded_) {
      prove(std::exchange(saved_, 0), stop);
      if (!proven_) needed_ = (std::max)(2 * needed_, 2 * work);
    }
    if (proven_ || (!stop() && orders_.round(work, stop))) return true;
    orders_.reset(best_before);
    lower_ = lower_before;
    return false;
  }

private:
  void add_starts() {
    std::vector<int> all(static_cast<std::size_t>(problem_.devices()));
    std::iota(all.begin(), all.end(), 0);
    for (const int device : all) {
      if (!every_) orders_.start(std::vector<int>{device});
    }
    const auto by = [&](const auto& figure) {
      std::vector<int> order = all;
      std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
        return figure[static_cast<std::size_t>(a)] > figure[static_cast<std::size_t>(b)];
      });
      if (!every_) order.resize(std::min<std::size_t>(order.size(), max_in_start));
      return order;
    };
    orders_.start(by(problem_.speed));
    orders_.start(by(problem_.capacity));
    for (std::uint32_t attempt = 0; orders_.best().stages.empty() && attempt < 256; ++attempt)
      orders_.start(fitting_order(attempt));
    std::vector<int> fence = fence_order(problem_, clusters_of(problem_));
    // Of hundreds of devices some dozens of a row are left out at most, so that the start takes seconds.
    constexpr std::size_t max_states = std::size_t{1} << 25;
    const std::size_t row = static_cast<std::size_t>(problem_.operators()) * fence.size();
    orders_.start(fence, std::max<std::size_t>(2, max_states / row));
    if (every_) {
      std::reverse(fence.begin(), fence.end());
      orders_.start(fence);
      if (all.size() > max_tried) return;
      do orders_.start(all);
      while (std::next_permutation(all.begin(), all.end()));
      proven_ = true;
      return;
    }
    // Of many devices parts, too: they are quick.
    for (std::size_t first = 0; first < fence.size(); first += max_in_start / 2) {
      const std::size_t end = (std::min)(fence.size(), first + max_in_start);
      std::vector<int> part(fence.begin() + static_cast<std::ptrdiff_t>(first),
                            fence.begin() + static_cast<std::ptrdiff_t>(end));
      orders_.start(part);
      std::reverse(part.begin(), part.end());
      orders_.start(part);
    }
  }

  /// Each next device is one that its operators, as many as fit, leave the least room on: of the first attempt the
  /// best, of others now and then one of the next.
  [[nodiscard]] std::vector<int> fitting_order(std::uint32_t attempt) const {
    detail::Draws draws(0, attempt);
    std::vector<int> order;
    std::vector<int> left(static_cast<std::size_t>(problem_.devices()));
    std::iota(left.begin(), left.end(), 0);
    for (int at = 0; at < problem_.operators() && !left.empty();) {
      std::vector<std::pair<double, int>> room;  // as a share, and whose
      for (const int device : left) {
        const auto capacity =
            static_cast<double>(problem_.capacity[static_cast<std::size_t>(device)]);
        double taken = 0;
        for (int o = at; o < problem_.operators() && costs_.holds(device, at, o + 1); ++o)
          taken += static_cast<double>(problem_.memory[static_cast<std::size_t>(o)]);
        room.emplace_back(capacity > 0 ? 1 - taken / capacity : 1, device);
      }
      std::sort(room.begin(), room.end());
      const int drawn = attempt == 0 ? 0 : draws.below(8);
      const auto pick = static_cast<std::size_t>((std::max)(drawn - 4, 0));  // 1 to 3 of some
      const int device = room[(std::min)(pick, room.size() - 1)].second;
      order.push_back(device);
      left.erase(std::find(left.begin(), left.end(), device));
      const int first = at;
      while (at < problem_.operators() && costs_.holds(device, first, at + 1)) ++at;
    }
    if (every_) order.insert(order.end(), left.begin(), left.end());
    return order;
  }

  /// Raises the bound: devices that a relaxed plan uses twice are counted, until it uses none twice.
  void prove(std::uint64_t work, const std::function<bool()>& stop) {
    free_.allow(work, stop);
    while (!proven_) {
      const Seconds cutoff = costs_.time(orders_.best());
      const Swept swept = sweep(costs_, free_, cutoff);
      if (!swept.complete) return;
      if (swept.split.stages.empty()) {  // no plan is better, though some devices might come twice
        lower_ = cutoff;
        proven_ = true;
        return;
      }
      lower_ = (std::max)(lower_, costs_.time(swept.split));
      std::vector<int> order;
      bool twice = false;
      for (const Stage& stage : swept.split.stages) {
        const bool again = std::find(order.begin(), order.end(), stage.device) != order.end();
        if (!again) order.push_back(stage.device);
        if (again && !free_.counts(stage.device)) {
          if (free_.counted() == FreeSplit::max_counted) return;
          free_.count(stage.device);
        }
        twice = twice || again;
      }
      if (twice) {
        if (!every_) orders_.start(order);
      } else if (every_ && order.size() < problem_.speed.size()) {
        bounded_ = true;  // what leaves devices out is no answer, and no bound is higher
        return;
      } else {
        orders_.start(swept.split);
        proven_ = true;
      }
    }
  }

  static constexpr std::size_t max_in_start = 64;
  static constexpr std::size_t max_tried = 6;  // devices of which all orders are

  const PipelineProblem& problem_;
  SplitCosts costs_;
  OrderSearch orders_;
  FreeSplit free_;
  Seconds lower_ = 0;
  std::uint64_t saved_ = 0;
  std::uint64_t needed_ = 0;
  bool every_;
  bool bounded_ = false;  // the bound is as high as it gets
  bool proven_ = false;
};

/// Why nothing fits.
inline std::string why_infeasible(const PipelineProblem& problem, bool proven) {
  const Bytes most = *std::max_element(problem.capacity.begin(), problem.capacity.end());
  Bytes needed = 0;
  double room = 0;
  for (std::size_t o = 0; o < problem.memory.size(); ++o) {
    if (problem.memory[o] > most) {
      return concat("operator ", o, " needs ", problem.memory[o],
                    " bytes, and no device has more than ", most);
    }
    needed += problem.memory[o];
  }
  for (const Bytes capacity : problem.capacity) room += static_cast<double>(capacity);
  if (static_cast<double>(needed) > room)
    return concat("the operators need ", needed, " bytes, and all devices together have ", room);
  if (proven) return "no order of the devices holds the operators in consecutive parts";
  return "no order of the devices was found that holds the operators in consecutive parts; that "
         "there is "
         "none is not proven";
}

}  // namespace detail

}  // namespace plan
}  // namespace v0
}  // namespace reef
