#pragma once

#include <cstdint>

#include <reef/nn/rotary_frequencies.hpp>

namespace reef {
inline namespace v0 {
namespace nn {

/// The families of models that llama() can build. They differ in the defaults and the names of fields in config.json.
enum class LlamaFamily : std::uint8_t { llama, mistral, qwen2, qwen3 };

/// The shape of a Llama, or of a model built alike: Mistral, Qwen 2, Qwen 3. The default is Llama 3.2 with 1B.
///
/// \code
/// const nn::LlamaConfig tiny{.layers = 2, .heads = 4, .kv_heads = 2, .channels = 64, .hidden = 176, .vocabulary = 256};
/// tiny.validate();
/// \endcode
struct LlamaConfig {
  static constexpr std::int64_t max_layers = 10'000;

  LlamaFamily family = LlamaFamily::llama;
  std::int64_t layers = 16;          ///< L
  std::int64_t heads = 32;           ///< H, the heads of queries
  std::int64_t kv_heads = 8;         ///< K, the heads of keys and values, divides H; 0: H
  std::int64_t head_size = 0;        ///< D, even; 0: C / H
  std::int64_t channels = 2048;      ///< C
  std::int64_t hidden = 8192;        ///< F, the width of the MLP
  std::int64_t vocabulary = 128256;  ///< V
  std::int64_t context = 131072;     ///< the number of positions that the model is made for
  std::int64_t batch = 1;            ///< B
  std::int64_t sequence = 0;         ///< T, at most the context; 0: the context
  double epsilon = 1e-5;             ///< the epsilon of the norms
  RotaryFrequencies rotary{500000};
  std::int64_t window = 0;       ///< the number of tokens that a token sees, itself included; 0: all before it
  std::int64_t window_from = 0;  ///< the first layer that has a window
  bool query_bias = false;       ///< the projections to queries, keys and values have a bias
  bool output_bias = false;      ///< the projection behind the attention has a bias
  bool mlp_bias = false;
  bool norm_heads = false;  ///< queries and keys are normalised, head by head, before they are turned
  bool tied = true;         ///< the head is the embedding

  [[nodiscard]] std::int64_t heads_of_keys() const { return kv_heads == 0 ? heads : kv_heads; }
  [[nodiscard]] std::int64_t size_of_head() const {
    return head_size == 0 ? channels / heads : head_size;
  }
  [[nodiscard]] std::int64_t length() const { return sequence == 0 ? context : sequence; }

  /// Throws OptionError, naming the first invalid member.
  void validate() const;

  friend bool operator==(const LlamaConfig&, const LlamaConfig&) = default;
};

}  // namespace nn
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/nn/llama_config.ipp>
#endif
