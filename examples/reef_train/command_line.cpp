#include "command_line.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include <reef/codec/chosen.hpp>
#include <reef/comm/stop_request.hpp>
#include <reef/core/finite.hpp>
#include <reef/core/text.hpp>
#include <reef/core/version.hpp>
#include <reef/io/json.hpp>
#include <reef/plan/pipeline_schedules.hpp>

#include "../support/earlier_files.hpp"
#include "../support/file_roles.hpp"
#include "../support/input_files.hpp"
#include "../support/model_shape.hpp"
#include "../support/number_option.hpp"
#include "../support/numbers.hpp"
#include "../support/output_places.hpp"
#include "../support/own_text.hpp"
#include "../support/tokenizer.hpp"
#include "../support/weight_files.hpp"
#include "graph_model.hpp"
#include "options.hpp"

namespace reef_examples {

namespace {

namespace fs = std::filesystem;

/// "4x4x128" as layers, heads and channels.
void parse_model(const std::string& text, TrainOptions& options) {
  const auto shape = parse_model_shape(text);
  if (!shape) {
    throw CLI::ValidationError("--model",
                               "'" + text + "' is not LAYERSxHEADSxCHANNELS, as in 4x4x128");
  }
  options.layers = shape->layers;
  options.heads = shape->heads;
  options.channels = shape->channels;
}

/// "3:4" as rank 3, four times slower.
std::pair<int, double> parse_slow(const std::string& text) {
  const std::size_t colon = std::min(text.find(':'), text.size());
  const auto rank = parse_number<int>(text.substr(0, colon));
  const auto factor = parse_number<double>(text.substr(std::min(colon + 1, text.size())));
  if (!rank || *rank < 0 || !factor || *factor < 1 || *factor >= 1e6) {
    throw CLI::ValidationError("--slow",
                               "'" + text + "' is not RANK:FACTOR with a factor from 1 on");
  }
  return {*rank, *factor};
}

/// "*.bias:0.5" as half the rate, "*.bias:1:0" as the rate and no decay.
reef::run::ParameterGroup parse_group(const std::string& text) {
  const std::size_t first = std::min(text.find(':'), text.size());
  const std::size_t second = std::min(text.find(':', std::min(first + 1, text.size())), text.size());
  const auto number = [&](std::size_t begin, std::size_t end) {
    const auto value = parse_number<double>(text.substr(std::min(begin, end), end - std::min(begin, end)));
    return value && reef::within(*value, 0, 1000) ? value : std::nullopt;
  };
  const auto factor = number(first + 1, second);
  const auto decay = number(second + 1, text.size());
  if (first == 0 || !factor || (second < text.size() && !decay)) {
    throw CLI::ValidationError("--group", "'" + text + "' is not PATTERN:FACTOR or PATTERN:FACTOR:DECAY, with numbers "
                                          "from 0 to 1000");
  }
  return {text.substr(0, first), *factor, decay};
}

/// "gradients=ef+top-k:100", checked.
void parse_compress(const std::string& text, TrainOptions& o) {
  const std::size_t equals = std::min(text.find('='), text.size());
  const std::string channel = text.substr(0, equals);
  constexpr std::array<std::string_view, 4> channels{"activations", "activation-gradients", "gradients", "parameters"};
  if (equals == text.size() || std::find(channels.begin(), channels.end(), channel) == channels.end()) {
    throw CLI::ValidationError("--compress", "'" + text + "' is not CHANNEL=CODEC with activations, activation-gradients, "
                                             "gradients or parameters, as gradients=ef+top-k:100");
  }
  const std::string codec = text.substr(equals + 1);
  try {
    static_cast<void>(reef::codec::Chosen::of(codec));
  } catch (const reef::OptionError& error) {
    throw CLI::ValidationError("--compress", error.what());
  }
  o.compress[channel] = codec;
}

/// "100:edges.safetensors" as step 100 into that file.
void parse_record_edges(const std::string& text, TrainOptions& o) {
  const std::size_t colon = std::min(text.find(':'), text.size());
  const auto step = parse_number<std::int64_t>(text.substr(0, colon));
  const std::string file = text.substr(std::min(colon + 1, text.size()));
  if (!step || *step < 1 || file.empty()) {
    throw CLI::ValidationError("--record-edges", "'" + text + "' is not STEP:FILE with a step from 1 on, as "
                                                 "100:edges.safetensors");
  }
  if (names_a_folder(file)) {  // its extension would be put behind the dot, where nobody finds the file
    throw CLI::ValidationError("--record-edges", "'" + file + "' is the name of a folder; name a file in it, as "
                                                 "100:edges.safetensors");
  }
  o.record_step = *step;
  o.record_edges = file;
}

const std::map<std::string, Recipe> recipes{
    {"ddp", run_ddp},         {"zero1", run_zero1}, {"atom", run_atom},    {"dpu", run_dpu},
    {"acco-wp", run_acco_wp}, {"acco", run_acco},   {"diloco", run_diloco}, {"sparse", run_sparse},
    {"dtfm", run_dtfm},       {"fusion", run_dtfm}, {"reef", run_reef}};

/// Over stages.
bool is_spread(const std::string& recipe) { return recipe == "dtfm" || recipe == "fusion" || recipe == "reef"; }

std::vector<std::string> recipe_names() {
  std::vector<std::string> names;
  for (const auto& [name, run] : recipes) names.push_back(name);
  return names;
}

/// The orders that there are by name.
std::vector<std::string> pipelines() {
  const std::vector<std::string_view> known = reef::plan::pipeline_schedule_names();
  std::vector<std::string> names(known.begin(), known.end());
  names.emplace_back("searched");
  return names;
}

/// "adaptive", "cap:8" as at most eight micro-batches a phase, "fixed:4" as four, "fixed" as those of --micro-batches.
void parse_accumulate(const std::string& text, TrainOptions& o) {
  const auto count = [&text](std::string_view kind) {
    if (!text.starts_with(kind)) return 0;
    const int number = parse_number<int>(std::string_view(text).substr(kind.size())).value_or(0);
    return number >= 1 && number <= 65536 ? number : 0;
  };
  if (text == "adaptive") {
    o.accumulation = reef::Accumulation::adaptive();
  } else if (const int most = count("cap:"); most > 0) {
    o.accumulation = reef::Accumulation::capped(most);
  } else if (text == "fixed") {
    o.accumulation = reef::Accumulation::fixed();
  } else if (const int fixed = count("fixed:"); fixed > 0) {
    o.accumulation = reef::Accumulation::fixed();
    o.micro_batches = fixed;
  } else {
    throw CLI::ValidationError(
        "--accumulate",
        "'" + text + "' is not adaptive, cap:M, fixed or fixed:N, with numbers from 1 to 65536");
  }
}

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
    if (channel.starts_with("activation") && !is_spread(o.recipe) && codec != "none")
      refuse("--compress", channel + " are between stages, of --recipe dtfm, fusion or reef, not of " + o.recipe);
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
}

/// An option and what a plan gives it.
using PlannedOption = std::pair<std::string, std::string>;

/// What a plan adds to a command line, but for options that are `given`: these are told in `otherwise`.
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

/// The groups of --help, with the recipes that their options are of. They come in the order of their first options.
void set_groups(CLI::App& app) {
  const std::vector<std::pair<const char*, std::vector<const char*>>> groups{
      {"What is trained, by which recipe",
       {"--recipe", "--plan", "--data", "--data-kind", "--document-end", "--tokenizer", "--model", "--graph", "--context", "--batch",
        "--dropout", "--precision", "--init", "--seed"}},
      {"Steps", {"--micro-batches", "--steps", "--lr", "--warmup", "--rule", "--group", "--weight-decay", "--clip", "--non-finite"}},
      {"Accumulation that adapts (acco, acco-wp, dpu, reef)", {"--accumulate", "--sampler"}},
      {"Steps of each rank's own (diloco, sparse)",
       {"--sync-every", "--fragments", "--overlap", "--mix", "--outer-lr", "--outer-momentum", "--divisor", "--clip-median", "--decay"}},
      {"Machines", {"--threads", "--network", "--device-memory", "--device-link", "--device-flops", "--slow", "--deadline"}},
      {"What ranks send (all recipes but sparse, which has a codec of its own)",
       {"--compress", "--ramp-ratios", "--measure-error", "--record-edges"}},
      {"Stages (dtfm, fusion, reef)",
       {"--stages", "--place", "--pipeline", "--micro-batches-per-update", "--layout", "--unit", "--order", "--adapt-ratios",
        "--replan-ratios", "--replay-ratios", "--one-mask"}},
      {"Memory and times to plan by (atom, reef; of dtfm and fusion --profile; all recompute)", {"--activations", "--profile"}},
      {"Checkpoints", {"--checkpoint", "--checkpoint-every", "--checkpoint-keep", "--resume"}},
      {"What is told and written",
       {"--export", "--metrics", "--trace", "--report", "--eval-tokens", "--eval-every", "--prompt", "--prompt-tokens"}}};
  for (const auto& [group, names] : groups) {
    for (const char* const name : names) app.get_option(name)->group(group);
  }
}

}  // namespace

