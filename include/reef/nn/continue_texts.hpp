#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include <reef/core/random.hpp>
#include <reef/nn/draw_token.hpp>

namespace reef {
inline namespace v0 {
namespace nn {

/// The continuation of a prompt: its tokens, and the logarithm of the probability that the model gave to each.
struct Continuation {
  std::vector<std::int32_t> tokens;
  std::vector<double> log_probabilities;
};

/// A function that is called with each new token of prompt `i`; if it returns false, that continuation ends.
using OnToken = std::function<bool(std::size_t i, std::int32_t token)>;

/// Returns continuations of prompts by any source of logits, a token of each prompt that has not ended at a time.
///
///     p(next) = softmax(logits / temperature) over the first `vocabulary` tokens that options leave
///
/// `next_logits(going, texts)` returns an object whose row(k) is a std::span<const float> of `logits` numbers, those
/// behind the last token of texts[going[k]]; texts are the prompts with what was added to them. nn::generate and
/// nn::Generator are this loop over a nn::Session, or over a model that computes all positions anew.
///
/// | random | the token at position p of prompt i is drawn by uniform({seed, i, 1, 0}, p)                          |
/// | errors | OptionError for options that do not fit `logits`; those of draw_token, `next_logits` and `on_token` |
///
/// \code
/// // A model that likes the successor of each token most, of 8 tokens.
/// struct Rows {
///   std::vector<float> values;
///   std::span<const float> row(std::int64_t k) const { return std::span(values).subspan(std::size_t(k) * 8, 8); }
/// };
/// const std::vector<std::vector<std::int32_t>> prompts{{3}};
/// const auto found = nn::continue_texts(prompts, 8, [](const auto& going, const auto& texts) {
///   Rows rows{std::vector<float>(going.size() * 8)};
///   for (std::size_t k = 0; k < going.size(); ++k) {
///     rows.values[k * 8 + std::size_t(texts[going[k]].back() + 1) % 8] = 1;
///   }
///   return rows;
/// }, {.tokens = 2, .temperature = 0});  // 4, 5
/// \endcode
template <class NextLogits>
std::vector<Continuation> continue_texts(std::span<const std::vector<std::int32_t>> prompts, std::int64_t logits,
                                         NextLogits&& next_logits, const GenerateOptions& options = {},
                                         const OnToken& on_token = {}) {
  options.validate(logits);
  const auto drawn = static_cast<std::size_t>(options.vocabulary == 0 ? logits : options.vocabulary);
  std::vector<Continuation> results(prompts.size());
  std::vector<std::vector<std::int32_t>> texts(prompts.begin(), prompts.end());
  std::vector<std::size_t> going;
  for (std::size_t i = 0; i < prompts.size() && options.tokens > 0; ++i) going.push_back(i);
  while (!going.empty() && (!options.proceed || options.proceed())) {
    const auto next = next_logits(std::as_const(going), std::as_const(texts));
    std::vector<std::size_t> still;
    for (std::size_t k = 0; k < going.size(); ++k) {
      const std::size_t i = going[k];
      const std::span<const float> own = next.row(static_cast<std::int64_t>(k)).first(drawn);
      std::vector<float> values(own.begin(), own.end());
      penalise_repetition(values, text_of(texts[i], options), options.repetition_penalty);
      const std::int32_t token = draw_token(values, options, uniform({options.seed, i, 1, 0}, texts[i].size()));
      texts[i].push_back(token);
      results[i].tokens.push_back(token);
      results[i].log_probabilities.push_back(log_probability(own, token));
      const bool goes_on = !on_token || on_token(i, token);
      const bool ends = std::find(options.ends.begin(), options.ends.end(), token) != options.ends.end();
      if (goes_on && !ends && std::ssize(results[i].tokens) < options.tokens) still.push_back(i);
    }
    going = std::move(still);
  }
  return results;
}

}  // namespace nn
}  // namespace v0
}  // namespace reef
