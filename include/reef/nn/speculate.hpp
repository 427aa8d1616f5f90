#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/units.hpp>
#include <reef/nn/continue_texts.hpp>
#include <reef/nn/draft.hpp>
#include <reef/nn/draft_length.hpp>
#include <reef/nn/draw_token.hpp>
#include <reef/nn/generate.hpp>
#include <reef/nn/session.hpp>

namespace reef {
inline namespace v0 {
namespace nn {

/// Options of speculate(): how many tokens a draft proposes for each pass.
struct SpeculateOptions {
  std::optional<std::int64_t> tokens{};  ///< d, the tokens that are proposed; none: chosen for each pass by DraftPace
  std::int64_t most = 16;                ///< the largest d that is chosen

  /// Throws OptionError, naming the member that is invalid.
  void validate() const {
    if (tokens && *tokens < 0) {
      throw OptionError("reef::nn::SpeculateOptions: tokens are ", *tokens,
                        ".\n  fix: 0 for no proposals, or how many; none, so that they are chosen.");
    }
    if (most < 0) {
      throw OptionError("reef::nn::SpeculateOptions: most is ", most,
                        ".\n  fix: the largest number of proposals, 0 or more.");
    }
  }
};

/// What speculate() has found: the continuations, and what became of the draft's proposals.
struct Speculation {
  std::vector<Continuation> continuations;
  std::int64_t proposed = 0;  ///< tokens that were computed because the draft proposed them
  std::int64_t accepted = 0;  ///< of these, those that the model has drawn
  std::int64_t passes = 0;    ///< calls of Session::append
};

namespace detail {

/// Logits of a session behind texts and behind the tokens that a draft proposes for them.
template <text_session Text, text_draft Draft>
class DraftedRows {
public:
  DraftedRows(Text& session, Draft& draft, std::size_t texts, const SpeculateOptions& how,
              const GenerateOptions& options, std::span<const std::vector<std::int32_t>> prompts)
      : session_(session), draft_(draft), sequences_(session, texts), how_(how), options_(options), prompts_(prompts),
        pace_(how.most) {}

  /// Computes the rows of the texts in `going`.
  const DraftedRows& operator()(const std::vector<std::size_t>& going,
                                const std::vector<std::vector<std::int32_t>>& texts) {
    bool is_decoding = true;  // no text has more than one token to be read
    for (const std::size_t i : going) {
      const std::int64_t known = std::ssize(texts[i]) - 1;
      if (known >= 0 && session_.length(sequences_[i]) > known) session_.truncate(sequences_[i], known);
      is_decoding = is_decoding && session_.length(sequences_[i]) == known;
    }
    propose(going, texts);
    const Clock::time_point begin = Clock::now();
    append(going, texts);
    if (!is_decoding) return *this;
    std::int64_t rows = 0;
    for (const auto& proposed : proposals_) rows += std::ssize(proposed) + 1;
    pace_.computed(rows, since(begin));
    return *this;
  }

  [[nodiscard]] std::span<const float> row(std::int64_t n) const& { return logits_.row(n); }
  void row(std::int64_t n) const&& = delete;
  [[nodiscard]] std::span<const std::int32_t> proposed(std::size_t k) const& { return proposals_[k]; }
  void proposed(std::size_t k) const&& = delete;

  /// Notes how many proposals for the k-th text of the last pass were accepted.
  void accepted(std::size_t k, std::int64_t count) {
    pace_.checked(std::ssize(proposals_[k]), count);
    counts_.proposed += std::ssize(proposals_[k]);
    counts_.accepted += count;
  }

  [[nodiscard]] Speculation counts() const { return counts_; }

private:
  using Clock = std::chrono::steady_clock;
  static Seconds since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

  /// Asks the draft, for texts of which one token alone is to be read: logits behind a whole prompt are not wanted.
  void propose(const std::vector<std::size_t>& going, const std::vector<std::vector<std::int32_t>>& texts) {
    proposals_.assign(going.size(), {});
    const std::int64_t wanted = how_.tokens ? *how_.tokens : pace_.next(std::ssize(going));
    std::vector<DraftRequest> requests;
    std::vector<std::size_t> places;
    for (std::size_t k = 0; k < going.size(); ++k) {
      const std::vector<std::int32_t>& text = texts[going[k]];
      // The last token of a continuation is not computed with, as without a draft.
      const std::int64_t left = options_.tokens - (std::ssize(text) - std::ssize(prompts_[going[k]]));
      const std::int64_t most = (std::min)(wanted, left - 1);
      if (most < 1 || session_.length(sequences_[going[k]]) + 1 != std::ssize(text)) continue;
      requests.push_back({going[k], text, most});
      places.push_back(k);
    }
    if (requests.empty()) return;
    const Clock::time_point begin = Clock::now();
    const std::vector<std::vector<std::int32_t>> proposals = draft_.propose(requests, options_);
    if (proposals.size() != requests.size()) {
      throw OptionError("reef::nn::speculate: the draft proposes for ", proposals.size(), " texts of ", requests.size(),
                        ".\n  fix: a result for each request, without tokens where there is none.");
    }
    std::int64_t longest = 0;
    for (std::size_t n = 0; n < proposals.size(); ++n) {
      longest = (std::max)(longest, std::ssize(proposals[n]));
      for (const std::int32_t token : proposals[n]) {
        // What the model does not have ends the proposals.
        if (token < 0 || token >= session_.vocabulary() || std::ssize(proposals_[places[n]]) == requests[n].most) break;
        proposals_[places[n]].push_back(token);
      }
    }
    pace_.drafted(longest, since(begin));
  }

  void append(const std::vector<std::size_t>& going, const std::vector<std::vector<std::int32_t>>& texts) {
    const bool has_proposals =
        std::any_of(proposals_.begin(), proposals_.end(), [](const auto& proposed) { return !proposed.empty(); });
    if (has_proposals) {
      try {
        return append_once(going, texts);
      } catch (const OptionError&) {
        // The session has no room for the proposals, perhaps, and is as before the call.
        proposals_.assign(going.size(), {});
      }
    }
    append_once(going, texts);
  }

  void append_once(const std::vector<std::size_t>& going, const std::vector<std::vector<std::int32_t>>& texts) {
    std::vector<std::vector<std::int32_t>> rows;
    std::vector<Append> appends;
    for (std::size_t k = 0; k < going.size(); ++k) {
      const std::vector<std::int32_t>& text = texts[going[k]];
      rows.emplace_back(text.begin() + session_.length(sequences_[going[k]]), text.end());
      rows.back().insert(rows.back().end(), proposals_[k].begin(), proposals_[k].end());
    }
    for (std::size_t k = 0; k < going.size(); ++k) {
      appends.push_back({sequences_[going[k]], rows[k], !proposals_[k].empty()});
    }
    logits_ = session_.append(appends);
    ++counts_.passes;
  }

  Text& session_;
  Draft& draft_;
  SequencesOfOneCall<Text> sequences_;
  const SpeculateOptions& how_;
  const GenerateOptions& options_;
  std::span<const std::vector<std::int32_t>> prompts_;
  DraftPace pace_;
  std::vector<std::vector<std::int32_t>> proposals_;  // by place among the texts that go on
  Logits logits_;
  Speculation counts_;
};

}  // namespace detail

/// Returns the continuations of nn::generate, bit for bit, in fewer passes: a draft proposes d tokens for each text,
/// and a pass computes d + 1 rows of it. The model's own tokens are drawn from these, each with its random number, up
/// to the first one that is not the proposed one; what was computed behind is taken back.
///
/// | bits   | any draft, right or wrong, gives the tokens and log-probabilities of nn::generate                      |
/// | cost   | of a pass n (d + 1) rows for n texts; it gives 1 to d + 1 tokens of each                               |
/// | d      | SpeculateOptions::tokens; or the one that gives most tokens a second, by measured times and acceptance |
/// | room   | a pass that finds none for proposals runs without them; never more positions than nn::generate takes   |
/// | order  | `on_token` hears all tokens of a text in a pass before those of the next text                          |
/// | errors | as nn::generate, and those of the draft                                                                |
///
/// Sources: Leviathan et al., arXiv 2211.17192, for proposals that are checked in one pass. Deviation: tokens are drawn
/// by keys in place of rejections, so the text is not only of the same distribution, but the same.
///
/// \code
/// #include <reef/nn/ngram_draft.hpp>
/// // given: nn::Session<device::Host, float>& session
/// const std::vector<std::vector<std::int32_t>> prompts{{1, 15043, 3186, 1, 15043}};
/// nn::NgramDraft draft;
/// const nn::Speculation found = nn::speculate(session, draft, prompts, {}, {.tokens = 20, .temperature = 0});
/// \endcode
template <text_session Text, text_draft Draft>
Speculation speculate(Text& session, Draft& draft, std::span<const std::vector<std::int32_t>> prompts,
                      const SpeculateOptions& how = {}, const GenerateOptions& options = {},
                      const OnToken& on_token = {}) {
  how.validate();
  detail::DraftedRows<Text, Draft> rows(session, draft, prompts.size(), how, options, prompts);
  const auto next = [&](const auto& going, const auto& texts) -> const auto& { return rows(going, texts); };
  const auto accepted = [&](std::size_t k, std::int64_t count) { rows.accepted(k, count); };
  auto found = detail::continue_ahead(prompts, session.vocabulary(), next, accepted, options, on_token);
  Speculation result = rows.counts();
  result.continuations = std::move(found);
  return result;
}

}  // namespace nn
}  // namespace v0
}  // namespace reef
