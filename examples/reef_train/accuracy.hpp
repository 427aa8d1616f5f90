#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <reef/comm/functions.hpp>
#include <reef/data/pairs.hpp>
#include <reef/graph/dag.hpp>

#include "options.hpp"
#include "setup.hpp"

// How many held-out texts a model of --classes tells the class of.

namespace reef_examples {

/// The texts whose label is the likeliest class, among all.
struct Accuracy {
  std::int64_t right = 0;
  std::int64_t texts = 0;

  [[nodiscard]] double share() const { return static_cast<double>(right) / static_cast<double>(texts); }
};

/// A whole model of --classes on one rank, in fp32, which reads texts one by one.
class TextClassifier {
public:
  /// The values of all parameters by name.
  using Weights = std::map<std::string, std::vector<float>>;

  /// Throws MemoryError, and OptionError for an operator of --graph that does not run by rows.
  TextClassifier(const TrainOptions& options, const reef::nn::GptConfig& config, int threads, const Weights& weights);
  ~TextClassifier();
  TextClassifier(const TextClassifier&) = delete;
  TextClassifier& operator=(const TextClassifier&) = delete;

  /// Returns whether the label, a text's last token, is its likeliest class.
  [[nodiscard]] bool is_right(const reef::data::TokenPair& text);

private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

/// Judges texts, each rank its share of them. All ranks call it, between steps, after an evaluation; `proceed` says,
/// alike on all ranks, whether to go on. Returns the same on all ranks; nothing where it does not go on, or a rank has
/// no room for the model.
template <class TrainerType>
std::optional<Accuracy> class_accuracy(TrainerType& trainer, const Setup& run,
                                       std::span<const reef::data::TokenPair> texts,
                                       const std::function<bool()>& proceed) {
  TextClassifier::Weights weights;
  for (const reef::graph::Parameter& parameter : trainer.model().dag().parameters)
    weights[parameter.name] = trainer.gather_parameter(parameter.name);
  std::optional<TextClassifier> model;
  std::string why;
  try {
    model.emplace(run.options, run.config, run.threads, weights);
  } catch (const reef::Error& error) {
    why = error.what();
  }
  weights.clear();
  float lacking = model ? 0 : 1;
  reef::comm::all_reduce(trainer.progress(), "models to tell classes", std::span(&lacking, 1));
  if (lacking > 0) {
    run.say(reef::concat("held-out accuracy: not known, since ", static_cast<int>(lacking),
                         " rank(s) cannot read texts alone", why.empty() ? "" : ": ", why));
    return std::nullopt;
  }
  constexpr std::size_t between = 64;
  const auto ranks = static_cast<std::size_t>(trainer.ranks());
  const std::size_t share = (texts.size() + ranks - 1) / ranks;
  float right = 0;
  for (std::size_t i = 0; i < share; ++i) {
    if (i % between == 0 && !proceed()) return std::nullopt;
    const std::size_t text = i * ranks + static_cast<std::size_t>(trainer.rank());
    if (text < texts.size() && model->is_right(texts[text])) ++right;
  }
  reef::comm::all_reduce(trainer.progress(), "accuracy", std::span(&right, 1));
  return Accuracy{static_cast<std::int64_t>(right), static_cast<std::int64_t>(texts.size())};
}

}  // namespace reef_examples
