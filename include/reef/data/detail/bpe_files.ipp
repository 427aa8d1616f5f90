#pragma once

#include <charconv>

#include <reef/core/inline.hpp>
#include <reef/data/detail/bpe_files.hpp>
#include <reef/data/detail/vocabulary_json.hpp>
#include <reef/io/json.hpp>

namespace reef {
inline namespace v0 {
namespace data::detail {

REEF_INLINE void refuse_tokenizer(const std::filesystem::path& path, const std::string& where,
                                  const std::string& why, std::string_view fix) {
  throw DecodeError("reef::data::BpeTokenizer: '", path.string(), "'", where, why,
                    ".\n  fix: ", fix);
}

REEF_INLINE std::array<std::uint32_t, 256> byte_characters() {
  std::array<std::uint32_t, 256> characters{};
  std::uint32_t next = 0x100;
  for (std::uint32_t b = 0; b < 256; ++b) {
    const bool visible =
        (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || (b >= 0xAE && b <= 0xFF);
    characters[b] = visible ? b : next++;
  }
  return characters;
}

REEF_INLINE bool bytes_of_visible(std::string_view visible, std::string& bytes) {
  static const std::vector<int> byte_of = [] {
    std::vector<int> table(0x144, -1);
    const auto characters = byte_characters();
    for (std::size_t b = 0; b < 256; ++b) table[characters[b]] = static_cast<int>(b);
    return table;
  }();
  bytes.clear();
  for (std::size_t i = 0; i < visible.size(); ++i) {
    std::uint32_t c = static_cast<unsigned char>(visible[i]);
    if (c >= 0x80) {  // all are below U+0144: two bytes of UTF-8
      if (c < 0xC2 || c > 0xC5 || i + 1 == visible.size()) return false;
      const std::uint32_t low = static_cast<unsigned char>(visible[++i]);
      if ((low & 0xC0U) != 0x80U) return false;
      c = (c & 0x1FU) << 6 | (low & 0x3FU);
    }
    if (c >= byte_of.size() || byte_of[c] < 0) return false;
    bytes += static_cast<char>(byte_of[c]);
  }
  return true;
}

REEF_INLINE bool bytes_of_base64(std::string_view text, std::string& bytes) {
  const auto value = [](char c) -> int {
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
  };
  bytes.clear();
  if (text.empty() || text.size() % 4 != 0) return false;
  const std::size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  std::uint32_t bits = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const int six = i < text.size() - padding ? value(text[i]) : 0;
    if (six < 0) return false;
    bits = bits << 6 | static_cast<std::uint32_t>(six);
    if (i % 4 != 3) continue;
    for (const unsigned shift : {16U, 8U, 0U}) bytes += static_cast<char>(bits >> shift & 0xFFU);
    bits = 0;
  }
  for (std::size_t i = 0; i < padding; ++i) {
    if (bytes.back() != 0) return false;  // bits that the padding cuts off
    bytes.pop_back();
  }
  return true;
}

REEF_INLINE void require_bytes(const BpeFiles& files, const std::filesystem::path& path) {
  for (int b = 0; b < 256; ++b) {
    if (files.ids.contains(std::string(1, static_cast<char>(b)))) continue;
    refuse_tokenizer(path, " has ", concat("no token for byte ", b),
                     "a byte-level vocabulary has a token for each of the 256 bytes.");
  }
}

REEF_INLINE bool looks_special(std::string_view token) {
  return token.size() > 2 && ((token.front() == '<' && token.back() == '>') ||
                              (token.front() == '[' && token.back() == ']'));
}

REEF_INLINE BpeFiles read_vocabulary(const std::filesystem::path& path) {
  return vocabulary_of(io::read_json(path), path);
}

REEF_INLINE void read_added_tokens(BpeFiles& files, const std::filesystem::path& path) {
  const io::Json json = io::read_json(path);
  if (!json.is_object()) {
    refuse_tokenizer(path, " is ", "no object of tokens and ids", "name added_tokens.json.");
  }
  const std::size_t first = files.tokens.size();
  files.tokens.resize(first + json.size());
  std::size_t end = first;
  for (const auto& [token, id] : json.items()) {
    const auto refuse = [&, name = token](const std::string& why) {
      refuse_tokenizer(path, concat(": token ", in_quotes(name), " "), why);
    };
    const std::uint64_t index = id.is_number_unsigned() ? id.get<std::uint64_t>() : ~0ULL;
    const auto known = files.ids.find(token);
    if (known != files.ids.end() && static_cast<std::uint64_t>(known->second) == index) continue;
    if (known != files.ids.end())
      refuse(concat("has the id ", in_quotes(id.dump()), ", in the vocabulary ", known->second));
    if (token.empty()) refuse("is empty");
    if (index < first || index >= files.tokens.size() || !files.tokens[index].empty()) {
      refuse(concat("has the id ", in_quotes(id.dump()), ", expected each from ", first,
                    " on once, without a gap"));
    }
    files.tokens[index] = token;
    files.ids.emplace(token, static_cast<std::int32_t>(index));
    end = std::max<std::size_t>(end, index + 1);
  }
  files.tokens.resize(end);
  for (std::size_t i = first; i < end; ++i) {
    if (files.tokens[i].empty()) refuse_tokenizer(path, " has ", concat("no token of id ", i));
  }
}

REEF_INLINE void require_merges(const BpeFiles& files, const std::filesystem::path& path) {
  std::vector<bool> made(files.tokens.size(), false);
  for (const Merge& merge : files.merges) made[static_cast<std::size_t>(merge.merged)] = true;
  std::size_t missing = 0;
  std::size_t first = 0;
  for (std::size_t id = files.tokens.size(); id-- > 0;) {
    const std::string& token = files.tokens[id];
    if (made[id] || token.size() == 1 || looks_special(token)) continue;
    ++missing;
    first = id;
  }
  if (missing == 0) return;
  refuse_tokenizer(path, concat(" has ", files.merges.size(), " merges, "),
                   concat("none of which makes ", missing, " tokens of the vocabulary, such as ",
                          in_quotes(files.tokens[first]), " of id ", first),
                   "the vocabulary and the merges of one tokenizer, both whole.");
}

REEF_INLINE void read_merges(BpeFiles& files, const std::filesystem::path& path) {
  std::unordered_map<std::string, std::size_t> lines;
  std::string left;
  std::string right;
  for_each_line(path, [&](std::string_view line, std::size_t number) {
    if (number == 1 && line.starts_with("#version")) return;
    const std::size_t space = line.find(' ');
    if (space == std::string_view::npos || line.find(' ', space + 1) != std::string_view::npos) {
      refuse_line(path, number,
                  concat(in_quotes(line), " is no pair of tokens with a space between"));
    }
    const auto id_of = [&](const std::string& bytes, std::string_view what) {
      const auto found = files.ids.find(bytes);
      if (found == files.ids.end()) {
        refuse_line(path, number,
                    concat(what, " of ", in_quotes(line), " is no token of the vocabulary"));
      }
      return found->second;
    };
    if (!bytes_of_visible(line.substr(0, space), left) ||
        !bytes_of_visible(line.substr(space + 1), right)) {
      refuse_line(path, number,
                  concat(in_quotes(line), " has a character that stands for no byte"));
    }
    if (const auto [first, added] = lines.emplace(line, number); !added) {
      refuse_line(path, number, concat(in_quotes(line), " stands in line ", first->second, " too"));
    }
    files.merges.push_back({id_of(left, "the left half"), id_of(right, "the right half"),
                            id_of(left + right, "the whole"),
                            static_cast<std::int32_t>(files.merges.size())});
  });
  require_merges(files, path);
}

REEF_INLINE BpeFiles read_ranks(const std::filesystem::path& path) {
  BpeFiles files;
  std::string bytes;
  for_each_line(path, [&](std::string_view line, std::size_t number) {
    if (line.empty()) refuse_line(path, number, "it is empty");
    const std::size_t space = (std::min)(line.find(' '), line.size());
    if (!bytes_of_base64(line.substr(0, space), bytes)) {
      refuse_line(path, number, concat(in_quotes(line.substr(0, space)), " is no base64"));
    }
    if (bytes.size() > longest_rank) {
      refuse_line(path, number,
                  concat("its token has ", bytes.size(), " bytes, more than ", longest_rank));
    }
    std::size_t rank = 0;
    const char* const end = line.data() + line.size();
    const char* const digits = line.data() + (std::min)(space + 1, line.size());
    const auto [stop, error] = std::from_chars(digits, end, rank);
    if (error != std::errc() || stop != end || rank != files.tokens.size()) {
      refuse_line(path, number,
                  concat("after the token the rank ", files.tokens.size(),
                         " was expected: ranks rise by one from 0"));
    }
    const auto [first, added] = files.ids.emplace(bytes, static_cast<std::int32_t>(rank));
    if (!added) refuse_line(path, number, concat("the token of rank ", first->second, " again"));
    files.tokens.push_back(bytes);
  });
  require_bytes(files, path);
  for (std::size_t id = 0; id < files.tokens.size(); ++id) {
    const std::string& whole = files.tokens[id];
    for (std::size_t cut = 1; cut < whole.size(); ++cut) {
      const auto left = files.ids.find(whole.substr(0, cut));
      const auto right = files.ids.find(whole.substr(cut));
      if (left == files.ids.end() || right == files.ids.end()) continue;
      const auto rank = static_cast<std::int32_t>(id);
      files.merges.push_back({left->second, right->second, rank, rank});
    }
  }
  return files;
}

}  // namespace data::detail
}  // namespace v0
}  // namespace reef
