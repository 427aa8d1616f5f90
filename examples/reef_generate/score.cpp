#include "score.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/text.hpp>
#include <reef/data/json_lines.hpp>
#include <reef/io/file.hpp>
#include <reef/io/json.hpp>
#include <reef/nn/draw_token.hpp>

#include "../support/progress.hpp"
#include "model.hpp"

namespace reef_generate {

namespace {

using Tokens = std::vector<std::int32_t>;

/// Opens a sequence that begins with the placeholders of a soft prompt.
int begin_text(Session& session, const Tokens& placeholders) {
  const int sequence = session.open();
  if (!placeholders.empty()) session.append({{sequence, placeholders}});
  return sequence;
}

/// Returns the sum of a text's negative log-probabilities, each window of `positions` tokens read by itself: its first
/// token is not judged.
struct TextScore {
  double loss = 0;
  std::int64_t judged = 0;
};

/// Returns how many bytes of a text are of tokens that are not judged: of the first of each window, but for bos, which
/// is no part of the text.
std::size_t bytes_not_judged(const reef_examples::Tokenizer& tokenizer, const Tokens& tokens, std::int64_t positions) {
  const std::int64_t front = std::ssize(tokenizer.begin());
  std::size_t bytes = 0;
  for (std::int64_t begin = 0; begin < std::ssize(tokens); begin += positions) {
    if (begin < front) continue;
    const auto first = std::span(tokens).subspan(static_cast<std::size_t>(begin), 1);
    bytes += (begin == 0 ? tokenizer.decode(first) : tokenizer.decode_more(first)).size();
  }
  return bytes;
}

TextScore score_text(Session& session, const Tokens& tokens, std::int64_t positions, const Tokens& placeholders) {
  TextScore result;
  reef_examples::Progress bar;
  for (std::int64_t begin = 0; begin + 1 < std::ssize(tokens); begin += positions) {
    const std::int64_t end = std::min(std::ssize(tokens), begin + positions);
    const auto window = std::span(tokens).subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
    const int sequence = begin_text(session, placeholders);
    for (std::size_t at = 0; at + 1 < window.size();) {
      const std::size_t count = std::min(window.size() - 1 - at, static_cast<std::size_t>(session.options().rows));
      const reef::nn::Logits logits = session.append({{sequence, window.subspan(at, count), true}});
      for (std::int64_t i = 0; i < logits.rows(); ++i) {
        result.loss -= reef::nn::log_probability(logits.row(i), window[at + static_cast<std::size_t>(i) + 1]);
        ++result.judged;
      }
      at += count;
    }
    session.close(sequence);
    bar.show(reef::concat("scoring: ", end, " of ", std::ssize(tokens), " tokens"));
  }
  bar.finish();
  return result;
}

std::string score_whole_text(const Options& options, const reef_examples::Tokenizer& tokenizer) {
  const std::string text = reef::io::read_file(options.score, reef::Bytes{1} << 32);
  const Tokens tokens = tokenizer.encode_begin(text);
  if (tokens.size() < 2) throw reef::OptionError("--score: ", options.score, " has fewer than 2 tokens.\n  fix: a longer text.");
  const auto config = reef::nn::read_model_config(std::filesystem::path(options.model) / "config.json");
  require_tokens(config, tokens, options.score);
  const Tokens placeholders(static_cast<std::size_t>(placeholders_of(options)), 0);
  const std::int64_t most = context_of(config) - std::ssize(placeholders);
  const std::int64_t positions = options.context != 0 ? options.context : std::min<std::int64_t>(most, 2048);
  if (options.context == 1) {
    throw reef::OptionError("--score: --context 1 leaves nothing to judge: of each window the first token is not.\n",
                            "  fix: --context 2 or more.");
  }
  if (positions < 2) {
    throw reef::OptionError("--score: the soft prompt of --adapter has ", placeholders.size(), " positions, the model ",
                            context_of(config), ".\n  fix: a shorter prompt.");
  }
  Model model(options, positions + std::ssize(placeholders), 1);
  const TextScore found = score_text(model.session(), tokens, positions, placeholders);
  const double loss = found.loss / static_cast<double>(found.judged);
  const std::size_t bytes = text.size() - std::min(text.size() - 1, bytes_not_judged(tokenizer, tokens, positions));
  const double bits = found.loss / std::log(2.0) / static_cast<double>(bytes);
  if (options.json) {
    return reef::io::Json{{"perplexity", std::exp(loss)}, {"loss", loss}, {"tokens", found.judged}, {"bits_per_byte", bits},
                          {"context", positions}}.dump() + "\n";
  }
  return reef::concat("perplexity ", std::exp(loss), "  loss ", loss, "  bits per byte ", bits, "  of ", found.judged,
                      " tokens in windows of ", positions, "\n");
}

/// Splits a text before its last word, which keeps the white space before the word; white space at the text's end is
/// left out. The first of the two is empty where the text has fewer than two words.
std::pair<std::string, std::string> split_last_word(const std::string& text) {
  constexpr const char* spaces = " \t\r\n";
  const std::size_t end = text.find_last_not_of(spaces);
  const std::size_t space = end == std::string::npos ? end : text.find_last_of(spaces, end);
  if (space == std::string::npos || text.find_first_not_of(spaces) > space) return {};
  return {text.substr(0, space), text.substr(space, end + 1 - space)};
}

/// Returns how many tokens two texts begin with alike.
std::size_t shared_tokens(const Tokens& a, const Tokens& b) {
  return static_cast<std::size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
}

/// The number of right last words of lines {"text": ...}: all of the word's tokens are the likeliest.
std::string score_last_words(const Options& options, const reef_examples::Tokenizer& tokenizer) {
  std::vector<Tokens> texts;
  std::vector<std::size_t> begins;
  std::size_t longest = 1;
  const auto config = reef::nn::read_model_config(std::filesystem::path(options.model) / "config.json");
  const std::int64_t most = reef::nn::longest_sequence(config) - placeholders_of(options);
  reef::data::for_each_json_line(options.score, [&](const reef::io::Json& json, const std::string& where) {
    const auto text = reef::io::require<std::string>(json, "text", where);
    const auto [before, last] = split_last_word(text);
    if (before.empty()) {
      throw reef::DecodeError(where, ": the text has no last word.\n  fix: two words or more.");
    }
    Tokens tokens = tokenizer.encode_begin(before + last);
    begins.push_back(std::max<std::size_t>(shared_tokens(tokenizer.encode_begin(before), tokens), 1));
    if (begins.back() >= tokens.size()) {
      throw reef::DecodeError(where, ": the last word has no token of its own.\n  fix: leave the line out.");
    }
    require_tokens(config, tokens, where);
    if (std::ssize(tokens) > most) {
      throw reef::OptionError(where, ": the text has ", tokens.size(), " tokens, but the model is made for ", most,
                              ".\n  fix: a shorter text.");
    }
    longest = std::max(longest, tokens.size());
    texts.push_back(std::move(tokens));
  });
  if (texts.empty()) throw reef::OptionError("--score: ", options.score, " has no line.\n  fix: lines {\"text\": ...}.");
  const Tokens placeholders(static_cast<std::size_t>(placeholders_of(options)), 0);
  Model model(options, static_cast<std::int64_t>(longest) + std::ssize(placeholders), 1);
  Session& session = model.session();
  std::int64_t right = 0;
  double loss = 0;
  reef_examples::Progress bar;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const std::span<const std::int32_t> tokens = texts[i];
    const int sequence = begin_text(session, placeholders);
    if (begins[i] > 1) session.append({{sequence, tokens.first(begins[i] - 1)}});
    const reef::nn::Logits logits =
        session.append({{sequence, tokens.subspan(begins[i] - 1, tokens.size() - begins[i]), true}});
    bool all = true;
    for (std::int64_t row = 0; row < logits.rows(); ++row) {
      const std::int32_t wanted = tokens[begins[i] + static_cast<std::size_t>(row)];
      const auto own = logits.row(row);
      all = all && std::max_element(own.begin(), own.end()) - own.begin() == wanted;
      loss -= reef::nn::log_probability(own, wanted);
    }
    session.close(sequence);
    right += all ? 1 : 0;
    bar.show(reef::concat("scoring: line ", i + 1, " of ", texts.size()));
  }
  bar.finish();
  const double accuracy = static_cast<double>(right) / static_cast<double>(texts.size());
  const double perplexity = std::exp(loss / static_cast<double>(texts.size()));
  if (options.json) {
    return reef::io::Json{{"accuracy", accuracy}, {"right", right}, {"lines", texts.size()}, {"perplexity", perplexity}}.dump() +
           "\n";
  }
  return reef::concat("accuracy ", accuracy, "  ", right, " of ", texts.size(), " last words; perplexity of a word ",
                      perplexity, "\n");
}

}  // namespace

std::string score(const Options& options) {
  const auto tokenizer = tokenizer_of(options);
  if (!tokenizer) refuse_text(options, "--score");
  return options.score.ends_with(".jsonl") ? score_last_words(options, *tokenizer) : score_whole_text(options, *tokenizer);
}

}  // namespace reef_generate
