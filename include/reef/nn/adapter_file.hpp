#pragma once

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/text.hpp>
#include <reef/graph/dag.hpp>
#include <reef/io/json.hpp>
#include <reef/nn/class_head.hpp>
#include <reef/nn/detail/named_tensors.hpp>
#include <reef/nn/lora.hpp>
#include <reef/nn/soft_prompt.hpp>

namespace reef {
inline namespace v0 {
namespace nn {

/// The options of an adapter that a folder holds: low-rank adapters, or a soft prompt.
using Adapter = std::variant<Lora, SoftPrompt>;

/// Returns the model with an adapter added, by with_lora or with_prompts.
template <class Device, real T>
graph::Graph<Device, T> with_adapter(const graph::Graph<Device, T>& model, const Adapter& adapter) {
  if (const auto* const prompt = std::get_if<SoftPrompt>(&adapter))
    return with_prompts(model, *prompt);
  return with_lora(model, std::get<Lora>(adapter));
}

namespace detail {

/// Throws DecodeError if the adapter_config.json of a soft prompt says another token_dim than the model's prompt has.
void require_token_dim(const std::filesystem::path& folder, const graph::Dag& model);

}  // namespace detail

/// Returns the model with the adapter that read_adapter_config has read from a folder. Throws DecodeError, naming the
/// folder's adapter_config.json and the member, for target_modules and a token_dim that the model does not have.
template <class Device, real T>
graph::Graph<Device, T> with_adapter(const graph::Graph<Device, T>& model, const Adapter& adapter,
                                     const std::filesystem::path& folder) {
  if (std::holds_alternative<SoftPrompt>(adapter)) {
    auto result = with_adapter(model, adapter);
    detail::require_token_dim(folder, result.dag());
    return result;
  }
  try {
    return with_adapter(model, adapter);
  } catch (const OptionError& error) {
    throw DecodeError("reef::nn: '", (folder / "adapter_config.json").string(), "': target_modules: ", error.what());
  }
}

/// Reads the adapter_config.json of a folder that Hugging Face's PEFT or write_adapter_config has written.
///
/// | peft_type          | members that are read                                                                    |
/// | LORA               | r, lora_alpha, and target_modules: names, or "all-linear"                                |
/// | PROMPT_TUNING      | num_virtual_tokens                                                                       |
/// | DEEP_PROMPT_TUNING | num_virtual_tokens, of a deep prompt: a name of Reef's own, which PEFT refuses, since it |
/// |                    | has no such adapter                                                                      |
///
/// | checks | task_type is CAUSAL_LM or missing, or for LORA SEQ_CLS: then the folder also has a class head, and     |
/// |        | modules_to_save are score and classifier; bias is none                                                 |
/// | errors | FileError if the file cannot be read; DecodeError, naming the file and the member, for another         |
/// |        | peft_type, for a member that changes results (use_dora, use_rslora, lora_bias, rank_pattern,           |
/// |        | alpha_pattern, layers_to_transform, other modules_to_save, ...), for any member that is not known and  |
/// |        | is neither null, false, 0 nor empty, for target_modules that are a regular expression, and for a       |
/// |        | num_transformer_submodules other than 1                                                                |
///
/// lora_dropout matters in training only, and is read as 0.
///
/// Source: huggingface/peft, src/peft/tuners/lora/config.py and prompt_tuning/config.py.
Adapter read_adapter_config(const std::filesystem::path& folder);

/// Returns the number of classes that a folder's class head tells apart: the rows of score.weight in its
/// adapter_model.safetensors; 0 where that has no class head. Throws FileError, DecodeError.
std::int64_t read_adapter_classes(const std::filesystem::path& folder);

/// Returns the targets of a with_adapter() model, as an adapter's file names them: the last part of the name of each
/// map that has an adapter, such as q_proj and v_proj, each once, in ascending order.
std::vector<std::string> lora_targets_of(const graph::Dag& model);

/// Writes the adapter_config.json of a folder. `base`: the name or folder of the base model; `in_out`: true if weights
/// of the base model have the shape (in, out), as GPT-2's do; `model`: that of with_adapter(), whose maps with adapters
/// are the targets where the adapter names none. Throws OptionError for an adapter without targets where the model has
/// no adapters.
void write_adapter_config(const std::filesystem::path& folder, const Adapter& adapter,
                          std::string_view base, bool in_out, const graph::Dag& model);

namespace detail {

/// Returns the name of an adapter's parameter in PEFT's file.
std::string name_in_adapter(std::string_view parameter);

/// Returns a graph that has only the parameters of a model's adapters.
graph::Dag adapters_of(const graph::Dag& model);

/// Throws DecodeError unless the tensors of an adapter's file are the parameters of `adapters`.
void check_adapter(const NamedTensors& tensors, const graph::Dag& adapters);

}  // namespace detail

/// Calls set(name, values) for each adapter parameter of a with_adapter() model, from the folder's
/// adapter_model.safetensors. All errors of the file are found before the first call.
///
/// | names  | PEFT's: base_model.model.NAME for low-rank adapters and a class head, prompt_embeddings for a soft |
/// |        | prompt; for a deep prompt also base_model.model.NAME before each layer                             |
/// | dtypes | F32, F16, BF16 or F64                                                                              |
/// | errors | FileError; DecodeError, with file and tensor, for a tensor that is missing, unknown, duplicate, of |
/// |        | another shape, not of real numbers, or with a NaN or infinity                                      |
///
/// \code
/// // given: const graph::Graph<device::Host, float>& base
/// const auto model = nn::with_adapter(base, nn::read_adapter_config("adapter"));
/// std::map<std::string, std::vector<float>> weights;
/// nn::read_adapter<float>("adapter", model.dag(),
///                         [&](const auto& name, const auto& values) { weights[name] = values; });
/// \endcode
template <real T, class Set>
void read_adapter(const std::filesystem::path& folder, const graph::Dag& model, Set&& set) {
  const detail::NamedTensors tensors(folder / "adapter_model.safetensors", "an adapter");
  const graph::Dag adapters = detail::adapters_of(model);
  detail::check_adapter(tensors, adapters);
  tensors.read<T>(
      adapters,
      [&](std::string_view name) {
        return tensors.find(detail::bare_name(detail::name_in_adapter(name)));
      },
      [](const graph::Parameter& parameter) { return parameter.spec.shape.size(); },
      std::forward<Set>(set));
}

/// Writes the adapter parameters of a with_adapter() model to the folder's adapter_model.safetensors, which PEFT reads
/// beside the file of write_adapter_config. values(name) gives a parameter's elements.
template <real T, class Values>
void write_adapter(const std::filesystem::path& folder, const graph::Dag& model, Values&& values) {
  graph::Dag adapters = detail::adapters_of(model);
  std::map<std::string, std::string> names;  // maps a name in the file to the name in the model
  for (graph::Parameter& parameter : adapters.parameters) {
    const std::string own = std::exchange(parameter.name, detail::name_in_adapter(parameter.name));
    names[parameter.name] = own;
  }
  detail::write_tensors<T>(
      folder / "adapter_model.safetensors", adapters, "reef::nn::write_adapter",
      [](const graph::Parameter& parameter) { return parameter.spec.shape; },
      [&](const std::string& name) { return values(names.at(name)); });
}

}  // namespace nn
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/nn/adapter_file.ipp>
#endif
