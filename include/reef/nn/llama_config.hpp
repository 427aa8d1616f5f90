#pragma once

#include <cstdint>

#include <reef/nn/rotary_frequencies.hpp>

namespace reef {
inline namespace v0 {
namespace nn {

/// The families of models that llama() can build. They differ in the defaults and the names of fields in config.json.
enum class LlamaFamily : std::uint8_t { llama, mistral, qwen2, qwen3 };

/// The shape of a Llama language model, or of one of the same structure: Mistral, Qwen 2, Qwen 3. The default has the
/// sizes of Llama 3.2 1B, but positions that are not scaled, as smaller models have them: Llama 3.2's own `rotary` is
/// {500000, 32, 8192, 1, 4}.
///
/// \code
/// const nn::LlamaConfig tiny{
///     .layers = 2, .heads = 4, .kv_heads = 2, .channels = 64, .hidden = 176, .vocabulary = 256};
/// tiny.validate();
/// \endcode
struct LlamaConfig {
  static constexpr std::int64_t max_layers = 10'000;

  LlamaFamily family = LlamaFamily::llama;
  std::int64_t layers = 16;          ///< number of layers, L
  std::int64_t heads = 32;           ///< number of heads of queries, H
  std::int64_t kv_heads = 8;         ///< number of heads of keys and values, K, which divides H; 0: H
  std::int64_t head_size = 0;        ///< number of columns of a head, D, even; 0: C / H
  std::int64_t channels = 2048;      ///< number of channels (width of the model), C
  std::int64_t hidden = 8192;        ///< the width of the MLP, F
  std::int64_t vocabulary = 128256;  ///< the number of different tokens, V
  std::int64_t context = 131072;     ///< largest number of positions (tokens of a sequence) of the model
  std::int64_t batch = 1;            ///< number of sequences in a batch, B
  std::int64_t sequence = 0;         ///< length of the sequences in tokens, T, at most the context; 0: the context
  double epsilon = 1e-5;             ///< the number that norms add to the mean of squares, epsilon
  RotaryFrequencies rotary{500000};  ///< the frequencies by which positions turn queries and keys
  /// The number of tokens to which a token attends, itself included (sliding window); 0: all up to itself.
  std::int64_t window = 0;
  std::int64_t window_from = 0;  ///< index of the first layer with the sliding window
  bool query_bias = false;       ///< true if the projections to queries, keys and values have a bias
  bool output_bias = false;      ///< true if the projection behind the attention has a bias
  bool mlp_bias = false;         ///< true if the three projections of the MLP have a bias
  bool norm_heads = false;  ///< true if each head's queries and keys are normalised before rotary positions turn them
  bool tied = true;         ///< true if the output head uses the matrix of the embedding

  [[nodiscard]] std::int64_t heads_of_keys() const { return kv_heads == 0 ? heads : kv_heads; }
  [[nodiscard]] std::int64_t size_of_head() const {
    return head_size == 0 ? channels / heads : head_size;
  }
  [[nodiscard]] std::int64_t length() const { return sequence == 0 ? context : sequence; }

  /// Throws OptionError, naming the first invalid member of the configuration.
  void validate() const;

  friend bool operator==(const LlamaConfig&, const LlamaConfig&) = default;
};

}  // namespace nn
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/nn/llama_config.ipp>
#endif
