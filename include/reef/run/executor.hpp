#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <reef/comm/progress.hpp>
#include <reef/core/error.hpp>
#include <reef/device/concept.hpp>
#include <reef/schedule/dependencies.hpp>
#include <reef/schedule/program.hpp>
#include <reef/trace/nvtx.hpp>
#include <reef/trace/sink.hpp>

namespace reef::inline v0::run {

/// The code behind the kinds of instructions: one entry per kind, added by whoever adds the kind.
///
/// An entry is asked once per instruction, before the first round, so what is fixed for all rounds
/// (addresses, sizes) is worked out then.
template <device::device Device>
class Handlers {
public:
  using Lane = typename Device::Lane;
  using Code = std::function<void(Lane&)>;

  /// What an instruction of a communicating lane does: `task`, after `begin` on the progress thread.
  struct Communication {
    std::shared_ptr<comm::Task> task;
    std::function<void()> begin{};
  };

  /// Code for a kind that runs on a lane of the device. Throws ScheduleError if the kind has code.
  void on_lane(std::string kind, std::function<Code(const schedule::Instruction&)> make) {
    add(lanes_, std::move(kind), std::move(make));
  }

  /// Code for a kind that communicates. Throws ScheduleError if the kind has code.
  void on_wire(std::string kind, std::function<Communication(const schedule::Instruction&)> make) {
    add(wires_, std::move(kind), std::move(make));
  }

  [[nodiscard]] Code lane_code(const schedule::Instruction& instruction) const {
    return find(lanes_, instruction)(instruction);
  }
  [[nodiscard]] Communication wire_code(const schedule::Instruction& instruction) const {
    return find(wires_, instruction)(instruction);
  }

private:
  template <class Table>
  static void add(Table& table, std::string kind, typename Table::mapped_type make) {
    const auto [entry, is_new] = table.emplace(std::move(kind), std::move(make));
    if (is_new) return;
    throw ScheduleError(
        "reef::run::Handlers: the kind '", entry->first,
        "' has code already.\n  fix: give an instruction of one's own a kind of its own.");
  }

  template <class Table>
  static const typename Table::mapped_type& find(const Table& table,
                                                 const schedule::Instruction& instruction) {
    const auto entry = table.find(instruction.kind);
    if (entry == table.end()) {
      throw ScheduleError("reef::run: no code for the instruction ", instruction.text(),
                          " on lane ", schedule::name_of(instruction.lane),
                          ".\n  fix: add a handler for its kind before the executor is made.");
    }
    return entry->second;
  }

  std::map<std::string, std::function<Code(const schedule::Instruction&)>> lanes_;
  std::map<std::string, std::function<Communication(const schedule::Instruction&)>> wires_;
};

/// The waits that make every instruction follow its predecessor in the program: with them an
/// Executor is the serial reference, whose bits `run` must give.
inline schedule::Dependencies serial_order(const schedule::Program& program) {
  const std::size_t count = program.round.size();
  schedule::Dependencies result(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t before = (i + count - 1) % count;
    if (program.round[before].lane == program.round[i].lane) continue;
    result[i].push_back({static_cast<std::uint32_t>(before), i == 0});
  }
  return result;
}

/// What a failed communication lets go: the round that runs, if one does. The progress thread may
/// outlive the executors, so it holds this and never one of them.
class FailureSwitch {
public:
  /// Calls what is armed. Any thread.
  void trip() {
    const std::scoped_lock lock(mutex_);
    if (armed_) armed_();
  }
  void arm(std::function<void()> action) {
    const std::scoped_lock lock(mutex_);
    armed_ = std::move(action);
  }

private:
  std::mutex mutex_;
  std::function<void()> armed_;
};

/// The lanes and queues that the programs of one process run on.
template <device::device Device>
struct Lanes {
  using Lane = typename Device::Lane;

  std::array<std::unique_ptr<Lane>, schedule::lane_count> lanes{};  ///< null for queues
  std::array<comm::Queue*, schedule::lane_count> queues{};          ///< null for lanes
  std::array<trace::Track*, schedule::lane_count> tracks{};         ///< null for no trace
  trace::Sink* sink;                                                ///< null for no trace
  std::shared_ptr<FailureSwitch> on_failure;  ///< tripped by the progress thread

