#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <reef/data/detail/bpe_files.hpp>
#include <reef/data/detail/bpe_merger.hpp>

namespace reef {
inline namespace v0 {
namespace data::detail {

/// Tokens, and how pieces of text become them: what tokenizers have in common, however they cut text into pieces.
class BpeVocabulary {
public:
  /// `whole_pieces`: a piece that equals a token is that token, whether or not merges lead to it.
  BpeVocabulary(BpeFiles files, bool whole_pieces);

  /// V, the number of tokens, which are 0 to V - 1.
  [[nodiscard]] std::int32_t size() const { return static_cast<std::int32_t>(begins_.size()) - 1; }

  /// Finds the token of these bytes; nothing if there is none. Compares all tokens.
  [[nodiscard]] std::optional<std::int32_t> find(std::string_view bytes) const;

  /// Returns the bytes of the tokens. Throws DecodeError, which begins with `who`, if a token is outside [0, V).
  [[nodiscard]] std::string decode(std::span<const std::int32_t> tokens,
                                   std::string_view who) const;

  /// Encodes the pieces of one text. A piece that was there before is looked up, so the bytes of all of them stay
  /// where they are for as long as the encoder is used.
  class Encoder {
  public:
    /// `bytes`: of the text.
    Encoder(const BpeVocabulary& vocabulary, std::size_t bytes);

    /// Appends the tokens of a piece, which has one byte at least.
    void append(std::vector<std::int32_t>& tokens, std::string_view piece);

  private:
    struct Met {
      std::string_view piece;
      std::size_t begin = 0;  // of its tokens
      std::size_t count = 0;
    };

    const BpeVocabulary* vocabulary_;
    BpeMerger merger_;
    std::vector<Met> met_;  // where pieces were met before: the last one of each hash
  };

private:
  /// Appends the tokens of a piece that was not met before.
  void append(std::vector<std::int32_t>& tokens, std::string_view piece, BpeMerger& merger) const;

  [[nodiscard]] static std::size_t hash(std::string_view piece);

  std::string text_;                 // of all tokens
  std::vector<std::size_t> begins_;  // (V + 1,) of each token in it
  std::array<std::int32_t, 256> bytes_{};
  MergeTable merges_;
  std::unordered_map<std::string, std::int32_t> pieces_;  // empty where only merges count
};

}  // namespace data::detail
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/data/detail/bpe_vocabulary.ipp>
#endif
