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
/// | place  | a file, an index of several, or a folder, as SafetensorsFiles                                  |
/// | names  | those of LlamaForCausalLM ("model.layers.0.self_attn.q_proj.weight"), also where a compiled or |
/// |        | wrapped model has written them ("_orig_mod.model..."), or without "model."                     |
/// | head   | of a tied model lm_head.weight may be there and is then the embedding, byte by byte            |
/// | others | rotary_emb.inv_freq, which older files hold, is passed over                                    |
/// | dtypes | F32, F16, BF16 or F64, converted as read_reals does                                            |
/// | errors | FileError and DecodeError as SafetensorsFiles; DecodeError, with file and tensor, for one      |
/// |        | that is missing, unknown, there twice, of another shape, no real numbers, or NaN or            |
/// |        | infinite somewhere, and for an untied head where the model's head is tied                      |
///
/// read(dag, set) calls set(name, values) for each parameter of a llama(), after all errors of the file were found. No tensor
/// holds the model's configuration: read_llama_config reads it.
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

/// Writes the parameters of a llama() to a safetensors file that Hugging Face's class of its family reads.
///
/// values(name) gives a parameter's elements. The head of a tied model is not written.
///
/// | memory | all parameters once                                                     |
/// | errors | OptionError if values(name) gives another number of elements; FileError |
/// |        | as AtomicFile: an older file of that name is unchanged                  |
template <real T, class Values>
void write_llama(const std::filesystem::path& path, const graph::Dag& model, Values&& values) {
  detail::write_model<T>(path, model, "reef::nn::write_llama", std::forward<Values>(values));
}

}  // namespace nn
}  // namespace v0
}  // namespace reef
