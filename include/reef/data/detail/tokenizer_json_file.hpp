#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <reef/data/added_tokens.hpp>
#include <reef/data/detail/bpe_files.hpp>

namespace reef {
inline namespace v0 {
namespace data::detail {

/// A step of cutting text into pieces: each piece of the step before is cut on.
struct CutStep {
  std::string pattern;      ///< as pcre2_form returns one; empty: GPT-2's, or none
  bool by_gpt2 = false;     ///< cuts by GPT-2's pattern
  bool puts_space = false;  ///< puts a space in front of a piece that begins with none
  std::string place{};      ///< file and field of the pattern, for errors
};

/// What a tokenizer.json says.
struct TokenizerJsonFile {
  BpeFiles bpe;  ///< its tokens have the added ones too, its ids have not
  bool whole_pieces = false;
  bool nfc = false;
  std::vector<CutStep> steps;
  std::vector<AddedToken> added;
  std::vector<std::int32_t> front;  ///< what the post-processor puts before a text
};

/// Reads a file. Throws DecodeError with file, field and fix for what would change results and is not known.
TokenizerJsonFile read_tokenizer_json(const std::filesystem::path& path);

}  // namespace data::detail
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/data/detail/tokenizer_json_file.ipp>
#endif
