#pragma once

#include <cstdint>
#include <string_view>

#include <reef/core/units.hpp>

namespace reef::inline v0 {

/// The element types that a tensor can have in memory and on the wire.
enum class Element : std::uint8_t { float32, float64, int32, uint8 };

constexpr Bytes size_of(Element element) {
  switch (element) {
    case Element::float32: return 4;
    case Element::float64: return 8;
    case Element::int32: return 4;
    case Element::uint8: return 1;
  }
  return 0;
}

constexpr std::string_view name_of(Element element) {
  switch (element) {
    case Element::float32: return "fp32";
    case Element::float64: return "fp64";
    case Element::int32: return "int32";
    case Element::uint8: return "uint8";
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

}  // namespace detail

/// The Element of the C++ type T.
template <class T>
inline constexpr Element element_of = detail::ElementOf<T>::value;

/// A type that Reef computes in: parameters, activations and gradients have it.
template <class T>
concept real = requires { detail::ElementOf<T>::value; } &&
               (element_of<T> == Element::float32 || element_of<T> == Element::float64);

}  // namespace reef::inline v0
