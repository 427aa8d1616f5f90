#pragma once

#include <cstdint>
#include <filesystem>

namespace reef {
inline namespace v0 {
namespace nn {

/// The shape of a BLOOM language model. The default is BLOOM 560M.
///
/// \code
/// const nn::BloomConfig config = nn::read_bloom_config("bloom/config.json");
/// nn::write_bloom_config("mine/config.json", config);
/// \endcode
struct BloomConfig {
  std::int64_t layers = 24;          ///< number of layers, L
  std::int64_t heads = 16;           ///< number of attention heads, H, which divides the number of channels C
  std::int64_t channels = 1024;      ///< number of channels (width of the model), C
  std::int64_t vocabulary = 250880;  ///< the number of different tokens, V
  std::int64_t context = 2048;       ///< length of training sequences in tokens; longer sequences are allowed
  std::int64_t batch = 1;            ///< number of sequences in a batch, B
  std::int64_t sequence = 0;         ///< length of the sequences in tokens, T, at most 2^24; 0: the context
  double epsilon = 1e-5;             ///< the number that layer norms add to the variance, epsilon
  bool tied = true;                  ///< true if the output head uses the matrix of the embedding

  [[nodiscard]] std::int64_t length() const { return sequence == 0 ? context : sequence; }

  /// Throws OptionError, naming the first invalid member of the configuration.
  void validate() const;

  friend bool operator==(const BloomConfig&, const BloomConfig&) = default;
};

/// Reads the configuration of one of Hugging Face's BLOOM models, the config.json beside its weights.
///
/// | reads  | model_type, hidden_size or n_embed, n_layer or num_hidden_layers, n_head or num_attention_heads,      |
/// |        | vocab_size, seq_length (2048 where it is missing), layer_norm_epsilon, tie_word_embeddings            |
/// | checks | refuses models that bloom() cannot build: another architecture, residuals that begin behind a norm    |
/// |        | (apply_residual_connection_post_layernorm), products in slices, which omit biases (pretraining_tp     |
/// |        | above 1 with slow_but_exact), and fields of other models that would change results                    |
/// | errors | FileError if the file cannot be read; DecodeError naming the file, and the field or the value that no |
/// |        | BloomConfig can have                                                                                  |
///
/// Dropout is 0, as for evaluation, since it does not belong to the weights.
///
/// Source: huggingface/transformers, models/bloom/configuration_bloom.py, modeling_bloom.py.
BloomConfig read_bloom_config(const std::filesystem::path& path);

/// Writes the config.json of a bloom(). A folder with it and the file of write_bloom as model.safetensors can be read
/// by BloomForCausalLM.from_pretrained. Throws OptionError for an invalid configuration, FileError as AtomicFile does.
void write_bloom_config(const std::filesystem::path& path, const BloomConfig& config);

}  // namespace nn
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/nn/bloom_config.ipp>
#endif
