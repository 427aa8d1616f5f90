// A tokenizer.json, and what it makes of the input as a text: the text again.
//
// An input that begins with '+' is, behind that, the JSON of a pre_tokenizer, after a newline that of added tokens, and after
// another what is encoded; the rest of the file is here, with the vocabulary of the bytes and a few merges. Any other is a
// whole tokenizer.json.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <reef/data/detail/bpe_files.hpp>
#include <reef/data/tokenizer_json.hpp>
#include <reef/io/json_string.hpp>

#include "target.hpp"

namespace {

namespace data = reef::data;
using Tokens = std::vector<std::int32_t>;

constexpr std::size_t longest_text = 200;

/// The model of all bytes and of the words "ab", "abc" and " a".
std::string small_model() {
  std::string vocabulary;
  std::int32_t id = 0;
  const auto add = [&](const std::string& token) {
    vocabulary += (id > 0 ? "," : "") + reef::io::json_string(token) + ":" + std::to_string(id);
    ++id;
  };
  for (const std::uint32_t c : data::detail::byte_characters()) {
    add(c < 0x80 ? std::string{static_cast<char>(c)}
                 : std::string{static_cast<char>(0xC0U | c >> 6),
                               static_cast<char>(0x80U | (c & 0x3FU))});
  }
  for (const char* const token : {"ab", "abc",
                                  "\xC4\xA0"
                                  "a"})
    add(token);
  return R"({"type":"BPE","merges":["a b",["ab","c"],"Ġ a"],"vocab":{)" + vocabulary + "}}";
}

/// Cuts off the first line.
std::string_view next_line(std::string_view& text) {
  const std::string_view line = text.substr(0, text.find('\n'));
  text.remove_prefix(std::min(line.size() + 1, text.size()));
  return line;
}

std::string without_spaces(std::string_view text) {
  std::string rest(text);
  std::erase(rest, ' ');
  return rest;
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  static reef::fuzz::MemoryFile file;
  static const std::string model = small_model();
  std::string_view rest = reef::fuzz::text_of(bytes, size);
  const bool keeps_text = rest.starts_with('+');  // but for spaces in front of pieces
  if (!keeps_text) {
    file.set(rest);
  } else {
    rest.remove_prefix(1);
    const std::string cuts(next_line(rest));
    const std::string added(next_line(rest));
    file.set(R"({"pre_tokenizer":)" + cuts + R"(,"added_tokens":)" +
             (added.empty() ? "[]" : added) + R"(,"decoder":{"type":"ByteLevel"},"model":)" +
             model + "}");
  }
  const std::string_view text = rest.substr(0, longest_text);
  reef::fuzz::reads([&] {
    for (const bool finds_added : {true, false}) {
      const auto tokenizer = data::TokenizerJson::read(file.path(), {.finds_added = finds_added});
      const Tokens tokens = tokenizer.encode(text);
      const std::string back = tokenizer.decode(tokens);
      reef::fuzz::demand(!keeps_text || without_spaces(back) == without_spaces(text),
                         "a text comes back from its tokens");
      Tokens begin = tokenizer.encode_begin(text);
      reef::fuzz::demand(begin.size() >= tokens.size() &&
                             std::equal(tokens.rbegin(), tokens.rend(), begin.rbegin()),
                         "the begin of a text ends with its tokens");
      reef::fuzz::demand(
          !reef::fuzz::reads([&] { (void)tokenizer.decode(Tokens{tokenizer.vocabulary()}); }),
          "a token outside the vocabulary is refused");
    }
  });
  return 0;
}
