#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/text.hpp>
#include <reef/data/detail/file_kind.hpp>
#include <reef/data/detail/npy_header.hpp>
#include <reef/data/detail/token_width.hpp>
#include <reef/data/token_view.hpp>
#include <reef/io/atomic_file.hpp>
#include <reef/io/mapped_file.hpp>

namespace reef::inline v0::data {

static_assert(std::endian::native == std::endian::little, "token files are little-endian.");

/// One file of tokens, mapped into memory.
///
/// | llm.c, GPT-2   | 256 int32 {20240520, 1, n}, then n uint16                              |
/// | llm.c, Llama 3 | 256 int32 {20240801, 7, n}, then n uint32                              |
/// | NumPy          | .npy of one axis and of uint8, uint16, uint32 or int32                 |
/// | no header      | uint16 as of nanoGPT, or uint32 where every second half is nearly 0;   |
/// |                | not one that begins as an llm.c file of any kind                       |
/// | cost           | opening reads the first page, without a header 15 more                 |
/// | errors         | FileError if it cannot be mapped; DecodeError with path, what was found |
/// |                | and what was expected for another version, a count that is not the     |
/// |                | file's size, an odd size, no tokens, text, or what its first bytes or   |
/// |                | values show to be something else                                        |
///
/// Source: llm.c, dev/data/data_common.py; nanoGPT, data/openwebtext/prepare.py; NumPy, NEP 1.
class TokenFile {
public:
  static constexpr std::int32_t gpt2_magic = 20240520;
  static constexpr std::int32_t llama3_magic = 20240801;
  static constexpr std::size_t header_bytes = 256 * sizeof(std::int32_t);

  explicit TokenFile(std::filesystem::path path) : file_(std::move(path)) {
    const std::size_t size = file_.bytes().size();
    const std::int32_t magic = size >= sizeof(std::int32_t) ? header(0) : 0;
    if (magic == gpt2_magic || magic == llama3_magic) {
      width_ = magic == gpt2_magic ? 2 : 4;
      offset_ = header_bytes;
      require_header(magic == gpt2_magic ? 1 : 7);
    } else if (magic > 20240000 && magic < 20250000) {
      // As nanoGPT's tokens: 308 after one above 54,912, which GPT-2 does not have.
      refuse(concat("it begins with ", magic, ", as other files of llm.c do"),
             "name a file of tokens, whose number is 20240520 or 20240801");
    } else if (detail::begins_as_npy(raw())) {
      read_npy_header();
    } else {
      judge_values();
    }
    if (size <= offset_) refuse("it has no tokens", "leave it out");
  }

  [[nodiscard]] const std::filesystem::path& path() const { return file_.path(); }
  [[nodiscard]] std::size_t size() const { return (file_.bytes().size() - offset_) / width_; }
  /// As MappedFile::change.
  [[nodiscard]] std::string change() const { return file_.change(); }
  /// Bytes a token.
  [[nodiscard]] std::size_t width() const { return width_; }
  /// How the width is known: "llm.c's header", "NumPy's header" or "its values".
  [[nodiscard]] std::string_view width_from() const { return width_from_; }

