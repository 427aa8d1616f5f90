#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>

#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/io/atomic_file.hpp>
#include <reef/io/json.hpp>
#include <reef/nn/detail/config_fields.hpp>
#include <reef/nn/gpt2_config.hpp>

namespace reef {
inline namespace v0 {
namespace nn {

REEF_INLINE GptConfig read_gpt2_config(const std::filesystem::path& path) {
  const std::string source = concat("'", path.string(), "'");
  const detail::ConfigFields fields(io::read_json(path), source, "gpt()");
  GptConfig config;
  config.layers = fields.positive("n_layer");
  config.heads = fields.positive("n_head");
  config.channels = fields.positive("n_embd");
  config.context = fields.positive("n_positions");
  config.vocabulary = fields.positive("vocab_size");

  const auto expect = [&](bool so, std::string_view field, const std::string& found, std::string_view wanted) {
    if (so) return;
    throw DecodeError("reef::nn: ", source, ": ", field, " is ", found, ", not ", wanted,
                      ", which is all that a gpt() knows.\n  fix: give a GPT-2.");
  };
  const auto expect_text = [&](const char* field, std::string_view wanted, std::string_view other) {
    const auto found = fields.value_or<std::string>(field, std::string(wanted));
    expect(found == wanted || found == other, field, in_quotes(found, 100), wanted);
  };
  const auto expect_choice = [&](const char* field, bool wanted) {
    expect(fields.value_or(field, wanted) == wanted, field, wanted ? "false" : "true", wanted ? "true" : "false");
  };
  expect_text("model_type", "gpt2", "gpt2");
  fields.require_architecture("GPT2LMHeadModel");
  fields.refuse_fields_of_others();
  expect_text("activation_function", "gelu_new", "gelu_pytorch_tanh");
  if (fields.has("n_inner")) {
    const auto inner = fields.value<std::int64_t>("n_inner");
    expect(inner % 4 == 0 && inner / 4 == config.channels, "n_inner", concat(inner), "4 n_embd");
  }
  const auto epsilon = fields.value_or("layer_norm_epsilon", 1e-5);
  expect((std::abs)(epsilon - 1e-5) < 1e-9, "layer_norm_epsilon", concat(epsilon), "1e-5");
  expect_choice("scale_attn_weights", true);
  expect_choice("scale_attn_by_inverse_layer_idx", false);
  expect_choice("tie_word_embeddings", true);
  return fields.valid(config);
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
