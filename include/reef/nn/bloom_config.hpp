#pragma once

#include <cstdint>
#include <filesystem>

namespace reef {
inline namespace v0 {
namespace nn {

/// The shape of a BLOOM. The default is BLOOM 560M.
///
/// \code
/// const nn::BloomConfig config = nn::read_bloom_config("bloom/config.json");
/// nn::write_bloom_config("mine/config.json", config);
/// \endcode
struct BloomConfig {
  std::int64_t layers = 24;          ///< L
  std::int64_t heads = 16;           ///< H, divides C
  std::int64_t channels = 1024;      ///< C
  std::int64_t vocabulary = 250880;  ///< V
  std::int64_t context = 2048;       ///< the number of tokens of sequences in training: more are no error
  std::int64_t batch = 1;            ///< B
  std::int64_t sequence = 0;         ///< T, at most 2^24; 0: the context
  double epsilon = 1e-5;             ///< the epsilon of the norms
  bool tied = true;                  ///< the head is the embedding

  [[nodiscard]] std::int64_t length() const { return sequence == 0 ? context : sequence; }

  /// Throws OptionError, naming the first invalid member.
  void validate() const;

  friend bool operator==(const BloomConfig&, const BloomConfig&) = default;
};

/// Reads the configuration of a BLOOM of Hugging Face, the config.json beside its weights.
///
/// | reads  | model_type, hidden_size or n_embed, n_layer or num_hidden_layers, n_head or num_attention_heads,       |
/// |        | vocab_size, seq_length (2048 where it is missing), layer_norm_epsilon, tie_word_embeddings             |
/// | checks | refuses models that bloom() cannot build: another architecture, residuals that begin behind a norm     |
/// |        | (apply_residual_connection_post_layernorm), products in slices, which leave out biases (pretraining_tp |
/// |        | above 1 with slow_but_exact), and fields that change the numbers of other models                       |
/// | errors | FileError if it cannot be read; DecodeError naming the file, and the field or the value that no        |
/// |        | BloomConfig can have                                                                                   |
///
/// Dropout is none, as for evaluation: it is no part of the weights.
///
/// Source: huggingface/transformers, models/bloom/configuration_bloom.py, modeling_bloom.py.
BloomConfig read_bloom_config(const std::filesystem::path& path);

/// Writes the config.json of a bloom(), which with the file of write_bloom as model.safetensors is a folder that
/// BloomForCausalLM.from_pretrained reads. Throws OptionError for an invalid configuration, FileError as AtomicFile does.
void write_bloom_config(const std::filesystem::path& path, const BloomConfig& config);

}  // namespace nn
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/nn/bloom_config.ipp>
#endif
