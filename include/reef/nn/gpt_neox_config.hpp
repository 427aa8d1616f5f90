#pragma once

#include <cstdint>
#include <filesystem>

#include <reef/nn/rotary_frequencies.hpp>

namespace reef {
inline namespace v0 {
namespace nn {

/// The shape of a GPT-NeoX. The default is Pythia 160M.
///
/// \code
/// const nn::GptNeoxConfig config = nn::read_gpt_neox_config("pythia/config.json");
/// nn::write_gpt_neox_config("mine/config.json", config);
/// \endcode
struct GptNeoxConfig {
  std::int64_t layers = 12;         ///< L
  std::int64_t heads = 12;          ///< H, divides C
  std::int64_t channels = 768;      ///< C
  std::int64_t hidden = 3072;       ///< F, the width of the MLP
  std::int64_t vocabulary = 50304;  ///< V
  std::int64_t context = 2048;      ///< the number of positions that the model is made for
  std::int64_t batch = 1;           ///< B
  std::int64_t sequence = 0;        ///< T, at most the context; 0: the context
  double epsilon = 1e-5;            ///< the epsilon of the norms
  RotaryFrequencies rotary{10000};
  std::int64_t turned = 0;     ///< the columns of a head that positions turn, even; 0: all
  bool parallel = true;        ///< attention and MLP of a layer read the same residual stream
  bool exact_gelu = true;      ///< by the error function; false: by a tanh
  bool attention_bias = true;  ///< query_key_value and the projection behind the attention have a bias
  bool tied = false;           ///< the head is the embedding

  [[nodiscard]] std::int64_t size_of_head() const { return channels / heads; }
  [[nodiscard]] std::int64_t turned_columns() const { return turned == 0 ? size_of_head() : turned; }
  [[nodiscard]] std::int64_t length() const { return sequence == 0 ? context : sequence; }

  /// Throws OptionError, naming the first invalid member.
  void validate() const;

  friend bool operator==(const GptNeoxConfig&, const GptNeoxConfig&) = default;
};

/// Reads the configuration of a GPT-NeoX of Hugging Face, the config.json beside its weights.
///
/// | reads  | model_type, hidden_size, num_hidden_layers, num_attention_heads, intermediate_size, vocab_size,   |
/// |        | max_position_embeddings, layer_norm_eps, rotary_pct or partial_rotary_factor, rotary_emb_base or  |
/// |        | rope_theta, rope_scaling or rope_parameters (default, linear, llama3), use_parallel_residual,     |
/// |        | hidden_act (gelu, gelu_new, gelu_fast, gelu_pytorch_tanh), attention_bias, tie_word_embeddings;   |
/// |        | a missing field has Hugging Face's default, of sizes none                                         |
/// | checks | refuses models that gpt_neox() cannot build: another architecture or activation, other positions, |
/// |        | quantised weights, and fields that change the numbers of other models                             |
/// | errors | FileError if it cannot be read; DecodeError naming the file, and the field or the value that no   |
/// |        | GptNeoxConfig can have                                                                            |
///
/// Dropout is none, as for evaluation: it is no part of the weights.
///
/// Source: huggingface/transformers, models/gpt_neox/configuration_gpt_neox.py, modeling_gpt_neox.py.
GptNeoxConfig read_gpt_neox_config(const std::filesystem::path& path);

/// Writes the config.json of a gpt_neox(), which with the file of write_gpt_neox as model.safetensors is a folder that
/// GPTNeoXForCausalLM.from_pretrained reads. Throws OptionError for an invalid configuration, FileError as AtomicFile does.
void write_gpt_neox_config(const std::filesystem::path& path, const GptNeoxConfig& config);

}  // namespace nn
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/nn/gpt_neox_config.ipp>
#endif
