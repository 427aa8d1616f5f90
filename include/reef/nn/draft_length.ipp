#pragma once

#include <algorithm>

#include <reef/core/inline.hpp>
#include <reef/nn/draft_length.hpp>

namespace reef {
inline namespace v0 {
namespace nn {

REEF_INLINE double expected_tokens(double acceptance, std::int64_t proposals) {
  double sum = 0;
  for (std::int64_t k = proposals; k >= 0; --k) sum = 1 + acceptance * sum;
  return sum;
}

REEF_INLINE std::int64_t best_draft_length(double acceptance, std::int64_t most,
                                           const std::function<Seconds(std::int64_t)>& seconds) {
  std::int64_t best = 0;
  double rate = expected_tokens(acceptance, 0) / seconds(0);
  for (std::int64_t d = 1; d <= most; ++d) {
    const double own = expected_tokens(acceptance, d) / seconds(d);
    if (own <= rate) continue;
    best = d;
    rate = own;
  }
  return best;
}

REEF_INLINE Seconds DraftPace::seconds(std::int64_t texts, std::int64_t d) const {
  const double draft = drafted_ > 0 ? drafting_ / drafted_ : 0;
  return seconds_of(texts * (d + 1)) + draft * static_cast<double>(d);
}

REEF_INLINE Seconds DraftPace::seconds_of(std::int64_t rows) const {
  constexpr Seconds least = 1e-9;
  const double base = passes_ > 0 ? (seconds_ - per_row_ * rows_) / passes_ : 1;
  return (std::max)((std::max)(base, 0.0) + per_row_ * static_cast<double>(rows), least);
}

REEF_INLINE std::int64_t DraftPace::next(std::int64_t texts) {
  constexpr std::int64_t probe = 32;
  if (!knows_rows_) {  // two sizes of passes say what a row takes
    constexpr std::int64_t first = 4;
    return without_++ % 2 == 0 ? (std::min)(first, most_) : 0;
  }
  const std::int64_t d = best_draft_length(acceptance(), most_, [&](std::int64_t k) { return seconds(texts, k); });
  without_ = d > 0 ? 0 : without_ + 1;
  if (without_ < probe) return d;
  without_ = 0;
  return (std::min)(std::int64_t{1}, most_);
}

REEF_INLINE void DraftPace::drafted(std::int64_t tokens, Seconds seconds) {
  if (tokens < 1) return;
  constexpr double memory = 0.95;
  drafting_ = memory * drafting_ + seconds;
  drafted_ = memory * drafted_ + static_cast<double>(tokens);
}

REEF_INLINE void DraftPace::computed(std::int64_t rows, Seconds seconds) {
  constexpr double memory = 0.95;
  // A pass that was held up, as by the repair of a chain of servers, says little of others.
  if (knows_rows_) seconds = (std::min)(seconds, 4 * seconds_of(rows));
  const auto count = static_cast<double>(rows);
  passes_ = memory * passes_ + 1;
  rows_ = memory * rows_ + count;
  squares_ = memory * squares_ + count * count;
  seconds_ = memory * seconds_ + seconds;
  products_ = memory * products_ + count * seconds;
  const double mean = rows_ / passes_;
  const double variance = squares_ / passes_ - mean * mean;
  // Of passes of one size alone, the time of a row is what was known of it before.
  constexpr double least = 0.05;
  if (variance < least) return;
  per_row_ = (std::max)((products_ / passes_ - mean * seconds_ / passes_) / variance, 0.0);
  knows_rows_ = true;
}

REEF_INLINE void DraftPace::checked(std::int64_t proposed, std::int64_t accepted) {
  if (proposed < 1) return;
  constexpr double memory = 0.95;
  accepted_ = memory * accepted_ + static_cast<double>(accepted);
  checked_ = memory * checked_ + static_cast<double>((std::min)(accepted + 1, proposed));
}

}  // namespace nn
}  // namespace v0
}  // namespace reef
