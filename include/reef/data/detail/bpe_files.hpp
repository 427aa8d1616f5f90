#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/io/file.hpp>

namespace reef {
inline namespace v0 {
namespace data::detail {

/// left and right, neighbours, become merged; lower ranks first.
struct Merge {
  std::int32_t left;
  std::int32_t right;
  std::int32_t merged;
  std::int32_t rank;
};

/// What the files of a tokenizer say: the bytes of each token, and which pairs merge.
struct BpeFiles {
  std::vector<std::string> tokens;
  std::unordered_map<std::string, std::int32_t> ids;
  std::vector<Merge> merges;
};

/// `where` goes on behind the file's name.
[[noreturn]] void refuse_tokenizer(
    const std::filesystem::path& path, const std::string& where, const std::string& why,
    std::string_view fix = "the files as their tokenizer has written them, unchanged.");
[[noreturn]] inline void refuse_line(const std::filesystem::path& path, std::size_t line,
                                     const std::string& why) {
  refuse_tokenizer(path, concat(", line ", line, ": "), why);
}

/// Calls f(line without its end, number from 1) for each line of a file.
template <class F>
void for_each_line(const std::filesystem::path& path, F&& f) {
  const std::string text = io::read_file(path, 256_MiB);
  constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";
  std::size_t number = 0;
  for (std::size_t at = text.starts_with(byte_order_mark) ? 3 : 0; at < text.size();) {
    const std::size_t end = (std::min)(text.find('\n', at), text.size());
    std::string_view line(text.data() + at, end - at);
    if (line.ends_with('\r')) line.remove_suffix(1);
    f(line, ++number);
    at = end + 1;
  }
}

/// GPT-2 writes bytes as characters that can be seen: '!' to '~', U+00A1 to U+00AC and U+00AE to
/// U+00FF are themselves, the 68 others are U+0100 on, in their order.
std::array<std::uint32_t, 256> byte_characters();

/// The bytes that a token's visible form stands for; false where a character stands for none.
bool bytes_of_visible(std::string_view visible, std::string& bytes);

/// Standard base64 with padding; false where it is none.
bool bytes_of_base64(std::string_view text, std::string& bytes);

/// Every text must have tokens, so each byte must be one.
void require_bytes(const BpeFiles& files, const std::filesystem::path& path);

/// Tokens that no text is encoded to, as "<|endoftext|>" and "[MASK]" are, stand as they are.
bool looks_special(std::string_view token);

/// vocab.json: an object of tokens in their visible form and ids, each of 0 to n - 1 once.
BpeFiles read_vocabulary(const std::filesystem::path& path);

/// added_tokens.json of Hugging Face: tokens as they are, not in their visible form, whose ids go on
/// where the vocabulary ends. One that the vocabulary has may come again.
void read_added_tokens(BpeFiles& files, const std::filesystem::path& path);

/// Throws where a token is made by no merge: either file was cut off, or they are of two tokenizers.
void require_merges(const BpeFiles& files, const std::filesystem::path& path);

/// merges.txt: after a line "#version: ...", which may be missing, a pair of tokens a line, the
/// first to merge first.
void read_merges(BpeFiles& files, const std::filesystem::path& path);

/// Looking for a token's halves costs the square of its length; OpenAI's longest have 128 bytes.
inline constexpr std::size_t longest_rank = 1024;

/// A tiktoken file: a token in base64, a space and its rank a line; ranks are 0, 1, 2 and so on.
/// Any two tokens merge whose bytes together are a token, the one of the lowest rank first.
BpeFiles read_ranks(const std::filesystem::path& path);

}  // namespace data::detail
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/data/detail/bpe_files.ipp>
#endif
