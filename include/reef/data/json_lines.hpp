#pragma once

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

#include <reef/core/text.hpp>
#include <reef/core/units.hpp>
#include <reef/io/file.hpp>
#include <reef/io/json.hpp>

namespace reef {
inline namespace v0 {
namespace data {

/// Calls function(json, source) for each line of a .jsonl that is not empty: its JSON object, and "FILE, line N", for
/// errors.
///
/// | memory | the file's bytes, 4 GiB at most                                                                   |
/// | errors | FileError if the file cannot be read; DecodeError with file and line for what is no JSON object;  |
/// |        | those of the function                                                                             |
///
/// \code
/// data::for_each_json_line("texts.jsonl", [](const io::Json& json, const std::string& source) {
///   std::puts(io::require<std::string>(json, "text", source).c_str());
/// });
/// \endcode
template <class F>
void for_each_json_line(const std::filesystem::path& file, const F& function) {
  constexpr Bytes most = Bytes{1} << 32;
  const std::string text = io::read_file(file, most);
  std::size_t line = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = (std::min)(text.find('\n', at), text.size());
    const std::string_view entry = std::string_view(text).substr(at, end - at);
    at = end + 1;
    ++line;
    if (entry.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const std::string source = concat(file.string(), ", line ", line);
    const io::Json json = io::parse_json(entry, source);
    io::require_object(json, "", source);
    function(json, source);
  }
}

}  // namespace data
}  // namespace v0
}  // namespace reef
