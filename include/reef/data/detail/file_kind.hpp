#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <reef/core/text.hpp>
#include <reef/data/detail/npy_header.hpp>

namespace reef {
inline namespace v0 {
namespace data::detail {

/// What a file is that begins with these bytes, as far as its first ones tell; nothing for what is not
/// known. Some kinds begin as a text could.
inline std::optional<std::string_view> kind_of_file(std::span<const std::uint8_t> bytes) {
  struct Mark {
    std::string_view bytes;
    std::string_view kind;
    std::size_t at = 0;
  };
  using namespace std::string_view_literals;
  static constexpr std::array<Mark, 31> marks{{
      {"\x7f"
       "ELF"sv,
       "a program (ELF)"},
      {"MZ\x90\0"sv, "a program (Windows)"},
      {"\xcf\xfa\xed\xfe"sv, "a program (Mach-O)"},
      {"\xca\xfe\xba\xbe"sv, "a program (Java or Mach-O)"},
      {"!<arch>\n"sv, "a library of object files"},
      {"\0asm"sv, "a program (WebAssembly)"},
      {"\x93NUMPY"sv, "an array of NumPy (.npy)"},
      {"PK\x03\x04"sv, "a zip archive, as .npz and PyTorch's files are"},
      {"PK\x05\x06"sv, "a zip archive"},
      {"\x80\x02\x8a\x0a"sv, "a file of PyTorch (pickle)"},
      {"\x1f\x8b\x08"sv, "compressed (gzip)"},
      {"BZh"sv, "compressed (bzip2)"},
      {"\xfd"
       "7zXZ\0"sv,
       "compressed (xz)"},
      {"\x28\xb5\x2f\xfd"sv, "compressed (zstd)"},
      {"\x04\x22\x4d\x18"sv, "compressed (lz4)"},
      {"7z\xbc\xaf\x27\x1c"sv, "compressed (7z)"},
      {"PAR1"sv, "a table of Parquet"},
      {"ARROW1"sv, "a table of Arrow"},
      {"Obj\x01"sv, "records of Avro"},
      {"SQLite format 3\0"sv, "a database of SQLite"},
      {"\x89HDF\r\n"sv, "a file of HDF5"},
      {"GGUF"sv, "a model (GGUF)"},
      {"\x89PNG"sv, "an image (PNG)"},
      {"\xff\xd8\xff"sv, "an image (JPEG)"},
      {"GIF8"sv, "an image (GIF)"},
      {"%PDF-"sv, "a document (PDF)"},
      {"RIFF"sv, "sound, film or an image (RIFF)"},
      {"OggS"sv, "sound or film (Ogg)"},
      {"ID3\x03"sv, "sound (MP3)"},
      {"ftyp"sv, "a film (MP4)", 4},
      {"ustar"sv, "an archive (tar)", 257},
  }};
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  for (const Mark& mark : marks) {
    if (text.substr((std::min)(mark.at, text.size())).starts_with(mark.bytes)) return mark.kind;
  }
  // The length of a header of JSON, then that.
  if (text.size() > 9 && text.substr(5, 5) == "\0\0\0{\""sv) return "tensors (.safetensors)";
  return std::nullopt;
}

/// UTF-16 and UTF-32 by their first bytes: text, but neither bytes nor a BPE's pieces are their characters.
inline std::optional<std::string_view> wide_text(std::span<const std::uint8_t> bytes) {
  using namespace std::string_view_literals;
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (text.starts_with("\xff\xfe\0\0"sv) || text.starts_with("\0\0\xfe\xff"sv)) return "UTF-32";
  if (text.starts_with("\xff\xfe"sv) || text.starts_with("\xfe\xff"sv)) return "UTF-16";
  return std::nullopt;
}

inline constexpr std::size_t judged_block = 4096;

/// How many bytes of a block no text has: zeros and other control characters but those that move a
/// cursor, and beginnings and ends of UTF-8 characters without the other.
struct Oddities {
  std::size_t controls = 0;
  std::size_t halves = 0;
  std::size_t of = 0;

  explicit Oddities(std::span<const std::uint8_t> block) : of(block.size()) {
    std::uint8_t before = 0;
    for (const std::uint8_t byte : block) {
      controls += byte < 0x20 && (byte < 0x07 || byte > 0x0d) && byte != 0x1b ? 1U : 0U;
      const bool goes_on = (byte & 0xc0U) == 0x80U;
      halves += before >= 0xc0 && !goes_on ? 1U : 0U;
      halves += before < 0x80 && goes_on ? 1U : 0U;
      before = byte;
    }
  }

  [[nodiscard]] bool many_controls() const { return controls > 1 + of / 32; }
  /// Text of Latin-1 has fewer.
  [[nodiscard]] bool many_halves() const { return halves > 8 + of / 4; }
};

/// The oddities of the first block that is no text, and where it begins.
inline std::optional<std::pair<std::size_t, Oddities>> find_no_text(
    std::span<const std::uint8_t> bytes) {
  for (std::size_t at = 0; at < bytes.size(); at += judged_block) {
    const Oddities odd(bytes.subspan(at, (std::min)(judged_block, bytes.size() - at)));
    if (odd.many_controls() || odd.many_halves()) return std::pair(at, odd);
  }
  return std::nullopt;
}

/// Why bytes are no text, as "it is an image (PNG)", and what to do about it; nothing for text.
struct NoText {
  std::string why;
  std::string_view fix;
};
inline std::optional<NoText> why_no_text(std::span<const std::uint8_t> bytes) {
  if (const auto wide = wide_text(bytes))
    return NoText{concat("it is text of ", *wide), "convert it to UTF-8, e.g. by iconv"};
  const auto found = find_no_text(bytes);
  if (!found) return std::nullopt;
  const auto& [at, odd] = *found;
  if (const auto kind = kind_of_file(bytes)) {
    return NoText{concat("it is no text, but ", *kind),
                  begins_as_npy(bytes) ? "name it .npy, if it has tokens"
                                       : "name text, or say that bytes are meant"};
  }
  const std::string where = concat(": of the ", odd.of, " bytes from byte ", at, " on ");
  if (odd.many_controls()) {
    return NoText{concat("it is no text", where, odd.controls, " are zeros or control characters"),
                  "name text, or say that bytes are meant"};
  }
  return NoText{concat("it is no UTF-8", where, odd.halves, " are halves of characters"),
                "convert it to UTF-8, e.g. by iconv, or say that bytes are meant"};
}

}  // namespace data::detail
}  // namespace v0
}  // namespace reef
