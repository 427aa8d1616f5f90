#pragma once

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <reef/core/language.hpp>

namespace reef {
inline namespace v0 {
namespace data::detail {

/// What NumPy writes before the elements of an array.
struct NpyHeader {
  std::string descr;  // "<u2": byte order, kind and bytes of an element
  std::vector<std::uint64_t> shape;
  std::size_t data = 0;  // where the elements begin
};

inline bool begins_as_npy(std::span<const std::uint8_t> bytes) {
  constexpr std::string_view magic = "\x93NUMPY";
  return std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size())
      .starts_with(magic);
}

/// The header of a .npy file of version 1, 2 or 3 that begins as one; nothing where it does not
/// say what NumPy's do.
///
/// Source: NumPy, lib/format.py.
inline std::optional<NpyHeader> parse_npy_header(std::span<const std::uint8_t> bytes) {
  if (bytes.size() < 12) return std::nullopt;
  const std::uint8_t version = bytes[6];
  if (version < 1 || version > 3) return std::nullopt;
  const std::size_t begin = version == 1 ? 10 : 12;
  std::size_t length = 0;
  for (std::size_t i = begin; i-- > 8;) length = length << 8 | bytes[i];
  if (length > 65536 || length > bytes.size() - begin) return std::nullopt;
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + begin, length);

  const auto value_of = [&](std::string_view key) {
    const std::size_t at = text.find(key);
    if (at == std::string_view::npos) return std::string_view();
    const std::string_view rest = text.substr(at + key.size());
    return rest.substr((std::min)(rest.find_first_not_of(' '), rest.size()));
  };
  NpyHeader header;
  header.data = begin + length;
  const std::string_view descr = value_of("'descr':");
  const std::size_t quote = descr.find('\'', 1);
  if (!descr.starts_with('\'') || quote == std::string_view::npos) return std::nullopt;
  header.descr = descr.substr(1, quote - 1);
  std::string_view shape = value_of("'shape':");
  const std::size_t end = shape.find(')');
  if (!shape.starts_with('(') || end == std::string_view::npos) return std::nullopt;
  shape = shape.substr(1, end - 1);
  while (!shape.empty()) {
    std::uint64_t extent = 0;
    const auto [stop, error] = std::from_chars(shape.data(), shape.data() + shape.size(), extent);
    if (error != std::errc()) return std::nullopt;
    header.shape.push_back(extent);
    shape.remove_prefix(static_cast<std::size_t>(stop - shape.data()));
    if (!shape.empty() && !shape.starts_with(',')) return std::nullopt;
    shape.remove_prefix((std::min)(shape.find_first_not_of(", "), shape.size()));
  }
  return header;
}

}  // namespace data::detail
}  // namespace v0
}  // namespace reef
