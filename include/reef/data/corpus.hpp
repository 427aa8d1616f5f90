#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <span>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/io/checksum.hpp>

namespace reef {
inline namespace v0 {
namespace data {

namespace detail {

/// Reads all bytes of a text file, which must exist and hold at least one byte.
std::vector<std::uint8_t> read_text(const std::filesystem::path& path);

void require_text(const std::filesystem::path& path, std::span<const std::uint8_t> bytes);

}  // namespace detail

/// Text files as two sequences of byte tokens: one to train on, one held out to validate on.
///
/// Files are taken in the order of their names, whatever the order in which they were given, and
/// joined without a mark between them; training_documents() tells them apart. Of ten or more files, every tenth is held out. Of fewer, the
/// last tenth of each file is.
///
/// | memory | one byte a token                                                                 |
/// | text   | UTF-8, or another encoding of which most characters are those of ASCII; any      |
/// |        | bytes, if Contents::bytes says so                                                |
/// | errors | FileError names a file that is missing, unreadable, a folder or empty;           |
/// |        | DecodeError one that is no text, and what it is; OptionError for no files, a file named twice, or too little text to hold any out |
///
/// \code
/// const data::Corpus text({"a.txt", "b.txt"});
/// const data::Sampler sampler(text.training(), 256, 1);
/// \endcode
class Corpus {
public:
  static constexpr std::size_t held_out_share = 10;

  enum class Contents { text, bytes };

  explicit Corpus(std::vector<std::filesystem::path> files, Contents contents = Contents::text);

  [[nodiscard]] std::span<const std::uint8_t> training() const& { return training_; }
  void training() const&& = delete;
  [[nodiscard]] std::span<const std::uint8_t> validation() const& { return validation_; }
  void validation() const&& = delete;

  /// The part of each file to train on, where it has one; validation_documents() gives the parts that are held out.
  [[nodiscard]] std::vector<std::span<const std::uint8_t>> training_documents() const& {
    return documents(training_, training_ends_);
  }
  void training_documents() const&& = delete;
  [[nodiscard]] std::vector<std::span<const std::uint8_t>> validation_documents() const& {
    return documents(validation_, validation_ends_);
  }
  void validation_documents() const&& = delete;

  /// All files, in the order of their names.
  [[nodiscard]] std::span<const std::filesystem::path> files() const& { return files_; }
  void files() const&& = delete;
  /// The files that are held out as a whole; none where there are fewer than ten.
  [[nodiscard]] std::span<const std::filesystem::path> held_out_files() const& {
    return held_out_files_;
  }
  void held_out_files() const&& = delete;

  /// The checksum of all tokens, by which ranks, and a resumed run, find that they have the same text.
  [[nodiscard]] std::uint32_t fingerprint() const {
    return io::crc32c(std::as_bytes(validation()), io::crc32c(std::as_bytes(training())));
  }

private:
  static std::vector<std::span<const std::uint8_t>> documents(std::span<const std::uint8_t> all,
                                                              std::span<const std::size_t> ends);

  std::vector<std::size_t> training_ends_;  // by file
  std::vector<std::size_t> validation_ends_;
  std::vector<std::uint8_t> training_;
  std::vector<std::uint8_t> validation_;
  std::vector<std::filesystem::path> files_;
  std::vector<std::filesystem::path> held_out_files_;
};

}  // namespace data
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/data/corpus.ipp>
#endif
