#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include <reef/core/error.hpp>
#include <reef/data/token_view.hpp>
#include <reef/io/mapped_file.hpp>

namespace reef {
inline namespace v0 {
namespace data {

static_assert(std::endian::native == std::endian::little, "token files are little-endian.");

/// A file of tokens, mapped into memory.
///
/// | llm.c, GPT-2   | 256 int32 {20240520, 1, n}, then n uint16                               |
/// | llm.c, Llama 3 | 256 int32 {20240801, 7, n}, then n uint32                               |
/// | NumPy          | .npy of one axis and of uint8, uint16, uint32 or int32                  |
/// | no header      | uint16 as in nanoGPT, or uint32 if every second half is nearly 0;       |
/// |                | not a file that begins as any kind of llm.c file                        |
/// | cost           | opening reads the first page, without a header 15 pages more            |
/// | errors         | FileError if it cannot be mapped; DecodeError with path, what was found |
/// |                | and what was expected for another version, a count that contradicts     |
/// |                | the file's size, an odd size, no tokens, text, or first bytes or        |
/// |                | values that show it to be something else                                |
///
/// Source: llm.c, dev/data/data_common.py; nanoGPT, data/openwebtext/prepare.py; NumPy, NEP 1.
///
/// \code
/// data::write_token_file("train.bin", std::vector<std::int32_t>{15496, 11, 995});
/// const data::TokenFile file("train.bin");
/// const std::int32_t first = file.tokens()[0];
/// \endcode
class TokenFile {
public:
  static constexpr std::int32_t gpt2_magic = 20240520;
  static constexpr std::int32_t llama3_magic = 20240801;
  static constexpr std::size_t header_bytes = 256 * sizeof(std::int32_t);

  explicit TokenFile(std::filesystem::path path);

  [[nodiscard]] const std::filesystem::path& path() const& { return file_.path(); }
  [[nodiscard]] std::filesystem::path path() const&& { return file_.path(); }
  [[nodiscard]] std::size_t size() const { return (file_.bytes().size() - offset_) / width_; }
  /// Returns a description of a change of the file since it was opened, such as by another program; empty without one.
  [[nodiscard]] std::string change() const { return file_.change(); }
  /// Returns the number of bytes of each token in the file: 1, 2 or 4.
  [[nodiscard]] std::size_t width() const { return width_; }
  /// Returns how the number of bytes of a token was found: "llm.c's header", "NumPy's header" or "its values".
  [[nodiscard]] std::string_view width_from() const { return width_from_; }

  /// Returns the file's tokens, valid as long as this object, or the one that it was moved to, exists.
  [[nodiscard]] TokenView tokens() const&;
  void tokens() const&& = delete;

private:
  [[nodiscard]] std::span<const std::uint8_t> raw() const {
    return {reinterpret_cast<const std::uint8_t*>(file_.bytes().data()), file_.bytes().size()};
  }
  [[nodiscard]] std::int32_t header(std::size_t index) const;
  void require_header(std::int32_t version) const;
  void read_npy_header();
  /// Determines the number of bytes of a token, 2 or 4, in a file without a header. Throws DecodeError if neither fits.
  void judge_values();
  [[noreturn]] void refuse(const std::string& why, const std::string& fix) const;

  io::MappedFile file_;
  std::size_t width_ = 2;  // bytes of each token
  std::size_t offset_ = 0;
  std::string_view width_from_ = "llm.c's header";
};

/// Writes tokens as an llm.c file of uint16, atomically; TokenFile and llm.c can read it.
///
/// | errors | OptionError for a token outside 0 to 65535, for no tokens, or for more than       |
/// |        | 2^31 - 1; FileError if it cannot be written. An existing file stays unchanged     |
void write_token_file(const std::filesystem::path& path, std::span<const std::int32_t> tokens);

}  // namespace data
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/data/token_file.ipp>
#endif
