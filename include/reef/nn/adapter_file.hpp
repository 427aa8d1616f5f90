#pragma once

#include <algorithm>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <reef/core/text.hpp>
#include <reef/graph/dag.hpp>
#include <reef/io/json.hpp>
#include <reef/nn/detail/named_tensors.hpp>
#include <reef/nn/lora.hpp>

namespace reef {
inline namespace v0 {
namespace nn {

/// Reads the adapter_config.json of a folder that Hugging Face's PEFT, or write_adapter, has written.
///
/// | reads  | r, lora_alpha, and target_modules: names, or "all-linear"                                       |
/// | checks | peft_type LORA, task_type CAUSAL_LM or none, bias none; refuses by name what computes otherwise:  |
/// |        | use_dora, use_rslora, lora_bias, modules_to_save, rank_pattern, alpha_pattern, layers_to_transform |
/// |        | and others that are set, and target_modules that are a regular expression                       |
/// | errors | FileError if it cannot be read; DecodeError naming the file and the field                       |
///
/// lora_dropout is of training alone, and taken as 0.
///
/// Source: huggingface/peft, src/peft/tuners/lora/config.py.
Lora read_adapter_config(const std::filesystem::path& folder);

/// Writes the adapter_config.json of a folder. `base`: the base model's name or folder; `in_out`: its weights are (in,
/// out), as GPT-2's.
void write_adapter_config(const std::filesystem::path& folder, const Lora& lora,
                          std::string_view base, bool in_out);

namespace detail {

inline constexpr std::string_view adapter_prefix = "base_model.model.";

/// The parameters of a model's adapters, as a model of them alone.
graph::Dag adapters_of(const graph::Dag& model);

/// Throws DecodeError unless the tensors are those of the adapters.
void check_adapter(const NamedTensors& tensors, const graph::Dag& adapters);

}  // namespace detail

/// Calls set(name, values) for each adapter parameter of a with_lora() model, from the folder's
/// adapter_model.safetensors. All errors of the file are found before the first call.
///
/// | names  | base_model.model.NAME, PEFT's                                                                    |
/// | dtypes | F32, F16, BF16 or F64                                                                            |
/// | errors | FileError; DecodeError, with file and tensor, for one that is missing, unknown, there twice, of  |
/// |        | another shape, no real numbers, or NaN or infinite somewhere                                     |
///
/// \code
/// // given: const graph::Graph<device::Host, float>& base
/// const auto model = nn::with_lora(base, nn::read_adapter_config("adapter"));
/// std::map<std::string, std::vector<float>> weights;
/// nn::read_adapter<float>("adapter", model.dag(), [&](const auto& name, const auto& values) { weights[name] = values; });
/// \endcode
template <real T, class Set>
void read_adapter(const std::filesystem::path& folder, const graph::Dag& model, Set&& set) {
  const detail::NamedTensors tensors(folder / "adapter_model.safetensors", "a LoRA adapter");
  const graph::Dag adapters = detail::adapters_of(model);
  detail::check_adapter(tensors, adapters);
  tensors.read<T>(
      adapters, [&](std::string_view name) { return tensors.find(detail::bare_name(name)); },
      [](const graph::Parameter& parameter) { return parameter.spec.shape.size(); },
      std::forward<Set>(set));
}

/// Writes the adapter parameters of a with_lora() model to the folder's adapter_model.safetensors, which PEFT reads
/// beside the file of write_adapter_config. values(name) gives a parameter's elements.
template <real T, class Values>
void write_adapter(const std::filesystem::path& folder, const graph::Dag& model, Values&& values) {
  graph::Dag adapters = detail::adapters_of(model);
  for (graph::Parameter& parameter : adapters.parameters)
    parameter.name = concat(detail::adapter_prefix, parameter.name);
  detail::write_tensors<T>(
      folder / "adapter_model.safetensors", adapters, "reef::nn::write_adapter",
      [](const graph::Parameter& parameter) { return parameter.spec.shape; },
      [&](const std::string& name) { return values(name.substr(detail::adapter_prefix.size())); });
}

}  // namespace nn
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/nn/adapter_file.ipp>
#endif
