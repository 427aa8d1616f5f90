#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/data/detail/distinct_files.hpp>
#include <reef/data/token_view.hpp>
#include <reef/io/atomic_file.hpp>
#include <reef/io/checksum.hpp>
#include <reef/io/mapped_file.hpp>

namespace reef::inline v0::data {

static_assert(std::endian::native == std::endian::little, "token files are little-endian.");

/// One file of tokens, mapped into memory.
///
/// | llm.c, GPT-2   | 256 int32 {20240520, 1, n}, then n uint16                              |
/// | llm.c, Llama 3 | 256 int32 {20240801, 7, n}, then n uint32                              |
/// | nanoGPT        | uint16 up to the end; not one that begins as an llm.c file of any kind |
/// | cost           | opening reads the first page                                           |
/// | errors         | FileError if it cannot be mapped; DecodeError with path, what was found |
/// |                | and what was expected for another version, a count that is not the     |
/// |                | file's size, an odd size, or no tokens                                 |
///
/// Source: llm.c, dev/data/data_common.py; nanoGPT, data/openwebtext/prepare.py.
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
    } else if (size % width_ != 0) {
      refuse(concat("it has no header, and ", size, " bytes, an odd number, are no uint16"),
             "copy it again; it was cut off, or is no file of tokens");
    }
    if (size <= offset_) refuse("it has no tokens", "leave it out");
  }

  [[nodiscard]] const std::filesystem::path& path() const { return file_.path(); }
  [[nodiscard]] std::size_t size() const { return (file_.bytes().size() - offset_) / width_; }

  /// Valid as long as this object or the one that it was moved to lives.
  [[nodiscard]] TokenView tokens() const {
    const std::byte* const data = file_.bytes().data() + offset_;  // a multiple of 1024
    if (width_ == 2) return std::span(reinterpret_cast<const std::uint16_t*>(data), size());
    return std::span(reinterpret_cast<const std::uint32_t*>(data), size());
  }

private:
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
  [[noreturn]] void refuse(const std::string& why, const std::string& fix) const {
    throw DecodeError("reef::data::TokenFile: cannot use '", path().string(), "': ", why,
                      ".\n  fix: ", fix, ".");
  }

  io::MappedFile file_;
  std::size_t width_ = 2;  // bytes a token
  std::size_t offset_ = 0;
};

/// Files of tokens as two sequences, neither copied: one to train on, one held out to validate on.
///
/// Files are taken in the order of their names, whatever the order in which they were given, as one
/// sequence. Those with "val" in their file name are held out; if there are none, the last tenth of
/// all tokens is.
///
/// | memory | pages of the files, which all processes of a node share                         |
/// | errors | those of TokenFile; OptionError for no files, a file named twice, no files but   |
/// |        | held-out ones, or too few tokens to hold any out                                |
class TokenShards {
public:
  static constexpr std::size_t held_out_share = 10;

  explicit TokenShards(std::vector<std::filesystem::path> paths) {
    detail::sort_distinct(paths, "TokenShards");
    for (std::filesystem::path& path : paths) {
      const bool held_out = path.filename().string().find("val") != std::string::npos;
      files_.emplace_back(std::move(path));
      (held_out ? validation_ : training_).append(files_.back().tokens());
    }
    if (training_.empty()) {
      throw OptionError("reef::data::TokenShards: there is no file to train on among ",
                        files_.size(), ".\n  fix: name one without \"val\" in its name.");
    }
    if (validation_.empty()) {
      const std::size_t size = training_.size();
      validation_ = training_.part(size - size / held_out_share, size / held_out_share);
      training_ = training_.part(0, size - size / held_out_share);
    }
    if (validation_.size() < 2) {
      throw OptionError("reef::data::TokenShards: ", training_.size(),
                        " tokens are too few to hold any out.\n  fix: give more.");
    }
  }

  [[nodiscard]] const TokenView& training() const { return training_; }
  [[nodiscard]] const TokenView& validation() const { return validation_; }

  /// All files, by name.
  [[nodiscard]] std::span<const TokenFile> files() const { return files_; }

  /// Throws DecodeError, with file and place, for the first token that is not below `vocabulary`.
  /// Reads all tokens once.
  void require_below(std::int32_t vocabulary) const {
    for (const TokenFile& file : files_) {
      file.tokens().for_each_piece([&](const auto tokens) {
        const auto bound = static_cast<std::uint32_t>(vocabulary);
        // The largest of all first: a loop without a branch. Then the place, if there is one.
        std::uint32_t largest = 0;
        for (const std::uint32_t token : tokens) largest = std::max(largest, token);
        if (largest < bound) return;
        const auto bad = std::find_if(tokens.begin(), tokens.end(),
                                      [&](std::uint32_t token) { return token >= bound; });
        throw DecodeError("reef::data::TokenShards: '", file.path().string(), "': token ",
                          std::distance(tokens.begin(), bad), " is ", std::uint32_t{*bad},
                          ", outside the vocabulary of ", vocabulary,
                          ".\n  fix: give the tokenizer that the file was written with.");
      });
    }
  }

  /// A checksum of all tokens: the same on every rank, and after a resume. Reads all tokens once.
  [[nodiscard]] std::uint32_t fingerprint() const {
    std::uint32_t sum = 0;
    for (const TokenView* const view : {&training_, &validation_}) {
      view->for_each_piece(
          [&](const auto tokens) { sum = io::crc32c(std::as_bytes(tokens), sum); });
    }
    return sum;
  }

private:
  std::vector<TokenFile> files_;
  TokenView training_;
  TokenView validation_;
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
