#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <reef/core/language.hpp>

namespace reef {
inline namespace v0 {
namespace io {

namespace detail {

/// Returns the length of the valid UTF-8 sequence that begins `text`; 0 if there is none.
std::size_t utf8_length(std::string_view text);

}  // namespace detail

/// Appends `text` as a JSON string, quotes included. Bytes that are not UTF-8 become U+FFFD, so
/// that the document stays readable whatever the text holds.
///
/// \code
/// // given: std::string_view title
/// std::string json = "{\"title\": ";
/// io::append_json_string(json, title);
/// json += "}";
/// \endcode
void append_json_string(std::string& out, std::string_view text);

/// Returns `text` as a JSON string, quotes included.
std::string json_string(std::string_view text);

}  // namespace io
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/io/json_string.ipp>
#endif
