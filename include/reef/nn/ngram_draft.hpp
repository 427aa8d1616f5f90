#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <reef/nn/draft.hpp>

namespace reef {
inline namespace v0 {
namespace nn {

/// A draft without a model (prompt look-up): what followed the last tokens of a text where they stood before.
///
///     n       the largest from `longest` down to `shortest` for which the last n tokens occur earlier in the text
///     tokens  those behind the latest such place, and where the text ends, those proposed so far
///
/// | cost   | O(T longest) comparisons for a text of T tokens |
/// | errors | OptionError unless 1 <= shortest <= longest     |
///
/// Source: Saxena, Prompt lookup decoding, 2023; Yang et al., Inference with reference, arXiv 2304.04487.
///
/// \code
/// nn::NgramDraft draft;
/// const std::vector<std::int32_t> text{7, 1, 2, 3, 4, 1, 2};
/// const nn::DraftRequest request{0, text, 3};
/// const auto proposals = draft.propose({&request, 1}, {});  // 3, 4, 1
/// \endcode
class NgramDraft {
public:
  explicit NgramDraft(std::int64_t longest = 4, std::int64_t shortest = 1);

  [[nodiscard]] std::vector<std::vector<std::int32_t>> propose(std::span<const DraftRequest> requests,
                                                               const GenerateOptions& options) const;

private:
  std::int64_t longest_;
  std::int64_t shortest_;
};

static_assert(text_draft<NgramDraft>);

}  // namespace nn
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/nn/ngram_draft.ipp>
#endif
