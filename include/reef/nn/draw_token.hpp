#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/finite.hpp>
#include <reef/core/random.hpp>
#include <reef/core/text.hpp>

namespace reef {
inline namespace v0 {
namespace nn {

/// Options of text generation: the number of tokens, and how each is drawn from logits.
struct GenerateOptions {
  std::int64_t tokens = 100;  ///< the number of tokens to add to the prompt
  double temperature = 1;     ///< the divisor of logits; 0 selects the likeliest token
  std::int64_t top_k = 40;    ///< the number of likeliest tokens to draw among; 0: all
  /// The number of tokens that may be drawn, the first ones, if logits are padded; 0: all.
  std::int64_t vocabulary = 0;
  std::uint64_t seed = 0;
  std::function<bool()> proceed = {};  ///< function called before each token; false ends the generation
  /// A sum of probabilities: a token is drawn among the fewest likeliest tokens that reach this sum; 1: all.
  double top_p = 1;
  /// The divisor of the logits of tokens that occur already; negative logits are multiplied by it.
  double repetition_penalty = 1;
  std::int64_t placeholders = 0;  ///< the number of first tokens that stand for a soft prompt: no penalty counts them
  std::vector<std::int32_t> ends = {};  ///< tokens after which a continuation ends, as its last token; empty: none

  /// Throws OptionError, naming the first member that is invalid with this number of logits.
  void validate(std::int64_t logits) const {
    const auto require_that = [](bool holds, const char* member, auto value,
                                 const std::string& range) {
      if (holds) return;
      throw OptionError("reef::nn::GenerateOptions: ", member, " is ", value, ".\n  fix: ", range,
                        ".");
    };
    require_that(tokens >= 0, "tokens", tokens, "0 or more");
    require_that(is_finite(temperature) && temperature >= 0, "temperature", temperature,
                 "0 for the likeliest token, or above 0");
    require_that(top_k >= 0, "top_k", top_k, "0 for all tokens, or how many to draw among");
    require_that(vocabulary >= 0 && vocabulary <= logits, "vocabulary", vocabulary,
                 concat("0, or 1 to the model's ", logits, " logits"));
    require_that(top_p > 0 && top_p <= 1, "top_p", top_p, "above 0, and 1 for all tokens");
    require_that(placeholders >= 0, "placeholders", placeholders, "0, or the positions of a soft prompt");
    require_that(is_finite(repetition_penalty) && repetition_penalty > 0, "repetition_penalty",
                 repetition_penalty, "above 0; 1 changes nothing");
    for (const std::int32_t end : ends) {
      require_that(end >= 0 && end < logits, "an end", end, concat("tokens from 0 to ", logits - 1));
    }
  }
};

/// Returns the tokens of a sequence behind the placeholders of a soft prompt.
inline std::span<const std::int32_t> text_of(std::span<const std::int32_t> sequence, const GenerateOptions& options) {
  return sequence.subspan((std::min)(static_cast<std::size_t>(options.placeholders), sequence.size()));
}

/// Divides the logits of tokens that occur in a sequence by `penalty`, or multiplies them if negative: each token once.
///
/// Source: Keskar et al., CTRL, arXiv 1909.05858, section 4.1.
inline void penalise_repetition(std::span<float> logits, std::span<const std::int32_t> sequence,
                                double penalty) {
  if (penalty == 1) return;
  std::vector<std::int32_t> distinct(sequence.begin(), sequence.end());
  std::sort(distinct.begin(), distinct.end());
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  for (const std::int32_t token : distinct) {
    if (token < 0 || token >= std::ssize(logits)) continue;
    float& logit = logits[static_cast<std::size_t>(token)];
    logit = static_cast<float>(logit < 0 ? static_cast<double>(logit) * penalty
                                         : static_cast<double>(logit) / penalty);
  }
}

/// Returns the token that `uniform`, a random number in [0, 1), selects among the top_k largest logits, with the
/// weights exp(logit / temperature), and among these only the likeliest whose weights sum to top_p of all. Of equal
/// logits the lower token comes first.
///
/// | cost   | O(V log k)                                                    |
/// | errors | NonFiniteError, naming the first logit that is not finite     |
///
/// \code
/// const std::vector<float> logits{0.5F, 2, -1};
/// const std::int32_t token = nn::draw_token(logits, {.temperature = 0}, 0.5);  // 1
/// \endcode
inline std::int32_t draw_token(std::span<const float> logits, const GenerateOptions& options,
                               double uniform) {
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (!is_finite(logits[i])) {
      throw NonFiniteError("reef::nn::draw_token: logit ", i, " of ", logits.size(), " is ",
                           logits[i], ".\n  fix: weights from before the training diverged.");
    }
  }
  std::vector<std::int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto logit = [&](std::int32_t token) { return logits[static_cast<std::size_t>(token)]; };
  const auto before = [&](std::int32_t a, std::int32_t b) {
    return logit(a) != logit(b) ? logit(a) > logit(b) : a < b;
  };
  if (options.temperature == 0) return *std::min_element(order.begin(), order.end(), before);

  const auto all = static_cast<std::int64_t>(order.size());
  const std::int64_t kept = options.top_k == 0 ? all : (std::min)(options.top_k, all);
  std::partial_sort(order.begin(), order.begin() + kept, order.end(), before);
  order.resize(static_cast<std::size_t>(kept));

  std::vector<double> weights;
  for (const std::int32_t token : order) {
    const double below = static_cast<double>(logit(token)) - static_cast<double>(logit(order[0]));
    weights.push_back(std::exp(below / options.temperature));
  }
  double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  if (options.top_p < 1) {
    const double wanted = options.top_p * sum;
    std::size_t count = 0;
    for (sum = 0; count < weights.size() && sum < wanted; ++count) sum += weights[count];
    weights.resize(count);
    order.resize(count);
  }
  double left = uniform * sum;
  for (std::size_t i = 0; i < order.size(); ++i) {
    left -= weights[i];
    if (left < 0) return order[i];
  }
  return order.back();  // reached by rounding alone
}

/// Returns the token that generation draws behind a text, prompt `i` of a call with what was added to it, from the
/// logits of the tokens that may be drawn: of what penalise_repetition leaves, by uniform({seed, i, 1, 0}, length).
///
/// \code
/// const std::vector<float> logits{0.5F, 2, -1};
/// const std::vector<std::int32_t> text{1};
/// const std::int32_t token = nn::draw_next(logits, text, 0, {.temperature = 0, .repetition_penalty = 8});  // 0
/// \endcode
inline std::int32_t draw_next(std::span<const float> logits, std::span<const std::int32_t> text, std::size_t i,
                              const GenerateOptions& options) {
  std::vector<float> values(logits.begin(), logits.end());
  penalise_repetition(values, text_of(text, options), options.repetition_penalty);
  return draw_token(values, options, uniform({options.seed, i, 1, 0}, text.size()));
}

/// Returns the logarithm of a token's probability: its logit minus the logarithm of the sum of exp(logit).
inline double log_probability(std::span<const float> logits, std::int32_t token) {
  const auto largest = static_cast<double>(*std::max_element(logits.begin(), logits.end()));
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - largest);
  return static_cast<double>(logits[static_cast<std::size_t>(token)]) - largest - std::log(sum);
}

}  // namespace nn
}  // namespace v0
}  // namespace reef
