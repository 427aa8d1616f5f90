#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <queue>
#include <span>
#include <tuple>
#include <vector>

#include <reef/schedule/dependencies.hpp>
#include <reef/schedule/program.hpp>
#include <reef/schedule/verify.hpp>

namespace reef::inline v0::schedule {

/// One rank's speeds. A rate of 0 is infinite.
struct Machine {
  double flops_per_second = 0;
  double memory_bytes_per_second = 0;  ///< for what is bound by memory, and for folding messages
  double copy_bytes_per_second = 0;    ///< the link between device and host, each direction
  Seconds copy_latency = 0;
};

/// One ordered pair of ranks: a full-duplex first-in-first-out link.
struct Link {
  Seconds latency = 0;
  double bytes_per_second = 0;  ///< 0 is infinite
};

/// What a simulation assumes: a machine per rank and a link per ordered pair, row by sender.
struct World {
  std::vector<Machine> machines{};
  std::vector<Link> links{};

  [[nodiscard]] const Link& link(int from, int to) const {
    return links[static_cast<std::size_t>(from) * machines.size() + static_cast<std::size_t>(to)];
  }

  /// P equal ranks, every link equal.
  static World uniform(int ranks, Machine machine, Link link) {
    const auto count = static_cast<std::size_t>(ranks);
    return {std::vector<Machine>(count, machine), std::vector<Link>(count * count, link)};
  }
};

/// When an instruction ran, in virtual seconds from the start of the first round.
struct SimulatedSpan {
  int rank = 0;
  int round = 0;
  std::uint32_t instruction = 0;
  Lane lane = Lane::compute;
  Seconds begin = 0;
  Seconds end = 0;
};

/// The outcome of a simulation.
struct Simulation {
  Seconds step = 0;                    ///< of the last round: from the end of the one before
  Seconds total = 0;                   ///< until everything is complete
  std::vector<double> utilisation{};   ///< by rank: compute lane busy / step, in the last round
  std::vector<Bytes> wire_bytes{};     ///< by rank: sent in one round, headers included
  std::vector<SimulatedSpan> spans{};  ///< by order of completion
};

namespace detail {

inline Seconds over(double amount, double rate) { return rate > 0 ? amount / rate : 0; }

inline Seconds duration_of(const Instruction& instruction, const Machine& machine) {
  const Cost& cost = instruction.cost;
  if (cost.seconds >= 0) return cost.seconds;
  const auto bytes = static_cast<double>(cost.bytes);
  if (instruction.lane == Lane::load || instruction.lane == Lane::evict) {
    return machine.copy_latency + over(bytes, machine.copy_bytes_per_second);
  }
  return std::max(over(cost.flops, machine.flops_per_second),
                  over(bytes, machine.memory_bytes_per_second));
}

/// A discrete-event simulation: starts, ends and arrivals in the order of virtual time.
class Simulator {
public:
  Simulator(std::span<const Program> programs, std::span<const Dependencies> dependencies,
            const World& world, int rounds)
      : programs_(programs), dependencies_(dependencies), world_(world), rounds_(rounds) {
    for (const Program& program : programs) {
      first_.push_back(tasks_.size());
      tasks_.resize(tasks_.size() + program.round.size() * static_cast<std::size_t>(rounds));
    }
    first_.push_back(tasks_.size());
    for (std::size_t r = 0; r < programs.size(); ++r) connect(r);
    for (const auto& [send, receive] : match_messages(programs)) {
      for (int round = 0; round < rounds; ++round) add_transfer(send, receive, round);
    }
  }

  Simulation run() {
    for (std::size_t task = 0; task < tasks_.size(); ++task) {
      if (tasks_[task].waits == 0) push(0, Event::start, task);
    }
    while (!events_.empty()) {
      const Event event = events_.top();
      events_.pop();
      now_ = event.time;
      if (event.what == Event::start) begin(event.subject);
      if (event.what == Event::arrive) arrive(event.subject);
      if (event.what == Event::end) end(event.subject);
    }
    for (std::size_t task = 0; task < tasks_.size(); ++task) {
      if (tasks_[task].ended) continue;
      throw ScheduleError(
          "reef::schedule::simulate: ", who(programs_[rank_of(task)], instruction_of(task)),
          " never ends: the programs deadlock.\n  fix: verify says in words why.");
    }
    return summary();
  }

private:
  struct Task {
    int waits = 0;     ///< instructions still to end before this may start
    int messages = 0;  ///< of its own, not yet through
    Seconds begin = 0;
    bool ended = false;
    std::vector<std::size_t> next;  ///< tasks that wait for this one
    std::vector<std::size_t> transfers;
  };
  struct Transfer {
    std::size_t sender, receiver;
    Bytes bytes;
    int missing = 2;  ///< ends that have not started
  };
  struct Event {
    enum What : std::uint8_t { arrive, end, start };
    Seconds time;
    std::uint64_t order;
    What what;
    std::size_t subject;
    bool operator>(const Event& other) const {
      return std::tie(time, order) > std::tie(other.time, other.order);
    }
  };

  std::size_t task_of(std::size_t rank, int round, std::size_t i) const {
    return first_[rank] + static_cast<std::size_t>(round) * programs_[rank].round.size() + i;
  }
  std::size_t rank_of(std::size_t task) const {
    return static_cast<std::size_t>(std::upper_bound(first_.begin(), first_.end(), task) -
                                    first_.begin() - 1);
  }
  const Instruction& instruction_of(std::size_t task) const {
    const std::size_t rank = rank_of(task);
    return programs_[rank].round[(task - first_[rank]) % programs_[rank].round.size()];
  }

