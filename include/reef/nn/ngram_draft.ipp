#pragma once

#include <algorithm>
#include <cstddef>

#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/nn/ngram_draft.hpp>

namespace reef {
inline namespace v0 {
namespace nn {

REEF_INLINE NgramDraft::NgramDraft(std::int64_t longest, std::int64_t shortest)
    : longest_(longest), shortest_(shortest) {
  if (shortest < 1 || longest < shortest) {
    throw OptionError("reef::nn::NgramDraft: n-grams of ", shortest, " to ", longest,
                      " tokens.\n  fix: 1 or more, and no less for the longest.");
  }
}

REEF_INLINE std::vector<std::vector<std::int32_t>> NgramDraft::propose(std::span<const DraftRequest> requests,
                                                                       const GenerateOptions& /*options*/) const {
  std::vector<std::vector<std::int32_t>> proposals;
  for (const DraftRequest& request : requests) {
    const std::span<const std::int32_t> text = request.tokens;
    const std::int64_t length = std::ssize(text);
    std::int64_t best = 0;   // the length of the longest n-gram found
    std::int64_t found = 0;  // the position behind it
    for (std::int64_t end = length - 1; end >= 1 && best < longest_; --end) {
      std::int64_t n = 0;
      while (n < longest_ && n < end &&
             text[static_cast<std::size_t>(end - 1 - n)] == text[static_cast<std::size_t>(length - 1 - n)]) {
        ++n;
      }
      if (n <= best || n < shortest_) continue;
      best = n;
      found = end;
    }
    std::vector<std::int32_t>& proposed = proposals.emplace_back();
    for (std::int64_t at = found; best > 0 && std::ssize(proposed) < request.most; ++at) {
      proposed.push_back(at < length ? text[static_cast<std::size_t>(at)]
                                     : proposed[static_cast<std::size_t>(at - length)]);
    }
  }
  return proposals;
}

}  // namespace nn
}  // namespace v0
}  // namespace reef
