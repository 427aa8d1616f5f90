#pragma once

#include <string>
#include <vector>

#include <reef/core/error.hpp>

namespace reef {
inline namespace v0 {

/// A named subset of the ranks, such as the holders of a stage, or the ranks of a pipeline.
///
/// Groups of one name are a family: on different ranks they may have different members; two that differ
/// have no member in common.
///
/// \code
/// const Group stage{"stage 1", {1, 3, 5}};
/// const int position = stage.position_of(3);  // 1
/// stage.validate();
/// \endcode
struct Group {
  std::string name;
  std::vector<int> members;  ///< ascending ranks; the place of one among them is its position

  [[nodiscard]] int size() const { return static_cast<int>(members.size()); }
  /// The position of `rank`; -1 if it is no member. Logarithmic in size().
  [[nodiscard]] int position_of(int rank) const;
  [[nodiscard]] bool has(int rank) const { return position_of(rank) >= 0; }

  /// Throws OptionError unless the group has a name and members, and these are at least 0, ascending, each once.
  void validate() const;

  friend bool operator==(const Group&, const Group&) = default;
};

}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/core/group.ipp>
#endif
