#pragma once

#include <filesystem>
#include <utility>

#include <reef/core/element.hpp>
#include <reef/graph/dag.hpp>
#include <reef/nn/detail/model_file.hpp>

namespace reef {
inline namespace v0 {
namespace nn {

/// The weights of a Llama, Mistral, Qwen 2 or Qwen 3 in safetensors files with Hugging Face's names, open for reading.
///
/// | place  | a file, an index of several files, or a folder, as for SafetensorsFiles                        |
/// | names  | those of LlamaForCausalLM ("model.layers.0.self_attn.q_proj.weight"), also with the prefix     |
/// |        | that a compiled or wrapped model adds ("_orig_mod.model..."), or without "model."              |
/// | head   | lm_head.weight of a tied model may exist, and then equals the embedding, byte by byte          |
/// | class  | score.weight, of a model with a class head; such a file needs no lm_head.weight                |
/// | others | rotary_emb.inv_freq, which older files hold, is ignored                                        |
/// | dtypes | F32, F16, BF16 or F64, converted as read_reals does                                            |
/// | errors | FileError and DecodeError as SafetensorsFiles; DecodeError, with file and tensor, for a tensor |
/// |        | that is missing, unknown, duplicate, of another shape, not of real numbers, or with a NaN or   |
/// |        | infinity, and for an untied head if the model's head is tied                                   |
///
/// read(dag, set) calls set(name, values) for each parameter of a llama(), once all errors of the file have been found.
/// No tensor states the model's configuration: read_llama_config reads it.
///
/// \code
/// #include <reef/nn/llama.hpp>
/// #include <reef/nn/llama_json.hpp>
/// const nn::LlamaConfig config = nn::read_llama_config("llama/config.json");
/// const auto model = nn::llama<device::Host, float>(config);
/// std::map<std::string, std::vector<float>> weights;
/// nn::LlamaFile("llama").read<float>(
///     model.dag(), [&](const auto& name, const auto& values) { weights[name] = values; });
/// \endcode
class LlamaFile : public detail::ModelFile {
public:
  explicit LlamaFile(const std::filesystem::path& path)
      : ModelFile(path, {"Llama", "lm_head.weight", "embed_tokens.weight", {"rotary_emb.inv_freq"}}) {}
};

/// Writes the parameters of a llama() to a safetensors file that Hugging Face's class for its family reads.
///
/// values(name) returns a parameter's elements. The head of a tied model is not written.
///
/// | memory | all parameters once                                                                      |
/// | errors | OptionError if values(name) returns another number of elements; FileError as AtomicFile: |
/// |        | an older file of that name is unchanged                                                  |
template <real T, class Values>
void write_llama(const std::filesystem::path& path, const graph::Dag& model, Values&& values) {
  detail::write_model<T>(path, model, "reef::nn::write_llama", std::forward<Values>(values));
}

}  // namespace nn
}  // namespace v0
}  // namespace reef
