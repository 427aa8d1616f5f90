#pragma once

#include <algorithm>
#include <utility>

#include <reef/core/inline.hpp>
#include <reef/data/gpt2_pattern.hpp>
#include <reef/data/tokenizer_json.hpp>
#include <reef/io/json_string.hpp>

namespace reef {
inline namespace v0 {
namespace data {

namespace detail {

inline bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return (c & 0x80) == 0; });
}

/// Calls f(part, whether it is valid UTF-8) for the longest runs of a text that are, and that are not.
template <class F>
void for_each_utf8_run(std::string_view text, const F& f) {
  std::size_t begin = 0;
  bool valid = true;
  const auto end_at = [&](std::size_t end) {
    if (end > begin) f(text.substr(begin, end - begin), valid);
    begin = end;
  };
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = io::detail::utf8_length(text.substr(at));
    if ((length > 0) != valid) {
      end_at(at);
      valid = length > 0;
    }
    at += std::max<std::size_t>(length, 1);
  }
  end_at(text.size());
}

}  // namespace detail

REEF_INLINE TokenizerJson::TokenizerJson(detail::TokenizerJsonFile file,
                                         TokenizerJsonOptions options, TextFunctions functions)
    : vocabulary_(std::move(file.bpe), file.whole_pieces),
      nfc_(file.nfc ? functions.nfc : nullptr),
      front_(std::move(file.front)) {
  for (const detail::CutStep& step : file.steps) {
    try {
      steps_.push_back({step.pattern.empty() ? nullptr : functions.pattern(step.pattern),
                        step.by_gpt2, step.puts_space});
    } catch (const DecodeError& error) {
      throw DecodeError("reef::data::TokenizerJson: ", step.place, " cannot be read: ", error.what());
    }
  }
  if (!options.finds_added) return;
  std::vector<AddedToken> raw;
  std::vector<AddedToken> normalised;
  for (AddedToken& token : file.added) {
    if (token.normalized && nfc_ != nullptr && !detail::is_ascii(token.content)) token.content = nfc_(token.content);
    (token.normalized ? normalised : raw).push_back(std::move(token));
  }
  added_raw_ = AddedTokenTable(raw);
  added_normalised_ = AddedTokenTable(normalised);
}

REEF_INLINE std::string TokenizerJson::normalised(std::string_view text) const {
  if (detail::is_ascii(text)) return std::string(text);
  std::string whole;
  detail::for_each_utf8_run(text, [&](std::string_view run, bool valid) {
    whole += valid ? nfc_(run) : std::string(run);
  });
  return whole;
}

REEF_INLINE void TokenizerJson::cut(Work& work, std::string_view piece, std::size_t step) const {
  if (step == steps_.size()) return work.encoder.append(work.tokens, piece);
  const Step& own = steps_[step];
  if (own.puts_space && !std::exchange(work.continues, false) && !piece.starts_with(' '))
    piece = work.made.emplace_back(" " + std::string(piece));
  if (own.by_gpt2) {
    for (std::size_t at = 0; at < piece.size();) {
      const std::size_t end = gpt2_piece_end(piece, at);
      cut(work, piece.substr(at, end - at), step + 1);
      at = end;
    }
  } else if (own.pattern != nullptr) {
    std::vector<std::size_t> ends;
    detail::for_each_utf8_run(piece, [&](std::string_view run, bool valid) {
      if (!valid) return cut(work, run, step + 1);
      ends.clear();
      own.pattern->cut(run, ends);
      std::size_t begin = 0;
      for (const std::size_t end : ends) {
        cut(work, run.substr(begin, end - begin), step + 1);
        begin = end;
      }
    });
  } else {
    cut(work, piece, step + 1);
  }
}

REEF_INLINE std::vector<std::int32_t> TokenizerJson::encode(std::string_view text, bool continues) const {
  Work work{detail::BpeVocabulary::Encoder(vocabulary_, text.size()), {}, {}, continues};
  work.tokens.reserve(text.size() / 3);
  const auto add = [&](std::int32_t id) {
    work.tokens.push_back(id);
    work.continues = false;
  };
  const auto encode_gap = [&](std::string_view gap) {
    if (nfc_ != nullptr) gap = work.made.emplace_back(normalised(gap));
    added_normalised_.for_each_part(gap, [&](std::string_view piece) { cut(work, piece, 0); }, add);
  };
  added_raw_.for_each_part(text, encode_gap, add);
  return std::move(work.tokens);
}

REEF_INLINE std::vector<std::int32_t> TokenizerJson::encode(std::string_view text) const {
  return encode(text, false);
}

REEF_INLINE std::vector<std::int32_t> TokenizerJson::encode_more(std::string_view text) const {
  return encode(text, true);
}

REEF_INLINE std::vector<std::int32_t> TokenizerJson::encode_begin(std::string_view text) const {
  std::vector<std::int32_t> tokens = encode(text);
  tokens.insert(tokens.begin(), front_.begin(), front_.end());
  return tokens;
}

REEF_INLINE std::string TokenizerJson::decode(std::span<const std::int32_t> tokens) const {
  return vocabulary_.decode(tokens, "reef::data::TokenizerJson");
}

}  // namespace data
}  // namespace v0
}  // namespace reef
