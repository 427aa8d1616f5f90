#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
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

namespace reef::inline v0::io {

using Json = nlohmann::json;

/// What a JSON reader accepts at most.
struct JsonLimits {
  Bytes bytes = 64_MiB;
  int depth = 64;
  std::size_t nested =
      std::numeric_limits<std::size_t>::max();  ///< lists and objects in one of either
};

/// Where JSON came from: what errors call it, and their fix. Without one, errors tell how to mend the
/// text by hand, as is right for files that people write; what a program wrote is copied or made
/// again. A parameter: it holds no text of its own.
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

/// "file.json:3:14": the line and column of a byte of the text, counted from 1.
inline std::string place_of(std::string_view text, std::string_view source, std::size_t byte) {
  std::size_t line = 1;
  std::size_t column = 1;
  for (std::size_t i = 0; i < byte && i < text.size(); ++i) {
    line += text[i] == '\n' ? 1U : 0U;
    column = text[i] == '\n' ? 1 : column + 1;
  }
  return concat(source, ":", line, ":", column);
}

/// Builds a value, and refuses what JSON leaves open: a key that comes twice, and any depth.
class StrictSax : public nlohmann::json_sax<Json> {
public:
  StrictSax(Json& root, JsonLimits limits) : root_(root), limits_(limits) {}

  bool null() override { return add(nullptr); }
  bool boolean(bool x) override { return add(x); }
  bool number_integer(number_integer_t x) override { return add(x); }
  bool number_unsigned(number_unsigned_t x) override { return add(x); }
  bool number_float(number_float_t x, const string_t& /*text*/) override { return add(x); }
  bool string(string_t& x) override { return add(std::move(x)); }
  bool binary(binary_t& /*x*/) override { return false; }  // not in JSON text
  bool start_object(std::size_t /*size*/) override { return open(Json::object()); }
  bool start_array(std::size_t /*size*/) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& x) override {
    if (open_.back()->contains(x)) {
      why_ = concat("the key \"", x, "\" comes twice in one object");
      fix_ = "keep one of the two.";
      return false;
    }
    key_ = std::move(x);
    return true;
  }
  bool parse_error(std::size_t byte, const std::string& /*token*/,
                   const nlohmann::detail::exception& error) override {
    byte_ = byte == 0 ? 0 : byte - 1;
    const std::string at = path();
    why_ = error.what();  // "[json.exception...] parse error at line 1, column 2: what is wrong"
    const std::size_t column = why_.find("column ");
    const std::size_t colon = column == std::string::npos ? column : why_.find(": ", column);
    const std::size_t bracket = why_.find("] ");
    if (colon != std::string::npos) {
      why_.erase(0, colon + 2);
    } else if (bracket != std::string::npos) {
      why_.erase(0, bracket + 2);
    }
    if (!at.empty()) why_ = concat("at '", at, "': ", why_);
    return false;
  }

  [[nodiscard]] const std::string& why() const { return why_; }
  [[nodiscard]] std::string_view fix() const { return fix_; }
  [[nodiscard]] std::optional<std::size_t> byte() const { return byte_; }

private:
  bool add(Json value) {
    place(std::move(value));
    return true;
  }
  Json* place(Json value) {
    if (open_.empty()) return &(root_ = std::move(value));
    Json& parent = *open_.back();
    if (parent.is_array()) return &parent.emplace_back(std::move(value));
    return &(parent[key_] = std::move(value));
  }
  bool open(Json container) {
    if (static_cast<int>(open_.size()) == limits_.depth)
      return refuse(concat("it nests deeper than ", limits_.depth));
    if (!open_.empty() && open_.back()->size() >= limits_.nested)
      return refuse(
          concat("'", path(), "' is more than ", limits_.nested, " in one list or object"));
    keys_.push_back(key_);
    open_.push_back(place(std::move(container)));
    key_.clear();
    return true;
  }
  bool refuse(std::string why) {
    why_ = std::move(why);
    fix_ = "check that it is the file you meant.";
    return false;
  }
  bool close() {
    open_.pop_back();
    key_ = std::move(keys_.back());
    keys_.pop_back();
    return true;
  }

  /// Of the value that is read, dotted: the keys of objects and the places in arrays.
  [[nodiscard]] std::string path() const {
    std::string path;
    for (std::size_t i = 0; i < open_.size(); ++i) {
      const bool innermost = i + 1 == open_.size();
      const std::string& key = innermost ? key_ : keys_[i + 1];
      const bool in_array = open_[i]->is_array();
      const std::string name =
          in_array ? std::to_string(open_[i]->size() - (innermost ? 0U : 1U)) : key;
      if (!name.empty()) path += concat(path.empty() ? "" : ".", name);
    }
    return path;
  }

  Json& root_;
  JsonLimits limits_;
  std::vector<Json*> open_;        // a container is not moved while one inside it is open
  std::vector<std::string> keys_;  // under which each of them was opened
  std::string key_;
  std::string why_;
  std::string_view fix_ = "correct it there; if the file was cut off, copy it again.";
  std::optional<std::size_t> byte_;
};

}  // namespace detail

