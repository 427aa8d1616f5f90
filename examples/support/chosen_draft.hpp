#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/text.hpp>
#include <reef/core/units.hpp>
#include <reef/device/host.hpp>
#include <reef/io/file.hpp>
#include <reef/nn/host.hpp>
#include <reef/nn/model_draft.hpp>
#include <reef/nn/model_folder.hpp>
#include <reef/nn/ngram_draft.hpp>
#include <reef/nn/session.hpp>
#include <reef/nn/speculate.hpp>

#include "generation_options.hpp"
#include "tokenizer.hpp"

namespace reef_examples {

/// Throws OptionError where the folders of a model and of its draft have tokenizers that differ.
inline void require_same_tokenizer(const std::string& model, const std::string& draft) {
  const std::string names[] = {tokenizer_of_folder(model), tokenizer_of_folder(draft)};
  if (names[0].empty() || names[1].empty()) return;
  std::string texts[2];
  for (const int i : {0, 1}) {
    const auto [kind, place] = split_tokenizer_name(names[i]);
    std::vector<std::filesystem::path> files{place};
    if (kind == "gpt2") files = {files[0] / "vocab.json", files[0] / "merges.txt"};
    texts[i] = kind;
    for (const auto& file : files) texts[i] += reef::io::read_file(file, reef::Bytes{1} << 30);
  }
  if (texts[0] == texts[1]) return;
  throw reef::OptionError("--draft ", reef::in_quotes(draft), " has another tokenizer than ", reef::in_quotes(model),
                          ".\n  fix: a draft of the same family, whose tokenizer is the same file.");
}

/// The draft that a command line names: n-grams, or a smaller model.
class ChosenDraft {
public:
  /// `model`: the folder of the model that checks, of so many logits; `positions`: of the longest text.
  ChosenDraft(const DraftOptions& options, const RowOptions& how, const std::string& model, std::int64_t vocabulary,
              std::int64_t positions, std::size_t texts) {
    if (options.draft == "ngram") return;
    require_same_tokenizer(model, options.draft);
    small_ = std::make_unique<Small>(options.draft, how, vocabulary, positions, texts);
  }

  [[nodiscard]] std::vector<std::vector<std::int32_t>> propose(std::span<const reef::nn::DraftRequest> requests,
                                                               const reef::nn::GenerateOptions& options) {
    return small_ ? small_->draft.propose(requests, options) : ngrams_.propose(requests, options);
  }

private:
  using Host = reef::device::Host;

  struct Small {
    Small(const std::string& folder, const RowOptions& how, std::int64_t vocabulary, std::int64_t most,
          std::size_t texts)
        : config(reef::nn::read_model_config(std::filesystem::path(folder) / "config.json")),
          host({.threads = how.threads}),
          graph(reef::nn::model_of<Host, float>(reef::nn::with_batch(config, {.batch = 1, .sequence = 1}),
                                                host.threads())),
          session(host, graph,
                  {.positions = std::min(most, reef::nn::longest_sequence(config)),
                   .sequences = static_cast<std::int64_t>(texts), .rows = how.rows, .weights = how.weight_form(),
                   .states = how.state_form(), .outliers = how.weights == "int8" ? 1 : 0}),
          draft(session, vocabulary) {
      reef::nn::read_weights<float>(folder, config, graph.dag(),
                                    [&](const std::string& name, const std::vector<float>& values) {
                                      session.set_parameter(name, values);
                                    });
    }

    reef::nn::ModelConfig config;
    Host host;
    reef::graph::Graph<Host, float> graph;
    reef::nn::Session<Host, float> session;
    reef::nn::ModelDraft<reef::nn::Session<Host, float>> draft;
  };

  reef::nn::NgramDraft ngrams_;
  std::unique_ptr<Small> small_;
};

/// Continues prompts by a session, with a draft or, where there is none, without.
template <reef::nn::text_session Session>
reef::nn::Speculation continue_prompts(Session& session, ChosenDraft* draft,
                                       std::span<const std::vector<std::int32_t>> prompts,
                                       const DraftOptions& options, const reef::nn::GenerateOptions& how,
                                       const reef::nn::OnToken& on_token) {
  if (draft != nullptr)
    return reef::nn::speculate(session, *draft, prompts, options.speculate_options(), how, on_token);
  reef::nn::Speculation found;
  found.continuations = reef::nn::generate(session, prompts, how, on_token);
  return found;
}

/// Returns a sentence for people: what became of a draft's proposals.
inline std::string text_of_draft(const reef::nn::Speculation& found) {
  return reef::concat("the draft: ", found.accepted, " of ", found.proposed, " tokens accepted, in ", found.passes,
                      " passes");
}

}  // namespace reef_examples