  Lanes(Device& device, comm::Progress& progress, trace::Sink* trace_sink,
        std::shared_ptr<FailureSwitch> failure = std::make_shared<FailureSwitch>())
      : sink(trace_sink), on_failure(std::move(failure)) {
    for (std::size_t i = 0; i < schedule::lane_count; ++i) {
      const auto lane = static_cast<schedule::Lane>(i);
      const std::string name(schedule::name_of(lane));
      if (schedule::communicates(lane)) {
        queues[i] = &progress.queue(name);
      } else {
        lanes[i] = std::make_unique<Lane>(device, name);
        if (sink != nullptr) tracks[i] = &sink->track(name);
      }
    }
  }
};

/// What the trace says that a lane of the device does. What an optimizer computes beside the model
/// counts as other: communication that only this runs beside is not hidden.
inline trace::Activity activity_of(schedule::Lane lane) {
  if (lane == schedule::Lane::compute) return trace::Activity::compute;
  return lane == schedule::Lane::update ? trace::Activity::other : trace::Activity::copy;
}

/// Runs a program's rounds: every lane walks its own instructions and waits where a dependency says.
///
/// | blocks | run() until the round is complete on the device and on the wire                         |
/// | cost   | per instruction one event, and a wait for each dependency on another lane               |
/// | errors | what a handler throws, which the other ranks are told; comm's errors. The executor and  |
/// |        | the Progress object are unusable then, on all ranks, and the round is not complete      |
/// | life   | device, progress, lanes and program outlive the executor                                |
template <device::device Device>
class Executor {
public:
  using Lane = typename Device::Lane;
  using Event = typename Device::Event;

  Executor(Device& device, comm::Progress& progress, Lanes<Device>& lanes,
           const schedule::Program& program, schedule::Dependencies dependencies,
           const Handlers<Device>& handlers)
      : progress_(progress), lanes_(lanes) {
    for (std::size_t i = 0; i < program.round.size(); ++i) {
      const schedule::Instruction& instruction = program.round[i];
      const auto lane = static_cast<std::size_t>(instruction.lane);
      Step& step = steps_.emplace_back();
      step.event = std::make_unique<Event>(device);
      step.name = instruction.text();
      step.nvtx = trace::NvtxName(step.name);
      step.activity = activity_of(instruction.lane);
      step.waits = std::move(dependencies[i]);
      if (schedule::communicates(instruction.lane)) {
        step.communication = handlers.wire_code(instruction);
      } else {
        step.code = handlers.lane_code(instruction);
      }
      order_[lane].push_back(i);
    }
    for (const Step& step : steps_) {
      if (!step.communication.task) continue;
      for (const schedule::Dependency& wait : step.waits) {
        steps_[wait.instruction].starts_communication = true;
      }
    }
  }

  /// Runs one round. All ranks call it equally often.
  void run() {
    ++round_;
    if (lanes_.sink != nullptr) {
      former_ids_ = std::exchange(ids_, lanes_.sink->ids(steps_.size()));
    }
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
    trace_round();
    if (error_) std::rethrow_exception(error_);
    for (std::size_t lane = 0; lane < schedule::lane_count; ++lane) {
      if (lanes_.lanes[lane] || order_[lane].empty()) continue;
      progress_.wait(*steps_[order_[lane].back()].communication.task);
    }
    // A failure that came after the last communication let the lanes go before their end.
    if (abandoned_.load()) progress_.check();
  }

private:
  /// Lets lanes go that wait for what will not come, and starts nothing more: run() then throws what
  /// a lane or the communication failed of. Any thread.
  void abandon() {
    abandoned_.store(true);
    for (const Step& step : steps_) step.event->signal();
  }

