#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include <reef/comm/message.hpp>
#include <reef/pipeline/detail/shared_storages.hpp>
#include <reef/pipeline/detail/versioned_weights.hpp>
#include <reef/pipeline/kinds.hpp>
#include <reef/run/instructions.hpp>
#include <reef/run/messages.hpp>
#include <reef/run/transfers.hpp>

namespace reef {
inline namespace v0 {
namespace pipeline::detail {

/// Writes what one stage does with the micro-batches of a phase, by a timetable, and what ends their fold. Of a task,
/// a chunk's of a unit:
///
///     for each edge and j:      Receive(edge, j) -> a slot     posted, in the order of production
///     for each segment:
///         for each j:           Upload(edge, j)                what the segment needs
///         for each j:           Forward or Backward(segment, j)
///                               Download(edge, j) -> a slot    what it makes
///                               Send(edge, j)                  posted
///     Update                             the optimizer's, of a stage that updates within the step (VersionedWeights)
class ProgramWriter {
public:
  /// `first`: of the stage's micro-batches, the first of the timetable's; `fold`: whose sums it adds to.
  ProgramWriter(run::StepBuilder& builder, const run::Timetable& timetable, int first, int fold);

  void run();

private:
  /// By edge, where its messages lie in host memory, one after another.
  struct Rings {
    std::vector<std::vector<run::StorageId>> received{};
    std::vector<std::vector<run::StorageId>> sent{};
  };

  /// A message that comes to this stage.
  struct Awaited {
    int edge = 0;
    int micro_batch = 0;  ///< of the timetable
    bool received = false;
    bool landed = false;
  };

  using EdgesOfSegment = std::vector<std::array<std::vector<int>, 2>>;  ///< by segment; forward, backward

  static std::size_t to_index(int i) { return static_cast<std::size_t>(i); }
  [[nodiscard]] int stage_of(int segment) const {
    return plan_.stage_of_segment[to_index(segment)];
  }

  void add_ring(std::vector<run::StorageId>& ring, std::size_t edge, const char* what);

  /// The key of all ranks: when a message is produced, then the stage that does, then where in its order: the task, in
  /// that the segment, the micro-batch, the edge.
  void await_in_order_of_production();

  /// The edges from a chunk to this stage, ascending.
  [[nodiscard]] std::vector<int> produced_for_here(int chunk, bool back);

  /// All stages of the replica come to it: what waits for the result comes behind all forwards.
  run::Value add_barrier();

  void write(const plan::PipelineTask& task);

  /// A slot that is still in use is what the task at hand, or one before it, lands from: it does so first.
  void post(std::size_t place);

  void land(std::size_t place);

  void send(int e, int j);

  /// Between a slot and what is computed. It says whose it is, as its message does: a codec takes its place by that.
  void copy(std::string_view kind, run::Lane lane, int e, int j, run::StorageId from,
            run::StorageId to);

  run::Instruction& transfer(std::string_view kind, run::Lane lane, int e, int j);

  [[nodiscard]] schedule::Message message_of(int e, int other) const;

  [[nodiscard]] run::StorageId slot(const std::vector<std::vector<run::StorageId>>& rings,
                                    const Awaited& message) const;

  /// What the message carries, where it is computed and read.
  [[nodiscard]] run::StorageId tensor_of(int e, int j) const;

  run::StepBuilder& builder_;
  const run::StepPlan& plan_;
  const run::Timetable& timetable_;
  int first_;
  int fold_;
  Rings& rings_;
  EdgesOfSegment arriving_{};
  EdgesOfSegment leaving_{};
  std::map<std::pair<int, bool>, std::vector<int>> produced_{};
  std::set<Crossing> crossing_{};  ///< to or from this stage
  std::vector<Awaited> awaited_{};                            ///< in the order of production
  std::map<std::pair<int, int>, std::size_t> place_of_{};     ///< by edge and micro-batch
  std::size_t posted_ = 0;
  std::optional<VersionedWeights> versions_{};  ///< of the weights, where they change within the step
};

}  // namespace pipeline::detail
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/pipeline/detail/program_writer.ipp>
#endif
