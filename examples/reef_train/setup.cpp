#include "setup.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <variant>

#include <reef/core/error.hpp>
#include <reef/nn/gpt2_config.hpp>
#include <reef/nn/gpt2_file.hpp>
#include <reef/nn/model_config.hpp>

#include "../support/own_text.hpp"
#include "../support/weight_files.hpp"
#include "graph_model.hpp"

namespace reef_examples {

namespace {

/// No tensor says how many heads there are, but what Hugging Face lays beside them does.
void require_heads(const TrainOptions& options, const std::filesystem::path& beside) {
  if (!exists(beside)) return;
  const std::int64_t heads = reef::nn::read_gpt2_config(beside).heads;
  if (heads != options.heads) {
    throw reef::OptionError("--model has ", options.heads, " heads, ", beside.string(), " says ",
                            heads, ".\n  fix: --model LAYERSx", heads, "xCHANNELS.");
  }
}

/// A model's tokens are as many as its config.json says, and its positions, if it has any.
void require_place_for_tokens(const TrainOptions& options, std::int64_t vocabulary) {
  const std::int64_t tokens = std::visit([](const auto& own) { return own.vocabulary; }, *options.given);
  if (vocabulary > tokens) {
    throw reef::OptionError("--tokenizer ", options.tokenizer, " has ", vocabulary, " tokens, but ",
                            options.init, " is of ", tokens,
                            ".\n  fix: the tokenizer that belongs to the model.");
  }
  const std::int64_t longest = reef::nn::longest_sequence(*options.given);
  if (options.context > longest) {
    throw reef::OptionError("--context is ", options.context, ", but ", options.init,
                            " is made for ", longest, " tokens.\n  fix: --context ", longest, ", or less.");
  }
}

/// Found before the training rather than after it: a config.json of something else is not replaced.
void require_place_of_export(const TrainOptions& options, const reef::nn::GptConfig& config) {
  const std::filesystem::path beside = config_beside(options.export_file);
  if (options.export_file.empty() || !exists(beside)) return;
  try {
    const auto labels = reef::nn::read_class_labels(beside);
    if ((labels ? labels->classes() : 0) != options.classes) throw reef::OptionError("other classes");
    if (options.given) {
      if (reef::nn::read_model_config(beside) == *options.given) return;
      throw reef::OptionError("another");
    }
    const reef::nn::GptConfig found = reef::nn::read_gpt2_config(beside);
    if (found.layers == config.layers && found.heads == config.heads &&
        found.channels == config.channels && found.vocabulary == config.vocabulary &&
        found.context == config.context) {
      return;
    }
  } catch (const reef::Error&) {  // not of such a model at all
  }
  throw reef::OptionError("--export writes a config.json beside the weights, but ", beside.string(),
                          " is not of this model.\n  fix: another folder.");
}

}  // namespace

std::vector<std::filesystem::path> files_of(const TrainOptions& options, const Say& say) {
  if (!options.data.empty()) return {options.data.begin(), options.data.end()};
  OwnText text = own_text();
  say("data: " + text.description);
  return std::move(text.files);
}

reef::nn::GptConfig model_config(const TrainOptions& options, std::int64_t vocabulary) {
  reef::nn::GptConfig config;
  config.layers = options.layers;
  config.heads = options.heads;
  config.channels = options.channels;
  config.vocabulary = vocabulary;
  config.padded_vocabulary = (config.vocabulary + 63) / 64 * 64;
  config.context = options.context;
  config.batch = options.samples();
  config.dropout = options.dropout;
  if (options.given) {
    require_place_for_tokens(options, vocabulary);
    config.context = std::max(options.context, std::visit([](const auto& own) { return own.context; }, *options.given));
    config.sequence = options.context;
    config.padded_vocabulary = 0;
  } else if (!options.init.empty()) {
    // All positions that the file has, and no padding: the logits of a trained model can lie far
    // below the zeros that padding gives.
    const reef::nn::GptConfig file = reef::nn::Gpt2File(options.init).config();
    require_heads(options, config_beside(options.init));
    if (options.context > file.context) {
      throw reef::OptionError("--context is ", options.context, ", but ", options.init,
                              " has positions for ", file.context, " tokens.\n  fix: --context ",
                              file.context, ", or less.");
    }
    config.context = file.context;
    config.sequence = options.context;
    config.padded_vocabulary = 0;
    config.bias = file.bias;
  }
  require_place_of_export(options, config);
  require_vocabulary(options, vocabulary);
  return config;
}

std::vector<std::int32_t> prompt_of(const TrainOptions& options, const Tokenizer& tokenizer) {
  if (options.prompt_tokens == 0) return {};
  const std::string text = options.prompt.value_or("\n");
  const bool may_have_special = options.prompt && !tokenizer.is_bytes();
  std::vector<std::int32_t> prompt = may_have_special
                                         ? Tokenizer(options.tokenizer, TextUse::prompts).encode_begin(text)
                                         : tokenizer.encode_begin(text);
  return prompt.empty() ? tokenizer.encode("\n") : prompt;
}

reef::data::TokenView evaluated(const reef::data::TokenView& all, const TrainOptions& options) {
  // One more than targets, which begin with the second.
  const auto wanted = static_cast<std::uint64_t>(options.eval_tokens);
  if (wanted == 0 || wanted >= all.size()) return all;
  return all.part(0, static_cast<std::size_t>(wanted) + 1);
}

std::span<const reef::data::TokenPair> evaluated_pairs(std::span<const reef::data::TokenPair> all, const TrainOptions& options) {
  const auto wanted = static_cast<std::uint64_t>(options.eval_tokens);
  std::uint64_t tokens = 0;
  std::size_t count = 0;
  while (count < all.size() && (wanted == 0 || tokens < wanted)) tokens += all[count++].tokens.size();
  return all.first(count);
}

}  // namespace reef_examples
