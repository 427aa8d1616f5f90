#pragma once

#include <cstdint>

#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/io/atomic_file.hpp>
#include <reef/io/json.hpp>
#include <reef/nn/bloom_config.hpp>
#include <reef/nn/detail/config_fields.hpp>
#include <reef/nn/detail/config_limits.hpp>

namespace reef {
inline namespace v0 {
namespace nn {

REEF_INLINE void BloomConfig::validate() const {
  const detail::ConfigLimits limits("BloomConfig");
  limits.require_sizes(*this);
  limits.require_range(channels % heads == 0, "channels", channels, "a multiple of heads");
  limits.require_batch(*this, detail::ConfigLimits::longest, "at most 2^24");
}

REEF_INLINE BloomConfig read_bloom_config(const std::filesystem::path& path) {
  const detail::ConfigFields fields(io::read_json(path), concat("'", path.string(), "'"), "bloom()");
  fields.require_type("bloom");
  fields.require_architecture("BloomForCausalLM");
  fields.refuse_fields_of_others();
  constexpr const char* behind_norm = "apply_residual_connection_post_layernorm";
  if (fields.value_or(behind_norm, false)) fields.refuse(behind_norm);
  if (fields.value_or("slow_but_exact", false) && fields.positive_or("pretraining_tp", 1) > 1) {
    fields.refuse("pretraining_tp", concat(fields.positive("pretraining_tp"), " with slow_but_exact"),
                  "slow_but_exact: false");
  }
  BloomConfig config;
  config.layers = fields.positive_of("n_layer", "num_hidden_layers");
  config.heads = fields.positive_of("n_head", "num_attention_heads");
  config.channels = fields.positive_of("n_embed", "hidden_size");
  if (fields.has("n_inner")) {
    const std::int64_t inner = fields.positive("n_inner");
    if (inner % 4 != 0 || inner / 4 != config.channels) {
      fields.refuse("n_inner", concat(inner), "null, or 4 times the channels");
    }
  }
  config.vocabulary = fields.positive("vocab_size");
  config.context = fields.positive_or("seq_length", 2048);
  config.epsilon = fields.value_or("layer_norm_epsilon", 1e-5);
  config.tied = fields.value_or("tie_word_embeddings", true);
  return fields.valid(config);
}

namespace detail {

/// Returns what the config.json of a model has.
inline io::Json json_of(const BloomConfig& config) {
  config.validate();
  io::Json json{{"architectures", io::Json::array({"BloomForCausalLM"})},
                {"model_type", "bloom"},
                {"n_layer", config.layers},
                {"n_head", config.heads},
                {"hidden_size", config.channels},
                {"vocab_size", config.vocabulary},
                {"seq_length", config.context},
                {"layer_norm_epsilon", config.epsilon},
                {"tie_word_embeddings", config.tied}};
  return json;
}

}  // namespace detail

REEF_INLINE void write_bloom_config(const std::filesystem::path& path, const BloomConfig& config) {
  io::write_atomically(path, detail::json_of(config).dump(2) + "\n");
}

}  // namespace nn
}  // namespace v0
}  // namespace reef
