#include "option_sense.hpp"

#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>

#include <reef/codec/chosen.hpp>
#include <reef/core/text.hpp>
#include <reef/plan/pipeline_schedules.hpp>

#include "../support/earlier_files.hpp"
#include "../support/file_roles.hpp"
#include "../support/own_text.hpp"
#include "../support/tokenizer.hpp"
#include "../support/weight_files.hpp"
#include "graph_model.hpp"

namespace reef_examples {

namespace {

namespace fs = std::filesystem;

/// Over stages.
bool is_spread(const std::string& recipe) { return recipe == "dtfm" || recipe == "fusion" || recipe == "reef"; }

/// An empty text names nothing, and would count as not given. Only a prompt may be empty.
void require_names(const CLI::App& app) {
  for (const CLI::Option* const option : app.get_options()) {
    if (option->count() == 0 || option->get_expected_max() == 0) continue;
    const std::string name = option->get_name();
    if (name == "--prompt") continue;
    for (const std::string& text : option->reduced_results()) {
      if (!text.empty()) continue;
      throw CLI::ValidationError(
          name, reef::concat("'' is no ", name == "--document-end" ? "token" : "path",
                             "; name one, or leave the option out"));
    }
  }
}

/// Returns true if --data names files of samples, .jsonl, alone.
bool have_samples(const TrainOptions& o) {
  return !o.data.empty() && std::all_of(o.data.begin(), o.data.end(),
                                        [](const std::string& file) { return is_named_pairs(file); });
}

/// Refuses what is of a language model alone; `classes` is the option by which the model tells classes.
void require_use_beside_classes(const CLI::App& app, const char* classes) {
  for (const char* const name : {"--prompt", "--prompt-tokens"}) {
    if (app.get_option(name)->count() > 0)
      throw CLI::ValidationError(name, reef::concat("is of a sample of text, of which a model of ", classes, " makes none"));
  }
  if (app.get_option("--prompts")->count() > 0)
    throw CLI::ValidationError(classes, "is beside --prompts: a soft prompt's file has no head");
}

/// Refuses for an --init for sequence classification what is refused beside --classes.
void require_use_beside_labels(const CLI::App& app, const TrainOptions& o) {
  if (!have_samples(o) || o.data_kind != "auto") {
    throw CLI::ValidationError("--init", reef::concat(o.init, " tells ", o.classes, " classes, and --data has no texts with "
                               "labels; give a .jsonl with a line {\"text\": ..., \"label\": ...} for each"));
  }
  if (app.get_option("--template")->count() > 0)
    throw CLI::ValidationError("--template", "is of conversations, lines with messages; the texts of this --init have labels");
  require_use_beside_classes(app, "--init");
}

/// An option that would be ignored is refused: whoever gives it takes it to be heeded.
void require_use_of_options(const CLI::App& app, const TrainOptions& o) {
  const auto given = [&app](const char* name) { return app.get_option(name)->count() > 0; };
  const auto refuse = [](const char* name, const std::string& why) {
    throw CLI::ValidationError(name, why);
  };
  for (const char* const name : {"--sync-every", "--fragments", "--overlap", "--mix", "--outer-lr"}) {
    if (given(name) && o.recipe != "diloco" && o.recipe != "sparse")
      refuse(name, "is of --recipe diloco or sparse, not of " + o.recipe);
  }
  for (const char* const name : {"--model", "--context", "--batch", "--dropout", "--init", "--export"}) {
    if (given(name) && !o.graph.empty()) refuse(name, "is of the GPT of --model; with --graph the file says what is trained");
  }
  for (const char* const name : {"--pack", "--classes", "--template"}) {
    if (given(name) && (!have_samples(o) || o.data_kind != "auto"))
      refuse(name, "is of samples that a .jsonl of --data has; text and tokens fill each row as it is");
  }
  if (given("--template") && o.classes > 0)
    refuse("--template", "is of conversations, lines with messages; the texts of --classes are as they are");
  if (o.pack && given("--prompts"))
    refuse("--pack", "is beside --prompts: a row has one soft prompt, which other samples would not see");
  if (o.pack && o.dropout > 0)
    refuse("--pack", "goes with --dropout 0: samples of a row would draw the same");
  if (o.classes > 0) require_use_beside_classes(app, "--classes");
  for (const char* const name : {"--lora", "--prompts"}) {
    if (given(name) && given("--init-adapter"))
      refuse(name, "says what the folder of --init-adapter says; give one of them");
  }
  if (o.deep_prompts && !given("--prompts")) refuse("--deep-prompts", "is of --prompts P, the positions that have prompts");
  if (given("--prompts") && given("--lora"))
    refuse("--prompts", "is beside --lora: an adapter's folder has one of them; give one");
  if (given("--export-adapter") && !o.adapter && !given("--init-adapter"))
    refuse("--export-adapter", "is of --lora, --prompts or --init-adapter: without them there is no adapter");
  if (given("--outer-momentum") && o.recipe != "diloco")
    refuse("--outer-momentum", "is of --recipe diloco, not of " + o.recipe);
  for (const char* const name : {"--divisor", "--clip-median", "--decay"}) {
    if (given(name) && o.recipe != "sparse")
      refuse(name, "is of --recipe sparse, not of " + o.recipe);
  }
  if (o.recipe == "sparse" && o.overlap == "eager")
    refuse("--overlap", "eager is of --recipe diloco, not of sparse, whose differences are encoded");
  for (const char* const name : {"--pipeline", "--stages", "--order", "--unit", "--layout", "--place",
                                  "--micro-batches-per-update"}) {
    if (given(name) && !is_spread(o.recipe))
      refuse(name, "is of --recipe dtfm, fusion or reef, not of " + o.recipe);
  }
  if (o.recipe == "reef" && o.precision != "fp32")
    refuse("--precision", o.precision + " is of other recipes: reef has fp32");
  if (o.rule == "muon" && o.recipe != "zero1" && o.recipe != "atom" && o.recipe != "diloco")
    refuse("--rule", "muon is of --recipe zero1, atom or diloco, not of " + o.recipe);
  if (!o.compress.empty() && o.recipe == "sparse")
    refuse("--compress", "is of other recipes: sparse has a codec of its own");
  for (const auto& [channel, codec] : o.compress) {
    if (codec == "none") continue;
    if (channel.starts_with("activation") && !is_spread(o.recipe))
      refuse("--compress", channel + " are between stages, of --recipe dtfm, fusion or reef, not of " + o.recipe);
    if (o.recipe == "diloco")
      refuse("--compress", "is of other recipes: ranks of diloco send what changed of weights, as it is; --recipe sparse encodes that");
    if (channel == "parameters" && (o.recipe == "ddp" || o.recipe == "atom"))
      refuse("--compress", "parameters are sent where each rank updates a share of them, not by --recipe " + o.recipe + "; gradients=CODEC, or --recipe zero1");
  }
  const bool replans = o.replan_ratios > 0 || !o.replay_ratios.empty();
  if (o.adapt_ratios && ((o.network.empty() && !replans) || !is_spread(o.recipe)))
    refuse("--adapt-ratios", "is of --recipe dtfm, fusion or reef with --network, whose links it follows, or with --replan-ratios");
  for (const char* const name : {"--replan-ratios", "--replay-ratios"}) {
    if (given(name) && !o.adapt_ratios) refuse(name, "is of --adapt-ratios");
  }
  if (o.replan_ratios > 0 && given("--replay-ratios"))
    refuse("--replay-ratios", "has the ratios that --replan-ratios would measure; give one of them");
  const auto codec_of = [&o](const char* channel) {
    const auto given_codec = o.compress.find(channel);
    return given_codec == o.compress.end() ? std::string("none") : given_codec->second;
  };
  if (o.one_mask && codec_of("activations") == "none")
    refuse("--one-mask", "is of what --compress activations=CODEC leaves out, as top-k:10");
  const bool have_ratios = std::any_of(o.compress.begin(), o.compress.end(), [](const auto& channel) {
    const reef::codec::Chosen codec = reef::codec::Chosen::of(channel.second);
    return codec && codec.takes_ratio();
  });
  if (given("--ramp-ratios") && !have_ratios)
    refuse("--ramp-ratios", "is of the ratios of --compress, as gradients=ef+top-k:100");
  const bool encodes = o.recipe == "sparse" || std::any_of(o.compress.begin(), o.compress.end(),
                                                           [](const auto& channel) { return channel.second != "none"; });
  for (const char* const name : {"--measure-error", "--record-edges"}) {
    if (given(name) && !encodes)
      refuse(name, "is of what codecs make of messages: of --compress, or of --recipe sparse");
  }
  if (o.record_step > o.steps)
    refuse("--record-edges", reef::concat("step ", o.record_step, " is not among the ", o.steps, " of --steps"));
  if (given("--order") && given("--pipeline"))
    refuse("--order", "says what --pipeline says; give one of them");
  if (given("--micro-batches-per-update") && o.pipeline != "2bw")
    refuse("--micro-batches-per-update", "is of --pipeline 2bw, not of " + o.pipeline);
  if (reef::plan::is_asynchronous_schedule(o.pipeline) && o.non_finite != "ignore")
    refuse("--pipeline", o.pipeline + " updates within a step, so it goes with --non-finite ignore --clip 0");
  if (given("--profile") && o.recipe != "atom" && !is_spread(o.recipe))
    refuse("--profile", "is of --recipe atom, dtfm, fusion or reef, not of " + o.recipe);
  if (given("--device-flops") && given("--profile"))
    refuse("--profile", "says how fast operators are, and --device-flops too; give one of them");
  if (given("--device-flops") && (o.device_flops < 1e-6 || o.device_flops > 1e9))
    refuse("--device-flops", "is in GFLOP/s, from 0.000001 to 1e9; left out, ranks are as fast as their cores");
  if (o.activations.find("stash") != std::string::npos && o.recipe != "atom" && o.recipe != "reef")
    refuse("--activations", o.activations + " is of --recipe atom or reef, not of " + o.recipe);
  if (o.non_finite == "ignore" && o.clip > 0)
    refuse("--non-finite", "ignore goes with --clip 0: without norms nothing can be clipped");
  if (given("--checkpoint-every") && !given("--checkpoint")) {
    refuse("--checkpoint-every", "needs --checkpoint DIR, where the checkpoints are to be");
  }
  if (given("--checkpoint-keep") && !given("--checkpoint")) {
    refuse("--checkpoint-keep", "needs --checkpoint DIR, where the checkpoints are to be");
  }
  if (o.resume && o.checkpoint.empty()) {
    refuse("--resume", "needs --checkpoint DIR, where the checkpoints are");
  }
  if (given("--mix") && o.overlap != "mix")
    refuse("--mix", "is of --overlap mix, not of " + o.overlap);
  if (given("--micro-batches") && given("--accumulate") &&
      app.get_option("--accumulate")->reduced_results().back().starts_with("fixed:")) {
    refuse("--accumulate", "fixed:N and --micro-batches say the same; give one of them");
  }
}

/// Of recipes that stand for several options.
void add_defaults_of_recipe(const CLI::App& app, TrainOptions& o) {
  if (o.recipe != "fusion" && o.recipe != "reef") return;
  if (o.recipe == "fusion" && app.get_option("--layout")->count() == 0) o.layout = "op-fence";
  o.compress.try_emplace("activations", "top-k:10");
  const auto codec = reef::codec::Chosen::of(o.compress.at("activations"));
  const bool selects = codec && codec.takes_ratio();
  o.one_mask |= selects && !o.compress.contains("activation-gradients");
  o.adapt_ratios |= selects && !o.network.empty();
}

/// What is written takes the place of nothing that is read or written under another name.
void require_files_apart(const TrainOptions& o) {
  FileRoles files;
  for (const std::string& file : o.data) files.reads("--data", file);
  if (o.data.empty()) {
    const char* const own = "a run without --data (Reef's own sources)";
    for (const auto& file : own_text().files) files.reads(own, file);
    for (const char* file : {"README.md", "CHANGELOG.md", "CONTRIBUTING.md", "CMakeLists.txt"})
      files.reads(own, fs::path(REEF_DATA_DIRECTORY) / file);
  }
  for (const auto& file : files_of_tokenizer(o.tokenizer)) files.reads("--tokenizer", file);
  if (!o.init.empty()) {
    for (const auto& file : files_of_weights(o.init)) files.reads("--init", file);
    files.reads_beside("--init", config_beside(o.init));
  }
  if (!o.init_adapter.empty()) {
    for (const auto& file : files_of_adapter(o.init_adapter)) files.reads("--init-adapter", file);
  }
  if (!o.export_adapter.empty()) {
    for (const auto& file : files_of_adapter(o.export_adapter)) files.writes("--export-adapter", file);
  }
  files.reads("--graph", o.graph);
  files.reads("--network", o.network);
  files.reads("--order", o.order);
  files.reads("--plan", o.plan);
  files.writes("--metrics", o.metrics);
  files.writes("--trace", o.trace);
  files.writes("--report", o.report);
  files.writes("--export", o.export_file);
  files.writes("--record-edges", o.record_edges);
  if (!o.export_file.empty()) files.writes_if_absent("--export", config_beside(o.export_file));
  std::error_code ignored;
  if (fs::exists(o.profile, ignored)) {
    files.reads("--profile", o.profile);
  } else {
    files.writes("--profile", o.profile);
  }
  files.keeps_checkpoints("--checkpoint", o.checkpoint);
  if (const auto clash = files.clash()) throw CLI::ValidationError(clash->first, clash->second);
}

/// What is there is left by an earlier run, or stays.
void require_places(const TrainOptions& o) {
  const auto require = [](const char* option, Output kind, const std::string& path) {
    if (const auto why = in_the_way(kind, path)) throw CLI::ValidationError(option, *why);
  };
  require("--metrics", Output::metrics, o.metrics);
  require("--trace", Output::trace, o.trace);
  require("--report", Output::report, o.report);
  require("--export", Output::weights, o.export_file);
  if (!o.export_adapter.empty()) {
    require("--export-adapter", Output::weights, (fs::path(o.export_adapter) / "adapter_model.safetensors").string());
  }
}

/// A soft prompt leaves room for text, and changes no weight.
void require_room_for_text(const TrainOptions& o) {
  const std::int64_t prompt = o.prompt_positions();
  if (prompt == 0) return;
  const char* const whose = o.init_adapter.empty() ? "--prompts" : "--init-adapter";
  if (!o.export_file.empty())
    throw CLI::ValidationError("--export", "writes weights, which a soft prompt leaves as they are; --export-adapter writes the prompt");
  if (prompt >= o.context) {
    throw CLI::ValidationError(whose, reef::concat("has ", prompt, " positions, which leave no room for text in a --context of ",
                                                   o.context, "; give a larger one"));
  }
}

/// A model to start from that is a folder brings the tokenizer in it, unless another is named.
void take_tokenizer_of_init(const CLI::App& app, TrainOptions& o) {
  std::error_code unknown;
  if (app.get_option("--tokenizer")->count() > 0 || !fs::is_directory(o.init, unknown)) return;
  const std::string name = tokenizer_of_folder(o.init);
  if (!name.empty()) o.tokenizer = name;
}

}  // namespace

void require_sense(const CLI::App& app, TrainOptions& options) {
  add_defaults_of_recipe(app, options);
  take_tokenizer_of_init(app, options);
  require_names(app);
  require_use_of_options(app, options);
  require_files_apart(options);
  require_places(options);
  read_graph(options);
  read_init(options);
  if (options.labels) require_use_beside_labels(app, options);
  read_adapter_options(options);
  require_room_for_text(options);
  if (options.classes > 0) options.prompt_tokens = 0;  // there is no text to sample
  for (const char* const name : {"--model", "--dropout"}) {
    if (options.given && app.get_option(name)->count() > 0) {
      throw CLI::ValidationError(name, "is of a GPT; of this --init its config.json says what is trained");
    }
  }
}

}  // namespace reef_examples
