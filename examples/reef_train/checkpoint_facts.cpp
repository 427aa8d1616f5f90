#include "checkpoint_facts.hpp"

#include <reef/core/error.hpp>
#include <reef/core/text.hpp>

namespace reef_examples {

CheckpointFacts::CheckpointFacts(const reef::io::Json& facts) {
  using reef::io::require;
  using reef::io::value_or;
  const char* const source = "the checkpoint";
  text = require<std::uint32_t>(facts, "user.text", source);
  batch = require<std::int64_t>(facts, "user.batch", source);
  context = require<std::int64_t>(facts, "user.context", source);
  ranks = value_or<std::int64_t>(facts, "ranks", 0, source);
  tokens_a_step = value_or<std::int64_t>(facts, "user.tokens_a_step", 0, source);
  const reef::io::Json& user = facts.at("user");
  if (user.contains("learning_rate")) {
    learning_rate.emplace();
    learning_rate->peak = require<double>(user, "learning_rate.peak", source);
    learning_rate->warmup = require<std::int64_t>(user, "learning_rate.warmup", source);
    learning_rate->steps = require<std::int64_t>(user, "learning_rate.steps", source);
    learning_rate->floor = require<double>(user, "learning_rate.floor", source);
  }
  const auto kept = value_or<reef::io::Json>(user, "options", reef::io::Json::object(), source);
  for (const auto& [name, value] : kept.items()) {
    if (value.is_string()) options[name] = value.get<std::string>();
  }
}

std::string CheckpointFacts::differences(const std::map<std::string, std::string>& now) const {
  std::string found;
  for (const auto& [name, value] : now) {
    const auto was = options.find(name);
    if (was == options.end() || was->second == value) continue;
    found += reef::concat(found.empty() ? "" : "; ", name, " was ", was->second, ", is ", value);
  }
  return found;
}

void CheckpointFacts::require_model(const std::map<std::string, std::string>& now) const {
  for (const char* const name : {"--model", "--seed", "--precision", "--dropout"}) {
    const auto was = options.find(name);
    const auto is = now.find(name);
    if (was == options.end() || is == now.end() || was->second == is->second) continue;
    throw reef::OptionError("the checkpoint was written with another ", name, ": ", was->second,
                            ", this run has ", is->second, ".\n  fix: give the same.");
  }
}

}  // namespace reef_examples
