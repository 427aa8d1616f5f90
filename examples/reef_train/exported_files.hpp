#pragma once

#include <filesystem>
#include <string>

#include "options.hpp"

// What a folder of Hugging Face's has beside its weights, and --export keeps.

namespace reef_examples {

/// Gives the config.json of --export what that of --init says of tokens: bos_token_id, eos_token_id, pad_token_id and
/// others, null included, without which Hugging Face takes those of the model's class; and `dtype`, that of the weights
/// beside it, as torch_dtype. Throws FileError, DecodeError.
void complete_config(const TrainOptions& options, const std::filesystem::path& config, const std::string& dtype);

/// Copies what lies in the folder of --init into that of --export: generation_config.json, and the files of the
/// tokenizer, if that is the one which was trained with. Files that are there stay. Throws FileError.
void copy_beside_export(const TrainOptions& options);

}  // namespace reef_examples
