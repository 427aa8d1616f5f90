#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/nn/draw_token.hpp>
#include <reef/nn/session.hpp>

namespace reef {
inline namespace v0 {
namespace nn {

/// Options of beam_search(), which continues a text.
struct BeamOptions {
  std::int64_t beams = 4;             ///< number of continuations (beams) that are followed in parallel
  std::int64_t tokens = 50;           ///< the largest number of tokens of a continuation
  double length_penalty = 1;  ///< exponent p of the length in a continuation's score, log-probability / length^p
  std::optional<std::int32_t> end{};  ///< token that ends a continuation, as its last token

  /// Throws OptionError, naming the first member that is invalid with this number of logits.
  void validate(std::int64_t logits) const {
    const auto require_that = [](bool holds, const char* member, auto value, const char* range) {
      if (holds) return;
      throw OptionError("reef::nn::BeamOptions: ", member, " is ", value, ".\n  fix: ", range, ".");
    };
    require_that(beams >= 1 && beams <= logits, "beams", beams, "1 to the number of the model's logits");
    require_that(tokens >= 1, "tokens", tokens, "1 or more");
    require_that(is_finite(length_penalty), "length_penalty", length_penalty, "a number; 0 takes the sum alone");
    require_that(!end || (*end >= 0 && *end < logits), "end", end.value_or(0), "a token of the model");
  }
};

/// A continuation that a beam search has found: its tokens, the sum of their log-probabilities, and its score, that sum
/// divided by length^length_penalty.
struct Beam {
  std::vector<std::int32_t> tokens;
  double log_probability = 0;
  double score = 0;
};

namespace detail {

/// The state of one beam search: the live continuations (beams), and their sequences in a session.
template <class Session>
class BeamSearch {
public:
  BeamSearch(Session& session, const BeamOptions& options) : session_(session), options_(options) {}
  BeamSearch(const BeamSearch&) = delete;
  BeamSearch& operator=(const BeamSearch&) = delete;
  ~BeamSearch() {
    for (const Live& one : live_) session_.close(one.sequence);
  }

  std::vector<Beam> run(std::span<const std::int32_t> prompt) {
    live_.push_back({session_.open(), {}});
    Logits logits = session_.append({{live_[0].sequence, prompt}});
    for (std::int64_t step = 1;; ++step) {
      advance(logits);
      if (step == options_.tokens || live_.empty() || cannot_improve()) break;
      std::vector<Append> appends;
      for (const Live& one : live_) appends.push_back({one.sequence, std::span(one.beam.tokens).last(1)});
      logits = session_.append(appends);
    }
    for (const Live& one : live_) finish(one.beam);
    std::stable_sort(done_.begin(), done_.end(), [](const Beam& a, const Beam& b) { return a.score > b.score; });
    if (std::ssize(done_) > options_.beams) done_.resize(static_cast<std::size_t>(options_.beams));
    return std::move(done_);
  }

private:
  struct Live {
    int sequence;
    Beam beam;
  };
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

  /// Returns the best continuations of all beams by one token: twice the number of beams, since half of them may end.
  [[nodiscard]] std::vector<Candidate> candidates(const Logits& logits) const {
    std::vector<Candidate> all;
    for (std::size_t parent = 0; parent < live_.size(); ++parent) {
      const auto row = logits.row(static_cast<std::int64_t>(parent));
      const double first = log_probability(row, 0) - static_cast<double>(row[0]);  // less the logarithm of the sum
      for (std::size_t token = 0; token < row.size(); ++token) {
        if (!is_finite(row[token])) {
          throw NonFiniteError("reef::nn::beam_search: logit ", token, " of ", row.size(), " is ", row[token],
                               ".\n  fix: weights from before the training diverged.");
        }
        all.push_back({parent, static_cast<std::int32_t>(token),
                       live_[parent].beam.log_probability + static_cast<double>(row[token]) + first});
      }
    }
    const auto kept = (std::min)(std::ssize(all), static_cast<std::ptrdiff_t>(2 * options_.beams));
    std::partial_sort(all.begin(), all.begin() + kept, all.end(), before);
    all.resize(static_cast<std::size_t>(kept));
    return all;
  }

  /// Replaces the beams (live continuations) by their best continuations; continuations that end are moved to the
  /// finished ones.
  void advance(const Logits& logits) {
    std::vector<Candidate> chosen;
    for (const Candidate& one : candidates(logits)) {
      if (options_.end && one.token == *options_.end) {
        if (std::ssize(chosen) < options_.beams) finish(grown(one));
      } else if (std::ssize(chosen) < options_.beams) {
        chosen.push_back(one);
      }
    }
    std::vector<bool> taken(live_.size());
    std::vector<Live> next;
    next.reserve(chosen.size());
    for (const Candidate& one : chosen) {
      const bool first = !taken[one.parent];
      taken[one.parent] = true;
      next.push_back({first ? live_[one.parent].sequence : session_.fork(live_[one.parent].sequence), grown(one)});
    }
    for (std::size_t i = 0; i < live_.size(); ++i) {
      if (!taken[i]) session_.close(live_[i].sequence);
    }
    live_ = std::move(next);
  }

  [[nodiscard]] Beam grown(const Candidate& candidate) const {
    Beam beam = live_[candidate.parent].beam;
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
    return std::none_of(live_.begin(), live_.end(), [&](const Live& one) { return score_of(one.beam) > worst; });
  }

  Session& session_;
  const BeamOptions& options_;
  std::vector<Live> live_;
  std::vector<Beam> done_;
};

}  // namespace detail

/// Returns the best continuations that a beam search finds, the best first. A pass computes one row for each beam;
/// beams share the pages of their common beginning.
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
template <class Device, real T>
std::vector<Beam> beam_search(Session<Device, T>& session, std::span<const std::int32_t> prompt,
                              const BeamOptions& options = {}) {
  options.validate(session.vocabulary());
  return detail::BeamSearch<Session<Device, T>>(session, options).run(prompt);
}

}  // namespace nn
}  // namespace v0
}  // namespace reef
