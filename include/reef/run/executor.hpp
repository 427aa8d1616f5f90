#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <reef/comm/point_to_point.hpp>
#include <reef/comm/progress.hpp>
#include <reef/core/error.hpp>
#include <reef/core/finite.hpp>
#include <reef/device/concept.hpp>
#include <reef/run/handlers.hpp>
#include <reef/run/lane_work.hpp>
#include <reef/run/lanes.hpp>
#include <reef/run/links.hpp>
#include <reef/run/stalls.hpp>
#include <reef/schedule/dependencies.hpp>
#include <reef/schedule/program.hpp>
#include <reef/schedule/recording.hpp>
#include <reef/trace/nvtx.hpp>
#include <reef/trace/sink.hpp>

namespace reef {
inline namespace v0 {
namespace run {

/// The waits that make every instruction follow its predecessor in the program: with them an
/// Executor is the serial reference, whose bits `run` must give. What a loop runs until comes before it
/// there, so it runs the iterations that are replayed, or none.
inline schedule::Dependencies serial_order(const schedule::Program& program) {
  const std::size_t count = program.round.size();
  schedule::Dependencies result(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t before = (i + count - 1) % count;
    const schedule::Instruction& first = program.round[before];
    if (first.lane == program.round[i].lane && !first.is_posted()) continue;
    result[i].push_back({static_cast<std::uint32_t>(before), i == 0});
  }
  return result;
}

/// Runs a program's rounds: every lane walks its own instructions and waits where a dependency says.
///
/// The compute lane leads the loops: it submits what an iteration communicates, tells the body's
/// other lanes that there is one, and begins the next when all of it is complete. What a queue has
/// behind a body is submitted when the loop is left, so that it stays behind the iterations. About a loop that ranks
/// share the compute lane does not decide: what they agree in, has told it.
///
/// | blocks | run() until the round is complete on the device and on the wire                    |
/// | cost   | per instruction one event, and a wait for each dependency on another lane; per     |
/// |        | iteration the compute lane stands still until the iteration is complete on the     |
/// |        | device                                                                             |
/// | errors | what a handler throws, which the other ranks are told; comm's errors. The executor |
/// |        | and the Progress object are unusable then, on all ranks, and the round is not      |
/// |        | complete                                                                           |
/// | life   | device, progress, lanes and program outlive the executor                           |
///
/// \code
/// // given: device::Host& host, comm::Progress& progress, const schedule::Program& program
/// // given: const schedule::Placement& placement, const run::Handlers<device::Host>& handlers
/// run::Lanes<device::Host> lanes(host, progress, nullptr);
/// run::Executor<device::Host> executor(host, progress, lanes, program,
///                                      schedule::derive(program, placement), handlers);
/// executor.run();  // one round
/// \endcode
template <device::device Device>
class Executor {
public:
  using Lane = typename Device::Lane;
  using Event = typename Device::Event;

  Executor(Device& device, comm::Progress& progress, Lanes<Device>& lanes,
           const schedule::Program& program, const schedule::Dependencies& dependencies,
           const Handlers<Device>& handlers)
      : progress_(progress),
        lanes_(lanes),
        program_(program),
        stalls_(program),
        loops_(program.repeats.size()),
        steps_(program.round.size()) {
    const std::vector<std::uint32_t> loop_of = schedule::loop_by_instruction(program);
    std::vector<std::uint32_t> agrees(steps_.size(), schedule::no_loop);
    for (std::uint32_t l = 0; l < loops_.size(); ++l) {
      if (!program.repeats[l].is_shared()) continue;
      agrees[program.repeats[l].first_agree] = agrees[program.repeats[l].agree] = l;
    }
    trip_counts_.assign(loops_.size(), 0);
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      const schedule::Instruction& instruction = program.round[i];
      const auto lane = static_cast<std::size_t>(instruction.lane);
      Step& step = steps_[i];
      step.event = std::make_unique<Event>(device);
      step.name = instruction.text();
      step.nvtx = trace::NvtxName(step.name);
      step.activity = schedule::activity_of(instruction.lane);
      step.queue = lanes_.queues[lane];
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
      std::vector<Part>& parts = order_[lane];
      if (parts.empty() || parts.back().loop != step.loop) parts.push_back({step.loop, {}});
      parts.back().instructions.push_back(i);
    }
    for (std::size_t l = 0; l < loops_.size(); ++l) make_loop(device, program.repeats[l], l);
    for (const schedule::Precedence& order : schedule::precedences(program, dependencies)) {
      const std::uint32_t loop = steps_[order.to].loop;
      if (loop == schedule::no_loop || order.in_iteration || order.at_start) continue;
      loops_[loop].waits.push_back(wait_for({order.from, order.previous_round}, false));
    }
    for (std::size_t lane = 0; lane < schedule::lane_count; ++lane) {
      if (lanes_.lanes[lane]) works_[lane] = std::make_unique<LaneWork<Device>>(progress_);
    }
    for (Loop& loop : loops_) {
      if (loop.repeat->is_shared()) loop.waits.push_back(wait_for({loop.repeat->first_agree, false}, false));
    }
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      for (const schedule::Dependency& on : dependencies[i]) {
        const bool in_iteration = steps_[i].loop != schedule::no_loop && !on.previous_round &&
                                  steps_[on.instruction].loop == steps_[i].loop;
        steps_[i].waits.push_back(wait_for(on, in_iteration));
        if (steps_[i].queue != nullptr) steps_[on.instruction].starts_communication = true;
      }
    }
  }
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;
  ~Executor() {
    // First: while a task is in flight, the progress thread asks what it waits for.
    for (Step& step : steps_) step.communication.task.reset();
  }

  /// Runs one round. All ranks call it equally often.
  void run() {
    const comm::detail::Waiting waiting(
        *progress_.occupations());  // the lanes say what they are at
    ++round_;
    if (lanes_.sink != nullptr) {
      former_ids_ = std::exchange(ids_, lanes_.sink->ids(steps_.size()));
    }
    for (Loop& loop : loops_) loop.former_ids = std::exchange(loop.ids, 0);
    stalls_.begin_round();
    trip_counts_.assign(loops_.size(), 0);
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
    trace_round();
    if (error_) std::rethrow_exception(error_);
    stalls_.end_round();
    for (std::size_t lane = 0; lane < schedule::lane_count; ++lane) {
      if (lanes_.lanes[lane]) continue;
      for (const Part& part : order_[lane]) {
        // With the last one that is held those before it are complete; of posted ones each has its own end.
        for (const std::size_t i : part.instructions) {
          const bool waits = steps_[i].posted || i == part.instructions.back();
          if (!waits) continue;
          const comm::Task& task = *steps_[i].communication.task;
          const Seconds from = task.complete() ? 0 : trace::now();
          progress_.wait(task);
          if (from > 0) stalls_.wait_for_end(i, trace::now() - from);
        }
      }
    }
    // A failure that came after the last communication let the lanes go before their end.
    if (abandoned_.load()) progress_.throw_failure();
  }

  /// Adds what this rank has sent in all rounds, and what its computation has stood still for: on a device whose lanes run
  /// ahead of it, the thread that feeds them. Between rounds. Of what a codec has lost nothing is known here.
  void add_to(LinkTable& table) const {
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      const schedule::Instruction& instruction = program_.round[i];
      if (steps_[i].queue == nullptr || (instruction.sends.empty() && instruction.receives.empty())) continue;
      LinkUse& use = table.uses[link_of(instruction, program_.rank)];
      const comm::Cost& sent = steps_[i].communication.task->sent();
      use.sent = use.sent + sent;
      const std::uint32_t loop = steps_[i].loop;
      const std::uint64_t times = loop == schedule::no_loop ? round_ : loops_[loop].begun;
      use.raw += raw_of(instruction, times).value_or(sent.bytes - sent.messages * comm::header_bytes + sent.window_bytes);
      use.exposed += stalls_.exposed()[i];
    }
  }

