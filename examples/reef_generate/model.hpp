#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/text.hpp>
#include <reef/device/host.hpp>
#include <reef/nn/adapter_file.hpp>
#include <reef/nn/class_head.hpp>
#include <reef/nn/class_labels.hpp>
#include <reef/nn/host.hpp>
#include <reef/nn/input_magnitudes.hpp>
#include <reef/nn/model_folder.hpp>
#include <reef/nn/session.hpp>

#include "../support/ends_of_text.hpp"
#include "../support/tokenizer.hpp"
#include "calibrate.hpp"
#include "options.hpp"

namespace reef_generate {

using Session = reef::nn::Session<reef::device::Host, float>;

/// Returns the number of positions that a model is made for.
inline std::int64_t context_of(const reef::nn::ModelConfig& config) {
  return std::visit([](const auto& own) { return own.context; }, config);
}

/// Returns the number of positions that the soft prompt of --adapter takes before each text; 0 without one.
inline std::int64_t placeholders_of(const Options& options) {
  if (options.adapter.empty()) return 0;
  const reef::nn::Adapter adapter = reef::nn::read_adapter_config(options.adapter);
  const auto* const soft = std::get_if<reef::nn::SoftPrompt>(&adapter);
  return soft == nullptr ? 0 : soft->tokens;
}

/// Returns the classes that the folder of --model tells apart; nothing of a language model.
inline std::optional<reef::nn::ClassLabels> labels_of(const Options& options) {
  return reef::nn::read_class_labels(std::filesystem::path(options.model) / "config.json");
}

/// Returns the number of classes that the head of --adapter tells apart; 0 without one.
inline std::int64_t classes_of_adapter(const Options& options) {
  if (options.adapter.empty()) return 0;
  const reef::nn::Adapter adapter = reef::nn::read_adapter_config(options.adapter);
  const auto* const lora = std::get_if<reef::nn::Lora>(&adapter);
  if (lora == nullptr || !lora->class_head) return 0;
  return std::max<std::int64_t>(
      1, reef::nn::read_adapter_classes(options.adapter));  // read_adapter refuses a file without a head
}

/// Throws OptionError for a token of a text that the model does not have. `text`: what errors call the text.
inline void require_tokens(const reef::nn::ModelConfig& config, std::span<const std::int32_t> tokens,
                           const std::string& text) {
  const std::int64_t vocabulary = std::visit(
      [](const auto& own) {
        if constexpr (requires { own.padded_vocabulary; }) return std::max(own.vocabulary, own.padded_vocabulary);
        return own.vocabulary;
      },
      config);
  for (const std::int32_t token : tokens) {
    if (token < vocabulary) continue;
    throw reef::OptionError(text, " has token ", token, ", but the model has ", vocabulary,
                            ".\n  fix: tokens from 0 to ", vocabulary - 1, ", or the model's own tokenizer.");
  }
}

/// Returns the tokens that end a text, if one is to end at them.
inline std::vector<std::int32_t> ends_of(const Options& options,
                                         const std::optional<reef_examples::Tokenizer>& tokenizer,
                                         std::int64_t vocabulary) {
  if (options.ignore_ends) return {};
  return reef_examples::ends_of_text(options.model, tokenizer, vocabulary);
}

/// Throws OptionError where a prompt with `added` tokens behind it is longer than --context.
inline void require_context(const Options& options, std::int64_t prompt, std::int64_t added) {
  if (options.context == 0 || prompt + added <= options.context) return;
  throw reef::OptionError("a text would have ", prompt + added, " tokens, ", prompt, " of a prompt and ", added,
                          " new ones, but --context is ", options.context,
                          ".\n  fix: more --context, a shorter prompt, or less --new.");
}

/// Returns the number of classes that the head of --adapter, or else that of --model, tells apart; 0 without one.
inline std::int64_t classes_of(const Options& options) {
  const std::int64_t classes = classes_of_adapter(options);
  if (classes > 0) return classes;
  const auto labels = labels_of(options);
  return labels ? labels->classes() : 0;
}

/// Returns how many tokens are added to a prompt where the command line does not say it. Throws OptionError for a prompt
/// that leaves no room for one.
inline std::int64_t room_for_new(const Options& options, std::int64_t prompt) {
  const auto config = reef::nn::read_model_config(std::filesystem::path(options.model) / "config.json");
  const std::int64_t most = options.context != 0 ? options.context : reef::nn::longest_sequence(config) - placeholders_of(options);
  if (prompt < most) return std::min<std::int64_t>(most - prompt, 100);
  throw reef::OptionError("a prompt has ", prompt, " tokens, which leaves no room: a text has at most ", most,
                          ".\n  fix: a shorter prompt", options.context != 0 ? ", or more --context." : ".");
}

/// A folder's model, its weights read.
class Model {
public:
  /// `positions`: of the longest text, a soft prompt's among them; `sequences`: of texts side by side.
  Model(const Options& options, std::int64_t positions, std::int64_t sequences)
      : config_(config_of(options)),
        host_({.threads = options.threads}),
        base_(with_labels(reef::nn::model_of<reef::device::Host, float>(checked(options, config_, positions),
                                                                        host_.threads()),
                          options)),
        graph_(adapted(base_, options)),
        magnitudes_(calibrate(options, host_, graph_, [&](const SetParameter& set) { read_parameters(options, set); })),
        session_(host_, graph_,
                 {.positions = positions, .sequences = sequences, .rows = options.rows, .weights = options.weight_form(),
                  .states = options.state_form(), .outliers = options.outliers_of_form()}) {
    read_parameters(options, [&](const std::string& name, const std::vector<float>& values) {
      session_.set_parameter(name, values, magnitudes_.of(name));
    });
  }

