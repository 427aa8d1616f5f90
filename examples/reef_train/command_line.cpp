#include "command_line.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include <reef/core/text.hpp>
#include <reef/plan/pipeline_schedules.hpp>

#include "../support/input_files.hpp"
#include "../support/number_option.hpp"
#include "../support/numbers.hpp"
#include "../support/tokenizer.hpp"
#include "data_options.hpp"
#include "option_groups.hpp"
#include "option_texts.hpp"
#include "options.hpp"
#include "planned_options.hpp"
#include "recipes.hpp"

namespace reef_examples {

namespace {

/// The orders that there are by name.
std::vector<std::string> pipelines() {
  const std::vector<std::string_view> known = reef::plan::pipeline_schedule_names();
  std::vector<std::string> names(known.begin(), known.end());
  names.emplace_back("searched");
  return names;
}

}  // namespace

void add_options(CLI::App& app, TrainOptions& o) {
  // An option given twice counts as it was given last, so that scripts can add to a command.
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  app.add_option("--recipe", o.recipe,
                 "how ranks train together, a composition of policies; --help alone says what each is")
      ->check(CLI::IsMember(recipe_names()))
      ->capture_default_str();
  add_data_options(app, o);
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
         "steps from one outer step of a weight to the next. The weights at the end are "
         "those of the last outer step")
      ->transform(number_from<int>(1, 1000000))
      ->capture_default_str();
  app.add_option("--fragments", o.fragments,
                 "shares of the weights, one for each outer step")
      ->transform(number_from<int>(1, 1000000))
      ->capture_default_str();
  app.add_option(
         "--overlap", o.overlap,
         "an outer step is waited for (none); runs beside a step, and weights are mixed "
         "(mix); or beside the steps of a round, own weights standing in (eager, of diloco)")
      ->check(CLI::IsMember({"none", "mix", "eager"}))
      ->capture_default_str();
  app.add_option("--mix", o.mix, "of --overlap mix: the part of its own weights that a rank keeps")
      ->transform(number_from<double>(0, 0.99))
      ->capture_default_str();
  app.add_option("--outer-lr", o.outer_lr, "rate of the outer step")
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
        if (split_tokenizer_name(text).first.empty()) return "'" + text + "' is none of " + std::string(tokenizer_forms);
        for (const auto& file : files_of_tokenizer(text)) {
          if (std::string problem = not_readable(file.string(), false, true); !problem.empty()) return problem;
        }
        return std::string();
      },
      "TOKENIZER");
  app.add_option("--tokenizer", o.tokenizer,
                 reef::concat("how text becomes tokens: ", tokenizer_forms, "; of an --init that is a folder, the one in it"))
      ->check(tokenizer)
      ->capture_default_str();
  app.add_option("--threads", o.threads,
                 "a rank; default: its cores, shared with the ranks bound to the same")
      ->transform(number_from<int>(1, 1024));
  app.add_option("--init", o.init,
                 "a GPT-2 of that --model to start from, or another model that its config.json "
                 "describes (Llama, Mistral, Qwen 2 or 3, BLOOM, GPT-NeoX): .safetensors of Hugging Face or --export, an "
                 "index of several (model.safetensors.index.json), or a folder with either; the "
                 "config.json of one of these alone: from scratch")
      ->check(readable_file_or_folder());
  app.add_option("--freeze", o.freeze,
                 "PATTERN, parameters with such names keep their values, as 'transformer.h.0.*': they have no gradient, and "
                 "nothing of them is kept or sent")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option_function<std::string>(
      "--lora", [&o](const std::string& text) { o.adapter = parse_lora(text); },
      "RANK[:ALPHA[:TARGET,TARGET]], low-rank adapters alone are trained, all else is frozen, as 8:16:q_proj,v_proj. "
      "TARGET: the last part of a linear map's name, or all-linear; default: ALPHA 16, and q_proj and v_proj, c_attn, or "
      "query_key_value, whichever the model has");
  app.add_option_function<std::int64_t>(
         "--prompts", [&o](std::int64_t tokens) { o.adapter = reef::nn::SoftPrompt{tokens}; },
         "P, a soft prompt alone is trained, all else is frozen: vectors of the first P positions of each sample, behind which "
         "its text of --context less P tokens stands")
      ->transform(number_from<std::int64_t>(1, 65536));
  app.add_flag("--deep-prompts", o.deep_prompts,
               "of --prompts: each layer has vectors of its own too, which are added to its input at the first P positions");
  app.add_option("--init-adapter", o.init_adapter,
                 "a folder with adapter_config.json and adapter_model.safetensors, of Hugging Face's PEFT or "
                 "--export-adapter, to go on from: low-rank adapters in place of --lora, or a soft prompt in place of --prompts")
      ->check(readable_file_or_folder());
  app.add_option("--export-adapter", o.export_adapter,
                 "a folder in which to write the adapters, or the soft prompt, as PEFT reads them; --export writes the weights "
                 "that adapters make, merged");
  app.add_option("--export", o.export_file,
                 "where to write the weights, .safetensors, and beside them config.json: as "
                 "DIR/model.safetensors, Hugging Face's from_pretrained reads DIR");
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
         "CHANNEL=CODEC, how what ranks send is encoded. CHANNEL: gradients; parameters, not of ddp and atom; activations and "
         "activation-gradients, between stages, of dtfm, fusion and reef. CODEC: top-k:RATIO, random-k:RATIO, chunk-top-k:KEEP/CHUNK, each also with +CODEC of what they select; dense, bf16, "
         "blockwise8, uniform8, nf4, two-bit, sign; before it ef+ or ef:DECAY+ for what was left out to be sent later, ef21+")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_flag("--adapt-ratios", o.adapt_ratios,
               "the ratios of activations and their gradients are those of the slowest link of --network, of "
               "others as much less as leaves them no slower (AdaTopK)");
  app.add_option("--replan-ratios", o.replan_ratios,
                 "steps after which --adapt-ratios measures the links between stages, and plans the ratios again where they "
                 "have changed; 0: never. Without --network also before the first step. --metrics has the ratios")
      ->transform(number_from<std::int64_t>(0, 1'000'000'000));
  app.add_option("--replay-ratios", o.replay_ratios,
                 "--metrics of a run with --replan-ratios, whose ratios are taken: the bits of that run, on any network")
      ->check(readable_file());
  app.add_flag("--one-mask", o.one_mask,
               "gradients of activations have the zeros of what --compress activations= left, and no indices; by "
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
                 "ranks that a replica of the model is spread over; default: all")
      ->transform(number_from<int>(1, 1'000'000));
  app.add_option_function<std::string>(
         "--place", [&o](const std::string& text) { o.place = numbers_of<int>(text); },
         "which rank has which stage, R,R,...: the stages of the first replica, then those of the next; "
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
                 "dtfm, fusion: of --pipeline 2bw, as many as stages, or more; --micro-batches is a multiple; default: as many")
      ->transform(number_from<int>(1, 1'000'000));
  app.add_option("--layout", o.layout,
                 "what of the model a stage is: balanced, as for equal ranks; op-fence, as is best for the "
                 "speeds (--slow, and as reef-measure wrote them into --network), memory and links that ranks have")
      ->check(CLI::IsMember({"balanced", "op-fence"}))
      ->capture_default_str();
  app.add_option("--unit", o.unit,
                 "micro-batches that the order counts as one, 0 for all of a step; a stage that is swapped "
                 "brings each part of it once for them")
      ->transform(number_from<int>(0, 65536))
      ->capture_default_str();
  app.add_option("--order", o.order,
                 "a file with the order, of each stage a line such as 'F0 F1 B0 B1'")
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

void parse(CLI::App& app, TrainOptions& options, int argc, const char* const* argv) {
  std::vector<std::string> arguments(argv + 1, argv + argc);
  take_recipe_of_help(app, arguments, recipe_names());
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