  /// How many iterations each loop ran in the last round. The code of a body finds there how many
  /// its loop ran before this iteration, the code of what waits for the loop how many it ran. It
  /// stays where it is.
  [[nodiscard]] std::span<const int> trip_counts() const { return trip_counts_; }

  /// In the next round each loop runs so many iterations and does not ask: with the iterations of
  /// another run its bits come again. Throws ScheduleError unless there is a count, 0 or more, for
  /// each loop; and run() does where ranks that share a loop are given different counts.
  void replay(std::vector<int> trip_counts) {
    bool fits = trip_counts.size() == loops_.size();
    for (const int count : trip_counts) fits = fits && count >= 0;
    if (!fits) {
      throw ScheduleError(
          "reef::run::Executor::replay: ", trip_counts.size(), " trip counts for ", loops_.size(),
          " loops.\n  fix: a count of 0 or more for each: what trip_counts() gave.");
    }
    replay_ = std::move(trip_counts);
  }

  /// From the next round on each instruction takes at least so many seconds on its lane of the device, by its place in the
  /// round: the lane sleeps for the rest, and makes good what it was late, also by kernels that took longer: what runs without
  /// a wait takes the longer of both sums. For devices on the host. Throws ScheduleError unless there is a number for each,
  /// from 0 to a million.
  void pace(const std::vector<Seconds>& seconds) {
    static_assert(Device::on_host, "the thread of a lane is where its kernels run");
    if (seconds.size() != steps_.size()) {
      throw ScheduleError("reef::run::Executor::pace: ", seconds.size(), " durations for ", steps_.size(),
                          " instructions.\n  fix: one for each, as of run::durations.");
    }
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      if (!within(seconds[i], 0, 1e6)) {
        throw ScheduleError("reef::run::Executor::pace: ", program_.round[i].text(), " is to take ", seconds[i],
                            " s.\n  fix: from 0 to 1e6, as on a device that is not so slow.");
      }
      steps_[i].at_least = seconds[i];
    }
    paced_ = true;
  }

