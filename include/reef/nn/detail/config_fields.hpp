#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/text.hpp>
#include <reef/io/json.hpp>
#include <reef/nn/detail/harmless_fields.hpp>
#include <reef/nn/rotary_frequencies.hpp>

namespace reef {
inline namespace v0 {
namespace nn::detail {

/// What the names of Hugging Face's models for sequence classification end with.
inline constexpr std::string_view classifier_end = "ForSequenceClassification";

/// Returns true for the name of a model for sequence classification: "LlamaForSequenceClassification".
inline bool is_classifier(std::string_view architecture) { return architecture.ends_with(classifier_end); }

/// Returns the name of the model for sequence classification that has a language model's layers:
/// "LlamaForSequenceClassification" for "LlamaForCausalLM".
inline std::string classifier_of(std::string_view architecture) {
  for (const std::string_view end : {"ForCausalLM", "LMHeadModel"}) {
    if (architecture.ends_with(end)) architecture.remove_suffix(end.size());
  }
  return concat(architecture, classifier_end);
}

/// A config.json in which null is what is not there, as Hugging Face writes it. `builder` is what errors name. Fields
/// whose values have been asked for are remembered: of the others, valid() refuses each that may change results.
class ConfigFields {
public:
  ConfigFields(io::Json json, std::string source, std::string_view builder)
      : json_(std::move(json)), source_(std::move(source)), builder_(builder) {
    io::require_object(json_, "", source_);
    for (auto field = json_.begin(); field != json_.end();) {
      if (field->is_null()) nulls_.push_back(field.key());
      if (field->is_object()) erase_nulls(*field);
      field = field->is_null() ? json_.erase(field) : std::next(field);
    }
  }

  [[nodiscard]] bool has(const std::string& field) const { return json_.contains(field); }
  [[nodiscard]] bool is_null(const char* field) const { return std::ranges::find(nulls_, field) != nulls_.end(); }
  [[nodiscard]] std::int64_t positive(const char* field) const {
    return in_range(field, value<std::int64_t>(field));
  }
  [[nodiscard]] std::int64_t positive_or(const char* field, std::int64_t usual) const {
    return has(field) ? positive(field) : usual;
  }
  /// A number that has two names, of which one must be there. Refuses two that differ.
  [[nodiscard]] std::int64_t positive_of(const char* field, const char* other) const {
    const std::int64_t found = positive(has(field) ? field : other);
    if (has(other) && positive(other) != found) {
      refuse(other, concat(value<std::int64_t>(other), ", and ", field, " is ", found), "one of them");
    }
    return found;
  }
  template <class T>
  [[nodiscard]] T value(std::string_view path) const {
    remember(path);
    return io::require<T>(json_, path, source_);
  }
  template <class T>
  [[nodiscard]] T value_or(std::string_view path, T usual) const {
    remember(path);
    return io::value_or<T>(json_, path, usual, source_);
  }

  [[noreturn]] void refuse(std::string_view field, const std::string& is, const std::string& fix) const {
    throw DecodeError("reef::nn: ", source_, ": ", field, " is ", is, ", which a ", builder_,
                      " cannot be.\n  fix: ", fix, ".");
  }
  [[noreturn]] void refuse(std::string_view field) const {
    refuse(field, json_.at(std::string(field)).dump(), "give a model without it");
  }
  /// Refuses a file that has one of these fields.
  void refuse_each(std::initializer_list<const char*> fields) const {
    for (const char* const field : fields) {
      if (has(field)) refuse(field);
    }
  }
  /// Refuses fields of other models that their own code computes with, even where a value is the usual one.
  void refuse_fields_of_others() const {
    refuse_each({"quantization_config", "num_local_experts", "num_experts", "attn_logit_softcapping",
                 "final_logit_softcapping", "logit_scale", "logits_scaling", "embedding_multiplier",
                 "residual_multiplier", "attention_multiplier", "query_pre_attn_scalar", "no_rope_layers"});
    for (const char* const attends_to_others : {"add_cross_attention", "is_encoder_decoder"}) {
      if (value_or(attends_to_others, false)) refuse(attends_to_others);
    }
  }
  /// Refuses members of the object `field` that are not `known`.
  void refuse_unknown_members(const std::string& field, std::initializer_list<std::string_view> known) const {
    io::require_object(json_, field, source_);
    for (const auto& [name, member] : json_.at(field).items()) {
      if (std::ranges::find(known, name) != known.end()) continue;
      refuse(concat(field, ".", name), text_of(member), "give a model without it");
    }
  }
  /// Refuses two fields that are there both, and differ.
  void require_same(const char* field, const char* other) const {
    remember(field);
    remember(other);
    if (!has(field) || !has(other) || json_.at(field) == json_.at(other)) return;
    refuse(other, concat("there beside ", field, ", and says another"), "one of them");
  }
  /// Refuses another model_type, and architectures, where they are given, of which none is the model's.
  void require_type(std::string_view type) const {
    const auto found = value<std::string>("model_type");
    if (found != type) refuse("model_type", concat("'", found, "'"), concat("give a ", type));
  }
  void require_architecture(std::string_view architecture) const {
    const auto architectures = value_or<std::vector<std::string>>("architectures", {});
    if (architectures.empty() || std::ranges::find(architectures, architecture) != architectures.end()) return;
    if (std::ranges::find(architectures, classifier_of(architecture)) != architectures.end()) return;
    refuse("architectures", concat("'", architectures.front(), "'"), concat("give a ", architecture));
  }

  /// Returns a configuration that was read. Throws DecodeError, with the file, for one that is invalid, and for a field
  /// whose value nobody has asked for, unless it is known to change no result.
  template <class Config>
  [[nodiscard]] Config valid(Config config) const {
    try {
      config.validate();
    } catch (const OptionError& error) {
      throw DecodeError("reef::nn: ", source_, " is of no ", builder_, ": ", error.what());
    }
    for (const auto& [field, value] : json_.items()) {
      if (read_.contains(field) || is_harmless_field(field, value)) continue;
      refuse(in_quotes(field, 100), text_of(value),
             "give a model without it; if it changes no result of this model, remove it from the file");
    }
    return config;
  }

private:
  static std::string text_of(const io::Json& value) {
    return in_quotes(value.dump(-1, ' ', true, io::Json::error_handler_t::replace), 100);
  }
  /// Remembers the field of a path of members.
  void remember(std::string_view path) const { read_.emplace(path.substr(0, path.find('.'))); }
  static void erase_nulls(io::Json& object) {
    for (auto member = object.begin(); member != object.end();) {
      member = member->is_null() ? object.erase(member) : std::next(member);
    }
  }
  [[nodiscard]] std::int64_t in_range(const char* field, std::int64_t value) const {
    if (value >= 1) return value;
    throw DecodeError("reef::nn: ", source_, ": ", field, " is ", value, ".\n  fix: at least 1.");
  }

  io::Json json_;
  std::string source_;
  std::string_view builder_;
  std::vector<std::string> nulls_;
  mutable std::set<std::string, std::less<>> read_;
};

/// The place of what a file says of positions: rope_parameters, as newer versions write it, or rope_scaling.
inline std::string place_of_rotary(const ConfigFields& fields) {
  return fields.has("rope_parameters") ? "rope_parameters" : "rope_scaling";
}

/// Reads frequencies from `base`, a field beside rope_scaling, or from rope_parameters. Refuses kinds other than
/// default, linear and llama3, members that no kind here has, such as frequencies by the type of a layer, and members
/// that the file's own kind does not use.
inline RotaryFrequencies read_rotary(const ConfigFields& fields, std::string_view base, double usual_base) {
  RotaryFrequencies rotary;
  const std::string place = place_of_rotary(fields);
  const auto at = [&](const char* name) { return concat(place, ".", name); };
  rotary.theta = fields.value_or(base, usual_base);
  if (!fields.has(place)) return rotary;
  rotary.theta = fields.value_or(at("rope_theta"), rotary.theta);
  const auto type = fields.value_or<std::string>(at("rope_type"), fields.value_or<std::string>(at("type"), "default"));
  if (type != "default" && type != "linear" && type != "llama3") {
    fields.refuse(at("rope_type"), concat("'", type, "'"), "give a model of 'default', 'linear' or 'llama3' positions");
  }
  fields.refuse_unknown_members(place, {"rope_theta", "rope_type", "type", "partial_rotary_factor", "factor",
                                        "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"});
  fields.require_same("rope_parameters", "rope_scaling");
  const auto refuse_unused = [&](std::initializer_list<const char*> names) {
    for (const char* const name : names) {
      if (const double is = fields.value_or<double>(at(name), 1); is != 1) {
        fields.refuse(at(name), concat(is, ", and its rope_type '", type, "'"), "the rope_type that has it");
      }
    }
  };
  if (type == "default") {
    refuse_unused({"factor", "low_freq_factor", "high_freq_factor"});
    return rotary;
  }
  rotary.factor = fields.value<double>(at("factor"));
  if (type == "linear") {
    refuse_unused({"low_freq_factor", "high_freq_factor"});
    return rotary;
  }
  rotary.low = fields.value<double>(at("low_freq_factor"));
  rotary.high = fields.value<double>(at("high_freq_factor"));
  rotary.original = fields.value<std::int64_t>(at("original_max_position_embeddings"));
  if (rotary.original < 1) fields.refuse(at("original_max_position_embeddings"), concat(rotary.original), "at least 1");
  return rotary;
}

/// Writes what read_rotary reads of scaling: rope_scaling, where there is any.
inline void write_rotary_scaling(io::Json& json, const RotaryFrequencies& rotary) {
  if (rotary.original != 0) {
    json["rope_scaling"] = {{"rope_type", "llama3"},
                            {"factor", rotary.factor},
                            {"low_freq_factor", rotary.low},
                            {"high_freq_factor", rotary.high},
                            {"original_max_position_embeddings", rotary.original}};
  } else if (rotary.factor != 1) {
    json["rope_scaling"] = {{"rope_type", "linear"}, {"factor", rotary.factor}};
  }
}

}  // namespace nn::detail
}  // namespace v0
}  // namespace reef
