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

/// Returns all bytes of a text file, which must exist and have at least one byte.
std::vector<std::uint8_t> read_text(const std::filesystem::path& path);

void require_text(const std::filesystem::path& path, std::span<const std::uint8_t> bytes);

}  // namespace detail

/// The text of files as two sequences of byte tokens: one to train on, one held out to validate on.
///
/// Files are sorted by name, whatever the order in which they are given, and joined without a
/// separator; training_documents() returns them separately. Of ten or more files, every tenth is held out. Of fewer,
/// the last tenth of each file is held out.
///
/// | memory | one byte for each token                                                                                 |
/// | text   | UTF-8, or another encoding in which most characters are those of ASCII; any bytes with Contents::bytes  |
/// | errors | FileError names a file that is missing, unreadable, a folder or empty; DecodeError a file that is no    |
/// |        | text, and what it is; OptionError for no files, a file named twice, or too little text to hold any out  |
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

  /// Returns the training part of each file, if it has one; validation_documents() returns the parts held out.
  [[nodiscard]] std::vector<std::span<const std::uint8_t>> training_documents() const& {
    return documents(training_, training_ends_);
  }
  void training_documents() const&& = delete;
  [[nodiscard]] std::vector<std::span<const std::uint8_t>> validation_documents() const& {
    return documents(validation_, validation_ends_);
  }
  void validation_documents() const&& = delete;

  /// Returns the paths of all files, sorted by name.
  [[nodiscard]] std::span<const std::filesystem::path> files() const& { return files_; }
  void files() const&& = delete;
  /// Returns the paths of the files that are held out as a whole; none if there are fewer than ten files.
  [[nodiscard]] std::span<const std::filesystem::path> held_out_files() const& {
    return held_out_files_;
  }
  void held_out_files() const&& = delete;

  /// Returns a checksum of all tokens, by which ranks, and a resumed run, check that they have the same text.
  [[nodiscard]] std::uint32_t fingerprint() const {
    return io::crc32c(std::as_bytes(validation()), io::crc32c(std::as_bytes(training())));
  }

private:
  static std::vector<std::span<const std::uint8_t>> documents(std::span<const std::uint8_t> all,
                                                              std::span<const std::size_t> ends);

  std::vector<std::size_t> training_ends_;  // the end of each file's part, by file
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
