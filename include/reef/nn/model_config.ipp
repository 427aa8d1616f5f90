#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/io/atomic_file.hpp>
#include <reef/io/json.hpp>
#include <reef/nn/class_head.hpp>
#include <reef/nn/detail/config_fields.hpp>
#include <reef/nn/detail/config_limits.hpp>
#include <reef/nn/model_config.hpp>

namespace reef {
inline namespace v0 {
namespace nn {

REEF_INLINE ModelConfig read_model_config(const std::filesystem::path& path) {
  const std::string source = concat("'", path.string(), "'");
  const auto type = io::require<std::string>(io::read_json(path), "model_type", source);
  if (type == "gpt2") return read_gpt2_config(path);
  if (type == "llama" || type == "mistral" || type == "qwen2" || type == "qwen3") return read_llama_config(path);
  if (type == "bloom") return read_bloom_config(path);
  if (type == "gpt_neox") return read_gpt_neox_config(path);
  throw DecodeError("reef::nn: ", source, ": model_type is '", type,
                    "', which is not read.\n  fix: a model of gpt2, llama, mistral, qwen2, qwen3, bloom or gpt_neox.");
}

REEF_INLINE void write_model_config(const std::filesystem::path& path, const ModelConfig& config) {
  if (const auto* const gpt2 = std::get_if<GptConfig>(&config)) return write_gpt2_config(path, *gpt2);
  if (const auto* const bloom = std::get_if<BloomConfig>(&config)) return write_bloom_config(path, *bloom);
  if (const auto* const neox = std::get_if<GptNeoxConfig>(&config)) return write_gpt_neox_config(path, *neox);
  write_llama_config(path, std::get<LlamaConfig>(config));
}

REEF_INLINE void write_model_config(const std::filesystem::path& path, const ModelConfig& config,
                                    const ClassLabels& labels) {
  ClassHead{labels.classes()}.validate();
  io::Json json = std::visit([](const auto& own) { return detail::json_of(own); }, config);
  json["architectures"] =
      io::Json::array({detail::classifier_of(json.at("architectures").at(0).get<std::string>())});
  io::Json id2label = io::Json::object(), label2id = io::Json::object();
  for (std::size_t c = 0; c < labels.names.size(); ++c) {
    id2label[std::to_string(c)] = labels.names[c];
    if (!label2id.contains(labels.names[c])) label2id[labels.names[c]] = c;
  }
  json["id2label"] = std::move(id2label);
  json["label2id"] = std::move(label2id);
  json["pad_token_id"] = labels.pad_token ? io::Json(*labels.pad_token) : io::Json();
  json["problem_type"] = "single_label_classification";
  io::write_atomically(path, json.dump(2) + "\n");
}

REEF_INLINE std::int64_t longest_sequence(const ModelConfig& config) {
  return std::visit(
      [](const auto& own) {
        return std::is_same_v<std::decay_t<decltype(own)>, BloomConfig> ? detail::ConfigLimits::longest : own.context;
      },
      config);
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
