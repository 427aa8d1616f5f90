#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/data/detail/distinct_files.hpp>
#include <reef/data/token_file.hpp>
#include <reef/data/token_view.hpp>
#include <reef/io/checksum.hpp>

namespace reef::inline v0::data {

/// Whether a file is named as one that is held out: "val", "valid" or "validation" is a word of its
/// name, in small or capital letters. Words are runs of letters: "x_val_01.bin", not "interval.bin".
inline bool names_held_out(std::string_view file) {
  std::string word;
  for (const char c : std::string(file) + '.') {
    const auto byte = static_cast<unsigned char>(c);
    const bool small = byte >= 'a' && byte <= 'z';
    const bool capital = byte >= 'A' && byte <= 'Z';
    if (small || capital || byte >= 0x80) {
      word += capital ? static_cast<char>(c - 'A' + 'a') : c;
      continue;
    }
    if (word == "val" || word == "valid" || word == "validation") return true;
    word.clear();
  }
  return false;
}

/// Files of tokens as two sequences, neither copied: one to train on, one held out to validate on.
///
/// Files are taken in the order of their names, whatever the order in which they were given, as one
/// sequence. Those that names_held_out are held out; if there are none, the last tenth of all
/// tokens is.
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
      const bool held_out = names_held_out(path.filename().string());
      files_.emplace_back(std::move(path));
      (held_out ? validation_ : training_).append(files_.back().tokens());
    }
    if (training_.empty()) {
      throw OptionError("reef::data::TokenShards: there is no file to train on among ",
                        files_.size(), ".\n  fix: name one without the word \"val\" in its name.");
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

  /// The first file that somebody cut or wrote to since it was opened; null if there is none. Tokens of such a
  /// file are others than they were, and reading those that were cut off ends the process (MappedFile).
  [[nodiscard]] const TokenFile* changed() const {
    const auto found = std::find_if(files_.begin(), files_.end(),
                                    [](const TokenFile& file) { return !file.change().empty(); });
    return found == files_.end() ? nullptr : &*found;
  }

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
        throw DecodeError(
            "reef::data::TokenShards: '", file.path().string(), "': token ",
            std::distance(tokens.begin(), bad), " is ", std::uint32_t{*bad},
            ", outside the vocabulary of ", vocabulary,
            ".\n  fix: give the tokenizer that the file was written with. If its tokens are "
            "not little-endian of ",
            file.width(), " bytes, write it again.");
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

}  // namespace reef::inline v0::data
