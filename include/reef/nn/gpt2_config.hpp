#pragma once

#include <filesystem>

#include <reef/core/error.hpp>
#include <reef/nn/gpt.hpp>

namespace reef {
inline namespace v0 {
namespace nn {

/// Reads the configuration of a GPT-2 of Hugging Face, the config.json beside its weights.
///
/// | reads  | n_layer, n_head, n_embd, n_positions, vocab_size                                        |
/// | checks | refuses models that gpt() cannot build: another model_type, architecture, activation,   |
/// |        | width of the MLP, epsilon of the layer norm or scale of attention, an untied head, and  |
/// |        | fields by which other models compute other numbers (quantization_config, ...)           |
/// | errors | FileError if the file cannot be read; DecodeError naming the file, and the field or the |
/// |        | value that no GptConfig can have                                                        |
///
/// Dropout is 0, as for evaluation, since it does not belong to the weights.
///
/// Source: huggingface/transformers, models/gpt2/configuration_gpt2.py.
///
/// \code
/// const nn::GptConfig config = nn::read_gpt2_config("gpt2/config.json");
/// nn::write_gpt2_config("mine/config.json", config);
/// \endcode
GptConfig read_gpt2_config(const std::filesystem::path& path);

/// Writes the config.json of a gpt(). A folder with it and the file of write_gpt2 as model.safetensors
/// can be read by GPT2LMHeadModel.from_pretrained. Throws FileError as AtomicFile does.
void write_gpt2_config(const std::filesystem::path& path, const GptConfig& config);

}  // namespace nn
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/nn/gpt2_config.ipp>
#endif
