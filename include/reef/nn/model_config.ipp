#pragma once

#include <string>
#include <variant>

#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/io/json.hpp>
#include <reef/nn/model_config.hpp>

namespace reef {
inline namespace v0 {
namespace nn {

REEF_INLINE ModelConfig read_model_config(const std::filesystem::path& path) {
  const std::string source = concat("'", path.string(), "'");
  const auto type = io::require<std::string>(io::read_json(path), "model_type", source);
  if (type == "gpt2") return read_gpt2_config(path);
  if (type == "llama" || type == "mistral" || type == "qwen2" || type == "qwen3") return read_llama_config(path);
  throw DecodeError("reef::nn: ", source, ": model_type is '", type,
                    "', which is not read.\n  fix: a model of gpt2, llama, mistral, qwen2 or qwen3.");
}

REEF_INLINE void write_model_config(const std::filesystem::path& path, const ModelConfig& config) {
  if (const auto* const gpt2 = std::get_if<GptConfig>(&config)) return write_gpt2_config(path, *gpt2);
  write_llama_config(path, std::get<LlamaConfig>(config));
}

REEF_INLINE ModelConfig with_batch(ModelConfig config, const BatchShape& batch) {
  std::visit(
      [&](auto& own) {
        own.batch = batch.batch;
        own.sequence = batch.sequence;
        own.validate();
      },
      config);
  return config;
}

}  // namespace nn
}  // namespace v0
}  // namespace reef
