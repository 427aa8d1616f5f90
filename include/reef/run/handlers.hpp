#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include <reef/comm/task.hpp>
#include <reef/core/error.hpp>
#include <reef/device/concept.hpp>
#include <reef/schedule/program.hpp>

namespace reef {
inline namespace v0 {
namespace run {

/// The code behind the kinds of instructions: one entry per kind, added by whoever adds the kind.
///
/// An entry is asked once per instruction, before the first round, so what is fixed for all rounds
/// (addresses, sizes) is worked out then.
///
/// \code
/// // given: run::Handlers<device::Host>& handlers, const run::Memory<device::Host>& memory
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

  /// What an instruction of a communicating lane does: `task`, after `begin` on the progress thread. Of one in which ranks
  /// agree about a loop (schedule::Repeat) it tells the others a number, and hears theirs:
  ///
  /// | say      | on the progress thread, before the task starts: this rank is done, or not |
  /// | all_done | once the task is complete: all have said that they are done               |
  struct Communication {
    std::shared_ptr<comm::Task> task;
    std::function<void()> begin{};
    std::function<void(bool)> say{};
    std::function<bool()> all_done{};
  };

  /// Code for a kind that runs on a lane of the device. Throws ScheduleError if the kind has code.
  void on_lane(std::string_view kind, std::function<Code(const schedule::Instruction&)> make) {
    add(lanes_, kind, std::move(make));
  }

  /// Code for a kind that communicates. Throws ScheduleError if the kind has code.
  void on_wire(std::string_view kind, std::function<Communication(const schedule::Instruction&)> make) {
    add(wires_, kind, std::move(make));
  }

  [[nodiscard]] Code lane_code(const schedule::Instruction& instruction) const {
    return find(lanes_, instruction)(instruction);
  }
  [[nodiscard]] Communication wire_code(const schedule::Instruction& instruction) const {
    return find(wires_, instruction)(instruction);
  }

private:
  template <class Table>
  static void add(Table& table, std::string_view kind, typename Table::mapped_type make) {
    const auto [entry, is_new] = table.emplace(std::string(kind), std::move(make));
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

}  // namespace run
}  // namespace v0
}  // namespace reef