/// The value that `text` holds.
///
/// | errors | DecodeError with source, line, column and what was expected there: text that is no |
/// |        | JSON, a key twice in one object, nesting or size beyond the limits                 |
inline Json parse_json(std::string_view text, JsonSource source, JsonLimits limits = {}) {
  if (text.size() > limits.bytes) {
    throw DecodeError("reef::io: ", source.name, " has ", format_bytes(text.size()),
                      ", more than the limit of ", format_bytes(limits.bytes),
                      ".\n  fix: check that it is the file you meant.");
  }
  Json value;
  detail::StrictSax sax(value, limits);
  if (!Json::sax_parse(text.begin(), text.end(), &sax)) {
    const std::string place = sax.byte().has_value()
                                  ? detail::place_of(text, source.name, *sax.byte())
                                  : std::string(source.name);
    throw DecodeError("reef::io: ", place, ": ", sax.why(), ".\n  fix: ", source.fix_or(sax.fix()));
  }
  return value;
}

/// The value that a file holds; `fix` as in JsonSource. Errors as parse_json, and FileError if it
/// cannot be read.
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

/// "a number, or an array, each element a number"
template <class... Ts>
std::string expectation_of_any(const std::variant<Ts...>* /*type*/) {
  std::string text;
  ((text += concat(text.empty() ? "" : ", or ", expectation<Ts>())), ...);
  return text;
}

/// What `require` says that it wanted.
template <class T>
std::string expectation() {
  if constexpr (std::is_same_v<T, bool>) {
    return "true or false";
  } else if constexpr (std::is_integral_v<T>) {
    return concat("an integer from ", std::numeric_limits<T>::min(), " to ",
                  std::numeric_limits<T>::max());
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

/// To the first of its types that it is.
template <class... Ts>
bool convert_to_any(const Json& from, std::variant<Ts...>& to) {
  return (convert_to_one<Ts>(from, to) || ...);
}

/// Converts only what says exactly this type: no number from a string, no rounding, no wrap.
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

/// `path` is empty for the whole of the source.
[[noreturn]] inline void refuse_value(const Json& found, std::string_view path,
                                      std::string_view wanted, JsonSource source) {
  std::string shown = found.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (shown.size() > 60) shown = shown.substr(0, 57) + "...";
  throw DecodeError("reef::io: ", source.name, path.empty() ? "" : concat(": '", path, "'"),
                    " must be ", wanted, ", it is ", shown,
                    ".\n  fix: ", source.fix_or("change it to that, or give another file."));
}

/// The value at "a.b.0", or null where what holds it has none. Throws DecodeError where on the way something
/// else is than an object, or an array and its index: there nobody has left anything out.
inline const Json* find_at(const Json& root, std::string_view path, JsonSource source) {
  const Json* at = &root;
  std::size_t begin = 0;
  while (begin < path.size()) {
    const std::size_t end = std::min(path.size(), path.find('.', begin));
    const std::string step(path.substr(begin, end - begin));
    if (at->is_object()) {
      const auto found = at->find(step);
      if (found == at->end()) return nullptr;
      at = &*found;
    } else if (at->is_array() && !step.empty() &&
               step.find_first_not_of("0123456789") == std::string::npos) {
      const std::size_t index = step.size() < 10 ? std::stoul(step) : at->size();
      if (index >= at->size()) return nullptr;
      at = &(*at)[index];
    } else {
      refuse_value(*at, path.substr(0, begin == 0 ? 0 : begin - 1), "an object", source);
    }
    begin = end + 1;
  }
  return at;
}

template <class T>
T convert_or_throw(const Json& found, std::string_view path, JsonSource source) {
  T value{};
  if (!convert(found, value)) refuse_value(found, path, expectation<T>(), source);
  return value;
}

}  // namespace detail

/// The value at a dotted path ("device.memory_bytes", "links.0.latency"), as exactly a T.
///
/// T is bool, an integer, a floating-point type, std::string, a vector or a variant of these, or Json.
/// Throws DecodeError with source, path, and what is there instead.
template <class T>
T require(const Json& root, std::string_view path, JsonSource source = "JSON") {
  const Json* found = detail::find_at(root, path, source);
  if (found == nullptr) {
    throw DecodeError("reef::io: ", source.name, ": '", path, "' is missing; it must be ",
                      detail::expectation<T>(),
                      ".\n  fix: ", source.fix_or("add it, or give a file that has it."));
  }
  return detail::convert_or_throw<T>(*found, path, source);
}

/// Throws DecodeError unless the value is an object; `path` is where it is in the source, empty for all of it.
inline void require_object(const Json& value, std::string_view path, JsonSource source) {
  if (!value.is_object()) detail::refuse_value(value, path, "an object", source);
}

/// The value at a dotted path, or `otherwise` where nothing is there. What is there and is no T is an error
/// all the same, null too: who writes it wanted something said, and not the usual.
template <class T>
T value_or(const Json& root, std::string_view path, T otherwise, JsonSource source = "JSON") {
  const Json* found = detail::find_at(root, path, source);
  if (found == nullptr) return otherwise;
  return detail::convert_or_throw<T>(*found, path, source);
}

}  // namespace reef::inline v0::io
