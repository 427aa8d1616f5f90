#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace reef {
inline namespace v0 {
namespace data {

/// A token that stands for a text as it is, such as "<|im_end|>", and is found before the text is cut.
struct AddedToken {
  std::string content;
  std::int32_t id = 0;
  bool normalized = false;    ///< true: the token is looked for in the normalised text
  bool takes_beside = false;  ///< true: spaces or words beside the token decide whether and how it is found
};

/// Reads the added tokens of a folder of Hugging Face's: those of added_tokens.json, of added_tokens_decoder in
/// tokenizer_config.json, and of added_tokens in tokenizer.json, whichever are there, each once, in ascending order of
/// ids.
///
/// | errors | FileError for a file that cannot be read; DecodeError, with file and token, for malformed ones, and for |
/// |        | files that give one id to two texts, or one text two ids                                               |
///
/// \code
/// #include <reef/data/sentence_piece_tokenizer.hpp>
/// const std::vector<data::AddedToken> added = data::read_added_tokens("llama");
/// const auto tokenizer = data::SentencePieceTokenizer::read("llama/tokenizer.model", {.added = added});
/// \endcode
std::vector<AddedToken> read_added_tokens(const std::filesystem::path& folder);

/// A table of added tokens, which finds them in texts: at each byte the longest, of equal ones that of the lowest id.
///
/// \code
/// const data::AddedTokenTable table({{"<|im_end|>", 7}});
/// table.for_each_part("a<|im_end|>", [](std::string_view text) {}, [](std::int32_t token) {});
/// \endcode
class AddedTokenTable {
public:
  AddedTokenTable() = default;
  explicit AddedTokenTable(const std::vector<AddedToken>& tokens) {
    for (const AddedToken& token : tokens) {
      if (!token.content.empty()) by_byte_[static_cast<unsigned char>(token.content.front())].push_back(token);
    }
    for (auto& candidates : by_byte_) {
      std::sort(candidates.begin(), candidates.end(), [](const AddedToken& a, const AddedToken& b) {
        if (a.content.size() != b.content.size()) return a.content.size() > b.content.size();
        return a.id < b.id;
      });
    }
  }

  /// Calls token(id) for each added token in a text, and gap(text) for the texts between them that are not empty, in
  /// their order.
  template <class Gap, class Token>
  void for_each_part(std::string_view text, const Gap& gap, const Token& token) const {
    std::size_t begin = 0;
    for (std::size_t at = 0; at < text.size();) {
      const auto& candidates = by_byte_[static_cast<unsigned char>(text[at])];
      const auto found = std::find_if(candidates.begin(), candidates.end(), [&](const AddedToken& added) {
        return text.substr(at).starts_with(added.content);
      });
      if (found == candidates.end()) {
        ++at;
        continue;
      }
      if (at > begin) gap(text.substr(begin, at - begin));
      token(found->id);
      begin = at += found->content.size();
    }
    if (begin < text.size()) gap(text.substr(begin));
  }

private:
  std::array<std::vector<AddedToken>, 256> by_byte_;
};

}  // namespace data
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/data/added_tokens.ipp>
#endif
