// The files of a tokenizer, and what it makes of the input as a text: the tokens that plain merging
// gives, and the text again.
//
// An input that begins with '{' is GPT-2's vocab.json, and from a line that begins with "#version" on
// its merges.txt. One with '#' is a merges.txt alone, with the vocabulary that it speaks of. One with '+'
// is the end of a tiktoken file, behind the 256 lines of the bytes. Any other is a tiktoken file.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <reef/data/bpe_tokenizer.hpp>
#include <reef/data/detail/bpe_files.hpp>
#include <reef/io/json_string.hpp>

#include "target.hpp"

namespace {

namespace data = reef::data;
using Tokens = std::vector<std::int32_t>;

constexpr std::size_t longest_text = 200;

std::string visible(unsigned char byte) {
  const std::uint32_t c = data::detail::byte_characters()[byte];
  if (c < 0x80) return {static_cast<char>(c)};
  return {static_cast<char>(0xC0U | c >> 6), static_cast<char>(0x80U | (c & 0x3FU))};
}

/// vocab.json of all bytes, and of the two halves of each line together.
std::string vocabulary_of(std::string_view merges) {
  std::string json = "{";
  std::set<std::string> seen;
  const auto add = [&](const std::string& token) {
    if (token.empty() || !seen.insert(token).second) return;
    json += json.size() > 1 ? "," : "";
    json += reef::io::json_string(token) + ":" + std::to_string(seen.size() - 1);
  };
  for (unsigned byte = 0; byte < 256; ++byte) add(visible(static_cast<unsigned char>(byte)));
  while (!merges.empty()) {
    const std::string_view line = merges.substr(0, merges.find('\n'));
    merges.remove_prefix(std::min(line.size() + 1, merges.size()));
    std::string token(line);
    std::erase(token, ' ');
    if (!line.starts_with('#')) add(token);
  }
  return json + "}";
}

std::string base64_of_byte(unsigned byte) {
  constexpr std::string_view digits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  return {digits[byte >> 2], digits[(byte & 3U) << 4], '=', '='};
}

std::string all_bytes() {
  std::string lines;
  for (unsigned byte = 0; byte < 256; ++byte) {
    lines += base64_of_byte(byte) + " " + std::to_string(byte) + "\n";
  }
  return lines;
}

/// Byte-pair encoding as its definition says it, one merge after the other.
class PlainMerging {
public:
  PlainMerging(const data::detail::BpeFiles& files, bool whole_pieces)
      : files_(files), whole_pieces_(whole_pieces) {
    for (const data::detail::Merge& merge : files.merges) {
      merges_.emplace(std::pair(merge.left, merge.right), merge);
    }
  }

  [[nodiscard]] Tokens encode(std::string_view text) const {
    Tokens all;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = data::gpt2_piece_end(text, at);
      reef::fuzz::demand(end > at && end <= text.size(), "a piece is a part of the text");
      const Tokens piece = merged(std::string(text.substr(at, end - at)));
      all.insert(all.end(), piece.begin(), piece.end());
      at = end;
    }
    return all;
  }

private:
  [[nodiscard]] Tokens merged(const std::string& piece) const {
    if (whole_pieces_ && files_.ids.contains(piece)) return {files_.ids.at(piece)};
    Tokens ids;
    for (const char byte : piece) ids.push_back(files_.ids.at(std::string(1, byte)));
    for (;;) {
      const data::detail::Merge* best = nullptr;
      std::size_t place = 0;
      for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
        const auto found = merges_.find(std::pair(ids[i], ids[i + 1]));
        if (found == merges_.end()) continue;
        if (best != nullptr && found->second.rank >= best->rank) continue;
        best = &found->second;
        place = i;
      }
      if (best == nullptr) return ids;
      ids[place] = best->merged;
      ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(place) + 1);
    }
  }

  const data::detail::BpeFiles& files_;
  bool whole_pieces_;
  std::map<std::pair<std::int32_t, std::int32_t>, data::detail::Merge> merges_;
};

void encode(const data::BpeTokenizer& tokenizer, const PlainMerging& plain, std::string_view text) {
  const Tokens tokens = tokenizer.encode(text);
  reef::fuzz::demand(tokens == plain.encode(text), "tokens are those of plain merging");
  reef::fuzz::demand(tokenizer.decode(tokens) == text, "a text comes back from its tokens");
  reef::fuzz::demand(
      !reef::fuzz::reads([&] { (void)tokenizer.decode(Tokens{tokenizer.vocabulary()}); }),
      "a token outside the vocabulary is refused");
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  static reef::fuzz::MemoryFile first;
  static reef::fuzz::MemoryFile second;
  static const std::string of_bytes = all_bytes();
  const std::string_view input = reef::fuzz::text_of(bytes, size);
  const std::string_view text = input.substr(input.size() - std::min(input.size(), longest_text));
  if (input.starts_with('{') || input.starts_with('#')) {
    const std::size_t merges =
        input.starts_with('#') ? 0 : std::min(input.find("\n#version"), input.size() - 1) + 1;
    first.set(merges == 0 ? vocabulary_of(input) : std::string(input.substr(0, merges)));
    second.set(input.substr(merges));
    reef::fuzz::reads([&] {
      const auto tokenizer = data::BpeTokenizer::read_gpt2(first.path(), second.path());
      data::detail::BpeFiles files = data::detail::read_vocabulary(first.path());
      data::detail::read_merges(files, second.path());
      encode(tokenizer, PlainMerging(files, false), text);
    });
  } else {
    const bool end_alone = input.starts_with('+');
    first.set(end_alone ? of_bytes + std::string(input.substr(1)) : std::string(input));
    reef::fuzz::reads([&] {
      const auto tokenizer = data::BpeTokenizer::read_tiktoken(first.path());
      const data::detail::BpeFiles files = data::detail::read_ranks(first.path());
      encode(tokenizer, PlainMerging(files, true), text);
    });
  }
  return 0;
}
