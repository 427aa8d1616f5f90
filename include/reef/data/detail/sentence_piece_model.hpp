#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace reef {
inline namespace v0 {
namespace data::detail {

/// Returns why the bytes of a tokenizer.model must not be given to SentencePiece, which follows the offsets of its
/// rules of normalisation without a look at their bounds; nothing for a file that it may read.
///
/// | format | ModelProto: in the messages normalizer_spec (3) and denormalizer_spec (5), precompiled_charsmap (2) |
/// |        | is the length, little-endian of 4 bytes, of a double-array trie, the trie, and texts that each end  |
/// |        | with a zero                                                                                         |
/// | rule   | every offset that a text can lead to is in the trie, and every value of a leaf in the texts         |
/// | cost   | 256 look-ups for each node of the tries                                                             |
///
/// Source: google/sentencepiece, sentencepiece_model.proto and normalizer.cc; s-yata/darts-clone for the units of a
/// trie.
std::optional<std::string> flaw_of_sentence_piece_model(std::string_view model);

}  // namespace data::detail
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/data/detail/sentence_piece_model.ipp>
#endif
