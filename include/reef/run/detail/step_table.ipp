#pragma once

#include <utility>

#include <reef/comm/point_to_point.hpp>
#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/run/detail/step_table.hpp>
#include <reef/schedule/recording.hpp>

namespace reef {
inline namespace v0 {
namespace run::detail {

/// Its queue goes on when the transfer has started.
REEF_INLINE void post(const schedule::Instruction& instruction, comm::Task& task) {
  auto* const transfer = dynamic_cast<comm::detail::TransferTask*>(&task);
  if (transfer == nullptr) {
    throw ScheduleError("reef::run: ", instruction.text(),
                        " is posted, but its code is no transfer.\n  fix: code that gives a "
                        "comm::SendTask or a comm::ReceiveTask, or Completion::held.");
  }
  transfer->set_completion(comm::Completion::posted);
}

REEF_INLINE void require_agreement(const schedule::Instruction& instruction, const HandlerTable::Communication& code) {
  if (code.say && code.all_done) return;
  throw ScheduleError("reef::run: in ", instruction.text(), " ranks agree about a loop, but its code has no ",
                      code.say ? "all_done" : "say", ".\n  fix: both, as run::add_shared_loop_code.");
}

REEF_INLINE StepTable::StepTable(Lanes& lanes, const schedule::Program& program,
                                 const schedule::Dependencies& dependencies, const HandlerTable& handlers)
    : loops(program.repeats.size()), steps(program.round.size()) {
  const std::vector<std::uint32_t> loop_of = schedule::loop_by_instruction(program);
  std::vector<std::uint32_t> agrees(steps.size(), schedule::no_loop);
  for (std::uint32_t l = 0; l < loops.size(); ++l) {
    if (!program.repeats[l].is_shared()) continue;
    agrees[program.repeats[l].first_agree] = agrees[program.repeats[l].agree] = l;
  }
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const schedule::Instruction& instruction = program.round[i];
    const auto lane = static_cast<std::size_t>(instruction.lane);
    Step& step = steps[i];
    step.event = lanes.any_device->make_event();
    step.name = instruction.text();
    step.nvtx = trace::NvtxName(step.name);
    step.activity = schedule::activity_of(instruction.lane);
    step.queue = lanes.queues[lane];
    step.loop = loop_of[i];
    step.posted = instruction.is_posted();
    step.agrees = agrees[i];
    if (step.queue != nullptr) {
      step.communication = handlers.wire_code(instruction);
      if (instruction.is_posted()) post(instruction, *step.communication.task);
      if (step.agrees != schedule::no_loop) require_agreement(instruction, step.communication);
    } else {
      step.code = handlers.lane_code(instruction);
    }
    std::vector<Part>& parts = order[lane];
    if (parts.empty() || parts.back().loop != step.loop) parts.push_back({step.loop, {}});
    parts.back().instructions.push_back(i);
  }
  for (std::size_t l = 0; l < loops.size(); ++l) make_loop(lanes, program.repeats[l], l);
  for (const schedule::Precedence& before : schedule::precedences(program, dependencies)) {
    const std::uint32_t loop = steps[before.to].loop;
    if (loop == schedule::no_loop || before.in_iteration || before.at_start) continue;
    loops[loop].waits.push_back(wait_for({before.from, before.previous_round}, false));
  }
  for (Loop& loop : loops) {
    if (loop.repeat->is_shared()) loop.waits.push_back(wait_for({loop.repeat->first_agree, false}, false));
  }
  for (std::size_t i = 0; i < steps.size(); ++i) {
    for (const schedule::Dependency& on : dependencies[i]) {
      const bool in_iteration = steps[i].loop != schedule::no_loop && !on.previous_round &&
                                steps[on.instruction].loop == steps[i].loop;
      steps[i].waits.push_back(wait_for(on, in_iteration));
      if (steps[i].queue != nullptr) steps[on.instruction].starts_communication = true;
    }
  }
}

REEF_INLINE void StepTable::make_loop(Lanes& lanes, const schedule::Repeat& repeat, std::size_t index) {
  Loop& loop = loops[index];
  loop.begin = repeat.begin;
  loop.size = repeat.end - repeat.begin;
  loop.max = repeat.max;
  loop.until = steps[repeat.until].event.get();
  loop.repeat = &repeat;
  if (repeat.expected > 0) {
    loop.ends = &steps[repeat.until].communication.ends;
    if (!*loop.ends) {
      throw ScheduleError("reef::run: the code of ", steps[repeat.until].name,
                          " is to say when a loop ends, but has no ends.\n"
                          "  fix: Communication::ends, or Repeat::expected = 0.");
    }
  }
  loop.decided = lanes.any_device->make_event();
  loop.closed = lanes.any_device->make_event();
  for (const std::vector<Part>& parts : order) {
    for (std::size_t p = 0; p < parts.size(); ++p) {
      if (parts[p].loop != index) continue;
      const std::vector<std::size_t>& body = parts[p].instructions;
      for (const std::size_t i : body) {
        if (i == body.back() || steps[i].posted) loop.lasts.push_back(i);
      }
      if (steps[body.back()].queue == nullptr) continue;
      loop.communicating.insert(loop.communicating.end(), body.begin(), body.end());
      if (p + 1 == parts.size() || parts[p + 1].loop != schedule::no_loop) continue;
      const std::vector<std::size_t>& next = parts[p + 1].instructions;
      loop.behind.insert(loop.behind.end(), next.begin(), next.end());
    }
  }
}

REEF_INLINE Wait StepTable::wait_for(const schedule::Dependency& on, bool in_iteration) {
  const Step& step = steps[on.instruction];
  if (step.loop == schedule::no_loop) return {step.event.get(), &round, on};
  Loop& loop = loops[step.loop];
  if (in_iteration) return {step.event.get(), &loop.begun, on};
  return {loop.closed.get(), &round, on};
}

}  // namespace run::detail
}  // namespace v0
}  // namespace reef
