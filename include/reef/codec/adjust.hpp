#pragma once

#include <concepts>
#include <cstdint>
#include <string>

#include <reef/codec/concept.hpp>
#include <reef/core/error.hpp>
#include <reef/core/hash.hpp>

/// \file
/// Functions on a codec (a format of numbers in messages) of any type: they read and set its ratio, adapt it to a
/// message's number (for_message), and return what it says of itself (kept_of, is_exact, is_lossless, text_of). In a
/// codec that contains others (ErrorFeedback, Chain), the ratio is that of the contained codec that has one.

namespace reef {
inline namespace v0 {
namespace codec {

namespace detail {

template <class C>
constexpr bool finds_ratio() {
  if constexpr (requires(const C& format) { format.with_ratio(1.0); } || requires(C& format) { format.ratio; }) {
    return true;
  } else if constexpr (requires(C& format) { format.inner; }) {
    return finds_ratio<decltype(C::inner)>();
  } else if constexpr (requires(C& format) { format.selection; }) {
    return finds_ratio<decltype(C::selection)>();
  } else {
    return false;
  }
}

}  // namespace detail

/// A codec with a compression ratio, its own or that of a codec inside it: the codec sends one in `ratio` numbers.
template <class C>
concept has_ratio = any_codec<C> && detail::finds_ratio<C>();

/// Returns true if the codec has a compression ratio: has_ratio<C>, except for a Chosen, whose codec is known only at
/// run time.
template <any_codec C>
[[nodiscard]] bool takes_ratio(const C& format) {
  if constexpr (requires { format.takes_ratio(); }) {
    return format.takes_ratio();
  } else {
    return has_ratio<C>;
  }
}

/// Returns the codec with another compression ratio; a ratio of 1 keeps all numbers.
///
/// \code
/// #include <reef/codec/error_feedback.hpp>
/// #include <reef/codec/top_k.hpp>
/// const codec::ErrorFeedback<codec::TopK> mild = codec::with_ratio(codec::ErrorFeedback<codec::TopK>{}, 4);
/// \endcode
template <has_ratio C>
[[nodiscard]] C with_ratio(C format, double ratio) {
  if constexpr (requires { format.with_ratio(ratio); }) {
    return format.with_ratio(ratio);
  } else if constexpr (requires { format.ratio; }) {
    format.ratio = ratio;
  } else if constexpr (requires { format.inner; }) {
    format.inner = with_ratio(format.inner, ratio);
  } else {
    format.selection = with_ratio(format.selection, ratio);
  }
  return format;
}

/// Returns the codec's compression ratio: it sends one in this many numbers.
template <has_ratio C>
[[nodiscard]] double ratio_of(const C& format) {
  if constexpr (requires { format.get_ratio(); }) {
    return format.get_ratio();
  } else if constexpr (requires { format.ratio; }) {
    return format.ratio;
  } else if constexpr (requires { format.inner; }) {
    return ratio_of(format.inner);
  } else {
    return ratio_of(format.selection);
  }
}

/// Returns the codec to use for message `number`: a codec that selects at random (RandomK) selects anew for each
/// message, any other is returned unchanged. Sender and receiver must pass the same number.
template <any_codec C>
[[nodiscard]] C for_message(C format, std::uint64_t number) {
  if constexpr (requires { { format.for_message(number) } -> std::same_as<C>; }) {
    return format.for_message(number);
  } else if constexpr (requires { { format.seed } -> std::same_as<std::uint64_t&>; }) {
    format.seed = Hash().add(format.seed).add(number).value();
  } else if constexpr (requires { format.inner; }) {
    format.inner = for_message(format.inner, number);
  } else if constexpr (requires { format.selection; }) {
    format.selection = for_message(format.selection, number);
    format.numbers = for_message(format.numbers, number);
  }
  return format;
}

/// Returns the number of entries that the codec sends of n; only a codec that selects entries sends fewer than n.
template <any_codec C>
[[nodiscard]] std::int64_t kept_of(const C& format, std::int64_t n) {
  if constexpr (requires { { format.kept(n) } -> std::same_as<std::int64_t>; }) {
    return format.kept(n);
  } else if constexpr (requires { format.inner; }) {
    return kept_of(format.inner, n);
  } else if constexpr (requires { format.selection; }) {
    return kept_of(format.selection, n);
  } else {
    return n;
  }
}

/// Returns true if the length of messages does not depend on the data (`exact`, concept.hpp). is_exact, is_lossless,
/// is_chosen (false for an empty Chosen) and text_of (the codec's name) also accept a Chosen, known only at run time.
template <any_codec C>
[[nodiscard]] bool is_exact(const C& format) {
  if constexpr (requires { format.is_exact(); }) {
    return format.is_exact();
  } else {
    return C::exact;
  }
}
template <any_codec C>
[[nodiscard]] bool is_lossless(const C& format) {
  if constexpr (requires { format.is_lossless(); }) {
    return format.is_lossless();
  } else {
    return C::lossless;
  }
}
template <any_codec C>
[[nodiscard]] bool is_chosen(const C& format) {
  if constexpr (requires { C::known_later; }) {
    return static_cast<bool>(format);
  } else {
    return true;
  }
}
template <any_codec C>
[[nodiscard]] std::string text_of(const C& format) {
  if constexpr (requires { format.text(); }) {
    return format.text();
  } else {
    return std::string(C::name);
  }
}

}  // namespace codec
}  // namespace v0
}  // namespace reef
