#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <reef/compress/detail/memories.hpp>
#include <reef/core/inline.hpp>
#include <reef/run/fragment.hpp>
#include <reef/run/step_plan.hpp>
#include <reef/schedule/program.hpp>

namespace reef {
inline namespace v0 {
namespace compress::detail {

/// Where the messages and numbers of an instruction lie: one, or one for each member of a collective; or several of
/// each member, of which the next begins where the one before ends.
struct CodedParts {
  std::size_t of_each = 1;  ///< messages of a member
  std::vector<std::int64_t> numbers;   ///< offsets
  std::vector<std::int64_t> messages;  ///< offsets, as if each took the most that it may
  std::vector<std::int64_t> state;     ///< offsets
  std::vector<int> ranks;              ///< from whom

  /// Where a message may lie, if those before end at `behind`.
  template <class Byte>
  [[nodiscard]] std::span<Byte> room(std::span<Byte> all, std::size_t part, std::size_t behind) const {
    const std::size_t at = part % of_each == 0 ? static_cast<std::size_t>(messages[part]) : behind;
    return all.subspan(at, static_cast<std::size_t>(size_of_part(messages, part)));
  }
};

/// The parts of what a rank's instructions encode and decode, by its plan.
class PartsOfRank {
public:
  PartsOfRank(const run::StepPlan& plan, int rank)
      : plan_(plan), rank_(rank), pieces_(run::fragment_pieces(plan, rank)) {}

  /// Of what is encoded: the own numbers, or a part for each owner. Of what is decoded: that of each owner, or the own
  /// part of each member.
  [[nodiscard]] CodedParts of(const schedule::Instruction& i, std::int64_t count, bool sends) const;

  /// The gaps behind parameters among an instruction's numbers: of a bucket, or of this rank's part of one. Differences
  /// are cleared where they are folded (FragmentPiece::filled).
  [[nodiscard]] std::vector<std::pair<std::int64_t, std::int64_t>> padding(const schedule::Instruction& i,
                                                                           std::int64_t count) const;

  [[nodiscard]] const std::vector<run::FragmentPiece>& pieces() const { return pieces_; }

private:
  [[nodiscard]] std::vector<std::int64_t> split(const schedule::Instruction& i,
                                                const std::vector<std::int64_t>& members) const;

  const run::StepPlan& plan_;
  int rank_;
  std::vector<run::FragmentPiece> pieces_;
};

}  // namespace compress::detail
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/compress/detail/coded_parts.ipp>
#endif
