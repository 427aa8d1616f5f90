#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

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

namespace detail {

/// Returns continuations of prompts by a source of logits that may be ahead of the texts: the one loop of generation.
///
/// `next(going, texts)` returns an object with proposed(k), the tokens that may follow texts[going[k]], and row(n): the
/// logits behind each text's last token, then behind each of its proposed tokens, text after text. A text takes what is
/// drawn from its rows up to the first token that is not the proposed one; `accepted(k, count)` hears how many were.
template <class Next, class Accepted>
std::vector<Continuation> continue_ahead(std::span<const std::vector<std::int32_t>> prompts, std::int64_t logits,
                                         const Next& next, const Accepted& accepted, const GenerateOptions& options,
                                         const OnToken& on_token) {
  options.validate(logits);
  const auto drawn = static_cast<std::size_t>(options.vocabulary == 0 ? logits : options.vocabulary);
  std::vector<Continuation> results(prompts.size());
  std::vector<std::vector<std::int32_t>> texts(prompts.begin(), prompts.end());
  std::vector<std::size_t> going;
  for (std::size_t i = 0; i < prompts.size() && options.tokens > 0; ++i) going.push_back(i);
  // Draws a token behind text i; returns false if it is the last one.
  const auto draw = [&](std::size_t i, std::span<const float> row) {
    const std::span<const float> own = row.first(drawn);
    const std::int32_t token = draw_next(own, texts[i], i, options);
    texts[i].push_back(token);
    results[i].tokens.push_back(token);
    results[i].log_probabilities.push_back(log_probability(own, token));
    const bool goes_on = !on_token || on_token(i, token);
    const bool ends = std::find(options.ends.begin(), options.ends.end(), token) != options.ends.end();
    return goes_on && !ends && std::ssize(results[i].tokens) < options.tokens;
  };
  while (!going.empty() && (!options.proceed || options.proceed())) {
    const auto& rows = next(std::as_const(going), std::as_const(texts));
    std::vector<std::size_t> still;
    std::int64_t first = 0;  // the text's first row
    for (std::size_t k = 0; k < going.size(); ++k) {
      const std::size_t i = going[k];
      const std::span<const std::int32_t> proposed = rows.proposed(k);
      std::int64_t right = 0;
      bool goes_on = draw(i, rows.row(first));
      while (right < std::ssize(proposed) && proposed[static_cast<std::size_t>(right)] == texts[i].back()) {
        ++right;
        if (!goes_on) break;
        goes_on = draw(i, rows.row(first + right));
      }
      accepted(k, right);
      first += std::ssize(proposed) + 1;
      if (goes_on) still.push_back(i);
    }
    going = std::move(still);
  }
  return results;
}

/// Logits of which nothing is proposed.
template <class Rows>
struct NothingAhead {
  Rows rows;

  [[nodiscard]] std::span<const float> row(std::int64_t n) const& { return rows.row(n); }
  void row(std::int64_t n) const&& = delete;
  [[nodiscard]] static std::span<const std::int32_t> proposed(std::size_t /*k*/) { return {}; }
};

}  // namespace detail

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
  const auto next = [&](const auto& going, const auto& texts) {
    return detail::NothingAhead<std::decay_t<decltype(next_logits(going, texts))>>{next_logits(going, texts)};
  };
  return detail::continue_ahead(prompts, logits, next, [](std::size_t, std::int64_t) {}, options, on_token);
}

}  // namespace nn
}  // namespace v0
}  // namespace reef
