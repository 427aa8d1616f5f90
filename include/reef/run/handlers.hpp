#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include <reef/comm/task.hpp>
#include <reef/core/inline.hpp>
#include <reef/device/any_device.hpp>
#include <reef/device/concept.hpp>
#include <reef/schedule/program.hpp>

namespace reef {
inline namespace v0 {
namespace run {

/// A table of the code for each kind of instruction, for queues of any device, which an Executor runs. Handlers fills
/// one.
///
/// \code
/// // given: run::HandlerTable& table
/// table.on_lane("Nothing", [](const schedule::Instruction&) -> run::HandlerTable::Code {
///   return [](device::AnyLane&) {};
/// });
/// \endcode
class HandlerTable {
public:
  using Code = std::function<void(device::AnyLane&)>;

  /// The code of an instruction that communicates: `task`, before which `begin` runs on the progress thread. An
  /// instruction in which ranks agree about a loop (schedule::Repeat) also has:
  ///
  /// | say      | is called on the progress thread before the task, with true if this rank is done |
  /// | all_done | returns true, once the task is complete, if all ranks said that they are done    |
  ///
  /// An instruction that ends a loop by its code (schedule::Repeat::expected) also has:
  ///
  /// | ends     | is called on the compute lane before each iteration, in place of looking whether |
  /// |          | the instruction is complete; true ends the loop                                  |
  struct Communication {
    std::shared_ptr<comm::Task> task;
    std::function<void()> begin{};
    std::function<void(bool)> say{};
    std::function<bool()> all_done{};
    std::function<bool()> ends{};
  };

  /// Adds the code of a kind of instruction that runs on a queue of the device. Throws ScheduleError if the kind
  /// already has code.
  void on_lane(std::string_view kind, std::function<Code(const schedule::Instruction&)> make);

  /// Adds the code of a kind of instruction that communicates. Throws ScheduleError if the kind already has code.
  void on_wire(std::string_view kind, std::function<Communication(const schedule::Instruction&)> make);

  /// Returns the code of an instruction that runs on the device. Throws ScheduleError if its kind has none.
  [[nodiscard]] Code lane_code(const schedule::Instruction& instruction) const;
  [[nodiscard]] Communication wire_code(const schedule::Instruction& instruction) const;

private:
  std::map<std::string, std::function<Code(const schedule::Instruction&)>> lanes_;
  std::map<std::string, std::function<Communication(const schedule::Instruction&)>> wires_;
};

/// A table of the code for each kind of instruction, for queues of one device: one entry per kind, added by whoever
/// adds the kind.
///
/// An entry is called once per instruction, before the program first runs, and then computes everything that is the
/// same in all runs (addresses, sizes).
///
/// \code
/// // given: run::Handlers<device::Host>& handlers, const run::Memory& memory
/// handlers.on_lane("Clear", [&memory](const schedule::Instruction& i) {
///   const schedule::StorageId id = i.writes[0].storage;
///   return [to = memory.at(id), bytes = memory.program().storages[id].bytes](
///              device::Host::Lane& lane) { lane.fill_zero(to, bytes); };
/// });
/// \endcode
template <device::device Device>
class Handlers {
public:
  using Lane = typename Device::Lane;
  using Code = std::function<void(Lane&)>;
  using Communication = HandlerTable::Communication;

  /// Adds the code of a kind of instruction that runs on a queue of the device. Throws ScheduleError if the kind
  /// already has code.
  void on_lane(std::string_view kind, std::function<Code(const schedule::Instruction&)> make) {
    table_.on_lane(kind, [make = std::move(make)](const schedule::Instruction& instruction) -> HandlerTable::Code {
      return [code = make(instruction)](device::AnyLane& lane) { code(device::lane_of<Device>(lane)); };
    });
  }

  /// Adds the code of a kind of instruction that communicates. Throws ScheduleError if the kind already has code.
  void on_wire(std::string_view kind, std::function<Communication(const schedule::Instruction&)> make) {
    table_.on_wire(kind, std::move(make));
  }

  [[nodiscard]] const HandlerTable& table() const& { return table_; }
  [[nodiscard]] HandlerTable table() const&& { return table_; }

private:
  HandlerTable table_;
};

}  // namespace run
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/run/handlers.ipp>
#endif
