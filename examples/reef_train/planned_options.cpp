#include "planned_options.hpp"

#include <algorithm>
#include <cstdint>

#include <reef/core/error.hpp>
#include <reef/io/json.hpp>

namespace reef_examples {

std::vector<std::string> options_of_plan(const std::string& file, TrainOptions& to,
                                         const std::function<bool(const std::string&)>& given,
                                         std::vector<PlannedOption>& otherwise) {
  const reef::io::Json json = reef::io::read_json(file);
  const reef::io::JsonSource source(file, "give a file that reef-plan plan has written.");
  const auto options = reef::io::require<reef::io::Json>(json, "options", source);
  reef::io::require_object(options, "options", file);
  to.planned_ranks = reef::io::value_or<int>(json, "ranks", 0, source);
  to.planned_vocabulary = reef::io::value_or<std::int64_t>(json, "vocabulary", 0, source);
  std::vector<std::string> planned;
  for (const auto& [name, value] : options.items()) {
    const bool texts = value.is_array() && !value.empty() &&
                       std::all_of(value.begin(), value.end(), [](const reef::io::Json& one) { return one.is_string(); });
    if (!name.starts_with("--") || (!value.is_string() && !value.is_boolean() && !texts)) {
      throw reef::DecodeError(file, ": options has '", name, "', which is no option with a text, texts, true or false.\n"
                              "  fix: give a file that reef-plan plan has written.");
    }
    if (name == "--plan") {
      throw reef::DecodeError(file, ": options has '--plan', and a plan is of one file.\n"
                              "  fix: give a file that reef-plan plan has written.");
    }
    if (given(name) && value.is_string()) otherwise.emplace_back(name, value.get<std::string>());
    if (given(name) || (value.is_boolean() && !value.get<bool>())) continue;
    planned.push_back(name);
    if (value.is_string()) planned.push_back(value.get<std::string>());
    if (!texts) continue;
    for (const reef::io::Json& one : value) planned.push_back(one.get<std::string>());
  }
  return planned;
}

}  // namespace reef_examples
