#pragma once

#include <algorithm>
#include <array>
#include <span>
#include <string_view>

#include <reef/core/error.hpp>
#include <reef/io/json.hpp>

namespace reef {
inline namespace v0 {
namespace io {

namespace detail {

/// Returns the known JSON key of which `key` is most probably a misspelling; empty if none is similar enough.
std::string_view nearest_key(std::string_view key, std::span<const std::string_view> known);

}  // namespace detail

/// Returns true if any object of a JSON file may have this key although no code reads it, because it is a remark.
constexpr bool is_remark(std::string_view key) {
  constexpr std::array<std::string_view, 4> remarks{"name", "about", "note", "source"};
  return std::ranges::find(remarks, key) != remarks.end();
}

/// Returns true if a case, the input file of a command, may have this key although the command does not read it: a
/// remark, such as a seed or a unit, or an expected answer. Keys that only other commands read are not among them.
constexpr bool is_remark_of_case(std::string_view key) {
  constexpr std::array<std::string_view, 13> whole{"seed", "unit", "workload_note", "regions", "planted", "optimum",
                                                   "raw", "log", "i32", "i64", "T_star",
                                                   "join_order", "lp_upper_bound"};
  constexpr std::array<std::string_view, 9> beginnings{
      "expect", "exact", "identity", "best_", "lp_", "all_", "raw_", "log_", "simulated_"};
  constexpr std::array<std::string_view, 2> ends{"iter_us", "compute_us"};
  return is_remark(key) || std::ranges::find(whole, key) != whole.end() ||
         std::ranges::any_of(beginnings, [&](auto part) { return key.starts_with(part); }) ||
         std::ranges::any_of(ends, [&](auto part) { return key.ends_with(part); });
}

/// Throws DecodeError for the first key of an object that is neither `known` nor a remark: it may be a misspelt
/// key, whose value would silently be missing. The error names the key, after the dotted path `at` of the object,
/// which is empty for a whole case, and the nearest known key. Does nothing for a value that is not an object.
///
/// \code
/// // given: const io::Json& json
/// constexpr std::array<std::string_view, 2> known{"layers", "heads"};
/// io::require_known_keys(json, known, "model.json");
/// \endcode
void require_known_keys(const Json& object, std::span<const std::string_view> known,
                        JsonSource source, std::string_view at = {});

}  // namespace io
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/io/known_keys.ipp>
#endif
