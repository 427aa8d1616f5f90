#pragma once

#include <cstdint>
#include <filesystem>
#include <variant>

#include <reef/nn/bloom_config.hpp>
#include <reef/nn/class_labels.hpp>
#include <reef/nn/gpt2_config.hpp>
#include <reef/nn/gpt_neox_config.hpp>
#include <reef/nn/llama_config.hpp>
#include <reef/nn/llama_json.hpp>

namespace reef {
inline namespace v0 {
namespace nn {

/// The configuration of a model that nn/ can build: of gpt(), llama(), bloom() or gpt_neox().
using ModelConfig = std::variant<GptConfig, LlamaConfig, BloomConfig, GptNeoxConfig>;

/// The shape of a batch: B sequences of T tokens. T is at most longest_sequence of the model; 0: the model's context.
struct BatchShape {
  std::int64_t batch = 1;
  std::int64_t sequence = 0;
};

/// Reads the configuration of one of Hugging Face's models; the member model_type decides which function reads it.
///
/// | reads  | gpt2, as read_gpt2_config; llama, mistral, qwen2 and qwen3, as read_llama_config;   |
/// |        | bloom, as read_bloom_config; gpt_neox, as read_gpt_neox_config                      |
/// | errors | those of these functions; DecodeError, naming file and type, for another model_type |
///
/// Of a model for sequence classification it reads the same: read_class_labels reads the classes.
///
/// \code
/// const nn::ModelConfig config = nn::read_model_config("model/config.json");
/// nn::write_model_config("mine/config.json", config);
/// \endcode
ModelConfig read_model_config(const std::filesystem::path& path);

/// Writes a config.json as write_gpt2_config, write_llama_config, write_bloom_config or write_gpt_neox_config does.
void write_model_config(const std::filesystem::path& path, const ModelConfig& config);

/// Writes the config.json of a model for sequence classification, a nn::with_class_head: `architectures`, id2label,
/// label2id, pad_token_id and problem_type, beside what the model's own function writes.
///
/// A folder with it and the file of write_weights can be read by AutoModelForSequenceClassification.from_pretrained.
/// Throws OptionError for no class; FileError as AtomicFile does.
void write_model_config(const std::filesystem::path& path, const ModelConfig& config, const ClassLabels& labels);

/// Returns the largest number of tokens of a sequence of the model: its context, or 2^24 for a bloom(), which has no
/// position vectors.
std::int64_t longest_sequence(const ModelConfig& config);

/// Returns the configuration with another batch. Throws OptionError if sequences are longer than longest_sequence.
ModelConfig with_batch(ModelConfig config, const BatchShape& batch);

}  // namespace nn
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/nn/model_config.ipp>
#endif
