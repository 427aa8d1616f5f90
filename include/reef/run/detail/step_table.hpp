#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <reef/comm/progress.hpp>
#include <reef/core/units.hpp>
#include <reef/device/any_device.hpp>
#include <reef/run/handlers.hpp>
#include <reef/run/lanes.hpp>
#include <reef/schedule/dependencies.hpp>
#include <reef/schedule/program.hpp>
#include <reef/trace/nvtx.hpp>
#include <reef/trace/span.hpp>

namespace reef {
inline namespace v0 {
namespace run::detail {

/// Completion *count of an event, or the one before.
struct Wait {
  device::AnyEvent* event;
  const std::uint64_t* count;
  schedule::Dependency on;

  [[nodiscard]] std::uint64_t epoch() const { return *count - (on.previous_round ? 1 : 0); }
  [[nodiscard]] bool ready() const { return event->ready(epoch()); }
};

/// An instruction, its code, and what it waits for.
struct Step {
  std::unique_ptr<device::AnyEvent> event;
  std::string name;
  trace::NvtxName nvtx;
  trace::Activity activity = trace::Activity::compute;
  comm::Queue* queue = nullptr;  ///< null: it runs on a lane of the device
  std::uint32_t loop = schedule::no_loop;
  std::vector<Wait> waits;
  const Wait* late = nullptr;         ///< of a communication: what it waited for last
  bool starts_communication = false;  ///< some communication waits for it
  bool posted = false;                ///< what is behind it on its lane does not wait for its end
  std::uint32_t agrees = schedule::no_loop;  ///< about that loop
  Seconds at_least = 0;                      ///< of a paced one
  Seconds took = 0;                          ///< the last time, on the thread of its lane
  HandlerTable::Code code;
  HandlerTable::Communication communication;
};

/// Instructions of one lane, one after the other: those of a body, or those between two.
struct Part {
  std::uint32_t loop;
  std::vector<std::size_t> instructions;
  std::uint64_t decided = 0;  ///< how many decisions the lane has followed
};

/// A loop of the program, and where its iterations are.
struct Loop {
  std::size_t begin = 0;  ///< its first instruction
  std::size_t size = 0;
  int max = 0;
  device::AnyEvent* until = nullptr;
  const schedule::Repeat* repeat = nullptr;
  const std::function<bool()>* ends = nullptr;  ///< what is asked in place of `until`; null: nothing
  std::vector<Wait> waits;                    ///< before it asks
  std::vector<std::size_t> communicating;     ///< what communicates in the body
  std::vector<std::size_t> behind;            ///< what is submitted when the loop is left
  std::vector<std::size_t> lasts;             ///< with them an iteration is complete
  std::unique_ptr<device::AnyEvent> decided;  ///< the leader knows whether there is one more iteration
  std::unique_ptr<device::AnyEvent> closed;   ///< the loop is left; once a round
  bool goes_on = false;                       ///< the decision
  std::uint64_t begun = 0;                    ///< iterations of all rounds
  std::uint32_t ids = 0;                      ///< the trace's of this iteration; 0 before the first of a round
  std::uint32_t former_ids = 0;               ///< of the last iteration in the round before
};

/// What is fixed before the first round of a program: its instructions with their code, in the order of each lane.
struct StepTable {
  StepTable(Lanes& lanes, const schedule::Program& program, const schedule::Dependencies& dependencies,
            const HandlerTable& handlers);
  StepTable(const StepTable&) = delete;
  StepTable& operator=(const StepTable&) = delete;

  std::uint64_t round = 0;  ///< written between rounds only
  std::vector<Loop> loops;
  std::vector<Step> steps;
  std::array<std::vector<Part>, schedule::lane_count> order{};

private:
  void make_loop(Lanes& lanes, const schedule::Repeat& repeat, std::size_t index);

  /// From outside a loop, its end is what one waits for.
  [[nodiscard]] Wait wait_for(const schedule::Dependency& on, bool in_iteration);
};

}  // namespace run::detail
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/run/detail/step_table.ipp>
#endif
