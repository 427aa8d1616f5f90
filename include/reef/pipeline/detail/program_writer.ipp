#pragma once

#include <algorithm>
#include <cstddef>

#include <reef/comm/message.hpp>
#include <reef/core/inline.hpp>
#include <reef/pipeline/detail/places.hpp>
#include <reef/pipeline/detail/program_writer.hpp>
#include <reef/pipeline/detail/versioned_weights.hpp>
#include <reef/pipeline/kinds.hpp>
#include <reef/run/instructions.hpp>
#include <reef/run/messages.hpp>
#include <reef/run/transfers.hpp>

namespace reef::inline v0::pipeline::detail {

REEF_INLINE ProgramWriter::ProgramWriter(run::StepBuilder& builder, const run::Timetable& timetable, int first, int fold)
    : builder_(builder),
      plan_(builder.plan),
      timetable_(timetable),
      first_(first),
      fold_(fold),
      rings_(builder.scratch<Rings>()) {
  const std::size_t edges = plan_.remote_edges.size();
  arriving_.resize(plan_.segments.size());
  leaving_.resize(plan_.segments.size());
  rings_.received.resize(edges);
  rings_.sent.resize(edges);
  for (std::size_t e = 0; e < edges; ++e) {
    const graph::RemoteEdge& edge = plan_.remote_edges[e];
    if (edge.gradient && !builder.trains()) continue;
    const std::size_t back = edge.gradient ? 1 : 0;
    if (stage_of(edge.to) == builder.stage() || stage_of(edge.from) == builder.stage()) {
      crossing_.insert({edge.tensor, edge.gradient});
    }
    if (stage_of(edge.to) == builder.stage()) {
      arriving_[index(edge.to)][back].push_back(static_cast<int>(e));
      add_ring(rings_.received[e], e, "received");
    }
    if (stage_of(edge.from) == builder.stage()) {
      leaving_[index(edge.from)][back].push_back(static_cast<int>(e));
      add_ring(rings_.sent[e], e, "sent");
    }
  }
  await_in_order_of_production();
}

REEF_INLINE void ProgramWriter::run() {
  if (builder_.updates_within_the_step()) {
    versions_.emplace(builder_, first_, timetable_.micro_batches, fold_);
  }
  bool waits = plan_.timetables.barrier && builder_.trains();
  for (const plan::PipelineTask& task : timetable_.order.tasks[index(builder_.stage())]) {
    if (builder_.phase.one_micro_batch && task.micro_batch > 0) continue;
    const bool back = task.kind != plan::PipelineTaskKind::forward;
    const run::Value passed = waits && back ? add_barrier() : run::Value{};
    const std::size_t begin = builder_.program.round.size();
    write(task);
    if (!waits || !back) continue;
    waits = false;
    const auto first = std::find_if(
        builder_.program.round.begin() + static_cast<std::ptrdiff_t>(begin),
        builder_.program.round.end(), [](const auto& i) { return i.lane == run::Lane::compute; });
    first->reads.push_back(passed);
  }
  if (builder_.trains() && !versions_) run::add_folds(builder_, fold_);
  versions_.reset();
  const int count = builder_.phase.one_micro_batch ? 1 : timetable_.micro_batches;
  PlaceSharer(builder_, first_, count, crossing_).run();
}

}  // namespace reef::inline v0::pipeline::detail
