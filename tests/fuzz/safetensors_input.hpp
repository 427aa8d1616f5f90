#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

// Files that a fuzzer says the headers of: what lies behind those is too long to be drawn.

namespace reef::fuzz {

inline constexpr std::size_t max_data = 4096;

/// The largest number between a comma and a bracket, as the end of data_offsets is.
inline std::size_t largest_end(std::string_view header) {
  std::size_t largest = 0;
  for (std::size_t at = header.find(','); at < header.size(); at = header.find(',', at)) {
    std::size_t number = 0;
    for (++at; at < header.size() && header[at] >= '0' && header[at] <= '9'; ++at) {
      number = std::min(10 * number + static_cast<std::size_t>(header[at] - '0'), max_data + 1);
    }
    if (at < header.size() && header[at] == ']' && number <= max_data) {
      largest = std::max(largest, number);
    }
  }
  return largest;
}

/// The header behind its length, and as many bytes as its data_offsets end at: zeros.
inline std::string whole_file(std::string_view header) {
  const std::uint64_t length = header.size();
  std::string file(sizeof(length), '\0');
  std::memcpy(file.data(), &length, sizeof(length));
  file += header;
  file.append(largest_end(header), '\0');
  return file;
}

}  // namespace reef::fuzz
