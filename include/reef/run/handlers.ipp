#pragma once

#include <utility>

#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/run/handlers.hpp>

namespace reef {
inline namespace v0 {
namespace run {

namespace detail {

template <class Table>
void add_code_of_kind(Table& table, std::string_view kind, typename Table::mapped_type make) {
  const auto [entry, is_new] = table.emplace(std::string(kind), std::move(make));
  if (is_new) return;
  throw ScheduleError(
      "reef::run::Handlers: the kind '", entry->first,
      "' has code already.\n  fix: give an instruction of one's own a kind of its own.");
}

template <class Table>
const typename Table::mapped_type& code_of_kind(const Table& table, const schedule::Instruction& instruction) {
  const auto entry = table.find(instruction.kind);
  if (entry == table.end()) {
    throw ScheduleError("reef::run: no code for the instruction ", instruction.text(),
                        " on lane ", schedule::name_of(instruction.lane),
                        ".\n  fix: add a handler for its kind before the executor is made.");
  }
  return entry->second;
}

}  // namespace detail

REEF_INLINE void HandlerTable::on_lane(std::string_view kind, std::function<Code(const schedule::Instruction&)> make) {
  detail::add_code_of_kind(lanes_, kind, std::move(make));
}

REEF_INLINE void HandlerTable::on_wire(std::string_view kind,
                                       std::function<Communication(const schedule::Instruction&)> make) {
  detail::add_code_of_kind(wires_, kind, std::move(make));
}

REEF_INLINE HandlerTable::Code HandlerTable::lane_code(const schedule::Instruction& instruction) const {
  return detail::code_of_kind(lanes_, instruction)(instruction);
}

REEF_INLINE HandlerTable::Communication HandlerTable::wire_code(const schedule::Instruction& instruction) const {
  return detail::code_of_kind(wires_, instruction)(instruction);
}

}  // namespace run
}  // namespace v0
}  // namespace reef
