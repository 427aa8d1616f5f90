#pragma once

#include <filesystem>
#include <utility>

#include <reef/core/element.hpp>
#include <reef/graph/dag.hpp>
#include <reef/nn/detail/model_file.hpp>

namespace reef {
inline namespace v0 {
namespace nn {

/// The weights of a GPT-NeoX in safetensors files with Hugging Face's names, open for reading.
///
/// | place  | a file, an index of several files, or a folder, as for SafetensorsFiles                        |
/// | names  | those of GPTNeoXForCausalLM ("gpt_neox.layers.0.attention.dense.weight"), also with the prefix |
/// |        | that a compiled or wrapped model adds ("_orig_mod.gpt_neox..."), or without "gpt_neox."        |
/// | head   | embed_out.weight of a tied model may exist, and then equals the embedding, byte by byte        |
/// | class  | score.weight, of a model with a class head; such a file needs no embed_out.weight              |
/// | others | attention.bias, attention.masked_bias and rotary_emb.inv_freq, masks and frequencies in older  |
/// |        | files, are ignored                                                                             |
/// | dtypes | F32, F16, BF16 or F64, converted as read_reals does                                            |
/// | errors | FileError and DecodeError as SafetensorsFiles; DecodeError, with file and tensor, for a tensor |
/// |        | that is missing, unknown, duplicate, of another shape, not of real numbers, or with a NaN or   |
/// |        | infinity, and for an untied head if the model's head is tied                                   |
///
/// read(dag, set) calls set(name, values) for each parameter of a gpt_neox(), once all errors of the file have been
/// found. No tensor states the model's configuration: read_gpt_neox_config reads it.
///
/// \code
/// #include <reef/nn/gpt_neox.hpp>
/// const nn::GptNeoxConfig config = nn::read_gpt_neox_config("pythia/config.json");
/// const auto model = nn::gpt_neox<device::Host, float>(config);
/// std::map<std::string, std::vector<float>> weights;
/// nn::GptNeoxFile("pythia").read<float>(
///     model.dag(), [&](const auto& name, const auto& values) { weights[name] = values; });
/// \endcode
class GptNeoxFile : public detail::ModelFile {
public:
  explicit GptNeoxFile(const std::filesystem::path& path)
      : ModelFile(path, {"GPT-NeoX", "embed_out.weight", "embed_in.weight",
                         {"rotary_emb.inv_freq", "attention.masked_bias", "attention.bias"}}) {}
};

/// Writes the parameters of a gpt_neox() to a safetensors file that GPTNeoXForCausalLM reads.
///
/// values(name) returns a parameter's elements. The head of a tied model is not written.
///
/// | memory | all parameters once                                                                      |
/// | errors | OptionError if values(name) returns another number of elements; FileError as AtomicFile: |
/// |        | an older file of that name is unchanged                                                  |
template <real T, class Values>
void write_gpt_neox(const std::filesystem::path& path, const graph::Dag& model, Values&& values) {
  detail::write_model<T>(path, model, "reef::nn::write_gpt_neox", std::forward<Values>(values));
}

}  // namespace nn
}  // namespace v0
}  // namespace reef
