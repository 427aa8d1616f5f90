#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/text.hpp>
#include <reef/io/json.hpp>

namespace reef::inline v0::io {

/// Whether any object of a file may have that key though nothing reads it.
constexpr bool is_remark(std::string_view key) {
  constexpr std::array<std::string_view, 4> remarks{"name", "about", "note", "source"};
  return std::ranges::find(remarks, key) != remarks.end();
}

/// Whether a case may have that key though its command does not read it: remarks, what other commands read, and
/// the answers that it expects.
constexpr bool is_remark_of_case(std::string_view key) {
  constexpr std::array<std::string_view, 20> whole{"seed",          "unit",
                                                   "workload_note", "regions",
                                                   "planted",       "optimum",
                                                   "raw",           "log",
                                                   "i32",           "i64",
                                                   "T_star",        "ratios",
                                                   "model",         "recompute",
                                                   "join_order",    "lp_upper_bound",
                                                   "device_flops",  "device_memory_gbps",
                                                   "model_flops",   "reciprocal_gbps"};
  constexpr std::array<std::string_view, 9> beginnings{
      "expect", "exact", "identity", "best_", "lp_", "all_", "raw_", "log_", "simulated_"};
  constexpr std::array<std::string_view, 2> ends{"iter_us", "compute_us"};
  return is_remark(key) || std::ranges::find(whole, key) != whole.end() ||
         std::ranges::any_of(beginnings, [&](auto part) { return key.starts_with(part); }) ||
         std::ranges::any_of(ends, [&](auto part) { return key.ends_with(part); });
}

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
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

/// What somebody may have meant who wrote `key`, or nothing.
inline std::string_view nearest_key(std::string_view key, std::span<const std::string_view> known) {
  std::string_view nearest;
  std::size_t fewest = key.size() / 4 + 2;  // so many letters are not near any more
  for (const std::string_view name : known) {
    const bool begins = key.size() >= 3 && (name.starts_with(key) || key.starts_with(name));
    const std::size_t apart = begins ? 1 : letters_apart(key.substr(0, 100), name);
    if (apart < fewest) {
      fewest = apart;
      nearest = name;
    }
  }
  return nearest;
}

}  // namespace detail

/// Throws DecodeError for the first key of an object that is not `known` and no remark: what is not
/// read would be missing where its writer meant another. It names the key, with `at`, the dotted path
/// of the object, empty for a whole case, and the known key that is nearest. What is no object has no keys.
inline void require_known_keys(const Json& object, std::span<const std::string_view> known,
                               JsonSource source, std::string_view at = {}) {
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
        " Known are ", keys, ".");
  }
}

}  // namespace reef::inline v0::io
