#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <reef/core/error.hpp>
#include <reef/data/pairs.hpp>

namespace reef {
inline namespace v0 {
namespace data::detail {

/// Throws OptionError unless a pair's skipped ranges are ascending, apart, behind its first target and within its
/// tokens.
inline void require_skipped(const TokenPair& pair, std::size_t number) {
  std::size_t end = (std::max)(pair.prompt, std::size_t{1});
  for (const TokenRange& range : pair.skipped) {
    if (range.begin <= end || range.end <= range.begin || range.end > pair.tokens.size()) {
      throw OptionError("reef::data::PairSampler: pair ", number, " skips tokens ", range.begin, " to ", range.end,
                        " of its ", pair.tokens.size(), ".\n  fix: ranges that ascend, with a target before each.");
    }
    end = range.end;
  }
}

/// Writes to targets[t - 1] each token t < `end` of a pair that is a target; returns their number.
inline std::int64_t write_targets(const TokenPair& pair, std::size_t end, std::int32_t* targets) {
  std::int64_t counted = 0;
  auto range = pair.skipped.begin();
  for (std::size_t t = (std::max)(pair.prompt, std::size_t{1}); t < end;) {
    if (range != pair.skipped.end() && t == range->begin) {
      t = (range++)->end;
      continue;
    }
    targets[t - 1] = pair.tokens[t];
    ++counted;
    ++t;
  }
  return counted;
}

}  // namespace data::detail
}  // namespace v0
}  // namespace reef
