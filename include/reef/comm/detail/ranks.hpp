#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <reef/core/text.hpp>

namespace reef {
inline namespace v0 {
namespace comm::detail {

/// "rank 2", "ranks 1, 2 and 4 to 7": of ascending numbers.
template <class Rank>
std::string name_ranks(const std::vector<Rank>& ranks) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t j = i;
    while (j + 1 < ranks.size() && ranks[j + 1] == ranks[j] + 1) ++j;
    if (j < i + 2) j = i;  // two are named, a row is from the first to the last
    parts.push_back(j == i ? concat(ranks[i]) : concat(ranks[i], " to ", ranks[j]));
    i = j + 1;
  }
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < parts.size(); ++i) {
    text += concat(i == 0 ? "" : i + 1 == parts.size() ? " and " : ", ", parts[i]);
  }
  return text;
}

}  // namespace comm::detail
}  // namespace v0
}  // namespace reef
