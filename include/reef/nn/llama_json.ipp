#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/io/atomic_file.hpp>
#include <reef/io/json.hpp>
#include <reef/nn/detail/config_fields.hpp>
#include <reef/nn/llama_config.hpp>
#include <reef/nn/llama_json.hpp>

namespace reef {
inline namespace v0 {
namespace nn {

namespace detail {

/// A family as a config.json names it, and what Hugging Face takes for it where a field is left out.
struct LlamaFamilyFacts {
  LlamaFamily family;
  std::string_view model_type;
  std::string_view architecture;
  std::int64_t kv_heads;   // 0: as many as of queries
  std::int64_t head_size;  // 0: C / H
  std::int64_t window;
};
inline constexpr std::array<LlamaFamilyFacts, 4> llama_families{
    {{LlamaFamily::llama, "llama", "LlamaForCausalLM", 0, 0, 0},
     {LlamaFamily::mistral, "mistral", "MistralForCausalLM", 8, 0, 4096},
     {LlamaFamily::qwen2, "qwen2", "Qwen2ForCausalLM", 32, 0, 4096},
     {LlamaFamily::qwen3, "qwen3", "Qwen3ForCausalLM", 32, 128, 4096}}};

/// The family by model_type; of architectures, where they are given, its own must be one.
inline const LlamaFamilyFacts& llama_family(const ConfigFields& fields) {
  const auto type = fields.value<std::string>("model_type");
  const auto facts = std::ranges::find(llama_families, type, &LlamaFamilyFacts::model_type);
  if (facts == llama_families.end()) {
    fields.refuse("model_type", concat("'", type, "'"), "give a llama, mistral, qwen2 or qwen3");
  }
  fields.require_architecture(facts->architecture);
  return *facts;
}

/// From rope_theta and rope_scaling, or, as newer versions write them, from rope_parameters.
inline RotaryFrequencies llama_rotary(const ConfigFields& fields) {
  const auto require_whole = [&](const std::string& field) {
    if (fields.value_or<double>(field, 1) != 1) fields.refuse(field, "not 1", "give a model that turns whole heads");
  };
  require_whole("partial_rotary_factor");
  if (const std::string place = place_of_rotary(fields); fields.has(place))
    require_whole(place + ".partial_rotary_factor");
  return read_rotary(fields, "rope_theta", RotaryFrequencies{}.theta);
}

/// Which layers see a window, and of which size: layers from one on, or none.
inline void read_llama_window(const ConfigFields& fields, const LlamaFamilyFacts& facts, LlamaConfig& config) {
  if (facts.family == LlamaFamily::llama) return;
  const bool qwen = facts.family != LlamaFamily::mistral;
  config.window = fields.value_or<std::int64_t>("sliding_window", fields.is_null("sliding_window") ? 0 : facts.window);
  if (qwen && !fields.value_or("use_sliding_window", false)) config.window = 0;
  if (config.window != 0 && config.window < 1)
    fields.refuse("sliding_window", concat(config.window), "at least 1, or null");
  const auto from = qwen ? fields.value_or<std::int64_t>("max_window_layers", 28) : 0;
  if (config.window != 0) config.window_from = from;
}

/// Refuses layer_types, where they are given, that are not those of the configuration's layers.
inline void require_layer_types(const ConfigFields& fields, const LlamaConfig& config) {
  if (!fields.has("layer_types")) return;
  const auto types = fields.value<std::vector<std::string>>("layer_types");
  if (static_cast<std::int64_t>(types.size()) != config.layers) {
    fields.refuse("layer_types", concat("of ", types.size(), " layers, and num_hidden_layers ", config.layers),
                  "one type for each layer");
  }
  for (std::size_t layer = 0; layer < types.size(); ++layer) {
    const bool sees_all = config.window == 0 || static_cast<std::int64_t>(layer) < config.window_from;
    const char* const expected = sees_all ? "full_attention" : "sliding_attention";
    if (types[layer] == expected) continue;
    fields.refuse(concat("layer_types.", layer), concat("'", types[layer], "'"),
                  "give a model whose layers see a window from max_window_layers on, or none");
  }
}

/// Fields of other models, and another activation.
inline void refuse_other_llamas(const ConfigFields& fields) {
  fields.refuse_fields_of_others();
  fields.refuse_each({"use_parallel_residual", "rotary_pct"});
  const auto activation = fields.value_or<std::string>("hidden_act", "silu");
  if (activation != "silu" && activation != "swish") {
    fields.refuse("hidden_act", concat("'", activation, "'"), "give a model of 'silu'");
  }
}

}  // namespace detail

REEF_INLINE LlamaConfig read_llama_config(const std::filesystem::path& path) {
  const detail::ConfigFields fields(io::read_json(path), concat("'", path.string(), "'"), "llama()");
  const detail::LlamaFamilyFacts& facts = detail::llama_family(fields);
  detail::refuse_other_llamas(fields);
  LlamaConfig config;
  config.family = facts.family;
  config.layers = fields.positive("num_hidden_layers");
  config.heads = fields.positive("num_attention_heads");
  const bool own_keys = facts.kv_heads == 0 || fields.is_null("num_key_value_heads");
  config.kv_heads = fields.positive_or("num_key_value_heads", own_keys ? config.heads : facts.kv_heads);
  config.channels = fields.positive("hidden_size");
  const bool whole_heads = config.channels % config.heads == 0;
  config.head_size = fields.positive_or("head_dim", facts.head_size != 0 ? facts.head_size
                                                    : whole_heads        ? config.channels / config.heads
                                                                         : 0);
  config.hidden = fields.positive("intermediate_size");
  config.vocabulary = fields.positive("vocab_size");
  config.context = fields.positive("max_position_embeddings");
  config.epsilon = fields.value_or("rms_norm_eps", 1e-6);
  config.rotary = detail::llama_rotary(fields);
  detail::read_llama_window(fields, facts, config);
  detail::require_layer_types(fields, config);
  const bool biases = facts.family != LlamaFamily::mistral && fields.value_or("attention_bias", false);
  config.query_bias = biases || facts.family == LlamaFamily::qwen2;
  config.output_bias = biases && facts.family != LlamaFamily::qwen2;
  config.mlp_bias = facts.family == LlamaFamily::llama && fields.value_or("mlp_bias", false);
  config.norm_heads = facts.family == LlamaFamily::qwen3;
  config.tied = fields.value_or("tie_word_embeddings", false);
  return fields.valid(config);
}

namespace detail {

/// Returns what the config.json of a model has.
inline io::Json json_of(const LlamaConfig& config) {
  config.validate();
  const LlamaFamilyFacts& facts = llama_families.at(static_cast<std::size_t>(config.family));
  const bool qwen2 = config.family == LlamaFamily::qwen2;
  const bool qwen = qwen2 || config.family == LlamaFamily::qwen3;
  const bool llama = config.family == LlamaFamily::llama;
  const bool mistral = config.family == LlamaFamily::mistral;
  const auto require_that = [&](bool fits, const char* member) {
    if (fits) return;
    throw OptionError("reef::nn::write_llama_config: no ", facts.model_type, " of Hugging Face has such a ", member,
                      ".\n  fix: another family, or what its models have.");
  };
  require_that(qwen2 ? config.query_bias : !mistral || !config.query_bias, "query_bias");
  require_that(config.output_bias == (config.query_bias && !qwen2), "output_bias");
  require_that(llama || !config.mlp_bias, "mlp_bias");
  require_that(config.norm_heads == (config.family == LlamaFamily::qwen3), "norm_heads");
  require_that(!llama || config.window == 0, "window");
  require_that(qwen || config.window_from == 0, "window_from");
  io::Json json{{"architectures", io::Json::array({facts.architecture})},
                {"model_type", facts.model_type},
                {"hidden_act", "silu"},
                {"num_hidden_layers", config.layers},
                {"num_attention_heads", config.heads},
                {"num_key_value_heads", config.heads_of_keys()},
                {"head_dim", config.size_of_head()},
                {"hidden_size", config.channels},
                {"intermediate_size", config.hidden},
                {"vocab_size", config.vocabulary},
                {"max_position_embeddings", config.context},
                {"rms_norm_eps", config.epsilon},
                {"rope_theta", config.rotary.theta},
                {"attention_bias", config.query_bias && !qwen2},
                {"tie_word_embeddings", config.tied}};
  write_rotary_scaling(json, config.rotary);
  if (llama) json["mlp_bias"] = config.mlp_bias;
  if (!llama) json["sliding_window"] = config.window == 0 ? io::Json() : io::Json(config.window);
  if (qwen) json["use_sliding_window"] = config.window != 0;
  if (qwen && config.window != 0) json["max_window_layers"] = config.window_from;
  return json;
}

}  // namespace detail

REEF_INLINE void write_llama_config(const std::filesystem::path& path, const LlamaConfig& config) {
  io::write_atomically(path, detail::json_of(config).dump(2) + "\n");
}

}  // namespace nn
}  // namespace v0
}  // namespace reef
