#pragma once

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include <reef/core/inline.hpp>
#include <reef/data/detail/distinct_files.hpp>
#include <reef/data/token_shards.hpp>
#include <reef/io/checksum.hpp>

namespace reef {
inline namespace v0 {
namespace data {

REEF_INLINE bool names_held_out(std::string_view file) {
  std::string word;
  for (const char c : std::string(file) + '.') {
    const auto byte = static_cast<unsigned char>(c);
    const bool is_lower_case = byte >= 'a' && byte <= 'z';
    const bool is_capital = byte >= 'A' && byte <= 'Z';
    if (is_lower_case || is_capital || byte >= 0x80) {
      word += is_capital ? static_cast<char>(c - 'A' + 'a') : c;
      continue;
    }
    if (word == "val" || word == "valid" || word == "validation") return true;
    word.clear();
  }
  return false;
}

REEF_INLINE TokenShards::TokenShards(std::vector<std::filesystem::path> paths) {
  detail::sort_distinct(paths, "TokenShards");
  for (std::filesystem::path& path : paths) {
    const bool held_out = names_held_out(path.filename().string());
    files_.emplace_back(std::move(path));
    (held_out ? validation_ : training_).append(files_.back().tokens());
  }
  if (training_.empty()) {
    throw OptionError("reef::data::TokenShards: there is no file to train on among ", files_.size(),
                      ".\n  fix: name one without the word \"val\" in its name.");
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

REEF_INLINE const TokenFile* TokenShards::changed() const& {
  const auto found = std::find_if(files_.begin(), files_.end(),
                                  [](const TokenFile& file) { return !file.change().empty(); });
  return found == files_.end() ? nullptr : &*found;
}

REEF_INLINE void TokenShards::require_below(std::int32_t vocabulary) const {
  for (const TokenFile& file : files_) {
    file.tokens().for_each_piece([&](const auto tokens) {
      const auto bound = static_cast<std::uint32_t>(vocabulary);
      // The largest of all first: a loop without a branch. Then the place, if there is one.
      std::uint32_t largest = 0;
      for (const std::uint32_t token : tokens) largest = (std::max)(largest, token);
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

REEF_INLINE std::uint32_t TokenShards::fingerprint() const {
  std::uint32_t sum = 0;
  for (const TokenView* const view : {&training_, &validation_}) {
    view->for_each_piece([&](const auto tokens) { sum = io::crc32c(std::as_bytes(tokens), sum); });
  }
  return sum;
}

}  // namespace data
}  // namespace v0
}  // namespace reef
