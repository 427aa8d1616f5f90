#pragma once

#include <algorithm>
#include <cstddef>
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
  [[nodiscard]] int position_of(int rank) const {
    const auto place = std::lower_bound(members.begin(), members.end(), rank);
    return place != members.end() && *place == rank ? static_cast<int>(place - members.begin())
                                                    : -1;
  }
  [[nodiscard]] bool has(int rank) const { return position_of(rank) >= 0; }

  /// Throws OptionError unless there is a name, and members, in ascending order, from 0 on, each once.
  void check() const {
    if (name.empty()) {
      throw OptionError(
          "reef::Group: a group has no name.\n  why: its ranks find each other by it.\n"
          "  fix: the same name on all of them, such as 'stage 0'.");
    }
    const auto refuse = [this](const auto&... why) {
      throw OptionError("reef::Group: the members of '", name, "' ", why...,
                        ".\n  fix: ranks in ascending order, each once, numbered from 0.");
    };
    if (members.empty()) refuse("are none");
    if (members.front() < 0) refuse("begin with rank ", members.front());
    for (std::size_t i = 1; i < members.size(); ++i) {
      if (members[i] <= members[i - 1]) {
        refuse("have rank ", members[i], " after rank ", members[i - 1]);
      }
    }
  }

  friend bool operator==(const Group&, const Group&) = default;
};

}  // namespace reef::inline v0
