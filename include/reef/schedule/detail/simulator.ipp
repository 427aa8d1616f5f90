#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/schedule/dependencies.hpp>
#include <reef/schedule/detail/matching.hpp>
#include <reef/schedule/detail/simulator.hpp>
#include <reef/schedule/detail/structure_checker.hpp>
#include <reef/schedule/program.hpp>
#include <reef/schedule/world.hpp>

namespace reef {
inline namespace v0 {
namespace schedule::detail {

REEF_INLINE Simulator::Simulator(std::span<const Program> programs, std::span<const Dependencies> dependencies,
          const World& world, int rounds, const TripCounts& replay, bool free)
    : programs_(programs), world_(world), rounds_(rounds), replay_(replay), free_(free) {
  result_.trip_counts.resize(world.machines.size());
  for (const Machine& machine : world.machines) {
    const bool one = machine.uplink_bytes_per_second > 0 || machine.downlink_bytes_per_second > 0;
    connections_ = connections_ || one;
  }
  for (const Program& program : programs) {
    place_[program.rank] = first_.size();
    first_.push_back(tasks_.size());
    tasks_.resize(tasks_.size() + program.round.size() * static_cast<std::size_t>(rounds));
    result_.trip_counts[static_cast<std::size_t>(program.rank)].resize(program.repeats.size());
  }
  first_.push_back(tasks_.size());
  for (std::size_t r = 0; r < programs.size(); ++r) {
    const std::vector<Precedence> order = precedences(programs[r], dependencies[r]);
    first_loop_.push_back(loops_.size());
    for (int round = 0; round < rounds; ++round) {
      add_loops(r, round);
      connect(r, round, order);
    }
  }
  for (const auto& [send, receive] : match_messages(programs)) {
    for (int round = 0; round < rounds; ++round) add_transfer(send, receive, round);
  }
}

REEF_INLINE Simulation Simulator::run() {
  for (std::size_t task = 0; task < tasks_.size(); ++task) {
    if (tasks_[task].waits == 0 && tasks_[task].loop == no_loop) start(task);
  }
  for (std::size_t loop = 0; loop < loops_.size(); ++loop) {
    if (loops_[loop].waits == 0) push(0, Event::ask, loop);
  }
  while (!events_.empty()) {
    const Event event = events_.top();
    events_.pop();
    now_ = event.time;
    if (event.what == Event::start || event.what == Event::agree) begin(event.subject);
    if (event.what == Event::leave) depart(event.subject);
    if (event.what == Event::reach) reach(event.subject);
    if (event.what == Event::arrive) arrive(event.subject);
    if (event.what == Event::sent) pass(transfers_[event.subject].sender);
    if (event.what == Event::end) end(event.subject);
    if (event.what == Event::ask) ask(event.subject);
  }
  for (std::size_t task = 0; task < tasks_.size(); ++task) {
    if (tasks_[task].ended || tasks_[task].loop != no_loop) continue;
    throw ScheduleError(
        "reef::schedule::simulate: ", who(programs_[rank_of(task)], instruction_of(task)),
        " never ends: the programs deadlock.\n  fix: verify says in words why.");
  }
  return summary();
}

REEF_INLINE std::vector<Simulator::Moved> Simulator::moved() const {
  std::vector<Moved> result;
  for (std::size_t i = 0; i < transfers_.size(); i += static_cast<std::size_t>(rounds_)) {
    result.push_back({transfers_[i].left, transfers_[i].arrived});
  }
  return result;
}

REEF_INLINE std::size_t Simulator::rank_of(std::size_t task) const {
  return static_cast<std::size_t>(std::upper_bound(first_.begin(), first_.end(), task) -
                                  first_.begin() - 1);
}

REEF_INLINE const Instruction& Simulator::instruction_of(std::size_t task) const {
  const std::size_t rank = rank_of(task);
  return programs_[rank].round[(task - first_[rank]) % programs_[rank].round.size()];
}

REEF_INLINE void Simulator::add_loops(std::size_t rank, int round) {
  const Program& program = programs_[rank];
  for (std::size_t l = 0; l < program.repeats.size(); ++l) {
    const Repeat& repeat = program.repeats[l];
    Loop loop{&repeat, rank, round, task_of(rank, round, repeat.begin),
              task_of(rank, round, repeat.until)};
    if (!replay_.empty()) loop.replayed = replay_[static_cast<std::size_t>(program.rank)][l];
    for (std::size_t i = repeat.begin; i < repeat.end; ++i) {
      tasks_[task_of(rank, round, i)].loop = static_cast<std::uint32_t>(loops_.size());
    }
    if (repeat.is_shared()) {
      for (const std::uint32_t i : {repeat.first_agree, repeat.agree}) {
        tasks_[task_of(rank, round, i)].agrees = static_cast<std::uint32_t>(loops_.size());
      }
    }
    loops_.push_back(std::move(loop));
  }
}

REEF_INLINE void Simulator::connect(std::size_t rank, int round, const std::vector<Precedence>& all) {
  for (const Precedence& order : all) {
    if (order.previous_round && round == 0) continue;
    const Instruction& behind = programs_[rank].round[order.to];
    // A receive only writes: what it waits for besides its lane is that its slot is free.
    if (free_ && behind.is_posted() && (order.by_lane || behind.lane == Lane::receive)) continue;
    const std::size_t from = task_of(rank, order.previous_round ? round - 1 : round, order.from);
    const std::size_t to = task_of(rank, round, order.to);
    const bool by_loop = tasks_[from].loop != no_loop && !order.in_iteration;
    (by_loop           ? loops_[tasks_[from].loop].next
     : order.at_start ? tasks_[from].next_at_start
                      : tasks_[from].next)
        .push_back(to);
    ++(order.in_iteration           ? tasks_[to].in_iteration
       : tasks_[to].loop != no_loop ? loops_[tasks_[to].loop].waits
                                    : tasks_[to].waits);
  }
}

REEF_INLINE void Simulator::add_transfer(const End& send, const End& receive, int round) {
  const std::size_t a = task_of(send.rank, round, send.instruction);
  const std::size_t b = task_of(receive.rank, round, receive.instruction);
  for (const std::size_t task : {a, b}) {
    tasks_[task].transfers.push_back(transfers_.size());
    ++tasks_[task].messages;
  }
  transfers_.push_back({a, b, send.bytes, instruction_of(a).collective != nullptr});
}

REEF_INLINE std::size_t Simulator::in_iteration(std::size_t index, int iteration) {
  if (iteration == 0) return index;
  const auto [entry, is_new] = again_.emplace(std::pair{index, iteration}, transfers_.size());
  if (is_new) {
    const Transfer& first = transfers_[index];
    transfers_.push_back({first.sender, first.receiver, first.bytes, first.of_collective});
    transfers_.back().iteration = iteration;
  }
  return entry->second;
}

REEF_INLINE void Simulator::begin(std::size_t task) {
  tasks_[task].begin = now_;
  tasks_[task].begun = true;
  if (tasks_[task].agrees != no_loop) {
    Loop& loop = loops_[tasks_[task].agrees];
    loop.done.push_back(is_done(loop, static_cast<int>(loop.done.size())));
  }
  if (tasks_[task].messages == 0) finish(task);
  const bool in_body = tasks_[task].loop != no_loop;
  if (in_body) {
    release_in_iteration(tasks_[task].next_at_start);
  } else {
    release(tasks_[task].next_at_start);
  }
  for (const std::size_t any : tasks_[task].transfers) {
    const std::size_t index = in_body ? in_iteration(any, loops_[tasks_[task].loop].iterations) : any;
    Transfer& transfer = transfers_[index];
    if (transfer.of_collective ? transfer.sender == task : --transfer.missing == 0) leave(index);
  }
}

REEF_INLINE void Simulator::leave(std::size_t index) {
  if (!connections_) return depart(index);
  const auto ranks = static_cast<int>(world_.machines.size());
  const int ahead = rank_at(transfers_[index].receiver) - rank_at(transfers_[index].sender);
  const auto behind = static_cast<std::uint64_t>((ahead + ranks) % ranks);
  events_.push({now_, (behind << 40) + order_++, Event::leave, index});
}

REEF_INLINE void Simulator::depart(std::size_t index) {
  Transfer& transfer = transfers_[index];
  const int from = rank_at(transfer.sender);
  const int to = rank_at(transfer.receiver);
  const Link& link = world_.link(from, to);
  const auto bytes = static_cast<double>(transfer.bytes);
  const double uplink = machine_at(transfer.sender).uplink_bytes_per_second;
  Seconds& free = link_free_[{from, to}];
  transfer.left = (std::max)(now_, free);
  free = transfer.left + over(bytes, link.bytes_per_second);
  if (uplink > 0) {
    Seconds& up = uplink_free_[from];
    transfer.left = (std::max)(transfer.left, up);
    up = (std::max)(now_, up) + over(bytes, uplink);
    free = (std::max)(free, up);
  }
  transfer.whole = free + link.latency;
  if (transfer.of_collective) push(free, Event::sent, index);
  if (machine_at(transfer.receiver).downlink_bytes_per_second > 0) {
    const Seconds takes = (std::max)(over(bytes, link.bytes_per_second), over(bytes, uplink));
    push((std::max)(now_, transfer.whole - takes), Event::reach, index);
  } else {
    push(transfer.whole, Event::arrive, index);
  }
}

REEF_INLINE void Simulator::reach(std::size_t index) {
  const Transfer& transfer = transfers_[index];
  Seconds& free = downlink_free_[rank_at(transfer.receiver)];
  free = (std::max)(now_, free) + over(static_cast<double>(transfer.bytes),
                                       machine_at(transfer.receiver).downlink_bytes_per_second);
  free = (std::max)(free, transfer.whole);
  push(free, Event::arrive, index);
}

REEF_INLINE void Simulator::arrive(std::size_t index) {
  Transfer& transfer = transfers_[index];
  transfer.arrived = now_;
  transfer.is_there = true;
  if (!transfer.of_collective) pass(transfer.sender);
  const std::uint32_t loop = tasks_[transfer.receiver].loop;
  const bool early = loop != no_loop && (loops_[loop].running == 0 || loops_[loop].iterations != transfer.iteration);
  if (!early) pass(transfer.receiver);
}

REEF_INLINE void Simulator::finish(std::size_t task) {
  const auto rank = static_cast<std::size_t>(programs_[rank_of(task)].rank);
  push(now_ + duration_of(instruction_of(task), world_.machines[rank]), Event::end, task);
}

REEF_INLINE void Simulator::end(std::size_t task) {
  tasks_[task].ended = true;
  const std::size_t rank = rank_of(task);
  const std::size_t size = programs_[rank].round.size();
  const std::size_t place = task - first_[rank];
  const std::uint32_t loop = tasks_[task].loop;
  result_.spans.push_back({programs_[rank].rank, static_cast<int>(place / size),
                           static_cast<std::uint32_t>(place % size), instruction_of(task).lane,
                           tasks_[task].begin, now_,
                           loop == no_loop ? 0 : loops_[loop].iterations});
  if (loop == no_loop) {
    release(tasks_[task].next);
    return;
  }
  release_in_iteration(tasks_[task].next);
  if (--loops_[loop].running > 0) return;
  ++loops_[loop].iterations;
  push(now_, Event::ask, loop);
}

REEF_INLINE void Simulator::release(const std::vector<std::size_t>& waiting) {
  for (const std::size_t task : waiting) {
    const std::uint32_t loop = tasks_[task].loop;
    if (--(loop == no_loop ? tasks_[task].waits : loops_[loop].waits) > 0) continue;
    if (loop == no_loop) {
      start(task);
    } else {
      push(now_, Event::ask, loop);
    }
  }
}

REEF_INLINE void Simulator::release_in_iteration(const std::vector<std::size_t>& waiting) {
  for (const std::size_t task : waiting) {
    if (--tasks_[task].waits == 0) start(task);
  }
}

REEF_INLINE bool Simulator::is_done(const Loop& loop, int iterations) const {
  if (loop.replayed >= 0) return iterations >= loop.replayed;
  const bool ended = loop.repeat->expected > 0 ? iterations >= loop.repeat->expected : tasks_[loop.until].ended;
  return ended || (loop.repeat->max > 0 && iterations >= loop.repeat->max);
}

REEF_INLINE bool Simulator::all_are_done(const Loop& loop) const {
  const Program& program = programs_[loop.rank];
  const auto iteration = static_cast<std::size_t>(loop.iterations);
  const auto l = static_cast<std::size_t>(loop.repeat - program.repeats.data());
  bool all = loop.done.at(iteration);
  for (const Message& message : program.round[loop.repeat->agree].receives) {
    const std::size_t peer = place_.at(message.peer);
    const std::size_t before = static_cast<std::size_t>(loop.round) * programs_[peer].repeats.size();
    all = all && loops_[first_loop_[peer] + before + l].done.at(iteration);
  }
  return all;
}

REEF_INLINE void Simulator::ask(std::size_t index) {
  Loop& loop = loops_[index];
  if (loop.repeat->is_shared() ? all_are_done(loop) : is_done(loop, loop.iterations)) {
    const Program& program = programs_[loop.rank];
    result_.trip_counts[static_cast<std::size_t>(program.rank)]
                       [static_cast<std::size_t>(loop.repeat - program.repeats.data())] =
        loop.iterations;
    release(loop.next);
    return;
  }
  if (loop.iterations > 0 && loop.begin == now_ && loop.repeat->max == 0 && loop.repeat->expected == 0 &&
      loop.replayed < 0) {
    throw ScheduleError("reef::schedule::simulate: an iteration of the loop that begins with ",
                        who(programs_[loop.rank], instruction_of(loop.body)),
                        " takes no time, so it would run for ever.\n"
                        "  fix: state what its instructions cost, or a `max`.");
  }
  loop.begin = now_;
  loop.running = loop.repeat->end - loop.repeat->begin;
  for (std::size_t task = loop.body; task < loop.body + loop.running; ++task) {
    tasks_[task].waits = tasks_[task].in_iteration;
    tasks_[task].begun = false;
    tasks_[task].messages = 0;
    for (const std::size_t any : tasks_[task].transfers) {
      const Transfer& transfer = transfers_[in_iteration(any, loop.iterations)];
      if (transfer.sender == task || !transfer.is_there) ++tasks_[task].messages;
    }
    if (tasks_[task].waits == 0) start(task);
  }
}

REEF_INLINE Simulation Simulator::summary() {
  Simulation& result = result_;
  Seconds before_last = 0;
  for (const SimulatedSpan& span : result.spans) {
    result.total = (std::max)(result.total, span.end);
    if (span.round < rounds_ - 1) before_last = (std::max)(before_last, span.end);
  }
  result.step = result.total - before_last;
  result.utilisation.assign(world_.machines.size(), 0);
  result.wire_bytes.assign(world_.machines.size(), 0);
  for (const SimulatedSpan& span : result.spans) {
    if (span.round != rounds_ - 1 || span.lane != Lane::compute || result.step <= 0) continue;
    result.utilisation[static_cast<std::size_t>(span.rank)] +=
        (span.end - span.begin) / result.step;
  }
  for (const Program& program : programs_) {
    const auto rank = static_cast<std::size_t>(program.rank);
    const std::vector<std::uint32_t> loops = loop_by_instruction(program);
    for (std::size_t i = 0; i < program.round.size(); ++i) {
      const int times = loops[i] == no_loop ? 1 : result.trip_counts[rank][loops[i]];
      for (const Message& message : program.round[i].sends) {
        result.wire_bytes[rank] += static_cast<Bytes>(times) * message.bytes;
      }
    }
  }
  return std::move(result);
}

}  // namespace schedule::detail
}  // namespace v0
}  // namespace reef
