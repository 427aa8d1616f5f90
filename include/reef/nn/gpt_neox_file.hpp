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
/// | place  | a file, an index of several, or a folder, as SafetensorsFiles                                   |
/// | names  | those of GPTNeoXForCausalLM ("gpt_neox.layers.0.attention.dense.weight"), also where a compiled |
/// |        | or wrapped model has written them ("_orig_mod.gpt_neox..."), or without "gpt_neox."             |
/// | head   | of a tied model embed_out.weight may be there and is then the embedding, byte by byte           |
/// | others | attention.bias, attention.masked_bias and rotary_emb.inv_freq, masks and frequencies that older |
/// |        | files hold, are passed over                                                                     |
/// | dtypes | F32, F16, BF16 or F64, converted as read_reals does                                             |
/// | errors | FileError and DecodeError as SafetensorsFiles; DecodeError, with file and tensor, for one       |
/// |        | that is missing, unknown, there twice, of another shape, no real numbers, or NaN or             |
/// |        | infinite somewhere, and for an untied head where the model's head is tied                       |
///
/// read(dag, set) calls set(name, values) for each parameter of a gpt_neox(), after all errors of the file were found. No tensor
/// holds the model's configuration: read_gpt_neox_config reads it.
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
/// values(name) gives a parameter's elements. The head of a tied model is not written.
///
/// | memory | all parameters once                                                     |
/// | errors | OptionError if values(name) gives another number of elements; FileError |
/// |        | as AtomicFile: an older file of that name is unchanged                  |
template <real T, class Values>
void write_gpt_neox(const std::filesystem::path& path, const graph::Dag& model, Values&& values) {
  detail::write_model<T>(path, model, "reef::nn::write_gpt_neox", std::forward<Values>(values));
}

}  // namespace nn
}  // namespace v0
}  // namespace reef