  void connect(std::size_t rank) {
    const Program& program = programs_[rank];
    std::array<std::size_t, lane_count> last;
    last.fill(tasks_.size());
    for (int round = 0; round < rounds_; ++round) {
      for (std::size_t i = 0; i < program.round.size(); ++i) {
        const std::size_t task = task_of(rank, round, i);
        const auto depend = [&](std::size_t on) {
          tasks_[on].next.push_back(task);
          ++tasks_[task].waits;
        };
        std::size_t& previous = last[static_cast<std::size_t>(program.round[i].lane)];
        if (previous != tasks_.size()) depend(previous);
        previous = task;
        for (const Dependency dependency : dependencies_[rank][i]) {
          if (dependency.previous_round && round == 0) continue;
          depend(
              task_of(rank, dependency.previous_round ? round - 1 : round, dependency.instruction));
        }
      }
    }
  }

  void add_transfer(const End& send, const End& receive, int round) {
    const std::size_t a = task_of(send.rank, round, send.instruction);
    const std::size_t b = task_of(receive.rank, round, receive.instruction);
    for (const std::size_t task : {a, b}) {
      tasks_[task].transfers.push_back(transfers_.size());
      ++tasks_[task].messages;
    }
    transfers_.push_back({a, b, send.bytes});
  }

  void push(Seconds time, Event::What what, std::size_t subject) {
    events_.push({time, order_++, what, subject});
  }

  void begin(std::size_t task) {
    tasks_[task].begin = now_;
    if (tasks_[task].messages == 0) finish(task);
    for (const std::size_t transfer : tasks_[task].transfers) {
      if (--transfers_[transfer].missing == 0) depart(transfer);
    }
  }

  /// Both ends have started: the message takes its place in the link.
  void depart(std::size_t index) {
    const Transfer& transfer = transfers_[index];
    const int from = programs_[rank_of(transfer.sender)].rank;
    const int to = programs_[rank_of(transfer.receiver)].rank;
    const Link& link = world_.link(from, to);
    Seconds& free = link_free_[{from, to}];
    free = std::max(now_, free) + over(static_cast<double>(transfer.bytes), link.bytes_per_second);
    push(free + link.latency, Event::arrive, index);
  }

  void arrive(std::size_t index) {
    for (const std::size_t task : {transfers_[index].sender, transfers_[index].receiver}) {
      if (--tasks_[task].messages == 0) finish(task);
    }
  }

  void finish(std::size_t task) {
    const auto rank = static_cast<std::size_t>(programs_[rank_of(task)].rank);
    push(now_ + duration_of(instruction_of(task), world_.machines[rank]), Event::end, task);
  }

  void end(std::size_t task) {
    tasks_[task].ended = true;
    const std::size_t rank = rank_of(task);
    const std::size_t size = programs_[rank].round.size();
    const std::size_t place = task - first_[rank];
    result_.spans.push_back({programs_[rank].rank, static_cast<int>(place / size),
                             static_cast<std::uint32_t>(place % size), instruction_of(task).lane,
                             tasks_[task].begin, now_});
    for (const std::size_t next : tasks_[task].next) {
      if (--tasks_[next].waits == 0) push(now_, Event::start, next);
    }
  }

  Simulation summary() {
    Simulation& result = result_;
    Seconds before_last = 0;
    for (const SimulatedSpan& span : result.spans) {
      result.total = std::max(result.total, span.end);
      if (span.round < rounds_ - 1) before_last = std::max(before_last, span.end);
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
      for (const Instruction& instruction : program.round) {
        for (const Message& message : instruction.sends) {
          result.wire_bytes[static_cast<std::size_t>(program.rank)] += message.bytes;
        }
      }
    }
    return std::move(result);
  }

  std::span<const Program> programs_;
  std::span<const Dependencies> dependencies_;
  const World& world_;
  int rounds_;
  std::vector<std::size_t> first_;
  std::vector<Task> tasks_;
  std::vector<Transfer> transfers_;
  std::map<std::pair<int, int>, Seconds> link_free_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::uint64_t order_ = 0;
  Seconds now_ = 0;
  Simulation result_;
};

}  // namespace detail

/// Runs the programs of all ranks in virtual time.
///
///     arrival = max(both ends started, link free) + bytes / bandwidth + latency
///
/// An instruction starts when its lane is free and its dependencies have ended; one that
/// communicates ends after its last message plus its own cost (a fold).
///
/// | errors | ScheduleError for a deadlock, a cost or a world that is none; `verify` says more |
/// | cost   | O(rounds * (instructions + messages) * log)                                  |
/// | order  | deterministic: events of one time in the order in which they arose           |
inline Simulation simulate(std::span<const Program> programs, const World& world, int rounds = 2) {
  const std::size_t ranks = world.machines.size();
  if (rounds < 1 || world.links.size() != ranks * ranks) {
    throw ScheduleError("reef::schedule::simulate: ", rounds, " rounds in a world of ", ranks,
                        " machines and ", world.links.size(),
                        " links.\n  fix: at least one round, and a link for every ordered pair.");
  }
  detail::check_structure(programs);
  std::vector<Dependencies> dependencies;
  for (const Program& program : programs) {
    for (const Instruction& instruction : program.round) {
      if (!std::isfinite(instruction.cost.seconds) || !(instruction.cost.flops >= 0)) {
        throw ScheduleError("reef::schedule::simulate: ", detail::who(program, instruction),
                            " has a cost that is no number.");
      }
    }
    if (program.rank < 0 || static_cast<std::size_t>(program.rank) >= world.machines.size()) {
      throw ScheduleError("reef::schedule::simulate: rank ", program.rank,
                          " has no machine in a world of ", world.machines.size(), ".");
    }
    dependencies.push_back(derive(program, place(program)));
  }
  return detail::Simulator(programs, dependencies, world, rounds).run();
}

}  // namespace reef::inline v0::schedule