  /// Valid as long as this object or the one that it was moved to lives.
  [[nodiscard]] TokenView tokens() const {
    const std::byte* const data = file_.bytes().data() + offset_;  // a multiple of the width
    if (width_ == 1) return std::span(reinterpret_cast<const std::uint8_t*>(data), size());
    if (width_ == 2) return std::span(reinterpret_cast<const std::uint16_t*>(data), size());
    return std::span(reinterpret_cast<const std::uint32_t*>(data), size());
  }

private:
  [[nodiscard]] std::span<const std::uint8_t> raw() const {
    return {reinterpret_cast<const std::uint8_t*>(file_.bytes().data()), file_.bytes().size()};
  }
  [[nodiscard]] std::int32_t header(std::size_t index) const {
    std::int32_t value = 0;
    std::memcpy(&value, file_.bytes().data() + index * sizeof(value), sizeof(value));
    return value;
  }
  void require_header(std::int32_t version) const {
    const std::size_t size = file_.bytes().size();
    if (size < header_bytes) {
      refuse(concat("its ", size, " bytes are less than llm.c's header of ", header_bytes),
             "copy it again; it was cut off");
    }
    if (header(1) != version) {
      refuse(concat("its header has version ", header(1), ", expected ", version, " after ",
                    header(0)),
             "write it with llm.c's current scripts, or with write_token_file");
    }
    const std::int64_t count = header(2);
    const auto expected =
        static_cast<std::int64_t>(header_bytes) + count * static_cast<std::int64_t>(width_);
    if (count < 0 || expected != static_cast<std::int64_t>(size)) {
      refuse(concat("its header promises ", count, " tokens of ", width_, " bytes, ", expected,
                    " bytes in all, but it has ", size),
             "copy it again; it was cut off, or has something after its end");
    }
  }
  void read_npy_header() {
    const auto npy = detail::parse_npy_header(raw());
    if (!npy) refuse("its header is none of NumPy's", "copy it again; it was cut off");
    width_ = npy->descr == "|u1"                          ? 1
             : npy->descr == "<u2"                        ? 2
             : npy->descr == "<u4" || npy->descr == "<i4" ? 4
                                                          : 0;
    if (width_ == 0) {
      refuse(concat("its elements are ", in_quotes(npy->descr), ", no tokens of at most 4 bytes"),
             "write it again from tokens.astype(numpy.uint16), or numpy.uint32");
    }
    if (npy->shape.size() != 1) {
      refuse(concat("its array has ", npy->shape.size(), " axes"),
             "write it again from tokens.reshape(-1)");
    }
    offset_ = npy->data;
    const std::uint64_t count = npy->shape.front();
    const std::size_t rest = file_.bytes().size() - offset_;
    if (offset_ % width_ != 0 || rest % width_ != 0 || rest / width_ != count) {
      refuse(concat("its header promises ", count, " tokens of ", width_, " bytes from byte ",
                    offset_, " on, but it has ", rest, " bytes there"),
             "copy it again; it was cut off, or has something after its end");
    }
    width_from_ = "NumPy's header";
  }
  /// Without a header: tokens of 2 or 4 bytes, unless what it holds shows something else.
  void judge_values() {
    const std::size_t size = raw().size();
    if (const auto kind = detail::kind_of_file(raw())) {
      refuse(concat("it is no file of tokens, but ", *kind), "name a file of tokens");
    }
    const detail::TokenWidth seen = detail::width_of_tokens(raw());
    if (seen.bytes == 0) refuse(std::string(seen.otherwise), std::string(seen.fix));
    width_ = seen.bytes;
    width_from_ = "its values";
    if (size % width_ != 0) {
      refuse(width_ == 2
                 ? concat("it has no header, and ", size, " bytes, an odd number, are no uint16")
                 : concat("it has no header, its values are of uint32, and ", size,
                          " bytes are no multiple of 4"),
             "copy it again; it was cut off, or is no file of tokens");
    }
  }
  [[noreturn]] void refuse(const std::string& why, const std::string& fix) const {
    throw DecodeError("reef::data::TokenFile: cannot use '", path().string(), "': ", why,
                      ".\n  fix: ", fix, ".");
  }

  io::MappedFile file_;
  std::size_t width_ = 2;  // bytes a token
  std::size_t offset_ = 0;
  std::string_view width_from_ = "llm.c's header";
};

/// Writes tokens as an llm.c file of uint16, atomically: what TokenFile and llm.c read.
///
/// | errors | OptionError for a token outside 0 to 65535, for none, or for more than 2^31 - 1;  |
/// |        | FileError if it cannot be written. A file that was there before is unchanged      |
inline void write_token_file(const std::filesystem::path& path,
                             std::span<const std::int32_t> tokens) {
  if (tokens.empty() || tokens.size() > std::numeric_limits<std::int32_t>::max()) {
    throw OptionError("reef::data::write_token_file: ", tokens.size(), " tokens for '",
                      path.string(), "'.\n  fix: 1 to 2^31 - 1 a file, the rest in the next.");
  }
  std::vector<std::uint16_t> narrow;
  narrow.reserve(tokens.size());
  for (const std::int32_t token : tokens) {
    if (token < 0 || token > std::numeric_limits<std::uint16_t>::max()) {
      throw OptionError("reef::data::write_token_file: token ", narrow.size(), " is ", token,
                        ", the format holds 0 to 65535.\n  fix: a vocabulary of at most 65536.");
    }
    narrow.push_back(static_cast<std::uint16_t>(token));
  }
  std::int32_t header[256] = {TokenFile::gpt2_magic, 1, static_cast<std::int32_t>(tokens.size())};
  io::AtomicFile file(path);
  file.write(std::as_bytes(std::span(header)));
  file.write(std::as_bytes(std::span(narrow)));
  file.commit();
}

}  // namespace reef::inline v0::data
