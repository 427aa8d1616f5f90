#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <nlohmann/json.hpp>

#include <reef/core/error.hpp>
#include <reef/core/units.hpp>
#include <reef/io/file.hpp>

namespace reef {
inline namespace v0 {
namespace io {

using Json = nlohmann::json;

/// The limits on the size and nesting of JSON that parse_json accepts.
struct JsonLimits {
  Bytes bytes = 64_MiB;
  int depth = 64;
  /// The most lists and objects that one list or object may contain directly.
  std::size_t nested =
      (std::numeric_limits<std::size_t>::max)();
};

/// The origin of JSON text: the name by which errors call it, and the fix that they recommend. Without a fix, errors
/// say how to correct the text by hand, as suits files that people write; for a file that a program writes, give
/// another fix, such as to copy it again. Use it as a parameter type only: it refers to its texts and does not own
/// them.
struct JsonSource {
  template <std::convertible_to<std::string_view> Name>
  JsonSource(const Name& called, std::string_view instead = {}) : name(called), fix(instead) {}

  [[nodiscard]] std::string_view fix_or(std::string_view by_hand) const {
    return fix.empty() ? by_hand : fix;
  }

  std::string_view name;
  std::string_view fix;
};

namespace detail {

/// Returns the place of a byte of the text as source, line and column, counted from 1: "file.json:3:14".
std::string place_of(std::string_view text, std::string_view source, std::size_t byte);

}  // namespace detail

/// Parses JSON `text` and returns its value.
///
/// | errors | DecodeError with source, line, column and what was expected there: text that is not |
/// |        | JSON, a key twice in one object, nesting or size beyond the limits                  |
Json parse_json(std::string_view text, JsonSource source, JsonLimits limits = {});

/// Reads a file and returns its JSON value; `fix` is that of JsonSource. Throws
/// DecodeError as parse_json does, and FileError if the file cannot be read.
inline Json read_json(const std::filesystem::path& path, JsonLimits limits = {},
                      std::string_view fix = {}) {
  return parse_json(read_file(path, limits.bytes), {path.string(), fix}, limits);
}

namespace detail {

template <class T>
inline constexpr bool is_vector = false;
template <class T>
inline constexpr bool is_vector<std::vector<T>> = true;

template <class T>
inline constexpr bool is_variant = false;
template <class... Ts>
inline constexpr bool is_variant<std::variant<Ts...>> = true;

template <class T>
std::string expectation();

/// Joins the descriptions of a variant's types for an error text: "a number, or an array, each element a number".
template <class... Ts>
std::string expectation_of_any(const std::variant<Ts...>* /*type*/) {
  std::string text;
  ((text += concat(text.empty() ? "" : ", or ", expectation<Ts>())), ...);
  return text;
}

/// Returns the description of type T for the error texts of `require`, such as "a number".
template <class T>
std::string expectation() {
  if constexpr (std::is_same_v<T, bool>) {
    return "true or false";
  } else if constexpr (std::is_integral_v<T>) {
    return concat("an integer from ", (std::numeric_limits<T>::min)(), " to ",
                  (std::numeric_limits<T>::max)());
  } else if constexpr (std::is_floating_point_v<T>) {
    return "a number";
  } else if constexpr (std::is_same_v<T, std::string>) {
    return "a string";
  } else if constexpr (is_vector<T>) {
    return "an array, each element " + expectation<typename T::value_type>();
  } else if constexpr (is_variant<T>) {
    return expectation_of_any(static_cast<const T*>(nullptr));
  } else {
    static_assert(std::is_same_v<T, Json>,
                  "reef::io::require<T>: T is bool, an integer, a floating-point type, "
                  "std::string, a std::vector or a std::variant of these, or io::Json.");
    return "a value";
  }
}

template <class T>
bool convert(const Json& from, T& to);

template <class T, class... Ts>
bool convert_to_one(const Json& from, std::variant<Ts...>& to) {
  T value{};
  if (!convert(from, value)) return false;
  to = std::move(value);
  return true;
}

/// Converts JSON `from` to the first of the variant's types that it fits; returns false if it fits none.
template <class... Ts>
bool convert_to_any(const Json& from, std::variant<Ts...>& to) {
  return (convert_to_one<Ts>(from, to) || ...);
}

/// Converts a real number whose value is an integer, such as 4e9; returns false where type T cannot represent it.
template <class T>
bool convert_whole(double from, T& to) {
  // Both bounds are powers of two, or 0, and therefore exact: a number below the upper bound fits the type.
  constexpr double end = 2 * static_cast<double>((std::numeric_limits<T>::max)() / 2 + 1);
  if (!(from >= static_cast<double>((std::numeric_limits<T>::min)()) && from < end)) return false;
  to = static_cast<T>(from);
  return static_cast<double>(to) == from;
}

/// Converts a JSON value that is exactly of type T, without parsing strings, rounding or wrapping; else returns false.
template <class T>
bool convert(const Json& from, T& to) {
  if constexpr (std::is_same_v<T, Json>) {
    to = from;
    return true;
  } else if constexpr (std::is_same_v<T, bool>) {
    if (!from.is_boolean()) return false;
    to = from.get<bool>();
    return true;
  } else if constexpr (std::is_integral_v<T>) {
    if (from.is_number_unsigned()) {
      const auto value = from.get<std::uint64_t>();
      to = static_cast<T>(value);
      return std::in_range<T>(value);
    }
    if (from.is_number_float()) return convert_whole(from.get<double>(), to);
    if (!from.is_number_integer()) return false;
    const auto value = from.get<std::int64_t>();
    to = static_cast<T>(value);
    return std::in_range<T>(value);
  } else if constexpr (std::is_floating_point_v<T>) {
    if (!from.is_number()) return false;
    to = from.get<T>();
    return true;
  } else if constexpr (std::is_same_v<T, std::string>) {
    if (!from.is_string()) return false;
    to = from.get<std::string>();
    return true;
  } else if constexpr (is_variant<T>) {
    return convert_to_any(from, to);
  } else {
    if (!from.is_array()) return false;
    to.clear();
    for (const Json& element : from) {
      typename T::value_type value{};
      if (!convert(element, value)) return false;
      to.push_back(std::move(value));
    }
    return true;
  }
}

/// Throws DecodeError with the found value and a description of the wanted type; an empty `path` means the whole
/// source.
[[noreturn]] void refuse_value(const Json& found, std::string_view path, std::string_view wanted,
                               JsonSource source);

/// Finds the JSON value at a dotted path such as "a.b.0"; returns null where the last object or array lacks it. Throws
/// DecodeError where a value on the way is neither an object nor an array with an index: a mistake, not an omission.
const Json* find_at(const Json& root, std::string_view path, JsonSource source);

template <class T>
T convert_or_throw(const Json& found, std::string_view path, JsonSource source) {
  T value{};
  if (!convert(found, value)) refuse_value(found, path, expectation<T>(), source);
  return value;
}

}  // namespace detail

/// Returns the JSON value at a dotted path ("device.memory_bytes", "links.0.latency"), converted to T without any loss.
///
/// T is bool, an integer, a floating-point type, std::string, a vector or a variant of
/// these, or Json. An integer may be written as a real number with an integer value:
/// 4e9, 8.0. Throws DecodeError with the source, the path, and the value found instead.
///
/// \code
/// const io::Json json = io::read_json("case.json");
/// const auto memory = io::require<std::uint64_t>(json, "device.memory_bytes", "case.json");
/// const auto rates = io::value_or<std::vector<double>>(json, "rates", {}, "case.json");
/// \endcode
template <class T>
T (require)(const Json& root, std::string_view path, JsonSource source = "JSON") {
  const Json* found = detail::find_at(root, path, source);
  if (found == nullptr) {
    const std::string wanted = std::is_same_v<T, Json> ? "" : concat("; it must be ", detail::expectation<T>());
    throw DecodeError("reef::io: ", source.name, ": '", path, "' is missing", wanted,
                      ".\n  fix: ", source.fix_or("add it, or give a file that has it."));
  }
  return detail::convert_or_throw<T>(*found, path, source);
}

/// Throws DecodeError unless the value is an object; `path` is its place in the source, empty for the whole source.
inline void require_object(const Json& value, std::string_view path, JsonSource source) {
  if (!value.is_object()) detail::refuse_value(value, path, "an object", source);
}

/// Returns the JSON value at a dotted path, or `otherwise` if there is no value. Throws DecodeError for a value that is
/// not a T, null included: whoever wrote null did not mean the default.
template <class T>
T value_or(const Json& root, std::string_view path, T otherwise, JsonSource source = "JSON") {
  const Json* found = detail::find_at(root, path, source);
  if (found == nullptr) return otherwise;
  return detail::convert_or_throw<T>(*found, path, source);
}

}  // namespace io
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/io/json.ipp>
#endif
