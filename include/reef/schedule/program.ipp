#pragma once

#include <algorithm>

#include <reef/core/inline.hpp>
#include <reef/schedule/program.hpp>

namespace reef {
inline namespace v0 {
namespace schedule {

REEF_INLINE std::string Instruction::text() const {
  std::string result = kind;
  if (index < 0 && micro_batch < 0) return result;
  result += '(';
  if (index >= 0) result += std::to_string(index);
  if (micro_batch >= 0) {
    if (index >= 0) result += ", ";
    result += concat("micro-batch ", micro_batch);
  }
  return result + ')';
}

REEF_INLINE StorageId Program::add_storage(std::string name, Bytes bytes, Place place, Life life) {
  storages.push_back({std::move(name), bytes, place, life, no_storage, 0});
  return static_cast<StorageId>(storages.size() - 1);
}

REEF_INLINE StorageId Program::add_part(std::string name, StorageId parent, Bytes offset,
                                        Bytes bytes) {
  const Storage& whole = storages.at(parent);
  if (offset > whole.bytes || bytes > whole.bytes - offset) {
    throw ScheduleError("reef::schedule::Program::add_part: ", name, " does not lie inside ",
                        whole.name, ".\n  fix: offset + bytes of at most ", whole.bytes, ".");
  }
  storages.push_back({std::move(name), bytes, whole.place, whole.life, parent, offset});
  return static_cast<StorageId>(storages.size() - 1);
}

REEF_INLINE Instruction& Program::add(std::string_view kind, Lane lane, int index,
                                      int micro_batch) & {
  Instruction instruction;
  instruction.kind = kind;
  instruction.lane = lane;
  instruction.index = index;
  instruction.micro_batch = micro_batch;
  round.push_back(std::move(instruction));
  return round.back();
}

REEF_INLINE std::pair<StorageId, Bytes> Program::region_of(StorageId id) const {
  Bytes offset = 0;
  while (storages[id].parent != no_storage) {
    offset += storages[id].offset;
    id = storages[id].parent;
  }
  return {id, offset};
}

REEF_INLINE std::vector<std::uint32_t> loop_by_instruction(const Program& program) {
  std::vector<std::uint32_t> result(program.round.size(), no_loop);
  for (std::uint32_t loop = 0; loop < program.repeats.size(); ++loop) {
    const Repeat& repeat = program.repeats[loop];
    std::fill(result.begin() + repeat.begin, result.begin() + repeat.end, loop);
  }
  return result;
}

REEF_INLINE std::vector<std::uint32_t> scope_by_instruction(const Program& program) {
  std::vector<std::uint32_t> result(program.round.size(), 0);
  for (std::uint32_t loop = 0; loop < program.repeats.size(); ++loop) {
    const Repeat& repeat = program.repeats[loop];
    if (!repeat.is_shared()) continue;
    std::fill(result.begin() + repeat.begin, result.begin() + repeat.end, 3 * loop + 1);
    result[repeat.first_agree] = 3 * loop + 2;
    result[repeat.agree] = 3 * loop + 3;
  }
  return result;
}

}  // namespace schedule
}  // namespace v0
}  // namespace reef
