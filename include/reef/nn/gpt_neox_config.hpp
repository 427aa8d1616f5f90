#pragma once

#include <cstdint>
#include <filesystem>

#include <reef/nn/rotary_frequencies.hpp>

namespace reef {
inline namespace v0 {
namespace nn {

/// The shape of a GPT-NeoX language model. The default has the sizes of Pythia 160M, but positions turn all columns of
/// a head, however many a head has: Pythia's own `turned` is 16.
///
/// \code
/// const nn::GptNeoxConfig config = nn::read_gpt_neox_config("pythia/config.json");
/// nn::write_gpt_neox_config("mine/config.json", config);
/// \endcode
struct GptNeoxConfig {
  std::int64_t layers = 12;         ///< number of layers, L
  std::int64_t heads = 12;          ///< number of attention heads, H, which divides the number of channels C
  std::int64_t channels = 768;      ///< number of channels (width of the model), C
  std::int64_t hidden = 3072;       ///< the width of the MLP, F
  std::int64_t vocabulary = 50304;  ///< the number of different tokens, V
  std::int64_t context = 2048;      ///< largest number of positions (tokens of a sequence) of the model
  std::int64_t batch = 1;           ///< number of sequences in a batch, B
  std::int64_t sequence = 0;        ///< length of the sequences in tokens, T, at most the context; 0: the context
  double epsilon = 1e-5;            ///< the number that layer norms add to the variance, epsilon
  RotaryFrequencies rotary{10000};  ///< the frequencies by which positions turn queries and keys
  std::int64_t turned = 0;     ///< number of columns of a head that rotary positions turn, even; 0: all
  bool parallel = true;        ///< true if attention and MLP of a layer read the same residual stream
  bool exact_gelu = true;      ///< true: GELU by the error function; false: by a tanh
  bool attention_bias = true;  ///< true if query_key_value and the projection behind the attention have a bias
  bool tied = false;           ///< true if the output head uses the matrix of the embedding

  [[nodiscard]] std::int64_t size_of_head() const { return channels / heads; }
  [[nodiscard]] std::int64_t turned_columns() const { return turned == 0 ? size_of_head() : turned; }
  [[nodiscard]] std::int64_t length() const { return sequence == 0 ? context : sequence; }

  /// Throws OptionError, naming the first invalid member of the configuration.
  void validate() const;

  friend bool operator==(const GptNeoxConfig&, const GptNeoxConfig&) = default;
};

/// Reads the configuration of one of Hugging Face's GPT-NeoX models, the config.json beside its weights.
///
/// | reads  | model_type, hidden_size, num_hidden_layers, num_attention_heads, intermediate_size, vocab_size,   |
/// |        | max_position_embeddings, layer_norm_eps, rotary_pct or partial_rotary_factor, rotary_emb_base or  |
/// |        | rope_theta, rope_scaling or rope_parameters (default, linear, llama3), use_parallel_residual,     |
/// |        | hidden_act (gelu, gelu_new, gelu_fast, gelu_pytorch_tanh), attention_bias, tie_word_embeddings;   |
/// |        | if a field is missing, Hugging Face's default; sizes have no default                              |
/// | checks | refuses models that gpt_neox() cannot build: another architecture or activation, other positions, |
/// |        | quantised weights, and fields of other models that would change results                           |
/// | errors | FileError if the file cannot be read; DecodeError naming the file, and the field or the value     |
/// |        | that no GptNeoxConfig can have                                                                    |
///
/// Dropout is 0, as for evaluation, since it does not belong to the weights.
///
/// Source: huggingface/transformers, models/gpt_neox/configuration_gpt_neox.py, modeling_gpt_neox.py.
GptNeoxConfig read_gpt_neox_config(const std::filesystem::path& path);

/// Writes the config.json of a gpt_neox(). A folder with it and the file of write_gpt_neox as model.safetensors can be
/// read by GPTNeoXForCausalLM.from_pretrained. Throws OptionError for an invalid configuration, FileError as AtomicFile
/// does.
void write_gpt_neox_config(const std::filesystem::path& path, const GptNeoxConfig& config);

}  // namespace nn
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/nn/gpt_neox_config.ipp>
#endif
