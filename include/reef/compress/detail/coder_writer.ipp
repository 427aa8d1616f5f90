#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include <reef/compress/detail/coder_writer.hpp>
#include <reef/compress/detail/memories.hpp>
#include <reef/compress/kinds.hpp>
#include <reef/compress/views.hpp>
#include <reef/core/element.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/run/step_builder.hpp>

namespace reef {
inline namespace v0 {
namespace compress::detail {

REEF_INLINE run::Instruction CoderWriter::coder(std::string_view kind, run::Lane lane, Traffic traffic,
                                                const run::Instruction& of) const {
  run::Instruction result;
  result.kind = kind;
  result.lane = lane;
  result.index = of.index;
  result.micro_batch = of.micro_batch;
  result.traffic = traffic;
  result.cost = of.cost;
  return result;
}

REEF_INLINE bool CoderWriter::needs_copy(run::Value numbers, Element element) const {
  const bool away = plan_.discrete && program_.storages[numbers.storage].place == run::Place::device;
  return away || element != Element::float32;
}

REEF_INLINE run::Value CoderWriter::copy_of(run::Value numbers, std::int64_t n) {
  const std::string name = concat(program_.name(numbers), " as floats");
  return {program_.add_storage(name, static_cast<Bytes>(n) * sizeof(float), place_of_memory(plan_)), 0};
}

REEF_INLINE const MemoryStorages::Storages* CoderWriter::use_memory(const Memory::Key& key, Coding& coding) {
  const std::int64_t period = plan_.wire_of(std::get<0>(key)).period;
  const auto found = memories().find(key);
  if (found == memories().end() || (period > 0 && !keeps_memories(builder_))) return nullptr;
  MemoryStorages::Storages& storages = found->second;
  coding.remembers = true;
  coding.begins = storages.next == run::no_storage || !schedule::is_between_stages(std::get<0>(key));
  if (coding.begins) {
    const schedule::Storage kept = program_.storages[storages.kept];
    storages.next = program_.add_storage(
        kept.name + " behind the step", kept.bytes / static_cast<Bytes>(std::max<std::int64_t>(1, period)), kept.place);
  }
  return &storages;
}

}  // namespace compress::detail
}  // namespace v0
}  // namespace reef
