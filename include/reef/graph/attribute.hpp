#pragma once

#include <string_view>
#include <tuple>
#include <type_traits>

#include <reef/core/language.hpp>

namespace reef {
inline namespace v0 {
namespace graph {

/// An attribute of an operator (of a model's graph): a data member that a model file can set, with its name and its
/// description.
///
/// | Value    | the member's type: bool, an integer, float, double, std::string, a vector of these, or an |
/// |          | enumeration of two values, no (0) and yes (1), which a file writes as false and true      |
/// | required | true: a file must give the attribute; false: if it does not, the member keeps its default |
///
/// \code
/// struct Scaled {
///   static constexpr std::string_view kind = "Scaled";
///   double factor = 1;
///   static constexpr auto attributes() {
///     return std::tuple(graph::optional_attribute("factor", &Scaled::factor, "what elements are multiplied by"));
///   }
/// };
/// \endcode
template <class Op, class Value>
struct Attribute {
  using Member = Value Op::*;

  std::string_view name;
  Member member;
  std::string_view about;
  bool required = false;
};

template <class Op, class Value>
constexpr Attribute<Op, Value> required_attribute(std::string_view name, Value Op::*member,
                                                  std::string_view about) {
  return {name, member, about, true};
}

template <class Op, class Value>
constexpr Attribute<Op, Value> optional_attribute(std::string_view name, Value Op::*member,
                                                  std::string_view about) {
  return {name, member, about, false};
}

/// An operator type (of a model's graph) that is default-constructible and lists its attributes, which are its data
/// members.
template <class Op>
concept described_operator = std::is_default_constructible_v<Op> && requires { Op::attributes(); };

}  // namespace graph
}  // namespace v0
}  // namespace reef
