#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/finite.hpp>
#include <reef/nn/draw_token.hpp>
#include <reef/nn/generate.hpp>
#include <reef/nn/session.hpp>

namespace reef {
inline namespace v0 {
namespace nn {

/// Options of beam_search(), which continues a text.
struct BeamOptions {
  std::int64_t beams = 4;             ///< number of continuations (beams) that are followed in parallel
  std::int64_t tokens = 50;           ///< the largest number of tokens of a continuation
  double length_penalty = 1;  ///< exponent p of the length in a continuation's score, log-probability / length^p
  std::vector<std::int32_t> ends{};  ///< tokens after which a continuation ends, as its last token
  /// The number of tokens that a continuation may have, the first ones, if logits are padded; 0: all.
  std::int64_t vocabulary = 0;

  /// Throws OptionError, naming the first member that is invalid with this number of logits.
  void validate(std::int64_t logits) const {
    const auto require_that = [](bool holds, const char* member, auto value, const char* range) {
      if (holds) return;
      throw OptionError("reef::nn::BeamOptions: ", member, " is ", value, ".\n  fix: ", range, ".");
    };
    require_that(vocabulary >= 0 && vocabulary <= logits, "vocabulary", vocabulary,
                 "0, or 1 to the number of the model's logits");
    const std::int64_t drawn = vocabulary == 0 ? logits : vocabulary;
    require_that(beams >= 1 && beams <= drawn, "beams", beams, "1 to the number of the model's logits");
    require_that(tokens >= 1, "tokens", tokens, "1 or more");
    require_that(is_finite(length_penalty), "length_penalty", length_penalty, "a number; 0 takes the sum alone");
    for (const std::int32_t end : ends) require_that(end >= 0 && end < logits, "an end", end, "a token of the model");
  }
};

/// A continuation that a beam search has found: its tokens, the sum of their log-probabilities, and its score, that sum
/// divided by length^length_penalty.
struct Beam {
  std::vector<std::int32_t> tokens;
  double log_probability = 0;
  double score = 0;
};

/// A session whose sequences can be copied: a beam is a sequence of its own.
template <class S>
concept forking_session = text_session<S> && requires(S& session, int sequence) {
  { session.fork(sequence) } -> std::same_as<int>;
};

/// A session of batches: open(B) opens B sequences as one, each of which goes on from that of the batch which reorder
/// says.
///
///     append({{batch, tokens}})  tokens (B, rows), sequence by sequence; logits behind the last of each
template <class S>
concept reordering_session = text_session<S> && requires(S& session, int batch, std::int64_t count,
                                                         std::span<const std::int64_t> from) {
  { session.open(count) } -> std::same_as<int>;
  session.reorder(batch, from);
};

namespace detail {

/// The sequences of a beam search in a session that forks them.
template <forking_session Session>
class ForkedBeams {
public:
  ForkedBeams(Session& session, std::int64_t /*beams*/) : session_(session) {}
  ForkedBeams(const ForkedBeams&) = delete;
  ForkedBeams& operator=(const ForkedBeams&) = delete;
  ~ForkedBeams() {
    for (const int sequence : live_) session_.close(sequence);
  }

  /// Returns logits, of which row 0 is that behind the prompt.
  Logits begin(std::span<const std::int32_t> prompt) {
    live_.push_back(session_.open());
    const Append append{live_[0], prompt};
    return session_.append(std::span(&append, 1));
  }

  /// Beam i goes on from beam parents[i] of before with tokens[i]: returns the logits behind these, a row for each.
  Logits step(std::span<const std::int64_t> parents, std::span<const std::int32_t> tokens) {
    std::vector<bool> taken(live_.size());
    std::vector<int> next;
    next.reserve(parents.size());
    for (const std::int64_t from : parents) {
      const auto parent = static_cast<std::size_t>(from);
      next.push_back(taken[parent] ? session_.fork(live_[parent]) : live_[parent]);
      taken[parent] = true;
    }
    for (std::size_t i = 0; i < live_.size(); ++i) {
      if (!taken[i]) session_.close(live_[i]);
    }
    live_ = std::move(next);
    std::vector<Append> appends;
    for (std::size_t i = 0; i < live_.size(); ++i) appends.push_back({live_[i], tokens.subspan(i, 1)});
    return session_.append(appends);
  }

private:
  Session& session_;
  std::vector<int> live_;
};

/// The sequences of a beam search as one batch of a session that reorders them.
template <reordering_session Session>
class ReorderedBeams {
public:
  ReorderedBeams(Session& session, std::int64_t beams)
      : session_(session), beams_(static_cast<std::size_t>(beams)), batch_(session.open(beams)) {}
  ReorderedBeams(const ReorderedBeams&) = delete;
  ReorderedBeams& operator=(const ReorderedBeams&) = delete;
  ~ReorderedBeams() { session_.close(batch_); }

  Logits begin(std::span<const std::int32_t> prompt) {
    std::vector<std::int32_t> tokens;
    for (std::size_t i = 0; i < beams_; ++i) tokens.insert(tokens.end(), prompt.begin(), prompt.end());
    return append(tokens);
  }
  Logits step(std::span<const std::int64_t> parents, std::span<const std::int32_t> tokens) {
    std::vector<std::int64_t> from(parents.begin(), parents.end());
    std::vector<std::int32_t> next(tokens.begin(), tokens.end());
    from.resize(beams_, from.front());  // where fewer beams live than the batch has, the others are not looked at
    next.resize(beams_, next.front());
    session_.reorder(batch_, from);
    return append(next);
  }

private:
  Logits append(std::span<const std::int32_t> tokens) {
    const Append append{batch_, tokens};
    return session_.append(std::span(&append, 1));
  }

  Session& session_;
  std::size_t beams_;
  int batch_;
};

/// The state of one beam search: the live continuations (beams), and those that have ended. `Beams` computes the logits
/// behind the live ones: ForkedBeams or ReorderedBeams.
template <class Beams>
class BeamSearch {
public:
  BeamSearch(Beams& beams, const BeamOptions& options) : beams_(beams), options_(options) {}

  std::vector<Beam> run(std::span<const std::int32_t> prompt) {
    live_.emplace_back();
    Logits logits = beams_.begin(prompt);
    for (std::int64_t step = 1;; ++step) {
      const std::vector<std::int64_t> parents = advance(logits);
      if (step == options_.tokens || live_.empty() || cannot_improve()) break;
      std::vector<std::int32_t> tokens;
      for (const Beam& one : live_) tokens.push_back(one.tokens.back());
      logits = beams_.step(parents, tokens);
    }
    for (const Beam& one : live_) finish(one);
    std::stable_sort(done_.begin(), done_.end(), [](const Beam& a, const Beam& b) { return a.score > b.score; });
    if (std::ssize(done_) > options_.beams) done_.resize(static_cast<std::size_t>(options_.beams));
    return std::move(done_);
  }

private:
  struct Candidate {
    std::size_t parent;
    std::int32_t token;
    double log_probability;
  };

  /// Returns true if continuation a is better than b. If they are equal, the earlier beam wins, then the lower token.
  static bool before(const Candidate& a, const Candidate& b) {
    if (a.log_probability != b.log_probability) return a.log_probability > b.log_probability;
    return a.parent != b.parent ? a.parent < b.parent : a.token < b.token;
  }

  /// Returns the best continuations of all beams by one token, so many that `beams` of them do not end.
  [[nodiscard]] std::vector<Candidate> candidates(const Logits& logits) const {
    std::vector<Candidate> all;
    for (std::size_t parent = 0; parent < live_.size(); ++parent) {
      const auto all_of_it = logits.row(static_cast<std::int64_t>(parent));
      const auto row = options_.vocabulary == 0 ? all_of_it
                                                : all_of_it.first(static_cast<std::size_t>(options_.vocabulary));
      const double first = log_probability(row, 0) - static_cast<double>(row[0]);  // less the logarithm of the sum
      for (std::size_t token = 0; token < row.size(); ++token) {
        if (!is_finite(row[token])) {
          throw NonFiniteError("reef::nn::beam_search: logit ", token, " of ", row.size(), " is ", row[token],
                               ".\n  fix: weights from before the training diverged.");
        }
        all.push_back({parent, static_cast<std::int32_t>(token),
                       live_[parent].log_probability + static_cast<double>(row[token]) + first});
      }
    }
    const std::int64_t ends = (std::max)(std::ssize(options_.ends), std::ptrdiff_t{1});  // of a beam, at most
    const auto kept = (std::min)(std::ssize(all), static_cast<std::ptrdiff_t>((1 + ends) * options_.beams));
    std::partial_sort(all.begin(), all.begin() + kept, all.end(), before);
    all.resize(static_cast<std::size_t>(kept));
    return all;
  }

  /// Replaces the beams (live continuations) by their best continuations, and returns of which each is one;
  /// continuations that end are moved to the finished ones.
  std::vector<std::int64_t> advance(const Logits& logits) {
    std::vector<Candidate> chosen;
    for (const Candidate& one : candidates(logits)) {
      if (std::find(options_.ends.begin(), options_.ends.end(), one.token) != options_.ends.end()) {
        if (std::ssize(chosen) < options_.beams) finish(grown(one));
      } else if (std::ssize(chosen) < options_.beams) {
        chosen.push_back(one);
      }
    }
    std::vector<std::int64_t> parents;
    std::vector<Beam> next;
    for (const Candidate& one : chosen) {
      parents.push_back(static_cast<std::int64_t>(one.parent));
      next.push_back(grown(one));
    }
    live_ = std::move(next);
    return parents;
  }

  [[nodiscard]] Beam grown(const Candidate& candidate) const {
    Beam beam = live_[candidate.parent];
    beam.tokens.push_back(candidate.token);
    beam.log_probability = candidate.log_probability;
    return beam;
  }
  [[nodiscard]] double score_of(const Beam& beam) const {
    return beam.log_probability / std::pow(static_cast<double>(beam.tokens.size()), options_.length_penalty);
  }
  void finish(Beam beam) {
    beam.score = score_of(beam);
    done_.push_back(std::move(beam));
  }
  /// Returns true if enough continuations have ended, and no live beam has a better score now than the worst of these.
  [[nodiscard]] bool cannot_improve() const {
    if (std::ssize(done_) < options_.beams) return false;
    std::vector<double> scores;
    for (const Beam& one : done_) scores.push_back(one.score);
    std::sort(scores.begin(), scores.end(), std::greater<>());
    const double worst = scores[static_cast<std::size_t>(options_.beams - 1)];
    return std::none_of(live_.begin(), live_.end(), [&](const Beam& one) { return score_of(one) > worst; });
  }

  Beams& beams_;
  const BeamOptions& options_;
  std::vector<Beam> live_;
  std::vector<Beam> done_;
};

}  // namespace detail

/// Returns the best continuations that a beam search finds, the best first. A pass computes one row for each beam;
/// beams share the pages of their common beginning.
///
/// A session that forks computes the prompt once; one that reorders, such as swarm::Session, once for each beam.
///
/// | memory | `beams` sequences of the session, each with the prompt's and `tokens` positions                |
/// | ties   | between equal ones, the continuation of the earlier beam wins, then the lower token            |
/// | errors | those of Session::append; OptionError for options; NonFiniteError. The session stays as before |
///
/// Source: Graves, Sequence transduction with recurrent neural networks, arXiv 1211.3711; the length penalty is that of
/// Hugging Face.
///
/// \code
/// // given: nn::Session<device::Host, float>& session, const std::vector<std::int32_t>& prompt
/// const std::vector<nn::Beam> found = nn::beam_search(session, prompt, {.beams = 4, .tokens = 20});
/// \endcode
template <text_session Text>
  requires forking_session<Text> || reordering_session<Text>
std::vector<Beam> beam_search(Text& session, std::span<const std::int32_t> prompt, const BeamOptions& options = {}) {
  options.validate(session.vocabulary());
  const auto search = [&](auto beams) { return detail::BeamSearch<decltype(beams)>(beams, options).run(prompt); };
  if constexpr (forking_session<Text>) {
    return search(detail::ForkedBeams<Text>(session, options.beams));
  } else {
    return search(detail::ReorderedBeams<Text>(session, options.beams));
  }
}

}  // namespace nn
}  // namespace v0
}  // namespace reef
