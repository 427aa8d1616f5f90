#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <reef/schedule/program.hpp>

namespace reef {
inline namespace v0 {
namespace schedule {

/// A rewriter that inserts instructions into an existing program, and updates its loops: an instruction that is
/// inserted before the first instruction of a loop's body, or after its last one, is outside of the loop.
///
/// \code
/// // given: schedule::Program& program, const schedule::Instruction& encode
/// schedule::Rewriter rewriter(program);
/// for (std::size_t i = 0; i < program.round.size(); ++i) {
///   if (program.round[i].kind == "ReduceScatter") rewriter.insert_before(i, encode);
/// }
/// rewriter.apply();
/// \endcode
///
/// | places | indices in the program as it was when the Rewriter was constructed         |
/// | order  | instructions added at one index stay in the order in which they were added |
/// | errors | std::out_of_range for an index that the program does not have              |
/// | cost   | O(instructions), once, in apply()                                          |
class Rewriter {
public:
  explicit Rewriter(Program& program)
      : program_(program), before_(program.round.size()), after_(program.round.size()) {}

  void insert_before(std::size_t place, Instruction instruction) {
    before_.at(place).push_back(std::move(instruction));
  }
  void insert_after(std::size_t place, Instruction instruction) {
    after_.at(place).push_back(std::move(instruction));
  }

  /// Replaces the instructions of the program by the new ones. Call apply() once, at the end.
  void apply() {
    std::vector<Instruction> round;
    std::vector<std::uint32_t> now_at;
    for (std::size_t i = 0; i < program_.round.size(); ++i) {
      for (Instruction& added : before_[i]) round.push_back(std::move(added));
      now_at.push_back(static_cast<std::uint32_t>(round.size()));
      round.push_back(std::move(program_.round[i]));
      for (Instruction& added : after_[i]) round.push_back(std::move(added));
    }
    for (Repeat& repeat : program_.repeats) {
      repeat.move([&](std::uint32_t i) { return now_at[i]; });
    }
    program_.round = std::move(round);
  }

private:
  Program& program_;
  std::vector<std::vector<Instruction>> before_;
  std::vector<std::vector<Instruction>> after_;
};

}  // namespace schedule
}  // namespace v0
}  // namespace reef