  /// What ran goes to the tracks: at the end, since a device tells only then when it did.
  void trace_round() {
    for (std::size_t lane = 0; lane < schedule::lane_count; ++lane) {
      if (lanes_.tracks[lane] == nullptr) continue;
      for (const std::size_t i : order_[lane]) {
        Step& step = steps_[i];
        if (step.end != 0) {
          lanes_.tracks[lane]->span(step.activity, step.name, step.begin, step.end, 0,
                                    {.id = id_of(i, ids_), .cause = step.cause});
        }
        step.end = 0;
        step.cause = 0;
      }
    }
  }

  void submit_all() {
    for (std::size_t lane = 0; lane < schedule::lane_count; ++lane) {
      if (order_[lane].empty()) continue;
      if (lanes_.lanes[lane]) {
        lanes_.lanes[lane]->submit([this, lane](Lane& self) { walk(self, lane); });
      } else {
        for (const std::size_t i : order_[lane]) submit(*lanes_.queues[lane], i);
      }
    }
  }

  struct Step {
    std::unique_ptr<Event> event;
    std::string name;
    trace::NvtxName nvtx;
    trace::Activity activity = trace::Activity::compute;
    std::uint32_t cause = 0;  ///< the trace's id of what it waited for, last of all
    Seconds begin = 0;        ///< on the device, in the round that runs
    Seconds end = 0;          ///< 0: not yet
    std::vector<schedule::Dependency> waits;
    bool starts_communication = false;  ///< some communication waits for it
    typename Handlers<Device>::Code code;
    typename Handlers<Device>::Communication communication;
  };

  std::uint64_t epoch_of(const schedule::Dependency& wait) const {
    return round_ - (wait.previous_round ? 1 : 0);
  }

  static std::uint32_t id_of(std::size_t instruction, std::uint32_t ids) {
    return ids + static_cast<std::uint32_t>(instruction);
  }
  std::uint32_t id_of(const schedule::Dependency& wait) const {
    return id_of(wait.instruction, wait.previous_round ? former_ids_ : ids_);
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
      walk_instructions(lane, index);
    } catch (...) {
      fail();
    }
  }

  void walk_instructions(Lane& lane, std::size_t index) {
    const bool traced = lanes_.tracks[index] != nullptr;
    for (const std::size_t i : order_[index]) {
      Step& step = steps_[i];
      for (const schedule::Dependency& wait : step.waits) {
        Event& event = *steps_[wait.instruction].event;
        if (traced && !event.ready(epoch_of(wait))) step.cause = id_of(wait);
        lane.wait(event, epoch_of(wait));
      }
      if (abandoned_.load(std::memory_order_relaxed)) return;
      if (traced) lane.stamp(step.begin);
      {
        const trace::NvtxRange range(step.nvtx);
        step.code(lane);
      }
      lane.record(*step.event);
      if (traced) lane.stamp(step.end);
      progress_.tick();
      if (step.starts_communication) progress_.wake();
    }
  }

  void submit(comm::Queue& queue, std::size_t i) {
    Step& step = steps_[i];
    step.communication.task->trace_as(id_of(i, ids_));
    progress_.submit(
        queue, *step.communication.task,
        [this, i] {
          for (const schedule::Dependency& wait : steps_[i].waits) {
            if (steps_[wait.instruction].event->ready(epoch_of(wait))) continue;
            steps_[i].communication.task->trace_cause(id_of(wait));
            return false;
          }
          // Looked at last: abandon() makes events ready whose data are not.
          if (abandoned_.load()) return false;
          if (steps_[i].communication.begin) steps_[i].communication.begin();
          return true;
        },
        [this, i] { steps_[i].event->signal(); });
  }

  comm::Progress& progress_;
  Lanes<Device>& lanes_;
  std::uint64_t round_ = 0;       ///< written between rounds only
  std::uint32_t ids_ = 0;         ///< the trace's of this round's instructions; as round_
  std::uint32_t former_ids_ = 0;  ///< of the round before
  std::atomic<bool> abandoned_{false};
  std::mutex error_mutex_;
  std::exception_ptr error_;  ///< under error_mutex_ while a round runs
  std::vector<Step> steps_;
  std::array<std::vector<std::size_t>, schedule::lane_count> order_{};
};

}  // namespace reef::inline v0::run
