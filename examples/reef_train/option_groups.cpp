#include "option_groups.hpp"

#include <algorithm>
#include <cstddef>
#include <string_view>

#include <reef/core/text.hpp>

namespace reef_examples {

namespace {

/// Options that --help shows together, and the recipes that they are of: none, of all. An option of fewer begins with them: "diloco, sparse: ...".
struct OptionGroup {
  const char* title;
  std::vector<const char*> options;
  std::vector<std::string_view> recipes{};
};

const std::vector<OptionGroup>& option_groups() {
  static const std::vector<OptionGroup> groups{
      {"What is trained, by which recipe",
       {"--recipe", "--plan", "--data", "--data-kind", "--document-end", "--pack", "--classes", "--tokenizer", "--model",
        "--graph", "--context", "--batch", "--dropout", "--precision", "--init", "--seed"}},
      {"Few of the parameters", {"--freeze", "--lora", "--prompts", "--deep-prompts", "--init-adapter", "--export-adapter"}},
      {"Steps",
       {"--micro-batches", "--steps", "--lr", "--warmup", "--rule", "--group", "--weight-decay",
        "--clip", "--non-finite"}},
      {"Accumulation that adapts (acco, acco-wp, dpu, reef)",
       {"--accumulate", "--sampler"},
       {"acco", "acco-wp", "dpu", "reef"}},
      {"Steps of each rank's own (diloco, sparse)",
       {"--sync-every", "--fragments", "--overlap", "--mix", "--outer-lr", "--outer-momentum",
        "--divisor", "--clip-median", "--decay"},
       {"diloco", "sparse"}},
      {"Machines",
       {"--threads", "--network", "--device-memory", "--device-link", "--device-flops", "--slow",
        "--deadline"}},
      {"What ranks send (all recipes but sparse, which has a codec of its own)",
       {"--compress", "--ramp-ratios", "--measure-error", "--record-edges"}},
      {"Stages (dtfm, fusion, reef)",
       {"--stages", "--place", "--pipeline", "--micro-batches-per-update", "--layout", "--unit",
        "--order", "--adapt-ratios", "--replan-ratios", "--replay-ratios", "--one-mask"},
       {"dtfm", "fusion", "reef"}},
      {"Memory and times to plan by (atom, reef; of dtfm and fusion --profile; all recompute)",
       {"--activations", "--profile"}},
      {"Checkpoints", {"--checkpoint", "--checkpoint-every", "--checkpoint-keep", "--resume"}},
      {"What is told and written",
       {"--export", "--metrics", "--trace", "--report", "--eval-tokens", "--eval-every", "--prompt",
        "--prompt-tokens"}}};
  return groups;
}

/// Whether what an option says of itself begins with recipes, and `recipe` is not among them.
bool begins_with_others(const std::string& description, const std::string& recipe,
                        const std::vector<std::string>& known) {
  bool of_some = false;
  std::string_view head =
      std::string_view(description).substr(0, std::min(description.find(": "), description.size()));
  while (!head.empty()) {
    const std::string_view word = head.substr(0, head.find(", "));
    if (word == recipe) return false;
    of_some |= std::find(known.begin(), known.end(), word) != known.end();
    head.remove_prefix(std::min(word.size() + 2, head.size()));
  }
  return of_some;
}

}  // namespace

void set_groups(CLI::App& app) {
  for (const OptionGroup& group : option_groups()) {
    for (const char* const name : group.options) app.get_option(name)->group(group.title);
  }
}

void take_recipe_of_help(CLI::App& app, std::vector<std::string>& arguments,
                         const std::vector<std::string>& known) {
  const auto help = std::find_if(arguments.begin(), arguments.end(), [](const std::string& text) {
    return text == "--help" || text == "-h";
  });
  if (help == arguments.end() || help + 1 == arguments.end() || help[1].starts_with("-")) return;
  const std::string recipe = help[1];
  if (std::find(known.begin(), known.end(), recipe) == known.end()) {
    throw CLI::ValidationError(
        "--help", "'" + recipe + "' is no recipe; one of " + CLI::detail::join(known, ", "));
  }
  arguments.erase(help + 1);
  app.description(reef::concat("Trains a GPT on all ranks of an MPI job, here by --recipe ", recipe,
                               ", whose options these are; --help alone lists all."));
  for (const OptionGroup& group : option_groups()) {
    const bool is_of_it =
        group.recipes.empty() ||
        std::find(group.recipes.begin(), group.recipes.end(), recipe) != group.recipes.end();
    for (const char* const name : group.options) {
      CLI::Option* const option = app.get_option(name);
      if (!is_of_it || begins_with_others(option->get_description(), recipe, known))
        option->group("");  // hidden
    }
  }
}

}  // namespace reef_examples
