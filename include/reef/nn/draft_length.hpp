#pragma once

#include <cstdint>
#include <functional>

#include <reef/core/units.hpp>

namespace reef {
inline namespace v0 {
namespace nn {

/// Returns the expected number of tokens of a pass with d proposals, each of which is right with probability a as long
/// as those before it are: the sum of a^k over k from 0 to d.
double expected_tokens(double acceptance, std::int64_t proposals);

/// Returns the number d of proposals, from 0 to `most`, with the largest expected_tokens(acceptance, d) / seconds(d);
/// of equal ones the smallest. `seconds(d)`: the time of a pass of d + 1 rows and of drafting d tokens, above 0.
///
/// Source: Leviathan et al., Fast inference from transformers via speculative decoding, arXiv 2211.17192, section 3.
///
/// \code
/// // A pass takes 50 ms, a row 1 ms more, a token of the draft 2 ms.
/// const auto best = nn::best_draft_length(0.8, 16, [](std::int64_t d) { return 0.05 + 0.003 * double(d); });
/// \endcode
std::int64_t best_draft_length(double acceptance, std::int64_t most,
                               const std::function<Seconds(std::int64_t)>& seconds);

/// Chooses the number of proposals of each pass by what passes before it have taken and given.
///
///     seconds(d) = base + row * texts * (d + 1) + draft * d
///
/// | a      | accepted over checked proposals, of which those of earlier passes count less         |
/// | base   | and row: least squares over the passes, of which earlier ones count less             |
/// | probe  | of 32 passes for which none is best, one has a proposal, so that a change is noticed |
///
/// \code
/// nn::DraftPace pace(16);
/// const std::int64_t d = pace.next(1);  // for one text
/// pace.drafted(d, 0.001);
/// pace.computed(d + 1, 0.05);
/// pace.checked(d, 2);
/// \endcode
class DraftPace {
public:
  /// `most`: the largest number of proposals of a text.
  explicit DraftPace(std::int64_t most) : most_(most) {}

  /// Returns the number of proposals for each of so many texts.
  std::int64_t next(std::int64_t texts);

  /// Notes the time in which a draft proposed `tokens` tokens, at most, for each text.
  void drafted(std::int64_t tokens, Seconds seconds);
  /// Notes the time of a pass of so many rows.
  void computed(std::int64_t rows, Seconds seconds);
  /// Notes how many proposals of a text were accepted.
  void checked(std::int64_t proposed, std::int64_t accepted);

  /// Returns the estimate of a.
  [[nodiscard]] double acceptance() const { return (accepted_ + 1) / (checked_ + 2); }
  /// Returns the estimate of the time of a pass with d proposals for each of `texts` texts.
  [[nodiscard]] Seconds seconds(std::int64_t texts, std::int64_t d) const;

private:
  /// Returns the estimate of the time of a pass of so many rows.
  [[nodiscard]] Seconds seconds_of(std::int64_t rows) const;

  std::int64_t most_;
  double accepted_ = 0, checked_ = 0;
  double passes_ = 0, rows_ = 0, squares_ = 0, seconds_ = 0, products_ = 0;  // sums over passes, by weight
  Seconds per_row_ = 0;
  bool knows_rows_ = false;
  Seconds drafting_ = 0;
  double drafted_ = 0;
  std::int64_t without_ = 0;  // passes since the last one with proposals; in the beginning all passes
};

}  // namespace nn
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/nn/draft_length.ipp>
#endif
