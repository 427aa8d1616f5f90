#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/io/atomic_file.hpp>
#include <reef/nn/adapter_file.hpp>

namespace reef {
inline namespace v0 {
namespace nn {

namespace detail {

/// The peft_type of a deep prompt, which PEFT does not have.
inline constexpr const char* deep_prompts = "DEEP_PROMPT_TUNING";

/// Members of every adapter_config.json that are read, checked or change no result.
inline constexpr std::array<std::string_view, 9> adapter_members{
    "peft_type",      "task_type",    "bias", "base_model_name_or_path", "revision",
    "inference_mode", "auto_mapping", "peft_version", "runtime_config"};
/// Such members of low-rank adapters.
inline constexpr std::array<std::string_view, 10> lora_members{
    "r",           "lora_alpha",        "lora_dropout",  "target_modules", "fan_in_fan_out", "modules_to_save",
    "loftq_config", "init_lora_weights", "megatron_core", "qalora_group_size"};
/// Such members of soft prompts.
inline constexpr std::array<std::string_view, 9> prompt_members{
    "num_virtual_tokens", "num_transformer_submodules", "token_dim", "num_attention_heads", "num_layers",
    "prompt_tuning_init", "prompt_tuning_init_text", "tokenizer_name_or_path", "tokenizer_kwargs"};

/// Tells whether a member's value is as if the member were not there.
inline bool switches_nothing(const io::Json& value) {
  if (value.is_string() || value.is_object() || value.is_array()) return value.empty() || value == io::Json("");
  return value.is_null() || value == io::Json(false) || value == io::Json(0);
}

}  // namespace detail

REEF_INLINE Adapter read_adapter_config(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "adapter_config.json";
  const io::Json json = io::read_json(path);
  const std::string source = concat("'", path.string(), "'");
  io::require_object(json, "", source);
  const auto refuse = [&](std::string_view field, const std::string& is, std::string_view fix) {
    throw DecodeError("reef::nn: ", source, ": ", field, " is ", is,
                      ", which an adapter of with_adapter() cannot have.\n  fix: ", fix, ".");
  };
  const auto is_set = [&](const char* field) {
    return json.contains(field) && !json.at(field).is_null();
  };
  const auto require_text = [&](const char* field, std::string_view wanted) {
    const auto is = io::require<std::string>(json, field, source);
    if (is != wanted)
      refuse(field, concat("'", is, "'"), concat("an adapter of ", field, " ", wanted));
  };
  const auto validated = [&](const auto& adapter) {
    try {
      adapter.validate();
    } catch (const OptionError& error) {
      throw DecodeError("reef::nn: ", source, " is of no adapter: ", error.what());
    }
    return adapter;
  };
  const auto refuse_unknown = [&](std::span<const std::string_view> own) {
    for (const auto& [member, value] : json.items()) {
      const bool known = std::ranges::find(detail::adapter_members, member) != detail::adapter_members.end() ||
                         std::ranges::find(own, member) != own.end();
      if (known || detail::switches_nothing(value)) continue;
      refuse(in_quotes(member), in_quotes(value.dump(-1, ' ', true, io::Json::error_handler_t::replace)),
             "an adapter without it");
    }
  };
  const auto type = io::require<std::string>(json, "peft_type", source);
  const bool deep = type == detail::deep_prompts;
  if (type != "LORA" && type != "PROMPT_TUNING" && !deep)
    refuse("peft_type", concat("'", type, "'"), "an adapter of peft_type LORA or PROMPT_TUNING");
  if (is_set("bias")) require_text("bias", "none");
  const bool classifies =
      type == "LORA" && is_set("task_type") && io::require<std::string>(json, "task_type", source) == "SEQ_CLS";
  if (is_set("task_type") && !classifies) require_text("task_type", "CAUSAL_LM");
  if (type != "LORA") {
    constexpr const char* modules = "num_transformer_submodules";
    if (is_set(modules)) {
      const auto count = io::require<std::int64_t>(json, modules, source);
      if (count != 1) refuse(modules, concat(count), "a prompt of a model that is a decoder alone");
    }
    refuse_unknown(detail::prompt_members);
    return validated(SoftPrompt{io::require<std::int64_t>(json, "num_virtual_tokens", source), deep});
  }
  for (const char* const field :
       {"use_dora", "use_rslora", "use_qalora", "lora_bias", "modules_to_save", "rank_pattern",
        "alpha_pattern", "layers_to_transform", "layers_pattern", "layer_replication",
        "exclude_modules", "target_parameters", "trainable_token_indices", "corda_config",
        "eva_config", "arrow_config", "alora_invocation_tokens"}) {
    if (!is_set(field)) continue;
    const io::Json& value = json.at(field);
    const bool is_head = classifies && field == std::string_view("modules_to_save") && value.is_array() &&
                         std::all_of(value.begin(), value.end(), [](const io::Json& module) {
                           return module == "score" || module == "classifier";  // PEFT writes both, whichever is there
                         });
    const bool nothing =
        is_head || value == io::Json(false) || ((value.is_object() || value.is_array()) && value.empty());
    if (!nothing) refuse(field, value.dump().substr(0, 60), "an adapter without it");
  }
  if (is_set("init_lora_weights") && json.at("init_lora_weights").is_string()) {
    const auto law = io::require<std::string>(json, "init_lora_weights", source);
    if (law != "gaussian")
      refuse("init_lora_weights", concat("'", law, "'"),
             "an adapter whose base model is as it was published");
  }
  refuse_unknown(detail::lora_members);
  Lora lora;
  lora.rank = io::require<std::int64_t>(json, "r", source);
  lora.alpha = io::require<double>(json, "lora_alpha", source);
  lora.class_head = classifies;
  const auto targets = io::require<std::variant<std::vector<std::string>, std::string>>(
      json, "target_modules", source);
  if (const auto* const names = std::get_if<std::vector<std::string>>(&targets)) {
    lora.targets = *names;
  } else if (const auto& one = std::get<std::string>(targets); one == "all-linear") {
    lora.targets = {one};
  } else {
    refuse("target_modules", concat("the expression '", one.substr(0, 60), "'"),
           "a list of names of modules");
  }
  if (lora.targets.empty()) refuse("target_modules", "empty", "a list of names of modules");
  return validated(lora);
}

REEF_INLINE std::int64_t read_adapter_classes(const std::filesystem::path& folder) {
  const detail::NamedTensors tensors(folder / "adapter_model.safetensors", "an adapter");
  const io::TensorInFile* const head = tensors.find(detail::bare_name("base_model.model.score.weight"));
  if (head == nullptr) return 0;
  if (head->tensor->shape.size() == 2) return head->tensor->shape[0];
  tensors.refuse(concat("its '", head->tensor->name, "' is no matrix"), "an adapter of SEQ_CLS as PEFT writes it");
}

REEF_INLINE std::vector<std::string> lora_targets_of(const graph::Dag& model) {
  constexpr std::string_view a = ".lora_A.weight";
  std::set<std::string> targets;
  for (const graph::Parameter& parameter : model.parameters) {
    std::string_view node = parameter.name;
    if (!node.ends_with(a)) continue;
    node.remove_suffix(a.size());
    targets.emplace(node.substr(node.rfind('.') + 1));
  }
  return {targets.begin(), targets.end()};
}

REEF_INLINE void write_adapter_config(const std::filesystem::path& folder, const Adapter& adapter,
                                      std::string_view base, bool in_out, const graph::Dag& model) {
  std::visit([](const auto& own) { own.validate(); }, adapter);
  const std::filesystem::path path = folder / "adapter_config.json";
  if (const auto* const prompt = std::get_if<SoftPrompt>(&adapter)) {
    const io::Json json{{"peft_type", prompt->deep ? detail::deep_prompts : "PROMPT_TUNING"},
                        {"task_type", "CAUSAL_LM"},
                        {"base_model_name_or_path", base},
                        {"num_virtual_tokens", prompt->tokens},
                        {"num_transformer_submodules", 1},
                        {"prompt_tuning_init", "RANDOM"},
                        {"inference_mode", true}};
    io::write_atomically(path, json.dump(2) + "\n");
    return;
  }
  const Lora& lora = std::get<Lora>(adapter);
  const bool all = lora.targets == std::vector<std::string>{"all-linear"};
  io::Json targets = lora.targets.empty() ? lora_targets_of(model) : lora.targets;
  if (targets.empty()) {
    throw OptionError("reef::nn::write_adapter_config: the adapter names no targets, and the model has no adapters.\n",
                      "  fix: the model that with_adapter() has returned.");
  }
  if (all) targets = "all-linear";
  const io::Json json{{"peft_type", "LORA"},
                      {"task_type", lora.class_head ? "SEQ_CLS" : "CAUSAL_LM"},
                      {"modules_to_save", lora.class_head ? io::Json{"classifier", "score"} : io::Json()},
                      {"base_model_name_or_path", base},
                      {"r", lora.rank},
                      {"lora_alpha", lora.alpha},
                      {"lora_dropout", 0.0},
                      {"target_modules", targets},
                      {"bias", "none"},
                      {"fan_in_fan_out", in_out},
                      {"use_rslora", false},
                      {"use_dora", false},
                      {"inference_mode", true}};
  io::write_atomically(path, json.dump(2) + "\n");
}

namespace detail {

REEF_INLINE void require_token_dim(const std::filesystem::path& folder, const graph::Dag& model) {
  const std::filesystem::path path = folder / "adapter_config.json";
  const std::string source = concat("'", path.string(), "'");
  const io::Json json = io::read_json(path);
  io::require_object(json, "", source);
  if (!json.contains("token_dim") || json.at("token_dim").is_null()) return;
  const auto found = io::require<std::int64_t>(json, "token_dim", source);
  for (const graph::Parameter& parameter : model.parameters) {
    if (!is_of_prompt(parameter.name) || parameter.spec.shape.last() == found) continue;
    throw DecodeError("reef::nn: ", source, ": token_dim is ", found, ", but the model has ",
                      parameter.spec.shape.last(), " channels.\n  fix: the base model of the adapter.");
  }
}

REEF_INLINE std::string name_in_adapter(std::string_view parameter) {
  return is_of_prompt(parameter) && !is_of_layer_prompt(parameter) ? "prompt_embeddings"
                                                                   : concat("base_model.model.", parameter);
}

REEF_INLINE graph::Dag adapters_of(const graph::Dag& model) {
  graph::Dag adapters;
  for (const graph::Parameter& parameter : model.parameters) {
    if (is_of_lora(parameter.name) || is_of_prompt(parameter.name) || is_of_class_head(parameter.name))
      adapters.parameters.push_back(parameter);
  }
  return adapters;
}

REEF_INLINE void check_adapter(const NamedTensors& tensors, const graph::Dag& adapters) {
  std::set<const io::StoredTensor*> known;
  for (const graph::Parameter& parameter : adapters.parameters) {
    const io::TensorInFile* const found = tensors.find(bare_name(name_in_adapter(parameter.name)));
    if (found == nullptr) {
      tensors.refuse(concat("it has no tensor for the model's '", parameter.name, "'"),
                     "the adapter_config.json that belongs to it, and the base model");
    }
    const Shape& wanted = parameter.spec.shape;
    std::array<std::int64_t, Shape::max_rank> extents{};
    tensors.require_real(*found);
    tensors.require_shape(
        *found, std::ranges::equal(found->tensor->shape, io::detail::extents_of(wanted, extents)),
        parameter, wanted, "transpose it: A is (rank, in), B (out, rank), a prompt (P, C)",
        "the adapter_config.json that belongs to it, and the base model");
    known.insert(found->tensor);
  }
  for (const auto& [name, found] : tensors.all()) {
    if (known.contains(found.tensor)) continue;
    tensors.refuse(found.file->path(),
                   concat("the model has no adapter for its tensor '", found.tensor->name, "'"),
                   "the adapter_config.json that belongs to it, and the base model");
  }
}

}  // namespace detail

}  // namespace nn
}  // namespace v0
}  // namespace reef
