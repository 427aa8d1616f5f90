#pragma once

#include <filesystem>

#include <reef/nn/llama_config.hpp>

namespace reef {
inline namespace v0 {
namespace nn {

/// Reads the configuration of one of Hugging Face's Llama, Mistral, Qwen 2 or Qwen 3 models, the config.json beside its
/// weights.
///
/// | reads  | model_type, hidden_size, num_hidden_layers, num_attention_heads, num_key_value_heads, head_dim,    |
/// |        | intermediate_size, vocab_size, max_position_embeddings, rms_norm_eps, rope_theta, rope_scaling or  |
/// |        | rope_parameters (default, linear, llama3), attention_bias, mlp_bias, sliding_window and the layers |
/// |        | that have it, tie_word_embeddings; a missing field has Hugging Face's default for the family       |
/// | checks | refuses models that llama() cannot build: another architecture or activation, other positions,     |
/// |        | quantised weights, and fields of other models that would change results                            |
/// | errors | FileError if the file cannot be read; DecodeError naming the file, and the field or the value that |
/// |        | no LlamaConfig can have                                                                            |
///
/// Dropout is 0, as for evaluation, since it does not belong to the weights.
///
/// Source: huggingface/transformers, models/{llama,mistral,qwen2,qwen3}/configuration_*.py, modeling_rope_utils.py.
///
/// \code
/// const nn::LlamaConfig config = nn::read_llama_config("llama/config.json");
/// nn::write_llama_config("mine/config.json", config);
/// \endcode
LlamaConfig read_llama_config(const std::filesystem::path& path);

/// Writes the config.json of a llama(). A folder with it and the file of write_llama as model.safetensors can be read
/// by AutoModelForCausalLM.from_pretrained. Throws OptionError for a setting that no model of the family has, such as a
/// Llama with normalised heads, and FileError as AtomicFile does.
void write_llama_config(const std::filesystem::path& path, const LlamaConfig& config);

}  // namespace nn
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/nn/llama_json.ipp>
#endif
