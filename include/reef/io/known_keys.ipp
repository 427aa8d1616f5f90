#pragma once

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/io/known_keys.hpp>

namespace reef {
inline namespace v0 {
namespace io {

namespace detail {

/// Letters to insert, remove or replace until one is the other.
inline std::size_t letters_apart(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t before = std::exchange(row[0], i);  // of the row above, one to the left
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = before + (a[i - 1] == b[j - 1] ? 0 : 1);
      before = row[j];
      row[j] = (std::min)({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

REEF_INLINE std::string_view nearest_key(std::string_view key,
                                         std::span<const std::string_view> known) {
  std::string_view nearest;
  std::size_t fewest = key.size() / 4 + 2;  // so many letters are not near any more
  for (const std::string_view name : known) {
    const bool begins = (std::min)(key.size(), name.size()) >= 3 &&
                        (name.starts_with(key) || key.starts_with(name));
    const std::size_t apart = begins ? 1 : letters_apart(key.substr(0, 100), name);
    if (apart < fewest) {
      fewest = apart;
      nearest = name;
    }
  }
  return nearest;
}

}  // namespace detail

REEF_INLINE void require_known_keys(const Json& object, std::span<const std::string_view> known,
                                    JsonSource source, std::string_view at) {
  if (!object.is_object()) return;
  for (const auto& [key, value] : object.items()) {
    const bool is_ignored = at.empty() ? is_remark_of_case(key) : is_remark(key);
    if (is_ignored || std::ranges::find(known, key) != known.end()) continue;
    const std::string_view dot = at.empty() ? "" : ".";
    const std::string_view nearest = detail::nearest_key(key, known);
    std::string keys;
    for (const std::string_view name : known) keys += concat(keys.empty() ? "" : ", ", name);
    throw DecodeError(
        "reef::io: ", source.name, ": nothing reads the key ", in_quotes(concat(at, dot, key)),
        nearest.empty() ? "" : concat("; did you mean '", at, dot, nearest, "'?"),
        nearest.empty() ? "." : "", "\n  fix: ", source.fix_or("correct or remove it."),
        keys.empty() ? " It has none." : concat(" Known are ", keys, "."));
  }
}

}  // namespace io
}  // namespace v0
}  // namespace reef
