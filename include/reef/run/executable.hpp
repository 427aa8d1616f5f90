#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <reef/run/executor.hpp>
#include <reef/run/links.hpp>
#include <reef/run/memory.hpp>
#include <reef/run/placed_program.hpp>
#include <reef/run/step_code.hpp>

namespace reef {
inline namespace v0 {
namespace run {

/// A placed program in its arenas, with its code, ready to run: one for training, one to evaluate.
///
/// | life | placed, arenas, graph, lanes, progress and source outlive it; it stays where it is |
template <device::device Device, real T, real Gradient = sum_t<T>>
class Executable {
public:
  using AddCode = std::function<void(Handlers<Device>&, const RankContext<Device, T, Gradient>&)>;

  Executable(const PlacedProgram& placed, const Arenas<Device>& arenas,
             const graph::Graph<Device, T>& graph, Source source, NextMicroBatch next,
             const StepState& state, Device& device, comm::Progress& progress, Lanes<Device>& lanes,
             bool serial, const AddCode& add_code);
  Executable(const Executable&) = delete;
  Executable& operator=(const Executable&) = delete;

  ~Executable();

  void run();

  /// Executor::pace, trip_counts and replay.
  void pace(const std::vector<Seconds>& seconds);
  [[nodiscard]] std::span<const int> trip_counts() const;
  void replay(std::vector<int> trip_counts);

  /// Adds what this rank has sent in all rounds, and what codecs have lost of it: Executor::add_to.
  void add_to(LinkTable& table) const;

  [[nodiscard]] const Memory<Device>& memory() const { return memory_; }
  [[nodiscard]] const RankContext<Device, T, Gradient>& context() const { return context_; }

private:
  Source source_;
  NextMicroBatch next_;
  std::vector<std::uint64_t> numbers_;
  std::deque<CodingLoss> losses_;
  Memory<Device> memory_;
  RankContext<Device, T, Gradient> context_;
  std::unique_ptr<Executor<Device>> executor_;
};

template <device::device Device, real T, real Gradient>
Executable<Device, T, Gradient>::Executable(const PlacedProgram& placed, const Arenas<Device>& arenas,
    const graph::Graph<Device, T>& graph, Source source, NextMicroBatch next,
    const StepState& state, Device& device, comm::Progress& progress, Lanes<Device>& lanes,
    bool serial, const AddCode& add_code)
    : source_(std::move(source)),
      next_(std::move(next)),
      numbers_(placed.builder.micro_batches.size()),
      memory_(placed.program, placed.placement, arenas),
      context_{placed.builder, memory_, graph, source_, next_, state, numbers_} {
  context_.losses = &losses_;
  Handlers<Device> handlers;
  add_step_code(handlers, context_);
  add_code(handlers, context_);
  executor_ = std::make_unique<Executor<Device>>(
      device, progress, lanes, placed.program,
      serial ? serial_order(placed.program) : schedule::derive(placed.program, placed.placement),
      handlers);
}

template <device::device Device, real T, real Gradient>
Executable<Device, T, Gradient>::~Executable() = default;

template <device::device Device, real T, real Gradient>
void Executable<Device, T, Gradient>::run() {
  context_.number_micro_batches();
  ++context_.round;
  executor_->run();
}

template <device::device Device, real T, real Gradient>
void Executable<Device, T, Gradient>::pace(const std::vector<Seconds>& seconds) {
  executor_->pace(seconds);
}

template <device::device Device, real T, real Gradient>
std::span<const int> Executable<Device, T, Gradient>::trip_counts() const {
  return executor_->trip_counts();
}

template <device::device Device, real T, real Gradient>
void Executable<Device, T, Gradient>::replay(std::vector<int> trip_counts) {
  executor_->replay(std::move(trip_counts));
}

template <device::device Device, real T, real Gradient>
void Executable<Device, T, Gradient>::add_to(LinkTable& table) const {
  executor_->add_to(table);
  for (const schedule::Instruction& i : context_.builder.program.round) {
    const bool encoded = std::any_of(i.sends.begin(), i.sends.end(), [](const auto& message) { return message.raw.has_value(); });
    if (!encoded || context_.plan().wire_of(i.traffic).lossless) continue;
    const Link link = link_of(i, context_.rank());
    const bool measured = std::any_of(losses_.begin(), losses_.end(), [&](const CodingLoss& loss) { return loss.link == link; });
    if (!measured) table.uses[link].unmeasured = true;
  }
  for (const CodingLoss& loss : losses_) {
    LinkUse& use = table.uses[loss.link];
    use.numbers += loss.numbers;
    use.lost += loss.lost;
  }
}

}  // namespace run
}  // namespace v0
}  // namespace reef
