#pragma once

#include <cstdint>
#include <map>
#include <string_view>

#include <reef/compress/detail/memories.hpp>
#include <reef/compress/kinds.hpp>
#include <reef/compress/views.hpp>
#include <reef/core/element.hpp>
#include <reef/run/step_builder.hpp>

namespace reef {
inline namespace v0 {
namespace compress::detail {

/// What the instructions of codecs have in common: copies as floats, and memories.
class CoderWriter {
public:
  explicit CoderWriter(run::StepBuilder& builder)
      : builder_(builder), program_(builder.program), plan_(builder.plan) {}

  [[nodiscard]] std::map<Memory::Key, MemoryStorages::Storages>& memories() const {
    return builder_.scratch<MemoryStorages>().by_key;
  }

  run::Instruction coder(std::string_view kind, run::Lane lane, Traffic traffic, const run::Instruction& of) const;

  /// Numbers that the host cannot read where they are, or as they are.
  [[nodiscard]] bool needs_copy(run::Value numbers, Element element) const;

  run::Value copy_of(run::Value numbers, std::int64_t n);

  /// Null: the codec of that traffic remembers nothing on that side. Else the coding says so, and whether it is the
  /// first use of a round: of an edge micro-batches follow each other, of a reduction each begins with what was kept.
  /// Of samples that come again a program that keeps nothing remembers nothing: its samples are others.
  const MemoryStorages::Storages* use_memory(const Memory::Key& key, Coding& coding);

  template <class View>
  static void set_memory(const View& operands, const MemoryStorages::Storages* memory) {
    if (memory == nullptr) return;
    if (!operands.kept.empty()) operands.kept.front() = {memory->kept, 0};
    operands.next.front() = {memory->next, 0};
  }

private:
  run::StepBuilder& builder_;
  schedule::Program& program_;
  const run::StepPlan& plan_;
};

}  // namespace compress::detail
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/compress/detail/coder_writer.ipp>
#endif
