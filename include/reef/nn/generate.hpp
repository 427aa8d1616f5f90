#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <reef/nn/continue_texts.hpp>
#include <reef/nn/draw_token.hpp>
#include <reef/nn/session.hpp>

namespace reef {
inline namespace v0 {
namespace nn {

/// A language model that continues sequences: nn::Session, or one whose parts are computed elsewhere.
///
///     append({{sequence, tokens}}) gives the logits behind the sequence's last token, or with Append::all behind each
///     truncate(sequence, n) leaves the first n tokens
template <class S>
concept text_session = requires(S& session, std::span<const Append> appends, int sequence, std::int64_t length) {
  { session.open() } -> std::same_as<int>;
  { session.length(sequence) } -> std::same_as<std::int64_t>;
  session.truncate(sequence, length);
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
/// | bits   | a prompt's continuation is the same alone and beside others, for the same options and place `i`  |
/// | random | the token at position p of prompt i is drawn by uniform({seed, i, 1, 0}, p)                      |
/// | end    | behind GenerateOptions::tokens, after one of GenerateOptions::ends, or where `on_token` is false |
/// | errors | those of Session::append and draw_token; OptionError for options. The session stays as before    |
///
/// \code
/// // given: nn::Session<device::Host, float>& session
/// const std::vector<std::vector<std::int32_t>> prompts{{1, 15043}, {1, 910, 338}};
/// const auto continuations = nn::generate(session, prompts, {.tokens = 20, .temperature = 0});
/// \endcode
template <text_session Text>
std::vector<Continuation> generate(Text& session, std::span<const std::vector<std::int32_t>> prompts,
                                   const GenerateOptions& options = {}, const OnToken& on_token = {}) {
  const detail::SequencesOfOneCall sequences(session, prompts.size());
  const auto next_logits = [&](const auto& going, const auto& texts) {
    std::vector<Append> appends;
    for (const std::size_t i : going) {
      const std::span<const std::int32_t> text = texts[i];
      appends.push_back({sequences[i], text.subspan(static_cast<std::size_t>(session.length(sequences[i])))});
    }
    return session.append(appends);
  };
  return continue_texts(prompts, session.vocabulary(), next_logits, options, on_token);
}

}  // namespace nn
}  // namespace v0
}  // namespace reef
