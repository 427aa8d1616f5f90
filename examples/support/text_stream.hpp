#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <reef/core/text.hpp>
#include <reef/io/json_string.hpp>

#include "standard_output.hpp"
#include "terminal_text.hpp"
#include "tokenizer.hpp"

namespace reef_examples {

/// Writes the one text that is continued as it grows: whole characters, or numbers where there is no tokenizer.
class TextStream {
public:
  explicit TextStream(const std::optional<Tokenizer>& tokenizer) : tokenizer_(tokenizer) {}

  void add(std::int32_t token) {
    if (!tokenizer_) {
      print(reef::concat(first_ ? "" : " ", token), "a token");
      first_ = false;
      return;
    }
    held_ += tokenizer_->decode_more(std::span(&token, 1));
    std::size_t whole = 0;
    while (whole < held_.size()) {
      const std::size_t length = reef::io::detail::utf8_length(std::string_view(held_).substr(whole));
      // The last bytes may be the begin of a character; what cannot become one is written as it is.
      if (length == 0 && held_.size() - whole < 4) break;
      whole += length == 0 ? 1 : length;
    }
    print(shown_on_output(held_.substr(0, whole)), "the text");
    held_.erase(0, whole);
  }
  void end() { print(shown_on_output(held_) + "\n", "the text"); }

private:
  const std::optional<Tokenizer>& tokenizer_;
  std::string held_;
  bool first_ = true;
};

}  // namespace reef_examples
