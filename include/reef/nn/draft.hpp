#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <reef/nn/draw_token.hpp>

namespace reef {
inline namespace v0 {
namespace nn {

/// A text for which a draft proposes tokens: its number among the prompts of the call, its tokens so far, and the most
/// tokens that are wanted.
struct DraftRequest {
  std::size_t text = 0;
  std::span<const std::int32_t> tokens;
  std::int64_t most = 0;
};

/// A cheap source of likely next tokens, which nn::speculate lets a model check several at a time.
///
///     propose(requests, options)[k] = at most requests[k].most tokens that may follow requests[k].tokens
///
/// | laws   | a result for each request; texts are the same with any proposals, and sooner there with right ones |
/// | random | a draft that draws as the model does, by nn::draw_next of the same options, is right more often    |
/// | errors | what propose() throws ends the call of nn::speculate                                               |
///
/// Models: NgramDraft, ModelDraft; a type of one's own:
///
/// \code
/// // A draft that believes in repetition.
/// struct Again {
///   std::vector<std::vector<std::int32_t>> propose(std::span<const nn::DraftRequest> requests,
///                                                  const nn::GenerateOptions&) {
///     std::vector<std::vector<std::int32_t>> proposals;
///     for (const nn::DraftRequest& one : requests) {
///       proposals.emplace_back(std::size_t(one.most), one.tokens.back());
///     }
///     return proposals;
///   }
/// };
/// static_assert(nn::text_draft<Again>);
/// \endcode
template <class D>
concept text_draft = requires(D& draft, std::span<const DraftRequest> requests, const GenerateOptions& options) {
  { draft.propose(requests, options) } -> std::same_as<std::vector<std::vector<std::int32_t>>>;
};

}  // namespace nn
}  // namespace v0
}  // namespace reef
