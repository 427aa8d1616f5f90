#pragma once

#include <string>
#include <string_view>
#include <type_traits>

#include <reef/core/error.hpp>
#include <reef/core/text.hpp>
#include <reef/graph/attribute.hpp>
#include <reef/io/json.hpp>

/// \file
/// Attributes of operators in files: apart from graph/attribute.hpp, as most who describe an operator read no JSON.

namespace reef {
inline namespace v0 {
namespace graph::detail {

/// The type that a file has for a member.
template <class Value>
using in_file_t = std::conditional_t<std::is_enum_v<Value>, bool,
                                     std::conditional_t<std::is_same_v<Value, float>, double, Value>>;

/// "an integer", as tables of attributes have it.
template <class Value>
std::string type_name() {
  using InFile = in_file_t<Value>;
  if constexpr (std::is_same_v<InFile, bool>) {
    return "true or false";
  } else if constexpr (std::is_integral_v<InFile>) {
    return "integer";
  } else if constexpr (std::is_floating_point_v<InFile>) {
    return "number";
  } else if constexpr (std::is_same_v<InFile, std::string>) {
    return "text";
  } else {
    return "array of " + type_name<typename InFile::value_type>();
  }
}

/// Into a member. Throws DecodeError, with the source and the path.
template <class Value>
void read_attribute(const io::Json& attributes, std::string_view path, io::JsonSource source,
                    Value& to) {
  const auto value = io::require<in_file_t<Value>>(attributes, path, source);
  to = static_cast<Value>(value);
  if constexpr (std::is_same_v<Value, float>) {
    constexpr double most = 3.4028234663852886e38;
    if (value >= -most && value <= most) return;
    throw DecodeError("reef::graph: ", source.name, ": ", in_quotes(path), " is ", value,
                      ".\n  fix: a number that fp32 has, up to 3.4e38.");
  }
}

/// As a file has it. Of a float the fewest digits that read back as the same.
template <class Value>
io::Json attribute_json(const Value& value) {
  if constexpr (std::is_same_v<Value, float>) {
    return io::Json::parse(concat(value));
  } else {
    return static_cast<in_file_t<Value>>(value);
  }
}

}  // namespace graph::detail
}  // namespace v0
}  // namespace reef
