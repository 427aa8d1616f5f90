#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include <reef/comm/message.hpp>
#include <reef/compress/detail/coder_writer.hpp>
#include <reef/compress/detail/masks.hpp>
#include <reef/run/kinds.hpp>
#include <reef/run/messages.hpp>
#include <reef/run/transfers.hpp>
#include <reef/run/views.hpp>

namespace reef {
inline namespace v0 {
namespace compress::detail {

/// Rewrites what goes between stages: Encode and Decode in the place of the copies beside a Send and a Receive, on the
/// same lanes and in the same slots.
class EdgeEncoder {
public:
  EdgeEncoder(run::StepBuilder& builder, CoderWriter& coders)
      : builder_(builder),
        program_(builder.program),
        plan_(builder.plan),
        coders_(coders),
        masks_(builder.program, place_of_memory(builder.plan)) {}

  void run();

private:
  /// A message between stages, or a copy beside one, whose edge is encoded.
  [[nodiscard]] bool is_encoded(const run::Instruction& transfer) const;

  [[nodiscard]] const graph::TensorSpec& spec_of(int edge) const {
    return plan_.dag->tensor_at(plan_.remote_edges[static_cast<std::size_t>(edge)].tensor).spec;
  }

  void shrink(schedule::Message& message, const run::Instruction& transfer) const;

  /// Throws ScheduleError unless the slot that is sent has been encoded.
  void require_coded(const run::Instruction& send, run::Value slot) const;

  /// An Encode in the place of a Download, or a Decode in that of an Upload.
  void code(run::Instruction& copy, bool sends);

  /// Of an edge one for each use, since its messages follow each other on a lane.
  run::Value room_of(const char* use, int edge);

  run::StepBuilder& builder_;
  schedule::Program& program_;
  const run::StepPlan& plan_;
  CoderWriter& coders_;
  MaskStorages masks_;
  std::set<run::StorageId> encoded_{};  ///< slots that are sent, so far
  std::set<int> masking_{};  ///< edges forward whose gradients have their mask
  std::map<std::pair<int, std::string_view>, run::StorageId> rooms_{};
};

}  // namespace compress::detail
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/compress/detail/edge_encoder.ipp>
#endif
