#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/numbers.hpp>
#include <reef/core/text.hpp>
#include <reef/io/json.hpp>
#include <reef/nn/beam_search.hpp>
#include <reef/nn/continue_texts.hpp>
#include <reef/nn/speculate.hpp>

#include "standard_output.hpp"
#include "terminal_text.hpp"
#include "tokenizer.hpp"

namespace reef_examples {

/// Returns the tokens of a list such as "5 17 80" or "5,17,80". Throws OptionError for what is no number.
inline std::vector<std::int32_t> tokens_of(std::string list) {
  std::replace(list.begin(), list.end(), ',', ' ');
  std::istringstream words(list);
  std::vector<std::int32_t> tokens;
  for (std::string word; words >> word;) {
    const auto token = reef::parse_number<std::int32_t>(word);
    if (!token || *token < 0) {
      throw reef::OptionError("--tokens: ", reef::in_quotes(word),
                              " is no token's number.\n  fix: numbers from 0 on, such as \"5 17 80\".");
    }
    tokens.push_back(*token);
  }
  return tokens;
}

/// Returns the text of what continues a prompt, or numbers where there is no tokenizer. A token that ends a text has no
/// text, but a number.
inline std::string text_of_continuation(const std::optional<Tokenizer>& tokenizer, std::vector<std::int32_t> tokens,
                                        const std::vector<std::int32_t>& ends) {
  if (tokenizer) {
    std::erase_if(tokens, [&](std::int32_t token) { return std::find(ends.begin(), ends.end(), token) != ends.end(); });
    return tokenizer->decode_more(tokens);
  }
  std::string text;
  for (const std::int32_t token : tokens) text += reef::concat(text.empty() ? "" : " ", token);
  return text;
}

/// What a program answers to its prompts: their texts, or one object of JSON.
class Answers {
public:
  /// `more`: further members of the object.
  void add(const reef::nn::Continuation& found, const std::string& text, bool has_tokenizer,
           const reef::io::Json& more = reef::io::Json::object()) {
    texts_ += shown_on_output(text) + "\n";
    reef::io::Json answer{{"tokens", found.tokens}, {"logprobs", found.log_probabilities}};
    if (has_tokenizer) answer["text"] = text;
    answer.update(more);
    answers_.push_back(std::move(answer));
  }

  /// Adds the continuations that a beam search has found for a prompt, with their texts.
  void add_beams(const std::vector<reef::nn::Beam>& found, const std::vector<std::string>& texts, bool has_tokenizer) {
    reef::io::Json beams = reef::io::Json::array();
    for (std::size_t i = 0; i < found.size(); ++i) {
      texts_ += shown_on_output(texts[i]) + "\n";
      reef::io::Json beam{{"tokens", found[i].tokens},
                          {"log_probability", found[i].log_probability},
                          {"score", found[i].score}};
      if (has_tokenizer) beam["text"] = texts[i];
      beams.push_back(std::move(beam));
    }
    answers_.push_back({{"beams", std::move(beams)}});
  }

  /// Adds what became of a draft's proposals, for all prompts together.
  void add_draft(const reef::nn::Speculation& found) {
    draft_ = {{"accepted", found.accepted}, {"proposed", found.proposed}};
  }

  void write(bool json) const {
    if (!json) return print(texts_, "the texts");
    reef::io::Json whole = answers_.size() == 1 ? answers_[0] : reef::io::Json{{"continuations", answers_}};
    if (!draft_.is_null()) whole["draft"] = draft_;
    print(whole.dump(-1, ' ', false, reef::io::Json::error_handler_t::replace) + "\n", "the answer");
  }

private:
  std::string texts_;
  reef::io::Json answers_ = reef::io::Json::array();
  reef::io::Json draft_;
};

/// Answers each prompt by the continuations that a beam search finds in a session.
template <class Session>
void answer_by_beams(Session& session, const std::vector<std::vector<std::int32_t>>& prompts,
                     const reef::nn::BeamOptions& how, const std::optional<Tokenizer>& tokenizer, bool json) {
  Answers answers;
  for (const std::vector<std::int32_t>& prompt : prompts) {
    const std::vector<reef::nn::Beam> found = reef::nn::beam_search(session, prompt, how);
    std::vector<std::string> texts;
    for (const reef::nn::Beam& one : found) texts.push_back(text_of_continuation(tokenizer, one.tokens, how.ends));
    answers.add_beams(found, texts, tokenizer.has_value());
  }
  answers.write(json);
}

}  // namespace reef_examples