Recipe recipe_of(const std::string& name) { return recipes.at(name); }

void add_options(CLI::App& app, TrainOptions& o) {
  // An option given twice counts as it was given last, so that scripts can add to a command.
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  app.add_option("--recipe", o.recipe,
                 "the composition to train with. fusion: dtfm, with --layout op-fence and --compress activations=top-k:10 "
                 "--one-mask, and of a --network --adapt-ratios (AdaTopK); reef: the same but for the layout, of acco with fixed "
                 "counts, and each stage swapped as by atom")
      ->check(CLI::IsMember(recipe_names()))
      ->capture_default_str();
  app.add_option(
         "--data", o.data,
         "text files, or files of tokens (.bin of llm.c or nanoGPT, .npy of NumPy); default: "
         "Reef's own sources. Held out: every tenth of many texts, else the last tenth; of "
         "tokens the files with val, valid or validation as a word of their name, else the "
         "last tenth")
      ->check(readable_file())
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option("--data-kind", o.data_kind,
                 "of --data: auto, tokens where files are named .bin or .npy, else text; text; "
                 "tokens; bytes, whatever they mean, of --tokenizer bytes alone")
      ->check(CLI::IsMember({"auto", "text", "tokens", "bytes"}))
      ->capture_default_str();
  app.add_option(
      "--document-end", o.document_end,
      "a token to set behind each document of text, by its number or its text, such as "
      "'<|endoftext|>'; of --tokenizer bytes a byte, such as 0. A document is a file, or "
      "a part of one that such a text ends. Default: none");
  app.add_option_function<std::string>(
         "--model", [&o](const std::string& text) { parse_model(text, o); },
         "LAYERSxHEADSxCHANNELS")
      ->default_str("4x4x128");
  app.add_option("--graph", o.graph,
                 "a model's file instead of --model (docs/graph_files.md): its inputs are tokens and targets, (B, T) int32, which say "
                 "--batch and --context; it has a loss, and for the sample at the end a tensor logits (B, T, V)")
      ->check(readable_file());
  const CLI::Validator count = number_from<std::int64_t>(1, 1'000'000'000);
  const CLI::Validator count_or_none = number_from<std::int64_t>(0, 1'000'000'000);
  const CLI::Validator amount = number_from<double>(0, 1e18);
  app.add_option("--context", o.context, "T, tokens a sample")
      ->transform(count)
      ->capture_default_str();
  app.add_option("--batch", o.batch, "B, samples a micro-batch; default: 1024 tokens' worth")
      ->transform(count);
  app.add_option("--micro-batches", o.micro_batches,
                 "a phase and rank, or the least of them: a step has one phase, of acco two")
      ->transform(number_from<int>(1, 65536))
      ->capture_default_str();
  app.add_option_function<std::string>(
      "--accumulate", [&o](const std::string& text) { parse_accumulate(text, o); },
      "adaptive: extra micro-batches while a phase communicates; cap:M: but at most M in a "
      "phase; fixed, --micro-batches alone; fixed:N, the same with --micro-batches N. Default: acco adaptive, else fixed");
  app.add_option(
         "--sampler", o.sampler,
         "of adaptive and cap:M: own, every rank's part of the samples, or shared, whichever "
         "are next of all")
      ->check(CLI::IsMember({"own", "shared"}))
      ->capture_default_str();
  app.add_option(
         "--sync-every", o.sync_every,
         "diloco, sparse: steps from one outer step of a weight to the next. The weights at the end are "
         "those of the last outer step")
      ->transform(number_from<int>(1, 1000000))
      ->capture_default_str();
  app.add_option("--fragments", o.fragments,
                 "diloco, sparse: shares of the weights, one for each outer step")
      ->transform(number_from<int>(1, 1000000))
      ->capture_default_str();
  app.add_option(
         "--overlap", o.overlap,
         "diloco, sparse: an outer step is waited for (none); runs beside a step, and weights are mixed "
         "(mix); or beside the steps of a round, own weights standing in (eager, of diloco)")
      ->check(CLI::IsMember({"none", "mix", "eager"}))
      ->capture_default_str();
  app.add_option("--mix", o.mix, "diloco, sparse, mix: the part of its own weights that a rank keeps")
      ->transform(number_from<double>(0, 0.99))
      ->capture_default_str();
  app.add_option("--outer-lr", o.outer_lr, "diloco, sparse: rate of the outer step")
      ->transform(amount)
      ->capture_default_str();
  app.add_option(
         "--outer-momentum", o.outer_momentum,
         "diloco: Nesterov's momentum of the outer step; eager rounds want less, such as 0.5")
      ->transform(number_from<double>(0, 0.999))
      ->capture_default_str();
  app.add_option("--divisor", o.divisor,
                 "sparse: a difference is the sum of what ranks have sent by the number of ranks (peers), or of those "
                 "that have sent that weight's (senders)")
      ->check(CLI::IsMember({"peers", "senders"}))
      ->capture_default_str();
  app.add_flag("--clip-median", o.clip_median,
               "sparse: the norm of what a rank has sent of a parameter is brought down to the median of all ranks'");
  app.add_option("--decay", o.decay, "sparse: what is kept, until the next outer step, of what was not sent")
      ->transform(number_from<double>(0, 1))
      ->capture_default_str();
  app.add_option("--steps", o.steps, "optimizer steps")->transform(count)->capture_default_str();
  app.add_option("--lr", o.lr, "peak learning rate")->transform(amount)->capture_default_str();
  app.add_option("--warmup", o.warmup, "steps; default: min(100, steps / 10)")
      ->transform(count_or_none);
  app.add_option("--rule", o.rule,
                 "how weights follow from gradients; muon: of zero1, atom and diloco, hidden matrices by momentum made "
                 "orthogonal, all else by AdamW")
      ->check(CLI::IsMember({"adamw", "muon"}))
      ->capture_default_str();
  app.add_option_function<std::vector<std::string>>(
         "--group",
         [&o](const std::vector<std::string>& texts) {
           for (const std::string& text : texts) o.groups.push_back(parse_group(text));
         },
         "PATTERN:FACTOR[:DECAY], of parameters with such names, as '*.bias:0.5': a factor of the learning rate, and "
         "a weight decay of their own. A parameter is in the first that fits")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option("--weight-decay", o.weight_decay)->transform(amount)->capture_default_str();
  app.add_option("--clip", o.clip, "largest gradient norm, 0 for none")
      ->transform(amount)
      ->capture_default_str();
  app.add_option("--dropout", o.dropout)
      ->transform(number_from<double>(0, 0.99))
      ->capture_default_str();
  app.add_option("--seed", o.seed)
      ->transform(number_from<std::uint64_t>(0, std::numeric_limits<std::uint64_t>::max()))
      ->capture_default_str();
  app.add_option("--precision", o.precision,
                 "of weights and activations; of bf16, sums and master weights are fp32")
      ->check(CLI::IsMember({"fp32", "bf16"}))
      ->capture_default_str();
  const CLI::Validator tokenizer(
      [](const std::string& text) {
        const bool known = !split_tokenizer_name(text).first.empty();
        return known ? std::string() : "'" + text + "' is none of " + std::string(tokenizer_forms);
      },
      std::string(tokenizer_forms));
  app.add_option("--tokenizer", o.tokenizer, "how text becomes tokens")
      ->check(tokenizer)
      ->capture_default_str();
  app.add_option("--threads", o.threads,
                 "a rank; default: its cores, shared with the ranks bound to the same")
      ->transform(number_from<int>(1, 1024));
  app.add_option(
         "--init", o.init,
         "a GPT-2 of that --model to start from: .safetensors of Hugging Face or --export, an "
         "index of several (model.safetensors.index.json), or a folder with either")
      ->check(readable_file_or_folder());
  app.add_option("--export", o.export_file,
                 "where to write the weights, .safetensors, and beside them config.json: as "
                 "DIR/model.safetensors, Hugging Face's GPT2LMHeadModel.from_pretrained reads DIR");
  app.add_option("--network", o.network, "case file of the network to emulate")
      ->check(readable_file());
  app.add_option_function<std::string>(
         "--device-memory", [&o](const std::string& text) { o.device_memories = numbers_of<std::uint64_t>(text); },
         "bytes of the emulated device, as 8e9; of devices that differ N,N,... by rank. --layout op-fence gives each as much "
         "as it has room for; a model that is swapped is planned for the least")
      ->transform(numbers_from<std::uint64_t>(0, 1'000'000'000'000'000'000U, Spelling::amounts));
  app.add_option_function<std::string>(
         "--device-link", [&o](const std::string& text) { o.device_links = numbers_of<double>(text); },
         "GB/s between the host and the emulated device; of devices that differ N,N,... by rank")
      ->transform(numbers_from<double>(0, 1e18));
  app.add_option("--device-flops", o.device_flops,
                 "GFLOP/s of the emulated device: what is computed faster here waits for the rest of its time, so ranks may "
                 "be more than cores. Plans are made by the same figures")
      ->transform(amount);
  app.add_option_function<std::vector<std::string>>(
         "--compress",
         [&o](const std::vector<std::string>& texts) {
           for (const std::string& text : texts) parse_compress(text, o);
         },
         "CHANNEL=CODEC, how what ranks send is encoded: activations and activation-gradients between stages, gradients, "
         "parameters. CODEC: top-k:RATIO, random-k:RATIO, chunk-top-k:KEEP/CHUNK, each also with +CODEC of what they select; dense, bf16, "
         "blockwise8, uniform8, nf4, two-bit, sign; before it ef+ or ef:DECAY+ for what was left out to be sent later, ef21+")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_flag("--adapt-ratios", o.adapt_ratios,
               "dtfm, fusion, reef: the ratios of activations and their gradients are those of the slowest link of --network, of "
               "others as much less as leaves them no slower (AdaTopK)");
  app.add_option("--replan-ratios", o.replan_ratios,
                 "steps after which --adapt-ratios measures the links between stages, and plans the ratios again where they "
                 "have changed; 0: never. Without --network also before the first step. --metrics has the ratios")
      ->transform(number_from<std::int64_t>(0, 1'000'000'000));
  app.add_option("--replay-ratios", o.replay_ratios,
                 "--metrics of a run with --replan-ratios, whose ratios are taken: the bits of that run, on any network")
      ->check(readable_file());
  app.add_flag("--one-mask", o.one_mask,
               "dtfm, fusion, reef: gradients of activations have the zeros of what --compress activations= left, and no indices; by "
               "masks of their own, codecs that select by size harm much more. activation-gradients=CODEC is of what is left: dense");
  app.add_option("--ramp-ratios", o.ramp_ratios,
                 "steps in which the ratios of --compress grow from 1, fourfold at a time, to their own")
      ->transform(number_from<std::int64_t>(0, 1'000'000'000));
  app.add_flag("--measure-error", o.measure_error,
               "how far what codecs send is from what it was, by link: in --metrics, --report and the table at the end. "
               "Each message is decoded once more for it");
  app.add_option_function<std::string>(
      "--record-edges", [&o](const std::string& text) { parse_record_edges(text, o); },
      "STEP:FILE, each message of that step that a codec encodes, before and after, .safetensors; one file a rank, "
      "FILE with .rank-R before its extension");
  app.add_option("--stages", o.stages,
                 "dtfm, fusion, reef: ranks that a replica of the model is spread over; default: all")
      ->transform(number_from<int>(1, 1'000'000));
  app.add_option_function<std::string>(
         "--place", [&o](const std::string& text) { o.place = numbers_of<int>(text); },
         "dtfm, fusion, reef: which rank has which stage, R,R,...: the stages of the first replica, then those of the next; "
         "default: by --network, or in turn")
      ->transform(numbers_from<int>(0, 999'999));
  app.add_option("--plan", o.plan,
                 "a file of reef-plan plan, whose options hold unless they are given here")
      ->check(readable_file());
  app.add_option("--pipeline", o.pipeline,
                 "dtfm, fusion, reef: the order in which stages run micro-batches; searched: for --profile and --network, at "
                 "the memory of 1f1b; pipedream, 2bw: updates within a step, which drains them")
      ->check(CLI::IsMember(pipelines()))
      ->capture_default_str();
  app.add_option("--micro-batches-per-update", o.micro_batches_per_update,
                 "dtfm, fusion, 2bw: as many as stages, or more; --micro-batches is a multiple; default: as many")
      ->transform(number_from<int>(1, 1'000'000));
  app.add_option("--layout", o.layout,
                 "dtfm, fusion, reef: what of the model a stage is: balanced, as for equal ranks; op-fence, as is best for the "
                 "speeds (--slow, and as reef-measure wrote them into --network), memory and links that ranks have")
      ->check(CLI::IsMember({"balanced", "op-fence"}))
      ->capture_default_str();
  app.add_option("--unit", o.unit,
                 "dtfm, fusion, reef: micro-batches that the order counts as one, 0 for all of a step; a stage that is swapped "
                 "brings each part of it once for them")
      ->transform(number_from<int>(0, 65536))
      ->capture_default_str();
  app.add_option("--order", o.order,
                 "dtfm, fusion, reef: a file with the order, of each stage a line such as 'F0 F1 B0 B1'")
      ->check(readable_file());
  app.add_option(
         "--activations", o.activations,
         "what there is of a segment between its forward and its backward; planned: all of it, "
         "and of a swapped model what is fastest in --device-memory")
      ->check(CLI::IsMember({"planned", "keep", "stash", "recompute", "recompute-and-stash"}))
      ->capture_default_str();
  app.add_option("--profile", o.profile,
                 "atom, dtfm, fusion, reef: times of the model's operators to plan by, .json; one rank alone measures "
                 "them first if the file is not there. Without, they are estimated")
      ->check(readable_file_if_there());
  app.add_option_function<std::vector<std::string>>(
         "--slow",
         [&o](const std::vector<std::string>& texts) {
           for (const std::string& text : texts) o.slow.push_back(parse_slow(text));
         },
         "RANK:FACTOR, a rank to slow down")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option("--checkpoint", o.checkpoint,
                 "directory of checkpoints: without --resume one that holds none");
  app.add_option("--checkpoint-every", o.checkpoint_every, "steps; default: at the end")
      ->transform(count);
  app.add_option("--checkpoint-keep", o.checkpoint_keep,
                 "how many of this run's checkpoints to keep, the newest; default: all")
      ->transform(count);
  app.add_flag("--resume", o.resume,
               "from the latest checkpoint of --checkpoint; from step 1 where there is none");
  app.add_option("--deadline", o.deadline,
                 "seconds without a sign of life after which a rank that is waited for is lost, and those for which ranks wait "
                 "for each other; 10 times as many where its program does nothing that is known. A rank that computes, or "
                 "whose messages are on a link of --network, is late, however long that takes, and says so after that time. "
                 "0: none")
      ->transform(amount)
      ->capture_default_str();
  app.add_option("--non-finite", o.non_finite, "what to do with a step that is not finite")
      ->check(CLI::IsMember({"stop", "skip", "ignore"}))
      ->capture_default_str();
  app.add_option("--eval-tokens", o.eval_tokens,
                 "the held-out loss is of the first so many held-out tokens, 0 for all")
      ->transform(number_from<std::int64_t>(0, std::int64_t{1} << 60))
      ->capture_default_str();
  app.add_option("--eval-every", o.eval_every,
                 "steps from one held-out loss to the next; default: at the end")
      ->transform(count);
  app.add_option(
      "--metrics", o.metrics,
      "one JSON object a step, .jsonl, with what was sent by channel (links: messages, bytes in memory and on the wire "
      "of all ranks, their ratio, relative error, seconds in which computation stood still for it), and one at the end, "
      "by link; with --resume that of the run goes on. What an earlier "
      "run left here, or as --export, --trace or --report, is renamed");
  app.add_option("--trace", o.trace, "timeline for Perfetto or chrome://tracing, .json");
  app.add_option("--report", o.report, "one page with curves and timeline, .html");
  app.add_option("--prompt", o.prompt, "what the generated sample begins with");
  app.add_option("--prompt-tokens,--prompt-bytes", o.prompt_tokens, "length of the sample")
      ->transform(count_or_none)
      ->capture_default_str();
  set_groups(app);
}

void require_sense(const CLI::App& app, TrainOptions& options) {
  add_defaults_of_recipe(app, options);
  require_names(app);
  require_use_of_options(app, options);
  require_files_apart(options);
  require_places(options);
  read_graph(options);
}

void parse(CLI::App& app, TrainOptions& options, int argc, const char* const* argv) {
  std::vector<std::string> arguments(argv + 1, argv + argc);
  const auto is = [](const std::string& argument, const std::string& name) {
    return argument == name || argument.starts_with(name + "=");
  };
  const auto given = [&](const std::string& name) {
    return std::any_of(arguments.begin(), arguments.end(), [&](const std::string& argument) { return is(argument, name); });
  };
  std::string file;  // the last, as of every other option
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (!is(arguments[i], "--plan")) continue;
    if (const std::size_t value = arguments[i].find('='); value != std::string::npos) {
      file = arguments[i].substr(value + 1);
    } else if (i + 1 < arguments.size()) {
      file = arguments[i + 1];
    }
  }
  std::vector<PlannedOption> otherwise;
  // What is no file the option itself refuses.
  if (not_readable(file, false, false).empty()) {
    const std::vector<std::string> planned = options_of_plan(
        file, options,
        [&](const std::string& name) { return given(name) || (name == "--replan-ratios" && given("--replay-ratios")); },
        otherwise);
    arguments.insert(arguments.begin(), planned.begin(), planned.end());
  }
  std::reverse(arguments.begin(), arguments.end());
  app.parse(std::move(arguments));
  for (const auto& [name, planned] : otherwise) {
    const CLI::Option* const option = app.get_option_no_throw(name);
    const std::string here = option != nullptr && option->count() > 0 ? option->reduced_results().back() : planned;
    if (here == planned) continue;
    options.planned_otherwise +=
        reef::concat(options.planned_otherwise.empty() ? "" : ", ", name, " ", planned, " (here ", here, ")");
  }
}

}  // namespace reef_examples
