#pragma once

#include <string>
#include <vector>

#include <reef/core/error.hpp>

namespace reef::inline v0 {

/// Some of the ranks, and what they are together: the holders of a stage, the ranks of a pipeline.
///
/// Groups of one name are a family: on different ranks they may have different members, and then have
/// none in common.
struct Group {
  std::string name;
  std::vector<int> members;  ///< ascending ranks; the place of one among them is its position

  [[nodiscard]] int size() const { return static_cast<int>(members.size()); }
  /// The position of `rank`; -1 if it is no member. Logarithmic in size().
  [[nodiscard]] int position_of(int rank) const;
  [[nodiscard]] bool has(int rank) const { return position_of(rank) >= 0; }

  /// Throws OptionError unless there is a name, and members, in ascending order, from 0 on, each once.
  void check() const;

  friend bool operator==(const Group&, const Group&) = default;
};

}  // namespace reef::inline v0

#ifndef REEF_COMPILED
#include <reef/core/group.ipp>
#endif
