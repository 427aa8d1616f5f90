#pragma once

#include <algorithm>
#include <string_view>
#include <utility>

#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/io/json.hpp>
#include <reef/nn/class_head.hpp>
#include <reef/nn/class_labels.hpp>
#include <reef/nn/detail/config_fields.hpp>

namespace reef {
inline namespace v0 {
namespace nn {

REEF_INLINE ClassLabels ClassLabels::numbered(std::int64_t classes) {
  ClassHead{classes}.validate();
  ClassLabels labels;
  for (std::int64_t c = 0; c < classes; ++c) labels.names.push_back(concat("LABEL_", c));
  return labels;
}

REEF_INLINE std::size_t ClassLabels::length_of(std::span<const std::int32_t> text) const {
  std::size_t length = text.size();
  while (pad_token && length > 1 && text[length - 1] == *pad_token) --length;
  return length;
}

namespace detail {

/// Returns the names of an id2label by the numbers of their classes.
inline std::vector<std::string> names_of_labels(const ConfigFields& fields, const io::Json& id2label) {
  const auto refuse = [&](const std::string& is, const char* fix) { fields.refuse("id2label", is, fix); };
  const char* const object = "an object of all numbers from \"0\" on and the names of their classes";
  if (!id2label.is_object()) refuse(id2label.type_name(), object);
  if (id2label.empty()) refuse("empty", object);
  std::vector<std::string> names(id2label.size());
  for (std::size_t c = 0; c < names.size(); ++c) {
    const auto found = id2label.find(std::to_string(c));
    if (found == id2label.end()) refuse(concat("without class ", c, ", of ", names.size()), object);
    if (!found->is_string()) refuse(concat("no name for class ", c), object);
    names[c] = found->get<std::string>();
  }
  return names;
}

/// Refuses a label2id that gives a name another number than id2label does.
inline void require_same_labels(const ConfigFields& fields, const io::Json& label2id,
                                const std::vector<std::string>& names) {
  if (!label2id.is_object()) fields.refuse("label2id", label2id.type_name(), "an object of names and numbers");
  for (const auto& [name, number] : label2id.items()) {
    const bool fits = number.is_number_integer() && number.get<std::int64_t>() >= 0 &&
                      number.get<std::int64_t>() < std::ssize(names) &&
                      names[static_cast<std::size_t>(number.get<std::int64_t>())] == name;
    if (!fits) {
      fields.refuse("label2id", concat(number.dump(), " for '", name, "', and id2label another"),
                    "the numbers of id2label");
    }
  }
}

/// Refuses another task than to tell which one of several classes a text is of.
inline void require_one_of_classes(const ConfigFields& fields, std::int64_t classes) {
  constexpr const char* wanted = "single_label_classification";
  const auto problem = fields.value_or<std::string>("problem_type", classes == 1 ? "regression" : wanted);
  if (problem == wanted) return;
  fields.refuse("problem_type", concat("'", problem, "'"), concat("give a model of '", wanted, "'"));
}

}  // namespace detail

REEF_INLINE std::optional<ClassLabels> read_class_labels(const std::filesystem::path& config) {
  const io::Json json = io::read_json(config);
  const detail::ConfigFields fields(json, concat("'", config.string(), "'"), "model for sequence classification");
  const auto architectures = fields.value_or<std::vector<std::string>>("architectures", {});
  if (std::ranges::none_of(architectures, [](const std::string& name) { return detail::is_classifier(name); })) {
    return std::nullopt;
  }
  constexpr std::int64_t usual = 2;
  const bool named = fields.has("id2label");
  ClassLabels labels;
  if (named) {
    labels.names = detail::names_of_labels(fields, json.at("id2label"));
  } else {
    const std::int64_t classes = fields.positive_or("num_labels", usual);
    if (classes > ClassHead::most) fields.refuse("num_labels", concat(classes), concat("at most ", ClassHead::most));
    labels = ClassLabels::numbered(classes);
  }
  const std::int64_t classes = labels.classes();
  if (fields.positive_or("num_labels", classes) != classes) {
    fields.refuse("num_labels", concat(fields.positive("num_labels"), ", and id2label has ", classes),
                  "one of them, or the same number");
  }
  if (named && fields.has("label2id")) detail::require_same_labels(fields, json.at("label2id"), labels.names);
  detail::require_one_of_classes(fields, classes);
  if (fields.has("pad_token_id")) labels.pad_token = fields.value<std::int64_t>("pad_token_id");
  return labels;
}

}  // namespace nn
}  // namespace v0
}  // namespace reef