  Session& session() { return session_; }

private:
  /// Returns the configuration of the folder. Throws DecodeError where its weights are of another model.
  static reef::nn::ModelConfig config_of(const Options& options) {
    auto config = reef::nn::read_model_config(std::filesystem::path(options.model) / "config.json");
    reef::nn::require_weights(options.model, config);
    return config;
  }

  /// Reads the weights of the folder, and those of the adapter, if one is named.
  void read_parameters(const Options& options, const SetParameter& set) const {
    std::set<std::string, std::less<>> known;  // a class head stands in the place of that of the language
    for (const reef::graph::Parameter& parameter : graph_.dag().parameters) known.insert(parameter.name);
    const bool other_head = classes_of_adapter(options) > 0;
    reef::nn::read_weights<float>(
        options.model, config_, base_.dag(), [&](const std::string& name, const std::vector<float>& values) {
          if (known.contains(name) && !(other_head && reef::nn::is_of_class_head(name))) set(name, values);
        });
    if (!options.adapter.empty()) {
      reef::nn::read_adapter<float>(options.adapter, graph_.dag(),
                                    [&](std::string_view name, const std::vector<float>& values) {
                                      if (known.contains(name)) set(std::string(name), values);
                                    });
    }
  }

  /// Returns the configuration with a batch of one row. Throws OptionError for more positions than the model has.
  static reef::nn::ModelConfig checked(const Options& options, const reef::nn::ModelConfig& config,
                                       std::int64_t positions) {
    const std::int64_t longest = reef::nn::longest_sequence(config);
    if (positions > longest) {
      const std::string fix = options.context != 0
                                  ? reef::concat("--context ", longest - placeholders_of(options), ", or less.")
                                  : "a shorter prompt, or less --new.";
      throw reef::OptionError("a text would have ", positions, " tokens, but the model is made for ", longest,
                              ".\n  fix: ", fix);
    }
    return reef::nn::with_batch(config, {.batch = 1, .sequence = 1});
  }

  using Graph = reef::graph::Graph<reef::device::Host, float>;

  /// Returns the model with the class head of its folder, if that has one.
  static Graph with_labels(Graph model, const Options& options) {
    const auto labels = labels_of(options);
    return labels ? reef::nn::with_class_head(model, {.classes = labels->classes()}) : std::move(model);
  }

  /// Returns the model with the adapters, and the class head, of a folder, if one is named.
  static Graph adapted(const Graph& model, const Options& options) {
    if (options.adapter.empty()) return model;
    auto result = reef::nn::with_adapter(model, reef::nn::read_adapter_config(options.adapter), options.adapter);
    const std::int64_t classes = classes_of_adapter(options);
    return classes > 0 ? reef::nn::with_class_head(result, {.classes = classes}) : std::move(result);
  }

  reef::nn::ModelConfig config_;
  reef::device::Host host_;
  Graph base_;
  Graph graph_;
  reef::nn::InputMagnitudes magnitudes_;
  Session session_;
};

/// Returns the tokenizer that options name, or that lies in the model's folder; nothing where there is none.
inline std::optional<reef_examples::Tokenizer> tokenizer_of(
    const Options& options, reef_examples::TextUse use = reef_examples::TextUse::prompts) {
  const std::string name =
      options.tokenizer.empty() ? reef_examples::tokenizer_of_folder(options.model) : options.tokenizer;
  if (name.empty()) return std::nullopt;
  return reef_examples::Tokenizer(name, use);
}

/// Throws OptionError that says why a text cannot be read without a tokenizer.
[[noreturn]] inline void refuse_text(const Options& options, const char* what) {
  throw reef::OptionError(what, " needs a tokenizer, and ", reef::in_quotes(options.model),
                          " has neither tokenizer.json, nor vocab.json and merges.txt, nor tokenizer.model.\n"
                          "  fix: --tokenizer, or numbers by --tokens.");
}

}  // namespace reef_generate
