#pragma once

#include <filesystem>
#include <utility>

#include <reef/core/element.hpp>
#include <reef/graph/dag.hpp>
#include <reef/nn/detail/model_file.hpp>

namespace reef {
inline namespace v0 {
namespace nn {

/// The weights of a BLOOM in safetensors files with Hugging Face's names, open for reading.
///
/// | place  | a file, an index of several files, or a folder, as for SafetensorsFiles                        |
/// | names  | those of BloomForCausalLM ("transformer.h.0.self_attention.query_key_value.weight"), also with |
/// |        | the prefix that a compiled or wrapped model adds ("_orig_mod.transformer..."), or without      |
/// |        | "transformer."                                                                                 |
/// | head   | lm_head.weight of a tied model may exist, and then equals the embedding, byte by byte          |
/// | class  | score.weight, of a model with a class head; such a file needs no lm_head.weight                |
/// | others | no other tensor is ignored                                                                     |
/// | dtypes | F32, F16, BF16 or F64, converted as read_reals does                                            |
/// | errors | FileError and DecodeError as SafetensorsFiles; DecodeError, with file and tensor, for a tensor |
/// |        | that is missing, unknown, duplicate, of another shape, not of real numbers, or with a NaN or   |
/// |        | infinity, and for an untied head if the model's head is tied                                   |
///
/// read(dag, set) calls set(name, values) for each parameter of a bloom(), once all errors of the file have been found.
/// No tensor states the model's configuration: read_bloom_config reads it.
///
/// \code
/// #include <reef/nn/bloom.hpp>
/// const nn::BloomConfig config = nn::read_bloom_config("bloom/config.json");
/// const auto model = nn::bloom<device::Host, float>(config);
/// std::map<std::string, std::vector<float>> weights;
/// nn::BloomFile("bloom").read<float>(
///     model.dag(), [&](const auto& name, const auto& values) { weights[name] = values; });
/// \endcode
class BloomFile : public detail::ModelFile {
public:
  explicit BloomFile(const std::filesystem::path& path)
      : ModelFile(path, {"BLOOM", "lm_head.weight", "word_embeddings.weight", {}}) {}
};

/// Writes the parameters of a bloom() to a safetensors file that BloomForCausalLM reads.
///
/// values(name) returns a parameter's elements. The head of a tied model is not written.
///
/// | memory | all parameters once                                                                      |
/// | errors | OptionError if values(name) returns another number of elements; FileError as AtomicFile: |
/// |        | an older file of that name is unchanged                                                  |
template <real T, class Values>
void write_bloom(const std::filesystem::path& path, const graph::Dag& model, Values&& values) {
  detail::write_model<T>(path, model, "reef::nn::write_bloom", std::forward<Values>(values));
}

}  // namespace nn
}  // namespace v0
}  // namespace reef
