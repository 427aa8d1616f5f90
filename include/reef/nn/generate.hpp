#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include <reef/core/random.hpp>
#include <reef/nn/draw_token.hpp>
#include <reef/nn/session.hpp>

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

/// A language model that continues sequences: nn::Session, or one whose parts are computed elsewhere.
///
///     append({{sequence, tokens}}) gives the logits behind the sequence's last token
template <class S>
concept text_session = requires(S& session, std::span<const Append> appends, int sequence) {
  { session.open() } -> std::same_as<int>;
  session.close(sequence);
  { session.append(appends) } -> std::same_as<Logits>;
  { session.vocabulary() } -> std::same_as<std::int64_t>;
};

static_assert(text_session<Session<device::Host, float>>);

namespace detail {

/// Sequences of a session (stored texts) that are opened together, and closed by the destructor.
template <class Session>
class SequencesOfOneCall {
public:
  SequencesOfOneCall(Session& session, std::size_t count) : session_(session) {
    for (std::size_t i = 0; i < count; ++i) numbers_.push_back(session.open());
  }
  SequencesOfOneCall(const SequencesOfOneCall&) = delete;
  SequencesOfOneCall& operator=(const SequencesOfOneCall&) = delete;
  ~SequencesOfOneCall() {
    for (const int number : numbers_) session_.close(number);
  }
  int operator[](std::size_t i) const { return numbers_[i]; }

private:
  Session& session_;
  std::vector<int> numbers_;
};

}  // namespace detail

/// Returns continuations of prompts, which are computed together: a pass has a row for each that has not ended.
///
/// | bits   | a prompt's continuation is the same alone and beside others, for the same options and place `i` |
/// | random | the token at position p of prompt i is drawn by uniform({seed, i, 1, 0}, p)                     |
/// | errors | those of Session::append and draw_token; OptionError for options. The session stays as before   |
///
/// \code
/// // given: nn::Session<device::Host, float>& session
/// const std::vector<std::vector<std::int32_t>> prompts{{1, 15043}, {1, 910, 338}};
/// const auto continuations = nn::generate(session, prompts, {.tokens = 20, .temperature = 0});
/// \endcode
template <text_session Text>
std::vector<Continuation> generate(Text& session, std::span<const std::vector<std::int32_t>> prompts,
                                   const GenerateOptions& options = {}, const OnToken& on_token = {}) {
  options.validate(session.vocabulary());
  const auto drawn =
      static_cast<std::size_t>(options.vocabulary == 0 ? session.vocabulary() : options.vocabulary);
  const detail::SequencesOfOneCall sequences(session, prompts.size());
  std::vector<Continuation> results(prompts.size());
  std::vector<std::vector<std::int32_t>> texts(prompts.begin(), prompts.end());
  std::vector<std::size_t> going;
  std::vector<Append> appends;
  for (std::size_t i = 0; i < prompts.size() && options.tokens > 0; ++i) {
    going.push_back(i);
    appends.push_back({sequences[i], prompts[i]});
  }
  while (!going.empty() && (!options.proceed || options.proceed())) {
    const Logits logits = session.append(appends);
    std::vector<std::size_t> still;
    for (std::size_t row = 0; row < going.size(); ++row) {
      const std::size_t i = going[row];
      const std::span<const float> own = logits.row(static_cast<std::int64_t>(row)).first(drawn);
      std::vector<float> values(own.begin(), own.end());
      penalise_repetition(values, text_of(texts[i], options), options.repetition_penalty);
      const std::int32_t token =
          draw_token(values, options, uniform({options.seed, i, 1, 0}, texts[i].size()));
      texts[i].push_back(token);
      results[i].tokens.push_back(token);
      results[i].log_probabilities.push_back(log_probability(own, token));
      const bool goes_on = !on_token || on_token(i, token);
      if (goes_on && std::ssize(results[i].tokens) < options.tokens) still.push_back(i);
    }
    going = std::move(still);
    appends.clear();
    for (const std::size_t i : going) appends.push_back({sequences[i], std::span(texts[i]).last(1)});
  }
  return results;
}

}  // namespace nn
}  // namespace v0
}  // namespace reef
