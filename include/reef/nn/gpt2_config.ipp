#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>

#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/io/atomic_file.hpp>
#include <reef/io/json.hpp>
#include <reef/nn/gpt2_config.hpp>

namespace reef {
inline namespace v0 {
namespace nn {

REEF_INLINE GptConfig read_gpt2_config(const std::filesystem::path& path) {
  const io::Json json = io::read_json(path);
  const std::string source = concat("'", path.string(), "'");
  const auto number = [&](const char* field) {
    const auto value = io::require<std::int64_t>(json, field, source);
    if (value >= 1) return value;
    throw DecodeError("reef::nn: ", source, ": ", field, " is ", value, ".\n  fix: at least 1.");
  };
  GptConfig config;
  config.layers = number("n_layer");
  config.heads = number("n_head");
  config.channels = number("n_embd");
  config.context = number("n_positions");
  config.vocabulary = number("vocab_size");
  try {
    config.validate();
  } catch (const OptionError& error) {
    throw DecodeError("reef::nn: ", source, " is of no gpt(): ", error.what());
  }

  const auto expect = [&](bool so, std::string_view field, std::string_view wanted) {
    if (so) return;
    throw DecodeError("reef::nn: ", source, ": ", field, " is not ", wanted,
                      ", which is all that a gpt() knows.\n  fix: give a GPT-2.");
  };
  // Hugging Face writes null for the usual.
  const auto value_or = [&]<class T>(const char* field, T usual) {
    return json.contains(field) && json[field].is_null()
               ? usual
               : io::value_or<T>(json, field, usual, source);
  };
  const auto text = [&](const char* field, const char* usual) {
    return value_or(field, std::string(usual));
  };
  const std::string activation = text("activation_function", "gelu_new");
  expect(text("model_type", "gpt2") == "gpt2", "model_type", "gpt2");
  expect(activation == "gelu_new" || activation == "gelu_pytorch_tanh", "activation_function",
         "gelu_new");
  const std::int64_t inner = 4 * config.channels;
  expect(value_or("n_inner", inner) == inner, "n_inner", "4 n_embd");
  const auto epsilon = value_or("layer_norm_epsilon", 1e-5);
  expect((std::abs)(epsilon - 1e-5) < 1e-9, "layer_norm_epsilon", "1e-5");
  expect(value_or("scale_attn_weights", true), "scale_attn_weights", "true");
  expect(!value_or("scale_attn_by_inverse_layer_idx", false), "scale_attn_by_inverse_layer_idx",
         "false");
  expect(value_or("tie_word_embeddings", true), "tie_word_embeddings", "true");
  return config;
}

namespace detail {

/// Returns what the config.json of a model has.
inline io::Json json_of(const GptConfig& config) {
  config.validate();
  io::Json json{{"architectures", io::Json::array({"GPT2LMHeadModel"})},
                {"model_type", "gpt2"},
                {"activation_function", "gelu_new"},
                {"n_layer", config.layers},
                {"n_head", config.heads},
                {"n_embd", config.channels},
                {"n_positions", config.context},
                {"vocab_size", config.vocabulary},
                {"layer_norm_epsilon", 1e-5},
                {"tie_word_embeddings", true},
                {"embd_pdrop", config.dropout},
                {"attn_pdrop", config.dropout},
                {"resid_pdrop", config.dropout}};
  return json;
}

}  // namespace detail

REEF_INLINE void write_gpt2_config(const std::filesystem::path& path, const GptConfig& config) {
  io::write_atomically(path, detail::json_of(config).dump(2) + "\n");
}

}  // namespace nn
}  // namespace v0
}  // namespace reef
