#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <reef/run/executor.hpp>
#include <reef/run/links.hpp>
#include <reef/run/memory.hpp>
#include <reef/run/placed_program.hpp>
#include <reef/run/rank_context.hpp>
#include <reef/run/step_code.hpp>

namespace reef {
inline namespace v0 {
namespace run {

/// A rank's program with its memory and code, ready to run, for training or for evaluation. See make_executable.
///
/// | life | the objects that its context refers to, progress and lanes outlive it |
class Executable {
public:
  /// Prepares the program's code. If `serial`, every instruction waits for the one before it, as by run::serial_order.
  Executable(std::unique_ptr<AnyRankContext> context, const HandlerTable& handlers, comm::Progress& progress,
             Lanes& lanes, bool serial);
  Executable(const Executable&) = delete;
  Executable& operator=(const Executable&) = delete;
  ~Executable();

  void run();

  /// Sets the least time of each instruction (Executor::pace); trip_counts() and replay() call the functions of these
  /// names of the Executor.
  void pace(const std::vector<Seconds>& seconds) { executor_.pace(seconds); }
  [[nodiscard]] std::span<const int> trip_counts() const { return executor_.trip_counts(); }
  void replay(std::vector<int> trip_counts) { executor_.replay(std::move(trip_counts)); }

  /// Adds the messages that this rank has sent so far (Executor::add_to), and the loss of precision by its codecs, to a
  /// table.
  void add_to(LinkTable& table) const;

  [[nodiscard]] const Memory& memory() const& { return context_->memory; }
  void memory() const&& = delete;
  [[nodiscard]] const AnyRankContext& context() const& { return *context_; }
  void context() const&& = delete;

private:
  std::unique_ptr<AnyRankContext> context_;
  Executor executor_;
};

/// Returns an Executable for a rank's program, a device and a type of weights. add_code(handlers, context) adds the
/// code of the policies to that of the model.
///
/// | life | placed, arenas, graph, state, progress and lanes outlive it |
template <device::device Device, real T, real Gradient, class AddCode>
std::unique_ptr<Executable> make_executable(const PlacedProgram& placed, const Arenas& arenas,
                                            const graph::Graph<Device, T>& graph, Source source, NextMicroBatch next,
                                            const StepState& state, comm::Progress& progress, Lanes& lanes, bool serial,
                                            const AddCode& add_code) {
  auto context = std::make_unique<RankContext<Device, T, Gradient>>(placed, arenas, graph, std::move(source),
                                                                    std::move(next), state);
  Handlers<Device> handlers;
  add_step_code(handlers, *context);
  add_code(handlers, *context);
  return std::make_unique<Executable>(std::move(context), handlers.table(), progress, lanes, serial);
}

}  // namespace run
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/run/executable.ipp>
#endif
