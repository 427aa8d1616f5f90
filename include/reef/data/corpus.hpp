#pragma once

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/data/detail/distinct_files.hpp>
#include <reef/data/detail/file_kind.hpp>
#include <reef/io/checksum.hpp>

namespace reef::inline v0::data {

namespace detail {

/// All bytes of a text file that must exist and hold at least one byte.
inline std::vector<std::uint8_t> read_text(const std::filesystem::path& path) {
  const auto refuse = [&](const std::string& why, const std::string& fix) {
    throw FileError("reef::data::Corpus: cannot use '", path.string(), "': ", why,
                    ".\n  fix: ", fix, ".");
  };
  std::error_code code;
  const auto status = std::filesystem::status(path, code);
  if (status.type() == std::filesystem::file_type::not_found) {
    refuse("there is no such file", "check the path; relative ones start at the working directory");
  }
  if (status.type() == std::filesystem::file_type::directory) {
    refuse("it is a folder",
           concat("name the files in it, e.g. with the shell's ", path.string(), "/*"));
  }
  if (status.type() == std::filesystem::file_type::character) {
    refuse("it is a device, which may never end", "name a file or a pipe");
  }
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"),
                                                             &std::fclose);
  if (file == nullptr) refuse(std::strerror(errno), "make it readable for this user");
  std::vector<std::uint8_t> bytes;
  std::size_t size = 0;
  do {
    bytes.resize(std::max<std::size_t>(size + size / 2, std::size_t{1} << 16));
    size += std::fread(bytes.data() + size, 1, bytes.size() - size, file.get());
  } while (size == bytes.size());
  if (std::ferror(file.get()) != 0) refuse(std::strerror(errno), "check the disk");
  if (size == 0) refuse("it is empty", "leave it out, or give it text");
  bytes.resize(size);
  return bytes;
}

inline void require_text(const std::filesystem::path& path, std::span<const std::uint8_t> bytes) {
  if (const auto no = why_no_text(bytes)) {
    throw DecodeError("reef::data::Corpus: cannot use '", path.string(), "': ", no->why,
                      ".\n  fix: ", no->fix, ".");
  }
}

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
class Corpus {
public:
  static constexpr std::size_t held_out_share = 10;

  enum class Contents { text, bytes };

  explicit Corpus(std::vector<std::filesystem::path> files, Contents contents = Contents::text) {
    if (files.empty()) {
      throw OptionError("reef::data::Corpus: no files.\n  fix: name at least one text file.");
    }
    detail::sort_distinct(files, "Corpus");
    for (std::size_t i = 0; i < files.size(); ++i) {
      const std::vector<std::uint8_t> text = detail::read_text(files[i]);
      if (contents == Contents::text) detail::require_text(files[i], text);
      std::size_t training = text.size();
      if (files.size() < held_out_share) {
        training -= text.size() / held_out_share;
      } else if (i % held_out_share == held_out_share - 1) {
        training = 0;
      }
      const auto cut = text.begin() + static_cast<std::ptrdiff_t>(training);
      training_.insert(training_.end(), text.begin(), cut);
      validation_.insert(validation_.end(), cut, text.end());
      if (training == 0) held_out_files_.push_back(files[i]);
      training_ends_.push_back(training_.size());
      validation_ends_.push_back(validation_.size());
    }
    if (validation_.size() < 2) {
      throw OptionError("reef::data::Corpus: ", training_.size(),
                        " bytes of text are too few to hold a tenth out.\n  fix: add text.");
    }
    files_ = std::move(files);
  }

  [[nodiscard]] std::span<const std::uint8_t> training() const { return training_; }
  [[nodiscard]] std::span<const std::uint8_t> validation() const { return validation_; }

  /// What is trained on, or held out, of each file that has any.
  [[nodiscard]] std::vector<std::span<const std::uint8_t>> training_documents() const {
    return documents(training_, training_ends_);
  }
  [[nodiscard]] std::vector<std::span<const std::uint8_t>> validation_documents() const {
    return documents(validation_, validation_ends_);
  }

  /// All files, by name.
  [[nodiscard]] std::span<const std::filesystem::path> files() const { return files_; }
  /// The files that are held out whole; none where there are fewer than ten.
  [[nodiscard]] std::span<const std::filesystem::path> held_out_files() const {
    return held_out_files_;
  }

  /// A checksum of all tokens: the same text on every rank, and after a resume, has the same.
  [[nodiscard]] std::uint32_t fingerprint() const {
    return io::crc32c(std::as_bytes(validation()), io::crc32c(std::as_bytes(training())));
  }

private:
  static std::vector<std::span<const std::uint8_t>> documents(std::span<const std::uint8_t> all,
                                                              std::span<const std::size_t> ends) {
    std::vector<std::span<const std::uint8_t>> result;
    std::size_t begin = 0;
    for (const std::size_t end : ends) {
      if (end > begin) result.push_back(all.subspan(begin, end - begin));
      begin = end;
    }
    return result;
  }

  std::vector<std::size_t> training_ends_;  // by file
  std::vector<std::size_t> validation_ends_;
  std::vector<std::uint8_t> training_;
  std::vector<std::uint8_t> validation_;
  std::vector<std::filesystem::path> files_;
  std::vector<std::filesystem::path> held_out_files_;
};

}  // namespace reef::inline v0::data
