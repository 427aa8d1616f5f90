#include "accuracy.hpp"

#include <algorithm>

#include <reef/device/host.hpp>
#include <reef/nn/session.hpp>

#include "graph_model.hpp"

namespace reef_examples {

struct TextClassifier::Parts {
  Parts(const reef::graph::Graph<reef::device::Host, float>& model, std::int64_t positions, int threads)
      : host({.threads = threads}), session(host, model, {.positions = positions, .sequences = 1}) {}

  reef::device::Host host;
  reef::nn::Session<reef::device::Host, float> session;
};

TextClassifier::TextClassifier(const TrainOptions& options, const reef::nn::GptConfig& config, int threads,
                               const Weights& weights) {
  reef::nn::GptConfig alone = config;
  alone.batch = 1;
  const auto model = model_of<reef::device::Host, float>(options, alone, threads);
  parts_ = std::make_unique<Parts>(model, options.context, threads);
  for (const auto& [name, values] : weights) parts_->session.set_parameter(name, values);
}

TextClassifier::~TextClassifier() = default;

bool TextClassifier::is_right(const reef::data::TokenPair& text) {
  auto& session = parts_->session;
  const int sequence = session.open();
  const reef::nn::Logits logits = session.append({{sequence, std::span(text.tokens).first(text.prompt)}});
  const auto classes = logits.row(0);
  const auto likeliest = std::max_element(classes.begin(), classes.end()) - classes.begin();
  session.close(sequence);
  return likeliest == text.tokens[text.prompt];
}

}  // namespace reef_examples
