#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include <reef/core/units.hpp>
#include <reef/plan/pipeline_model.hpp>
#include <reef/schedule/program.hpp>
#include <reef/schedule/transfer_order.hpp>

namespace reef::test {

/// An operation of a pipeline on micro-batch j: F forward, B whole backward, I and W its halves.
struct PipelineOperation {
  char what;
  int stage;
  int j;
};

/// Chunks of a model on ranks, each with the operations that it runs in order. An edge (s, t), s < t, is a tensor
/// that chunk s makes and chunk t reads.
struct Pipeline {
  std::vector<int> rank_of{};  ///< by chunk
  std::vector<std::pair<int, int>> edges{};
  std::vector<std::vector<PipelineOperation>> orders{};  ///< by rank
  std::vector<Seconds> t_f{}, t_b{}, t_w{};              ///< by chunk
  Bytes bytes = 1000;                                    ///< of a message

  [[nodiscard]] int ranks() const { return static_cast<int>(orders.size()); }
  [[nodiscard]] Seconds time_of(const PipelineOperation& operation) const {
    const auto s = static_cast<std::size_t>(operation.stage);
    switch (operation.what) {
      case 'F': return t_f[s];
      case 'I': return t_b[s];
      case 'W': return t_w[s];
      default: return t_b[s] + t_w[s];
    }
  }

  [[nodiscard]] plan::PipelineModel model() const {
    using Kind = plan::PipelineTaskKind;
    plan::PipelineModel model;
    model.order.rank_of_chunk = rank_of;
    for (const auto& order : orders) {
      auto& tasks = model.order.tasks.emplace_back();
      for (const PipelineOperation& o : order) {
        const Kind kind = o.what == 'F'   ? Kind::forward
                          : o.what == 'B' ? Kind::backward
                          : o.what == 'I' ? Kind::input_backward
                                          : Kind::weight_backward;
        tasks.push_back({kind, o.stage, o.j});
        model.order.micro_batches = std::max(model.order.micro_batches, o.j + 1);
      }
    }
    model.times = {.forward = t_f, .input_backward = t_b, .weight_backward = t_w};
    for (const auto& [from, to] : edges) model.forward.push_back({from, to, bytes});
    return model;
  }
};

/// A pipeline as programs.
struct PipelinePrograms {
  using Completion = schedule::Completion;
  using Slots = plan::PipelineSlots;

  PipelinePrograms(const Pipeline& pipeline, Completion completion, const Slots& slots = {})
      : programs(plan::programs_of(pipeline.model(), completion, slots)) {}

  std::vector<schedule::Program> programs;

  static Slots slots_of(const std::vector<schedule::Program>& programs,
                        const std::vector<schedule::FreeTransfer>& transfers,
                        const schedule::TransferSlots& slots) {
    return plan::pipeline_slots(programs, transfers, slots);
  }
};

}  // namespace reef::test
