#pragma once

#include <cstdint>
#include <string_view>

#include <reef/core/bfloat16.hpp>
#include <reef/core/units.hpp>

namespace reef {
inline namespace v0 {

/// The element types that a tensor can have in memory and in messages.
///
/// \code
/// static_assert(name_of(element_of<Bfloat16>) == "bf16" && size_of(Element::bfloat16) == 2);
/// static_assert(std::same_as<sum_t<Bfloat16>, float>);  // gradients and losses of bf16 weights
/// \endcode
enum class Element : std::uint8_t { float32, float64, int32, uint8, bfloat16 };

constexpr Bytes size_of(Element element) {
  switch (element) {
    case Element::float32: return 4;
    case Element::float64: return 8;
    case Element::int32: return 4;
    case Element::uint8: return 1;
    case Element::bfloat16: return 2;
  }
  return 0;
}

constexpr std::string_view name_of(Element element) {
  switch (element) {
    case Element::float32: return "fp32";
    case Element::float64: return "fp64";
    case Element::int32: return "int32";
    case Element::uint8: return "uint8";
    case Element::bfloat16: return "bf16";
  }
  return "?";
}

namespace detail {

template <class T>
struct ElementOf {};
template <>
struct ElementOf<float> {
  static constexpr Element value = Element::float32;
};
template <>
struct ElementOf<double> {
  static constexpr Element value = Element::float64;
};
template <>
struct ElementOf<std::int32_t> {
  static constexpr Element value = Element::int32;
};
template <>
struct ElementOf<std::uint8_t> {
  static constexpr Element value = Element::uint8;
};
template <>
struct ElementOf<Bfloat16> {
  static constexpr Element value = Element::bfloat16;
};

}  // namespace detail

/// The enumerator of Element that stands for the C++ type T.
template <class T>
inline constexpr Element element_of = detail::ElementOf<T>::value;

/// Returns true for the floating-point element types, those of parameters, activations and their gradients.
constexpr bool is_real(Element element) {
  return element == Element::float32 || element == Element::float64 || element == Element::bfloat16;
}

/// A floating-point type that Reef trains in: the element type of parameters, activations and their gradients.
template <class T>
concept real = requires { detail::ElementOf<T>::value; } && is_real(element_of<T>);

/// Returns the type in which elements of type `element` are computed and summed: fp32 for bf16, else the same type.
constexpr Element sum_of(Element element) {
  return element == Element::bfloat16 ? Element::float32 : element;
}

namespace detail {

template <real T>
struct SumOf {
  using type = T;
};
template <>
struct SumOf<Bfloat16> {
  using type = float;
};

}  // namespace detail

/// The type of the parameters' gradients, of statistics, losses, master weights and optimizer
/// state where weights are of type T: float for Bfloat16, else T, as sum_of returns it.
template <real T>
using sum_t = typename detail::SumOf<T>::type;

}  // namespace v0
}  // namespace reef
