#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include <reef/graph/remote_edges.hpp>
#include <reef/plan/pipeline_model.hpp>
#include <reef/plan/pipeline_order.hpp>
#include <reef/run/step_plan.hpp>
#include <reef/schedule/world.hpp>

namespace reef {
inline namespace v0 {
namespace pipeline::detail {

/// Chunk c is on stage c mod p.
std::vector<int> looped(int stages, int chunks_per_stage);

/// Times orders of a plan's stages in the asynchronous model.
class Timetables {
public:
  using Order = std::function<plan::PipelineOrder(const plan::PipelineModel&, int units)>;

  /// `unit`: micro-batches that an order counts as one; 0: all that a replica has.
  Timetables(const run::StepPlan& plan, int unit);

  /// The next replica has so many micro-batches. `order` makes the order of their units, given how many those are and a
  /// model that has all but that.
  void add(int count, const Order& order);

  run::PipelineTimetables result() && { return std::move(result_); }

private:
  static std::size_t to_index(int i) { return static_cast<std::size_t>(i); }

  void require_stages(const plan::PipelineOrder& order) const;

  /// Its tasks are of whole units.
  [[nodiscard]] plan::PipelineModel model_of(int replica, int unit) const;

  /// The links between the stages of a replica, and what its ranks share.
  [[nodiscard]] schedule::World world_of(int replica) const;

  [[nodiscard]] std::shared_ptr<const run::Timetable> timed(const plan::PipelineModel& model, int count,
                                                            int unit) const;

  /// Without backwards the order of production is still one in which nobody waits for whom waits for them.
  [[nodiscard]] std::shared_ptr<const run::Timetable> forwards_of(const run::Timetable& all) const;

  [[nodiscard]] std::shared_ptr<const run::Timetable> with_slots(run::Timetable timetable) const;

  /// How many messages of an edge are produced and not yet read at one time. They are read in the order in which they
  /// are produced: micro-batches ascend on both ends. Those of a unit are produced when it ends, and read when one
  /// begins.
  [[nodiscard]] int slots_of(const run::Timetable& timetable, const graph::RemoteEdge& edge) const;

  /// By micro-batch, of the tasks that run a segment forward, or back.
  [[nodiscard]] std::vector<Seconds> times_of(const run::Timetable& timetable, int segment, bool back,
                                              const std::vector<std::vector<Seconds>>& times) const;

  const run::StepPlan& plan_;
  int unit_;
  std::vector<int> stage_of_chunk_{};
  std::vector<graph::RemoteEdge> edges_{};
  run::PipelineTimetables result_{};
};

}  // namespace pipeline::detail
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/pipeline/detail/timetables.ipp>
#endif
