#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include <reef/core/units.hpp>
#include <reef/plan/allocation.hpp>
#include <reef/plan/detail/allocation_search.hpp>
#include <reef/plan/detail/in_parallel.hpp>
#include <reef/plan/detail/link_weights.hpp>

namespace reef {
inline namespace v0 {
namespace plan::detail {

/// D_PP x D_DP.
struct Shape {
  int stages = 0;
  int pipelines = 0;
};

/// The devices that have room for a stage where there are so many.
inline std::vector<int> devices_with_room(const AllocationProblem& problem, int stages) {
  const double bytes = problem.stage_bytes * (static_cast<double>(problem.stages) / stages);
  std::vector<int> devices;
  for (int d = 0; d < problem.network.devices; ++d) {
    if (problem.memories.empty() || problem.memories.data()[d] >= bytes) devices.push_back(d);
  }
  return devices;
}

/// Shapes to choose from, of so many devices that have room: all where speeds say what an idle device
/// costs, else those that leave the fewest devices idle.
inline std::vector<Shape> shapes_of(const AllocationProblem& problem) {
  std::vector<Shape> shapes;
  int fewest = (std::numeric_limits<int>::max)();
  for (int stages = 1; stages <= problem.network.devices; ++stages) {
    const int room = static_cast<int>(devices_with_room(problem, stages).size());
    if (room < stages) continue;
    const Shape shape{stages, room / stages};
    const int idle = problem.network.devices - stages * shape.pipelines;
    if (problem.stage_flops <= 0) {
      if (idle > fewest) continue;
      if (idle < fewest) shapes.clear();
      fewest = idle;
    }
    shapes.push_back(shape);
  }
  return shapes;
}

/// A shape with its search, over the devices that have room.
struct ShapeSearch {
  Shape shape;
  std::vector<int> devices;
  std::unique_ptr<AllocationSearch> search;

  [[nodiscard]] Seconds cost() const { return search->cost().total(); }
};

/// How many searches of shapes have a few hundred megabytes of matrices.
inline std::size_t max_shape_searches(std::int64_t devices) {
  return static_cast<std::size_t>(
      std::clamp<std::int64_t>((std::int64_t{1} << 22) / (devices * devices), 2, 64));
}

/// Searches of shapes, the cheapest first: those of a bound below what another shape already costs, and of
/// them the `most` cheapest.
class ShapeSearches {
public:
  ShapeSearches(const AllocationProblem& problem, const AllocationOptions& options,
                std::size_t most) {
    const std::vector<Shape> shapes = options.any_shape
                                          ? shapes_of(problem)
                                          : std::vector{Shape{problem.stages, problem.pipelines}};
    for (const Shape& shape : shapes) {
      ShapeSearch next{shape, devices_with_room(problem, shape.stages), nullptr};
      if (std::int64_t{shape.stages} * shape.pipelines >
          static_cast<std::int64_t>(next.devices.size())) {
        continue;
      }
      const LinkWeights weights =
          link_weights(problem.in_shape(shape.stages, shape.pipelines)).of(next.devices);
      if (!empty()) {
        const Seconds bound = AllocationBound(weights, shape.stages, shape.pipelines).total();
        if (bound >= best().cost()) continue;  // neither it nor its bound can be the least
      }
      next.search = std::make_unique<AllocationSearch>(weights, shape.stages, shape.pipelines,
                                                       options.seed, threads_of(options.threads));
      searches_.insert(std::upper_bound(searches_.begin(), searches_.end(), next, cheaper),
                       std::move(next));
      if (searches_.size() <= most) continue;
      bound_of_dropped_ = (std::min)(bound_of_dropped_, searches_.back().search->lower_bound());
      searches_.pop_back();
    }
    active_ = searches_.size();
  }

  [[nodiscard]] bool empty() const { return searches_.empty(); }
  [[nodiscard]] const ShapeSearch& best() const { return searches_.front(); }

  /// Whether no search that is still active can find less.
  [[nodiscard]] bool ended() const {
    return std::all_of(searches_.begin(), last_active(),
                       [](const ShapeSearch& shape) { return shape.search->optimal(); });
  }

  /// An effort of each active search, of which the cheaper half stays active; false, and all is as it was,
  /// where it was stopped.
  bool advance(const std::function<bool()>& stop) {
    for (std::size_t i = 0; i < active_; ++i) {
      if (searches_[i].search->advance(stop)) continue;
      while (i-- > 0) searches_[i].search->undo();
      return false;
    }
    std::stable_sort(searches_.begin(), searches_.begin() + static_cast<std::ptrdiff_t>(active_),
                     cheaper);
    active_ = (active_ + 1) / 2;
    return true;
  }

  /// No placement in any of the shapes costs less.
  [[nodiscard]] Seconds lower_bound() const {
    Seconds bound = bound_of_dropped_;
    for (const ShapeSearch& shape : searches_)
      bound = (std::min)(bound, shape.search->lower_bound());
    return bound;
  }

private:
  static bool cheaper(const ShapeSearch& a, const ShapeSearch& b) { return a.cost() < b.cost(); }

  [[nodiscard]] std::vector<ShapeSearch>::const_iterator last_active() const {
    return searches_.begin() + static_cast<std::ptrdiff_t>(active_);
  }

  std::vector<ShapeSearch> searches_;  // those that are active first, and none of them dearer
  std::size_t active_ = 0;
  Seconds bound_of_dropped_ = std::numeric_limits<Seconds>::infinity();
};

}  // namespace plan::detail
}  // namespace v0
}  // namespace reef
