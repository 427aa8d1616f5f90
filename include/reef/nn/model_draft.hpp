#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/nn/draft.hpp>
#include <reef/nn/generate.hpp>

namespace reef {
inline namespace v0 {
namespace nn {

/// A draft that is a smaller model over the same tokens: it draws as the large one does, by the same random numbers, so
/// that both draw the same token where they give it about the same probability.
///
/// | texts  | one sequence of the session for each prompt, kept from call to call, computed anew where it differs  |
/// | memory | the session's, of as many sequences as there are prompts                                             |
/// | cost   | a pass of the session for each proposed token, with a row for each text                              |
/// | room   | texts get fewer proposals, or none, where the session has no room for them                           |
/// | errors | OptionError for a session of another number of logits than the large model; those of Session::append |
///
/// The session must outlive the draft.
///
/// \code
/// // given: nn::Session<device::Host, float>& large, nn::Session<device::Host, float>& small
/// nn::ModelDraft draft(small, large.vocabulary());
/// \endcode
template <text_session Text>
class ModelDraft {
public:
  /// `vocabulary`: the number of logits of the model that checks what is proposed.
  ModelDraft(Text& session, std::int64_t vocabulary) : session_(session) {
    if (session.vocabulary() == vocabulary) return;
    throw OptionError("reef::nn::ModelDraft: the draft has ", session.vocabulary(), " tokens, the model ", vocabulary,
                      ".\n  why: what one proposes is drawn by the other, by its number.\n"
                      "  fix: a draft of the same tokenizer, with as many logits.");
  }
  ModelDraft(const ModelDraft&) = delete;
  ModelDraft& operator=(const ModelDraft&) = delete;
  ~ModelDraft() {
    for (const auto& [text, own] : texts_) session_.close(own.sequence);
  }

  [[nodiscard]] std::vector<std::vector<std::int32_t>> propose(std::span<const DraftRequest> requests,
                                                               const GenerateOptions& options) {
    std::vector<std::vector<std::int32_t>> proposals(requests.size());
    std::vector<Own*> owns;
    std::vector<std::size_t> going;
    for (std::size_t k = 0; k < requests.size(); ++k) {
      owns.push_back(&text_of_request(requests[k]));
      if (wanted(requests[k]) > 0) going.push_back(k);
    }
    const auto drawn = static_cast<std::size_t>(options.vocabulary == 0 ? session_.vocabulary() : options.vocabulary);
    while (!going.empty()) {
      std::vector<Append> appends;
      for (const std::size_t k : going) {
        const Own& own = *owns[k];
        appends.push_back({own.sequence, std::span(own.tokens).subspan(length_of(own))});
      }
      const Logits logits = session_.append(appends);
      std::vector<std::size_t> still;
      for (std::size_t n = 0; n < going.size(); ++n) {
        const std::size_t k = going[n];
        const auto row = logits.row(static_cast<std::int64_t>(n)).first(drawn);
        const std::int32_t token = draw_next(row, owns[k]->tokens, requests[k].text, options);
        owns[k]->tokens.push_back(token);
        proposals[k].push_back(token);
        const bool ends = std::find(options.ends.begin(), options.ends.end(), token) != options.ends.end();
        if (!ends && std::ssize(proposals[k]) < wanted(requests[k])) still.push_back(k);
      }
      going = std::move(still);
    }
    return proposals;
  }

private:
  /// The sequence of a prompt: `tokens` are those that it has, or is to be given next.
  struct Own {
    int sequence = 0;
    std::vector<std::int32_t> tokens;
  };

  [[nodiscard]] std::size_t length_of(const Own& own) const {
    return static_cast<std::size_t>(session_.length(own.sequence));
  }

  /// Returns the number of tokens to propose: as many as are asked for, and there is room for.
  [[nodiscard]] std::int64_t wanted(const DraftRequest& request) const {
    std::int64_t most = request.most;
    if constexpr (requires { session_.options().positions; }) {
      most = (std::min)(most, session_.options().positions - std::ssize(request.tokens) + 1);
    }
    return request.tokens.empty() ? 0 : most;
  }

  /// Returns the sequence of a request's text, cut to the tokens that both have, without the text's last one.
  Own& text_of_request(const DraftRequest& request) {
    auto found = texts_.find(request.text);
    if (found == texts_.end()) found = texts_.emplace(request.text, Own{session_.open(), {}}).first;
    Own& own = found->second;
    const std::size_t count = request.tokens.size();
    const std::span<const std::int32_t> known = request.tokens.first(count == 0 ? 0 : count - 1);
    const std::span<const std::int32_t> held = std::span(own.tokens).first(length_of(own));
    const auto common = std::mismatch(known.begin(), known.end(), held.begin(), held.end()).first - known.begin();
    session_.truncate(own.sequence, common);
    own.tokens.assign(request.tokens.begin(), request.tokens.end());
    return own;
  }

  Text& session_;
  std::map<std::size_t, Own> texts_;
};

}  // namespace nn
}  // namespace v0
}  // namespace reef