private:
  static constexpr auto leader = static_cast<std::size_t>(schedule::Lane::compute);

  /// Completion *count of an event, or the one before.
  struct Wait {
    Event* event;
    const std::uint64_t* count;
    schedule::Dependency on;

    [[nodiscard]] std::uint64_t epoch() const { return *count - (on.previous_round ? 1 : 0); }
    [[nodiscard]] bool ready() const { return event->ready(epoch()); }
  };

  struct Step {
    std::unique_ptr<Event> event;
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
    Seconds at_least = 0;               ///< of a paced one
    Seconds took = 0;                   ///< the last time, on the thread of its lane
    typename Handlers<Device>::Code code;
    typename Handlers<Device>::Communication communication;
  };

  /// Instructions of one lane, one after the other: those of a body, or those between two.
  struct Part {
    std::uint32_t loop;
    std::vector<std::size_t> instructions;
    std::uint64_t decided = 0;  ///< how many decisions the lane has followed
  };

  struct Loop {
    std::size_t begin = 0;  ///< its first instruction
    std::size_t size = 0;
    int max = 0;
    Event* until = nullptr;
    const schedule::Repeat* repeat = nullptr;
    std::vector<Wait> waits;          ///< before it asks
    std::vector<std::size_t> communicating;  ///< what communicates in the body
    std::vector<std::size_t> behind;  ///< what is submitted when the loop is left
    std::vector<std::size_t> lasts;   ///< with them an iteration is complete
    std::unique_ptr<Event> decided;   ///< the leader knows whether there is one more iteration
    std::unique_ptr<Event> closed;    ///< the loop is left; once a round
    bool goes_on = false;             ///< the decision
    std::uint64_t begun = 0;          ///< iterations of all rounds
    std::uint32_t ids = 0;         ///< the trace's of this iteration; 0 before the first of a round
    std::uint32_t former_ids = 0;  ///< of the last iteration in the round before
  };

  /// A run of an instruction, for the trace.
  struct Stamp {
    std::size_t instruction = 0;
    std::uint32_t id = 0;
    std::uint32_t cause = 0;  ///< the id of what it waited for, last of all
    Seconds begin = 0;        ///< on the device
    Seconds end = 0;          ///< 0: not yet
  };
  struct Stamps {
    std::deque<Stamp> list;  // the device writes into it, so nothing in it moves
    std::size_t used = 0;

    Stamp& next() {
      if (used == list.size()) list.emplace_back();
      return list[used++] = {};
    }
  };

  /// Of what is encoded, in all rounds and iterations.
  [[nodiscard]] static std::optional<Bytes> raw_of(const schedule::Instruction& instruction, std::uint64_t times) {
    std::optional<Bytes> raw;
    for (const schedule::Message& message : instruction.sends) {
      if (message.raw) raw = raw.value_or(0) + times * *message.raw;
    }
    return raw;
  }

  /// Its queue goes on when the transfer has started.
  static void post(const schedule::Instruction& instruction, comm::Task& task) {
    auto* const transfer = dynamic_cast<comm::detail::TransferTask*>(&task);
    if (transfer == nullptr) {
      throw ScheduleError("reef::run: ", instruction.text(),
                          " is posted, but its code is no transfer.\n  fix: code that gives a "
                          "comm::SendTask or a comm::ReceiveTask, or Completion::held.");
    }
    transfer->set_completion(comm::Completion::posted);
  }

  static void require_agreement(const schedule::Instruction& instruction, const typename Handlers<Device>::Communication& code) {
    if (code.say && code.all_done) return;
    throw ScheduleError("reef::run: in ", instruction.text(), " ranks agree about a loop, but its code has no ",
                        code.say ? "all_done" : "say", ".\n  fix: both, as run::add_shared_loop_code.");
  }

  void make_loop(Device& device, const schedule::Repeat& repeat, std::size_t index) {
    Loop& loop = loops_[index];
    loop.begin = repeat.begin;
    loop.size = repeat.end - repeat.begin;
    loop.max = repeat.max;
    loop.until = steps_[repeat.until].event.get();
    loop.repeat = &repeat;
    loop.decided = std::make_unique<Event>(device);
    loop.closed = std::make_unique<Event>(device);
    for (const std::vector<Part>& parts : order_) {
      for (std::size_t p = 0; p < parts.size(); ++p) {
        if (parts[p].loop != index) continue;
        const std::vector<std::size_t>& body = parts[p].instructions;
        for (const std::size_t i : body) {
          if (i == body.back() || steps_[i].posted) loop.lasts.push_back(i);
        }
        if (steps_[body.back()].queue == nullptr) continue;
        loop.communicating.insert(loop.communicating.end(), body.begin(), body.end());
        if (p + 1 == parts.size() || parts[p + 1].loop != schedule::no_loop) continue;
        const std::vector<std::size_t>& next = parts[p + 1].instructions;
        loop.behind.insert(loop.behind.end(), next.begin(), next.end());
      }
    }
  }

  /// From outside a loop, its end is what one waits for.
  Wait wait_for(const schedule::Dependency& on, bool in_iteration) {
    const Step& step = steps_[on.instruction];
    if (step.loop == schedule::no_loop) return {step.event.get(), &round_, on};
    Loop& loop = loops_[step.loop];
    if (in_iteration) return {step.event.get(), &loop.begun, on};
    return {loop.closed.get(), &round_, on};
  }

  /// Lets lanes go that wait for what will not come, and starts nothing more: run() then throws what
  /// a lane or the communication failed of. Any thread.
  void abandon() {
    abandoned_.store(true);
    for (const Step& step : steps_) step.event->signal();
    for (const Loop& loop : loops_) {
      loop.decided->signal();
      loop.closed->signal();
    }
  }

  /// What ran goes to the tracks: at the end, since a device tells only then when it did.
  void trace_round() {
    for (std::size_t lane = 0; lane < schedule::lane_count; ++lane) {
      if (lanes_.tracks[lane] == nullptr) continue;
      Stamps& stamps = stamps_[lane];
      for (std::size_t k = 0; k < stamps.used; ++k) {
        const Stamp& stamp = stamps.list[k];
        if (stamp.end == 0) continue;
        const Step& step = steps_[stamp.instruction];
        lanes_.tracks[lane]->span(step.activity, step.name, stamp.begin, stamp.end, 0,
                                  {.id = stamp.id, .cause = stamp.cause});
      }
      stamps.used = 0;
    }
  }

  void submit_all() {
    for (std::size_t lane = 0; lane < schedule::lane_count; ++lane) {
      std::vector<Part>& parts = order_[lane];
      if (parts.empty()) continue;
      if (lanes_.lanes[lane]) {
        lanes_.lanes[lane]->submit([this, lane](Lane& self) { walk(self, lane); });
      } else if (parts.front().loop == schedule::no_loop) {
        for (const std::size_t i : parts.front().instructions) submit(i);
      }
    }
  }

  /// The trace's id of an instruction in this round, in a body of the iteration that runs or ran
  /// last.
  [[nodiscard]] std::uint32_t id_of(std::size_t i, bool previous_round = false) const {
    const Step& step = steps_[i];
    const bool looped = step.loop != schedule::no_loop;
    const std::uint32_t first =
        looped ? (previous_round ? loops_[step.loop].former_ids : loops_[step.loop].ids)
               : (previous_round ? former_ids_ : ids_);
    if (first == 0) return 0;
    return first + static_cast<std::uint32_t>(i - (looped ? loops_[step.loop].begin : 0));
  }
  [[nodiscard]] std::uint32_t id_of(const Wait& wait) const {
    return id_of(wait.on.instruction, wait.on.previous_round);
  }

  /// Keeps the first exception, lets the other lanes go, and tells the other ranks.
  void fail() {
    std::exception_ptr error;
    {
      const std::scoped_lock lock(error_mutex_);
      if (!error_) error_ = std::current_exception();
      error = error_;
    }
    abandon();
    progress_.give_up(std::move(error));
  }

  void walk(Lane& lane, std::size_t index) {
    try {
      for (Part& part : order_[index]) {
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

  void walk_part(Lane& lane, std::size_t index, const Part& part) {
    const bool traced = lanes_.tracks[index] != nullptr;
    Seconds free = 0;  // of a paced lane: when it was done with what came before
    for (const std::size_t i : part.instructions) {
      Step& step = steps_[i];
      const Wait* late = nullptr;
      bool stood = false;
      for (const Wait& wait : step.waits) {
        if (!stand_still(lane, wait, i, traced)) continue;
        stood = true;
        if (traced) late = &wait;
      }
      if (abandoned_.load(std::memory_order_relaxed)) return;
      Stamp* const stamp = traced ? &stamps_[index].next() : nullptr;
      if (stamp != nullptr) {
        stamp->instruction = i;
        stamp->id = id_of(i);
        stamp->cause = late != nullptr ? id_of(*late) : 0;
        lane.stamp(stamp->begin);
      }
      const Seconds begin = trace::now();
      begin_work(*works_[index], step);
      {
        const trace::NvtxRange range(step.nvtx);
        if (paced_ && (stood || free == 0)) free = trace::now();
        step.code(lane);
        free += step.at_least;
        if (step.at_least > 0) rest_until(free);
      }
      // Read before: with the event recorded, the compute lane may begin the next iteration.
      const std::uint64_t epoch = step.loop == schedule::no_loop ? round_ : loops_[step.loop].begun;
      lane.record(*step.event);
      works_[index]->end(*step.event, epoch);
      step.took = trace::now() - begin;
      if (stamp != nullptr) lane.stamp(stamp->end);
      if (step.loop == schedule::no_loop) progress_.tick();
      if (step.starts_communication) progress_.wake();
    }
  }

  void begin_work(LaneWork<Device>& work, const Step& step) const {
    const Seconds expected = Device::on_host ? (std::max)(step.at_least, step.took) : 0;
    const bool looped = step.loop != schedule::no_loop;
    work.begin(step.name, expected, looped ? loops_[step.loop].until : nullptr, round_);
  }

  /// Or until the round is given up.
  void rest_until(Seconds end) const {
    constexpr Seconds longest = 0.05;
    for (Seconds left = end - trace::now(); left > 0 && !abandoned_.load(std::memory_order_relaxed); left = end - trace::now()) {
      std::this_thread::sleep_for(std::chrono::duration<double>((std::min)(left, longest)));
    }
  }

  /// Waits, and notes how long. Returns whether it had to. A device that may be asked at a cost is asked for messages alone,
  /// or for the trace.
  bool stand_still(Lane& lane, const Wait& wait, std::size_t i, bool traced) {
    const bool asks = Device::on_host || traced || steps_[wait.on.instruction].queue != nullptr;
    if (!asks || wait.ready()) {
      lane.wait(*wait.event, wait.epoch());
      return false;
    }
    const Seconds from = trace::now();
    lane.wait(*wait.event, wait.epoch());
    stalls_.add(i, wait.on.instruction, from, trace::now());
    return true;
  }

  /// The compute lane in a loop.
  void lead(Lane& lane, const Part& part) {
    Loop& loop = loops_[part.loop];
    int& iterations = trip_counts_[part.loop];
    for (const Wait& wait : loop.waits) {
      stand_still(lane, wait, part.instructions.front(), false);
      wait.event->synchronize(wait.epoch());
    }
    while (goes_on(loop, part.loop)) {
      ++loop.begun;
      if (lanes_.sink != nullptr) loop.ids = lanes_.sink->ids(loop.size);
      for (const std::size_t i : loop.communicating) {
        progress_.wait(*steps_[i].communication.task);  // its event comes before it is at rest
        submit(i);
      }
      decide(loop, true);
      walk_part(lane, leader, part);
      for (const std::size_t i : loop.lasts) await(lane, *steps_[i].event, loop.begun);
      if (abandoned_.load()) return;
      ++iterations;
    }
    if (abandoned_.load()) return;
    decide(loop, false);
    loop.closed->signal();
    for (const std::size_t i : loop.behind) submit(i);
    progress_.wake();
  }

  /// Another lane in a loop: an iteration for each decision of the compute lane to go on.
  void follow(Lane& lane, std::size_t index, Part& part) {
    const Loop& loop = loops_[part.loop];
    while (true) {
      lane.wait(*loop.decided, ++part.decided);
      if (abandoned_.load() || !loop.goes_on) return;
      walk_part(lane, index, part);
    }
  }

  [[nodiscard]] bool goes_on(const Loop& loop, std::size_t index) const {
    if (abandoned_.load()) return false;
    const bool done = is_done(index, trip_counts_[index]);
    if (!loop.repeat->is_shared()) return !done;
    const Step& agreed = steps_[trip_counts_[index] == 0 ? loop.repeat->first_agree : loop.repeat->agree];
    const bool all_done = agreed.communication.all_done();
    if (!replay_.empty() && done != all_done) {
      throw ScheduleError("reef::run::Executor::replay: loop ", index, " is to run ", replay_[index],
                          " iterations, but not on all ranks that share it.\n  fix: the same counts for all of them.");
    }
    return !all_done;
  }

  [[nodiscard]] bool is_done(std::size_t index, int iterations) const {
    const Loop& loop = loops_[index];
    if (!replay_.empty()) return iterations >= replay_[index];
    return (loop.max > 0 && iterations >= loop.max) || loop.until->ready(round_);
  }

  /// On the progress thread: the compute lane, which counts iterations, waits for it.
  void say(const Step& step) {
    const bool in_body = step.loop != schedule::no_loop;
    step.communication.say(is_done(step.agrees, trip_counts_[step.agrees] + (in_body ? 1 : 0)));
  }

  static void decide(Loop& loop, bool goes_on) {
    loop.goes_on = goes_on;
    loop.decided->signal();
  }

  /// Blocks the lane's thread until a completion has happened on the device too.
  static void await(Lane& lane, Event& event, std::uint64_t epoch) {
    lane.wait(event, epoch);
    event.synchronize(epoch);
  }

  void submit(std::size_t i) {
    Step& step = steps_[i];
    step.late = nullptr;
    step.communication.task->trace_as(id_of(i));
    if (step.loop != schedule::no_loop) {
      step.communication.task->fill_wait(
          [until = loops_[step.loop].until, round = round_] { return !until->ready(round); });
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
          if (step.late != nullptr) step.communication.task->trace_cause(id_of(*step.late));
          if (step.agrees != schedule::no_loop) say(step);
          if (step.communication.begin) step.communication.begin();
          return true;
        },
        [&step] { step.event->signal(); },
        Device::on_host ? comm::Readiness::told : comm::Readiness::polled);
  }

  comm::Progress& progress_;
  Lanes<Device>& lanes_;
  const schedule::Program& program_;
  Stalls stalls_;
  std::uint64_t round_ = 0;       ///< written between rounds only
  std::uint32_t ids_ = 0;         ///< the trace's of this round's instructions; as round_
  std::uint32_t former_ids_ = 0;  ///< of the round before
  bool paced_ = false;            ///< as round_
  std::atomic<bool> abandoned_{false};
  std::mutex error_mutex_;
  std::exception_ptr error_;  ///< under error_mutex_ while a round runs
  std::vector<int> trip_counts_;  ///< by loop; the compute lane's while a round runs
  std::vector<int> replay_;   ///< by loop, or empty; written between rounds only
  std::vector<Loop> loops_;
  std::vector<Step> steps_;
  std::array<std::vector<Part>, schedule::lane_count> order_{};
  std::array<std::unique_ptr<LaneWork<Device>>, schedule::lane_count>
      works_{};                                        ///< null for queues
  std::array<Stamps, schedule::lane_count> stamps_{};  ///< by lane, of the round
};

}  // namespace run
}  // namespace v0
}  // namespace reef
