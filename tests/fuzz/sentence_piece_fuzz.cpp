// A tokenizer.model of SentencePiece: tokens of a text, and the text of any tokens.
//
// The first byte of an input is the number of bytes behind it that are encoded; the rest is the file.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <reef/data/sentence_piece_tokenizer.hpp>

#include "target.hpp"

int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  static reef::fuzz::MemoryFile file;
  if (size == 0) return 0;
  std::string_view rest = reef::fuzz::text_of(bytes + 1, size - 1);
  const std::string_view text = rest.substr(0, bytes[0]);
  rest.remove_prefix(text.size());
  file.set(rest);
  reef::fuzz::reads([&] {
    for (const bool finds_added : {true, false}) {
      const auto tokenizer = reef::data::SentencePieceTokenizer::read(file.path(), {.added = {}, .finds_added = finds_added});
      const auto is_token = [&](std::int32_t token) { return token >= 0 && token < tokenizer.vocabulary(); };
      const std::vector<std::int32_t> tokens = tokenizer.encode_begin(text);
      reef::fuzz::demand(std::all_of(tokens.begin(), tokens.end(), is_token), "tokens are of the vocabulary");
      (void)tokenizer.decode(tokens);
      std::vector<std::int32_t> all(static_cast<std::size_t>(std::min(tokenizer.vocabulary(), 1000)));
      for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::int32_t>(i);
      (void)tokenizer.decode(all);
      (void)tokenizer.decode_more(all);
      reef::fuzz::demand(!reef::fuzz::reads([&] { (void)tokenizer.decode(std::vector{tokenizer.vocabulary()}); }),
                         "a token outside the vocabulary is refused");
    }
  });
  return 0;
}
