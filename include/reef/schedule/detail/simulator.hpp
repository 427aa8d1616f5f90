#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <queue>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include <reef/schedule/dependencies.hpp>
#include <reef/schedule/detail/matching.hpp>
#include <reef/schedule/detail/structure_checker.hpp>
#include <reef/schedule/program.hpp>
#include <reef/schedule/world.hpp>

namespace reef {
inline namespace v0 {
namespace schedule::detail {

/// A discrete-event simulation: starts, ends and arrivals in the order of virtual time.
class Simulator {
public:
  /// `free`: what is posted waits neither for its lane, nor, if it receives, for a slot.
  Simulator(std::span<const Program> programs, std::span<const Dependencies> dependencies,
            const World& world, int rounds, const TripCounts& replay, bool free = false);

  Simulation run();

  /// After run(): when what was sent in the first round left and arrived, by message as match_messages lists
  /// them.
  struct Moved {
    Seconds left, arrived;
  };
  [[nodiscard]] std::vector<Moved> moved() const;

private:
  struct Task {
    int waits = 0;  ///< instructions, of a body in its iteration, still to end before it starts
    int in_iteration = 0;  ///< in a body: its waits when an iteration begins
    int messages = 0;  ///< of its own, in a body of this iteration, not yet through
    std::uint32_t loop = no_loop;  ///< of loops_
    std::uint32_t agrees = no_loop;  ///< about that one, whether to go on
    Seconds begin = 0;
    bool begun = false;
    bool ended = false;
    std::vector<std::size_t> next;  ///< tasks that wait for this one; in a body, in its iteration
    std::vector<std::size_t> next_at_start;  ///< those that wait for it to start only
    std::vector<std::size_t> transfers;
  };
  struct Loop {
    const Repeat* repeat;
    std::size_t rank;
    int round;
    std::size_t body, until;          ///< the first task of one, and the other
    int replayed = -1;                ///< iterations to run; -1: it asks
    int waits = 0;                    ///< instructions still to end before it may ask
    std::vector<std::size_t> next{};  ///< tasks that wait for it
    int iterations = 0;
    std::size_t running = 0;  ///< tasks of the iteration that have not ended
    Seconds begin = 0;        ///< of the iteration
    std::vector<bool> done{};         ///< of a shared one, what the rank has said, by iteration
  };
  struct Transfer {
    std::size_t sender, receiver;
    Bytes bytes;
    bool of_collective;
    int missing = 2;    ///< ends that have not started
    Seconds whole = 0;  ///< when its last byte reaches the receiver's downlink
    Seconds left = 0;     ///< when its first byte leaves
    Seconds arrived = 0;
    int iteration = 0;    ///< of the loop, in a body
    bool is_there = false;
  };
  // What ends when a loop asks, or ranks agree about one, has ended before, and what starts when a message leaves has
  // started.
  struct Event {
    enum What : std::uint8_t { reach, arrive, sent, end, start, leave, agree, ask };
    Seconds time;
    std::uint64_t order;
    What what;
    std::size_t subject;
    bool operator>(const Event& other) const {
      const What late = (std::max)(what, start);
      const What other_late = (std::max)(other.what, start);
      return std::tie(time, late, order) > std::tie(other.time, other_late, other.order);
    }
  };

  std::size_t task_of(std::size_t rank, int round, std::size_t i) const {
    return first_[rank] + static_cast<std::size_t>(round) * programs_[rank].round.size() + i;
  }
  std::size_t rank_of(std::size_t task) const;
  const Instruction& instruction_of(std::size_t task) const;

  void add_loops(std::size_t rank, int round);

  void connect(std::size_t rank, int round, const std::vector<Precedence>& all);

  void add_transfer(const End& send, const End& receive, int round);

  /// A message of a body in an iteration: that of the first is there from the beginning.
  std::size_t in_iteration(std::size_t index, int iteration);

  void start(std::size_t task) { push(now_, tasks_[task].agrees == no_loop ? Event::start : Event::agree, task); }

  void push(Seconds time, Event::What what, std::size_t subject) {
    events_.push({time, order_++, what, subject});
  }

  void begin(std::size_t task);

  /// Both ends have started, of a collective the sender. Of messages that leave a machine at the same time, those to
  /// the ranks behind it go first, as collectives send them.
  void leave(std::size_t index);

  int rank_at(std::size_t task) const { return programs_[rank_of(task)].rank; }
  const Machine& machine_at(std::size_t task) const {
    return world_.machines[static_cast<std::size_t>(rank_at(task))];
  }

  /// The message takes its place in the sender's uplink and in the link.
  void depart(std::size_t index);

  /// Its first byte is there: it takes its place in the receiver's downlink.
  void reach(std::size_t index);

  void arrive(std::size_t index);

  /// A message of a task is through, as far as that waits for it.
  void pass(std::size_t task) {
    if (--tasks_[task].messages == 0 && tasks_[task].begun) finish(task);
  }

  void finish(std::size_t task);

  void end(std::size_t task);

  /// What waited, a task or a loop, for what has ended.
  void release(const std::vector<std::size_t>& waiting);

  void release_in_iteration(const std::vector<std::size_t>& waiting);

  [[nodiscard]] bool is_done(const Loop& loop, int iterations) const;

  /// All ranks that share the loop have said so. They have said something: its own exchange with them is complete.
  [[nodiscard]] bool all_are_done(const Loop& loop) const;

  void ask(std::size_t index);

  Simulation summary();

  std::span<const Program> programs_;
  const World& world_;
  int rounds_;
  const TripCounts& replay_;
  bool free_;
  std::vector<std::size_t> first_;
  std::vector<Task> tasks_;
  std::vector<Loop> loops_;
  std::vector<std::size_t> first_loop_;  ///< by program
  std::map<int, std::size_t> place_;     ///< by rank, of its program
  std::vector<Transfer> transfers_;
  std::map<std::pair<std::size_t, int>, std::size_t> again_;  ///< in later iterations
  std::map<std::pair<int, int>, Seconds> link_free_;
  std::map<int, Seconds> uplink_free_, downlink_free_;
  bool connections_ = false;  ///< some machine has an uplink or a downlink
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::uint64_t order_ = 0;
  Seconds now_ = 0;
  Simulation result_;
};

}  // namespace schedule::detail
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/schedule/detail/simulator.ipp>
#endif
