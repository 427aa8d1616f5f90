#pragma once

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include <reef/core/error.hpp>
#include <reef/core/finite.hpp>
#include <reef/core/inline.hpp>
#include <reef/run/detail/coarse_clock.hpp>
#include <reef/run/executor.hpp>
#include <reef/trace/nvtx.hpp>
#include <reef/trace/sink.hpp>

namespace reef {
inline namespace v0 {
namespace run {

namespace detail {

/// Of what is encoded, in all rounds and iterations.
REEF_INLINE std::optional<Bytes> raw_of(const schedule::Instruction& instruction, std::uint64_t times) {
  std::optional<Bytes> raw;
  for (const schedule::Message& message : instruction.sends) {
    if (message.raw) raw = raw.value_or(0) + times * *message.raw;
  }
  return raw;
}

/// Blocks the lane's thread until a completion has happened on the device too.
REEF_INLINE void await(device::AnyLane& lane, device::AnyEvent& event, std::uint64_t epoch) {
  lane.wait(event, epoch);
  event.synchronize(epoch);
}

REEF_INLINE void decide(Loop& loop, bool goes_on) {
  loop.goes_on = goes_on;
  loop.decided->signal();
}

}  // namespace detail

REEF_INLINE Executor::Executor(comm::Progress& progress, Lanes& lanes, const schedule::Program& program,
                               const schedule::Dependencies& dependencies, const HandlerTable& handlers)
    : progress_(progress),
      lanes_(lanes),
      program_(program),
      on_host_(lanes.any_device->on_host()),
      stalls_(program),
      table_(lanes, program, dependencies, handlers),
      trace_(lanes, table_),
      trip_counts_(table_.loops.size(), 0) {
  for (std::size_t lane = 0; lane < schedule::lane_count; ++lane) {
    if (lanes_.lanes[lane]) works_[lane] = std::make_unique<LaneWork>(progress_, on_host_);
  }
}

REEF_INLINE Executor::~Executor() {
  // First: while a task is in flight, the progress thread asks what it waits for.
  for (Step& step : table_.steps) step.communication.task.reset();
}

REEF_INLINE void Executor::run() {
  const comm::detail::Waiting waiting(
      *progress_.occupations());  // the lanes say what they are at
  ++table_.round;
  trace_.begin_round();
  stalls_.begin_round();
  trip_counts_.assign(table_.loops.size(), 0);
  progress_.tick();
  lanes_.on_failure->arm([this] { abandon(); });
  try {
    submit_all();
  } catch (...) {
    fail();
  }
  // All lanes first, also when one has failed: they use what the caller may then destroy.
  for (const auto& lane : lanes_.lanes) {
    if (!lane) continue;
    try {
      lane->synchronize();
    } catch (...) {
      fail();
    }
  }
  lanes_.on_failure->arm({});
  replay_.clear();
  trace_.end_round();
  if (error_) std::rethrow_exception(error_);
  stalls_.end_round();
  wait_for_queues();
  // A failure that came after the last communication let the lanes go before their end.
  if (abandoned_.load()) progress_.throw_failure();
}

REEF_INLINE void Executor::wait_for_queues() {
  for (std::size_t lane = 0; lane < schedule::lane_count; ++lane) {
    if (lanes_.lanes[lane]) continue;
    for (const Part& part : table_.order[lane]) {
      // With the last one that is held those before it are complete; of posted ones each has its own end.
      for (const std::size_t i : part.instructions) {
        if (!table_.steps[i].posted && i != part.instructions.back()) continue;
        const comm::Task& task = *table_.steps[i].communication.task;
        const Seconds from = task.complete() ? 0 : trace::now();
        progress_.wait(task);
        if (from > 0) stalls_.wait_for_end(i, trace::now() - from);
      }
    }
  }
}

REEF_INLINE void Executor::add_to(LinkTable& table) const {
  for (std::size_t i = 0; i < table_.steps.size(); ++i) {
    const schedule::Instruction& instruction = program_.round[i];
    if (table_.steps[i].queue == nullptr || (instruction.sends.empty() && instruction.receives.empty())) continue;
    LinkUse& use = table.uses[flow_of(instruction, program_.rank)];
    const comm::Cost& sent = table_.steps[i].communication.task->sent();
    use.sent = use.sent + sent;
    const std::uint32_t loop = table_.steps[i].loop;
    const std::uint64_t times = loop == schedule::no_loop ? table_.round : table_.loops[loop].begun;
    use.raw += detail::raw_of(instruction, times)
                   .value_or(sent.bytes - sent.messages * comm::header_bytes + sent.window_bytes);
    use.exposed += stalls_.exposed()[i];
  }
}

REEF_INLINE void Executor::replay(std::vector<int> trip_counts) {
  bool fits = trip_counts.size() == table_.loops.size();
  for (const int count : trip_counts) fits = fits && count >= 0;
  if (!fits) {
    throw ScheduleError(
        "reef::run::Executor::replay: ", trip_counts.size(), " trip counts for ", table_.loops.size(),
        " loops.\n  fix: a count of 0 or more for each: what trip_counts() gave.");
  }
  for (const Loop& loop : table_.loops) {
    if (loop.ends == nullptr) continue;
    throw ScheduleError("reef::run::Executor::replay: the code of ", table_.steps[loop.repeat->until].name,
                        " says when a loop ends, and what it computes.\n  fix: code that says the same again.");
  }
  replay_ = std::move(trip_counts);
}

REEF_INLINE void Executor::pace(const std::vector<Seconds>& seconds) {
  if (!on_host_) {
    throw ScheduleError(
        "reef::run::Executor::pace: the lanes are of a device that is not the host.\n"
        "  why: a paced lane sleeps on the thread on which its kernels run.\n  fix: device::Host, or no pace.");
  }
  if (seconds.size() != table_.steps.size()) {
    throw ScheduleError("reef::run::Executor::pace: ", seconds.size(), " durations for ", table_.steps.size(),
                        " instructions.\n  fix: one for each, as of run::durations.");
  }
  for (std::size_t i = 0; i < table_.steps.size(); ++i) {
    if (!within(seconds[i], 0, 1e6)) {
      throw ScheduleError("reef::run::Executor::pace: ", program_.round[i].text(), " is to take ", seconds[i],
                          " s.\n  fix: from 0 to 1e6, as on a device that is not so slow.");
    }
    table_.steps[i].at_least = seconds[i];
  }
  paced_ = true;
}

REEF_INLINE void Executor::abandon() {
  abandoned_.store(true);
  for (const Step& step : table_.steps) step.event->signal();
  for (const Loop& loop : table_.loops) {
    loop.decided->signal();
    loop.closed->signal();
  }
}

REEF_INLINE void Executor::fail() {
  std::exception_ptr error;
  {
    const std::scoped_lock lock(error_mutex_);
    if (!error_) error_ = std::current_exception();
    error = error_;
  }
  abandon();
  progress_.give_up(std::move(error));
}

REEF_INLINE void Executor::submit_all() {
  for (std::size_t lane = 0; lane < schedule::lane_count; ++lane) {
    std::vector<Part>& parts = table_.order[lane];
    if (parts.empty()) continue;
    if (lanes_.lanes[lane]) {
      lanes_.lanes[lane]->submit([this, lane](Lane& self) { walk(self, lane); });
    } else if (parts.front().loop == schedule::no_loop) {
      for (const std::size_t i : parts.front().instructions) submit(i);
    }
  }
}

REEF_INLINE void Executor::submit(std::size_t i) {
  Step& step = table_.steps[i];
  step.late = nullptr;
  step.communication.task->trace_as(trace_.id_of(i));
  if (step.loop != schedule::no_loop) {
    step.communication.task->fill_wait(
        [until = table_.loops[step.loop].until, round = table_.round] { return !until->ready(round); });
  }
  progress_.submit(
      *step.queue, *step.communication.task,
      [this, &step] {
        for (const Wait& wait : step.waits) {
          if (wait.ready()) continue;
          step.late = &wait;
          return false;
        }
        // Looked at last: abandon() makes events ready whose data are not.
        if (abandoned_.load()) return false;
        if (step.late != nullptr) step.communication.task->trace_cause(trace_.id_of(*step.late));
        if (step.agrees != schedule::no_loop) announce_loop_end(step);
        if (step.communication.begin) step.communication.begin();
        return true;
      },
      [&step] { step.event->signal(); },
      on_host_ ? comm::Readiness::told : comm::Readiness::polled);
}

REEF_INLINE void Executor::walk(Lane& lane, std::size_t index) {
  try {
    for (Part& part : table_.order[index]) {
      if (part.loop == schedule::no_loop) {
        walk_part(lane, index, part);
      } else if (index == leader) {
        lead(lane, part);
      } else {
        follow(lane, index, part);
      }
      if (abandoned_.load()) return;
    }
    if (index == leader) stalls_.computed(trace::now());
  } catch (...) {
    fail();
  }
}

REEF_INLINE void Executor::walk_part(Lane& lane, std::size_t index, const Part& part) {
  const bool traced = lanes_.tracks[index] != nullptr;
  Seconds free = 0;  // of a paced lane: when it was done with what came before
  std::int64_t now = detail::coarse_now_ns();
  for (const std::size_t i : part.instructions) {
    Step& step = table_.steps[i];
    const Wait* late = nullptr;
    bool stood = false;
    for (const Wait& wait : step.waits) {
      if (!wait_and_measure(lane, wait, i, traced)) continue;
      stood = true;
      if (traced) late = &wait;
    }
    if (abandoned_.load(std::memory_order_relaxed)) return;
    detail::RoundTrace::Stamp* const stamp = trace_.next_stamp(index);
    if (stamp != nullptr) {
      stamp->instruction = i;
      stamp->id = trace_.id_of(i);
      stamp->cause = late != nullptr ? trace_.id_of(*late) : 0;
      lane.stamp(stamp->begin);
    }
    if (stood) now = detail::coarse_now_ns();
    begin_work(*works_[index], step, now);
    {
      const trace::NvtxRange range(step.nvtx);
      if (paced_ && (stood || free == 0)) free = trace::now();
      step.code(lane);
      free += step.at_least;
      if (step.at_least > 0) rest_until(free);
    }
    // Read before: with the event recorded, the compute lane may begin the next iteration.
    const std::uint64_t epoch = step.loop == schedule::no_loop ? table_.round : table_.loops[step.loop].begun;
    lane.record(*step.event);
    works_[index]->end(*step.event, epoch);
    const std::int64_t begun = std::exchange(now, detail::coarse_now_ns());
    step.took = static_cast<Seconds>(now - begun) * 1e-9;
    if (stamp != nullptr) lane.stamp(stamp->end);
    if (step.loop == schedule::no_loop) progress_.tick();
    if (step.starts_communication) progress_.wake();
  }
}

REEF_INLINE void Executor::begin_work(LaneWork& work, const Step& step, std::int64_t since) const {
  const Seconds expected = on_host_ ? (std::max)(step.at_least, step.took) : 0;
  const bool looped = step.loop != schedule::no_loop;
  work.begin(step.name, since, expected, looped ? table_.loops[step.loop].until : nullptr, table_.round);
}

REEF_INLINE void Executor::rest_until(Seconds end) const {
  constexpr Seconds longest = 0.05;
  for (Seconds left = end - trace::now(); left > 0 && !abandoned_.load(std::memory_order_relaxed);
       left = end - trace::now()) {
    std::this_thread::sleep_for(std::chrono::duration<double>((std::min)(left, longest)));
  }
}

REEF_INLINE bool Executor::wait_and_measure(Lane& lane, const Wait& wait, std::size_t i, bool traced) {
  const bool asks = on_host_ || traced || table_.steps[wait.on.instruction].queue != nullptr;
  if (!asks || wait.ready()) {
    lane.wait(*wait.event, wait.epoch());
    return false;
  }
  const Seconds from = trace::now();
  lane.wait(*wait.event, wait.epoch());
  stalls_.add(i, wait.on.instruction, from, trace::now());
  return true;
}

REEF_INLINE void Executor::lead(Lane& lane, const Part& part) {
  Loop& loop = table_.loops[part.loop];
  int& iterations = trip_counts_[part.loop];
  for (const Wait& wait : loop.waits) {
    wait_and_measure(lane, wait, part.instructions.front(), false);
    wait.event->synchronize(wait.epoch());
  }
  while (goes_on(loop, part.loop)) {
    ++loop.begun;
    trace_.begin_iteration(loop);
    for (const std::size_t i : loop.communicating) {
      progress_.wait(*table_.steps[i].communication.task);  // its event comes before it is at rest
      submit(i);
    }
    detail::decide(loop, true);
    walk_part(lane, leader, part);
    for (const std::size_t i : loop.lasts) detail::await(lane, *table_.steps[i].event, loop.begun);
    if (abandoned_.load()) return;
    ++iterations;
  }
  if (abandoned_.load()) return;
  detail::decide(loop, false);
  loop.closed->signal();
  for (const std::size_t i : loop.behind) submit(i);
  progress_.wake();
}

REEF_INLINE void Executor::follow(Lane& lane, std::size_t index, Part& part) {
  const Loop& loop = table_.loops[part.loop];
  while (true) {
    lane.wait(*loop.decided, ++part.decided);
    if (abandoned_.load() || !loop.goes_on) return;
    walk_part(lane, index, part);
  }
}

REEF_INLINE bool Executor::goes_on(const Loop& loop, std::size_t index) const {
  if (abandoned_.load()) return false;
  const bool done = is_done(index, trip_counts_[index]);
  if (!loop.repeat->is_shared()) return !done;
  const Step& agreed = table_.steps[trip_counts_[index] == 0 ? loop.repeat->first_agree : loop.repeat->agree];
  const bool all_done = agreed.communication.all_done();
  if (!replay_.empty() && done != all_done) {
    throw ScheduleError("reef::run::Executor::replay: loop ", index, " is to run ", replay_[index],
                        " iterations, but not on all ranks that share it.\n  fix: the same counts for all of them.");
  }
  return !all_done;
}

REEF_INLINE bool Executor::is_done(std::size_t index, int iterations) const {
  const Loop& loop = table_.loops[index];
  if (!replay_.empty()) return iterations >= replay_[index];
  if (loop.max > 0 && iterations >= loop.max) return true;
  return loop.ends != nullptr ? (*loop.ends)() : loop.until->ready(table_.round);
}

REEF_INLINE void Executor::announce_loop_end(const Step& step) {
  const bool in_body = step.loop != schedule::no_loop;
  step.communication.say(is_done(step.agrees, trip_counts_[step.agrees] + (in_body ? 1 : 0)));
}

}  // namespace run
}  // namespace v0
}  // namespace reef
