#pragma once

#include <cmath>
#include <cstdint>
#include <string>

#include <reef/core/finite.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/io/atomic_file.hpp>
#include <reef/io/json.hpp>
#include <reef/nn/detail/config_fields.hpp>
#include <reef/nn/detail/config_limits.hpp>
#include <reef/nn/gpt_neox_config.hpp>

namespace reef {
inline namespace v0 {
namespace nn {

namespace detail {

/// Returns the columns of a head of D that a part of it turns, as Hugging Face rounds: down.
inline std::int64_t turned_of(std::int64_t D, double part) {
  return static_cast<std::int64_t>(static_cast<double>(D) * part);
}

/// Returns the part of a head of D of which so many columns are turned.
inline double part_of(std::int64_t D, std::int64_t turned) {
  const double part = static_cast<double>(turned) / static_cast<double>(D);
  return turned_of(D, part) == turned ? part : std::nextafter(part, 1.0);
}

/// Reads which columns of a head of D are turned; 0: all.
inline std::int64_t read_turned(const ConfigFields& fields, std::int64_t D) {
  const std::string place = place_of_rotary(fields);
  std::string field = fields.has("partial_rotary_factor") ? "partial_rotary_factor" : "rotary_pct";
  const std::string within = place + ".partial_rotary_factor";
  fields.require_same(field.c_str(), "rotary_pct");
  if (fields.has(place) && fields.value_or<double>(within, 0) != 0) {
    const auto part = fields.value<double>(within);
    if (fields.has(field) && fields.value<double>(field) != part) {
      fields.refuse(field, concat(fields.value<double>(field), ", and ", within, " is ", part), "one of them");
    }
    field = within;
  }
  const double part = fields.value_or<double>(field, 0.25);
  if (!(is_finite(part) && part > 0 && part <= 1)) fields.refuse(field, concat(part), "above 0, and at most 1");
  const std::int64_t turned = turned_of(D, part);
  if (turned < 2 || turned % 2 != 0) {
    fields.refuse(field, concat(part, ", ", turned, " of ", D, " columns of a head"),
                  "an even number of columns: positions turn pairs");
  }
  return turned == D ? 0 : turned;
}

/// Reads frequencies from rotary_emb_base or rope_theta. Refuses two that differ.
inline RotaryFrequencies read_neox_rotary(const ConfigFields& fields) {
  const bool is_old = fields.has("rotary_emb_base");
  if (is_old && fields.has("rope_theta") &&
      fields.value<double>("rope_theta") != fields.value<double>("rotary_emb_base")) {
    fields.refuse("rope_theta", concat(fields.value<double>("rope_theta"), ", and rotary_emb_base another"),
                  "one of them");
  }
  return read_rotary(fields, is_old ? "rotary_emb_base" : "rope_theta", 10000);
}

/// Reads whether the activation is by the error function.
inline bool read_exact_gelu(const ConfigFields& fields) {
  const auto activation = fields.value_or<std::string>("hidden_act", "gelu");
  if (activation == "gelu") return true;
  if (activation == "gelu_new" || activation == "gelu_fast" || activation == "gelu_pytorch_tanh") return false;
  fields.refuse("hidden_act", concat("'", activation, "'"), "give a model of 'gelu', 'gelu_new' or 'gelu_fast'");
}

}  // namespace detail

REEF_INLINE void GptNeoxConfig::validate() const {
  const detail::ConfigLimits limits("GptNeoxConfig");
  limits.require_sizes(*this);
  limits.require_range(channels % heads == 0, "channels", channels, "a multiple of heads");
  limits.require_range(turned >= 0 && turned <= size_of_head(), "turned", turned,
                       "at most the columns of a head, or 0 for all");
  limits.require_range(turned_columns() >= 2 && turned_columns() % 2 == 0, "turned", turned_columns(),
                 "an even number: positions turn pairs");
  limits.width("hidden", hidden);
  limits.require_batch(*this, context, "at most the context");
  limits.require_rotary(rotary);
}

REEF_INLINE GptNeoxConfig read_gpt_neox_config(const std::filesystem::path& path) {
  const detail::ConfigFields fields(io::read_json(path), concat("'", path.string(), "'"), "gpt_neox()");
  fields.require_type("gpt_neox");
  fields.require_architecture("GPTNeoXForCausalLM");
  fields.refuse_fields_of_others();
  GptNeoxConfig config;
  config.layers = fields.positive("num_hidden_layers");
  config.heads = fields.positive("num_attention_heads");
  config.channels = fields.positive("hidden_size");
  config.hidden = fields.positive("intermediate_size");
  config.vocabulary = fields.positive("vocab_size");
  config.context = fields.positive("max_position_embeddings");
  config.epsilon = fields.value_or("layer_norm_eps", 1e-5);
  config.rotary = detail::read_neox_rotary(fields);
  if (config.channels % config.heads == 0) config.turned = detail::read_turned(fields, config.size_of_head());
  config.parallel = fields.value_or("use_parallel_residual", true);
  config.exact_gelu = detail::read_exact_gelu(fields);
  config.attention_bias = fields.value_or("attention_bias", true);
  config.tied = fields.value_or("tie_word_embeddings", false);
  return fields.valid(config);
}

namespace detail {

/// Returns what the config.json of a model has.
inline io::Json json_of(const GptNeoxConfig& config) {
  config.validate();
  io::Json json{{"architectures", io::Json::array({"GPTNeoXForCausalLM"})},
                {"model_type", "gpt_neox"},
                {"hidden_act", config.exact_gelu ? "gelu" : "gelu_new"},
                {"num_hidden_layers", config.layers},
                {"num_attention_heads", config.heads},
                {"hidden_size", config.channels},
                {"intermediate_size", config.hidden},
                {"vocab_size", config.vocabulary},
                {"max_position_embeddings", config.context},
                {"layer_norm_eps", config.epsilon},
                {"rotary_pct", part_of(config.size_of_head(), config.turned_columns())},
                {"rotary_emb_base", config.rotary.theta},
                {"use_parallel_residual", config.parallel},
                {"attention_bias", config.attention_bias},
                {"tie_word_embeddings", config.tied}};
  write_rotary_scaling(json, config.rotary);
  return json;
}

}  // namespace detail

REEF_INLINE void write_gpt_neox_config(const std::filesystem::path& path, const GptNeoxConfig& config) {
  io::write_atomically(path, detail::json_of(config).dump(2) + "\n");
}

}  // namespace nn
}  // namespace v0
}  // namespace reef
