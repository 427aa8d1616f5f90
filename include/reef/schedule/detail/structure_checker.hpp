#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>

#include <reef/core/error.hpp>
#include <reef/core/finite.hpp>
#include <reef/core/text.hpp>
#include <reef/schedule/program.hpp>

namespace reef {
inline namespace v0 {
namespace schedule::detail {

inline std::string who(const Program& program, const Instruction& instruction) {
  return concat("rank ", program.rank, ": ", instruction.text(), " on lane ",
                name_of(instruction.lane));
}

/// The program is one at all: storages lie in each other without a circle and inside one another,
/// values name storages, messages have lanes and peers that can carry them, loops are stretches of the
/// round that can run any number of times.
class StructureChecker {
public:
  StructureChecker(const Program& program, int ranks) : program_(program), ranks_(ranks) {}

  void run();

private:
  // Texts are made only where something is wrong.
  template <class... Pieces>
  void require_that(bool holds, const Instruction& instruction, const Pieces&... pieces) const {
    if (holds) return;
    throw ScheduleError("reef::schedule::verify: ", who(program_, instruction), " ", pieces...,
                        ".");
  }
  template <class... Pieces>
  void require_that(bool holds, const Storage& storage, const Pieces&... pieces) const {
    if (holds) return;
    throw ScheduleError("reef::schedule::verify: rank ", program_.rank, ": the storage ",
                        storage.name, " ", pieces..., ".");
  }

  template <class... Pieces>
  void require_that(bool holds, const Repeat& repeat, const Pieces&... pieces) const {
    if (holds) return;
    throw ScheduleError("reef::schedule::verify: rank ", program_.rank,
                        ": the loop over instructions ", repeat.begin, " to ", repeat.end,
                        " until ", repeat.until, " ", pieces..., ".");
  }

  void check_instruction(const Instruction& instruction);

  void check_storage(StorageId id);

  void check_messages(const Instruction& instruction);

  void check_loops() const;

  /// `body` has messages, or is to have.
  void check_shared(const Repeat& repeat, std::span<const Instruction> body) const;

  const Program& program_;
  int ranks_;
  Bytes total_ = 0;
  std::map<std::pair<int, std::uint32_t>, Lane> send_lanes_;
  std::map<std::pair<int, std::uint32_t>, Lane> receive_lanes_;
};

/// The programs of ranks 0 to P-1, each once, each a program.
void check_structure(std::span<const Program> programs);

}  // namespace schedule::detail
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/schedule/detail/structure_checker.ipp>
#endif
