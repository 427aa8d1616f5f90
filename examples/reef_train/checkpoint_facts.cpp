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
  model = value_or<std::uint64_t>(facts, "model", 0, source);
  instruction_set = value_or<std::string>(facts, "instruction_set", "", source);
  numerics = value_or<std::string>(facts, "numerics", "", source);
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

void CheckpointFacts::require_model(const CheckpointFacts& now) const {
  for (const std::string name : {"--graph", "--model", "--seed", "--precision", "--dropout", "--pack", "--classes", "--freeze", "--lora", "--prompts", "--deep-prompts", "--init"}) {
    // Other weights to begin with are no other model, unless their positions or padding are others.
    if (name == "--init" && (model == 0 || model == now.model)) continue;
    const auto was = options.find(name);
    const auto is = now.options.find(name);
    if (was == options.end() || is == now.options.end() || was->second == is->second) continue;
    throw reef::OptionError("the checkpoint was written with another ", name, ": ", was->second,
                            ", this run has ", is->second, ".\n  fix: give the same.");
  }
}

std::vector<std::string> CheckpointFacts::compare(const CheckpointFacts& now, std::int64_t step,
                                                  std::int64_t steps) const {
  std::vector<std::string> warnings;
  const std::string differs = differences(now.options);
  const auto require = [&](const char* what, std::int64_t before, std::int64_t here) {
    if (before == here) return;
    throw reef::OptionError(
        "the checkpoint was written with another ", what, ": ", before, ", this run has ", here,
        differs.empty() ? "" : ".\n  options that differ: ", differs, ".\n  fix: give the same.");
  };
  require("text (--data, --tokenizer; its checksum)", text, now.text);
  require("--batch", batch, now.batch);
  require("--context", context, now.context);
  require_model(now);
  if (!differs.empty())
    warnings.push_back("warning: options differ from the checkpoint's: " + differs);
  if (step >= steps) return warnings;  // nothing goes on
  if (tokens_a_step != 0 && tokens_a_step != now.tokens_a_step) {
    warnings.push_back(reef::concat("warning: a step has ", now.tokens_a_step, " tokens on ",
                                    now.ranks, " rank(s), it had ", tokens_a_step, " on ", ranks,
                                    " before the checkpoint"));
  }
  if (!instruction_set.empty() && instruction_set != now.instruction_set) {
    warnings.push_back(reef::concat("warning: the instruction set of the processors is ",
                                    now.instruction_set, ", it was ", instruction_set,
                                    " before the checkpoint: bits differ from those of a run that "
                                    "was not interrupted"));
  } else if (!numerics.empty() && numerics != now.numerics) {
    warnings.push_back(reef::concat("warning: this program is of another numerics class, ", now.numerics, ", than the one that "
                                    "wrote the checkpoint, ", numerics, ", as with another matrix library: bits differ from "
                                    "those of a run that was not interrupted"));
  }
  const double before = learning_rate ? learning_rate->at(step) : 0;
  const double rate = now.learning_rate ? now.learning_rate->at(step) : before;
  if (learning_rate && before != rate) {
    const auto digits = [](double number) { return reef::concat(static_cast<float>(number)); };
    warnings.push_back(reef::concat("warning: the learning rate of step ", step + 1, " is ",
                                    digits(rate), ", by the checkpoint's options it was to be ",
                                    digits(before)));
  }
  return warnings;
}

reef::io::Json CheckpointFacts::json() const {
  reef::io::Json facts{{"text", text},
                       {"batch", batch},
                       {"context", context},
                       {"options", options},
                       {"tokens_a_step", tokens_a_step}};
  if (const auto recipe = options.find("--recipe"); recipe != options.end()) facts["called"] = called_by(recipe->second);
  if (learning_rate) {
    facts["learning_rate"] = {{"peak", learning_rate->peak},
                              {"warmup", learning_rate->warmup},
                              {"steps", learning_rate->steps},
                              {"floor", learning_rate->floor}};
  }
  return facts;
}

}  // namespace reef_examples
