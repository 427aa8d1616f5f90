#include "option_groups.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include <reef/core/text.hpp>

namespace reef_examples {

namespace {

/// Options that --help shows together, and the recipes that they are of: none, of all. An option of fewer begins with them: "sparse: ...".
struct OptionGroup {
  const char* title;
  std::vector<const char*> options;
  std::vector<std::string_view> recipes{};
};

const std::vector<OptionGroup>& option_groups() {
  static const std::vector<OptionGroup> groups{
      {"What is trained, by which recipe",
       {"--recipe", "--plan", "--data", "--data-kind", "--document-end", "--template", "--pack", "--classes",
        "--tokenizer", "--model", "--graph", "--context", "--batch", "--dropout", "--precision", "--init", "--seed"}},
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
      {"What ranks send (all recipes but diloco and sparse)",
       {"--compress", "--ramp-ratios"},
       {"ddp", "zero1", "dpu", "acco-wp", "acco", "atom", "dtfm", "fusion", "reef"}},
      {"What codecs make of messages (all recipes but diloco)",
       {"--measure-error", "--record-edges"},
       {"ddp", "zero1", "dpu", "acco-wp", "acco", "atom", "sparse", "dtfm", "fusion", "reef"}},
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

/// What a recipe is, in a line of --help.
struct RecipeText {
  std::string_view name;
  std::string_view text;
};

constexpr std::array<RecipeText, 11> recipe_texts{{
    {"ddp", "every rank reduces all gradients and updates all weights, once a step"},
    {"zero1", "as ddp, to the same bits, but each of P ranks keeps 1/P of AdamW's moments"},
    {"dpu", "gradients are exchanged beside the next step, so they are applied one step late"},
    {"acco", "a step has two phases; the exchange of each runs beside the other's micro-batches (ACCO)"},
    {"acco-wp", "acco by weight prediction: one phase, at weights predicted by the gradient before"},
    {"diloco", "ranks step on their own; every --sync-every steps they average what changed (DiLoCo)"},
    {"sparse", "diloco that sends 64 of 4096 differences, in two bits each (SparseLoCo)"},
    {"atom", "as ddp, of a model that a device has no room for: its parts come and go (ATOM)"},
    {"dtfm", "a pipeline: a rank has a stage of the model; replicas of it as zero1 (DT-FM)"},
    {"fusion", "dtfm with --layout op-fence, --compress activations=top-k:10, --one-mask, --adapt-ratios"},
    {"reef", "all at once: dtfm with codecs as of fusion, acco with fixed counts, swapped as by atom"},
}};

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
  constexpr std::size_t column = 10;
  std::string recipes = app.get_description() + "\n\nRecipes:\n";
  for (const RecipeText& one : recipe_texts) recipes += reef::concat("  ", one.name, std::string(column - one.name.size(), ' '), one.text, "\n");
  app.description(recipes);
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
  const auto of_recipe = std::find_if(recipe_texts.begin(), recipe_texts.end(), [&](const RecipeText& one) { return one.name == recipe; });
  app.description(reef::concat("Trains a GPT on all ranks of an MPI job, here by --recipe ", recipe, ": ",
                               of_recipe == recipe_texts.end() ? "" : of_recipe->text,
                               ".\nThese are the options of that recipe; --help alone lists all recipes and options."));
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
