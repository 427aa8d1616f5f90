#pragma once

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

#include <reef/core/inline.hpp>
#include <reef/data/corpus.hpp>
#include <reef/data/detail/distinct_files.hpp>
#include <reef/data/detail/file_kind.hpp>

namespace reef {
inline namespace v0 {
namespace data {

namespace detail {

REEF_INLINE std::vector<std::uint8_t> read_text(const std::filesystem::path& path) {
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

REEF_INLINE void require_text(const std::filesystem::path& path,
                              std::span<const std::uint8_t> bytes) {
  if (const auto no = why_no_text(bytes)) {
    throw DecodeError("reef::data::Corpus: cannot use '", path.string(), "': ", no->why,
                      ".\n  fix: ", no->fix, ".");
  }
}

}  // namespace detail

REEF_INLINE Corpus::Corpus(std::vector<std::filesystem::path> files, Contents contents) {
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

REEF_INLINE std::vector<std::span<const std::uint8_t>> Corpus::documents(
    std::span<const std::uint8_t> all, std::span<const std::size_t> ends) {
  std::vector<std::span<const std::uint8_t>> result;
  std::size_t begin = 0;
  for (const std::size_t end : ends) {
    if (end > begin) result.push_back(all.subspan(begin, end - begin));
    begin = end;
  }
  return result;
}

}  // namespace data
}  // namespace v0
}  // namespace reef
