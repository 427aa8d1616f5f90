#pragma once

#include <reef/core/hash.hpp>
#include <reef/core/inline.hpp>
#include <reef/schedule/hash.hpp>

namespace reef {
inline namespace v0 {
namespace schedule {

REEF_INLINE std::uint64_t hash_of(std::span<const Program> programs) {
  Hash hash;
  for (const Program& program : programs) {
    hash.add(program.rank).add(program.storages.size()).add(program.round.size());
    for (const Storage& storage : program.storages) {
      hash.add(storage.name).add(storage.bytes).add(storage.place).add(storage.life);
      hash.add(storage.parent).add(storage.offset);
    }
    hash.add(program.repeats.size());
    for (const Repeat& repeat : program.repeats) {
      hash.add(repeat.begin).add(repeat.end).add(repeat.until).add(repeat.max);
      hash.add(repeat.first_agree).add(repeat.agree).add(repeat.expected);
    }
    for (const Instruction& i : program.round) {
      hash.add(i.kind).add(i.lane).add(i.index).add(i.micro_batch);
      hash.add(i.mode).add(i.traffic).add(i.completion);
      hash.add(i.elements.first).add(i.elements.second);
      hash.add(i.collective ? i.collective->group.size() : 0);
      if (i.collective) {
        hash.add(i.collective->group.name);
        for (const int member : i.collective->group.members) hash.add(member);
        for (const std::int64_t offset : i.collective->offsets) hash.add(offset);
      }
      for (const auto* values : {&i.reads, &i.writes, &i.accumulates}) {
        hash.add(values->size());
        for (const Value value : *values) hash.add(value.storage).add(value.version);
      }
      if (!i.after.empty()) {
        hash.add("after").add(i.after.size());
        for (const Value value : i.after) hash.add(value.storage).add(value.version);
      }
      for (const auto* messages : {&i.sends, &i.receives}) {
        hash.add(messages->size());
        for (const Message& m : *messages)
          hash.add(m.peer).add(m.bytes).add(m.channel).add(m.pieces);
      }
    }
  }
  return hash.value();
}

}  // namespace schedule
}  // namespace v0
}  // namespace reef
