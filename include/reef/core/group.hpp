#pragma once

#include <string>
#include <vector>

#include <reef/core/error.hpp>

namespace reef {
inline namespace v0 {

/// A named subset of the ranks, such as those that hold one pipeline stage, or the ranks of a pipeline.
///
/// Groups with the same name form a family: different ranks may use the name for
/// different sets of members, but two different sets have no member in common.
///
/// \code
/// const Group stage{"stage 1", {1, 3, 5}};
/// const int position = stage.position_of(3);  // 1
/// stage.validate();
/// \endcode
struct Group {
  std::string name;
  std::vector<int> members;  ///< the ranks, ascending; a rank's index in this list is its position

  [[nodiscard]] int size() const { return static_cast<int>(members.size()); }
  /// Returns the position of `rank` among the members, or -1 if it is not a member. Takes time logarithmic in size().
  [[nodiscard]] int position_of(int rank) const;
  [[nodiscard]] bool has(int rank) const { return position_of(rank) >= 0; }

  /// Throws OptionError unless the group has a name and members, and these are ranks of at least 0, ascending, each
  /// once.
  void validate() const;

  friend bool operator==(const Group&, const Group&) = default;
};

}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/core/group.ipp>
#endif
