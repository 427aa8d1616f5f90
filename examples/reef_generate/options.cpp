#include "options.hpp"

#include <utility>

#include <reef/core/error.hpp>
#include <reef/core/text.hpp>

#include "../support/input_files.hpp"
#include "../support/number_option.hpp"
#include "../support/tokenizer.hpp"

namespace reef_generate {

using namespace reef_examples;

std::int64_t Options::outliers_of_form() const {
  if (weight_form() != reef::graph::WeightForm::int8) return 0;
  return outliers < 0 ? 1 : outliers;
}

void add_options(CLI::App& app, Options& o) {
  app.add_option("--model", o.model,
                 "folder of a model of Hugging Face: config.json and safetensors, as reef-train --export writes one. Of one "
                 "for sequence classification the class of each --prompt is told")
      ->required();
  app.add_option(
      "--adapter", o.adapter,
      "folder of adapters or a soft prompt of Hugging Face's PEFT, as reef-train --export-adapter writes one: they run "
      "beside "
      "the model; a soft prompt stands before each text. With a class head (reef-train --classes) the class of each "
      "--prompt is told");
  app.add_option("--prompt", o.prompts, "text to continue; several times: texts side by side")->allow_extra_args(false);
  app.add_option("--tokens", o.token_lists, "tokens to continue, in place of a text: \"5 17 80\"; several times likewise")
      ->allow_extra_args(false);
  app.add_option("--tokenizer", o.tokenizer,
                 reef::concat(tokenizer_forms, "; default: that of the model's folder"));
  app.add_option(
      "--document-end", o.document_end,
      "of an --adapter or a --model with a class head: the token behind each text, by its number or its text, as "
      "reef-train had it");
  app.add_option("--new", o.new_tokens, "how many tokens to add; default: 100, or as many as the model has room for")
      ->transform(number_from<std::int64_t>(0, 1'000'000'000));
  add_draw_options(app, o);
  app.add_option("--stop", o.stops, "text at which a continuation ends; several times: at any of them")
      ->allow_extra_args(false);
  add_row_options(app, o);
  add_draft_options(app, o);
  add_beam_options(app, o);
  app.add_option("--outliers", o.outliers,
                 "of --weights int8: how many of 256 inputs of a matrix, those that stand out most, stay fp32; default: 1")
      ->transform(number_from<std::int64_t>(0, 256));
  app.add_option("--calibrate", o.calibrate,
                 "of --weights int8: file of texts, or .jsonl of lines {\"text\": ...} or {\"prompt\": ..., "
                 "\"completion\": ...}, which the model reads in bf16 first: the inputs that are largest there are the "
                 "outliers, not those that stand out in the weights")
      ->check(readable_file());
  app.add_option("--calibrate-tokens", o.calibrate_tokens, "the most tokens of --calibrate that are read, from its beginning")
      ->transform(number_from<std::int64_t>(1, 1'000'000'000))
      ->capture_default_str();
  app.add_option("--context", o.context, "the most tokens of a text, without a soft prompt's; default: those of the prompt and --new")
      ->transform(number_from<std::int64_t>(1, 1'000'000'000));
  app.add_flag("--no-cache", o.no_cache, "compute all tokens anew for each: slow, to compare with");
  app.add_flag("--json", o.json, "answer with one object: tokens, logprobs, text");
  app.add_flag("--logits", o.logits, "with --json: the logits behind each token but the last");
  app.add_option("--score", o.score,
                 "file to score in place of a prompt: a text, by its perplexity; lines {\"text\": ...} of a .jsonl, by "
                 "how often the likeliest tokens are the last word, or with a class head lines {\"text\": ..., "
                 "\"label\": ...}, by "
                 "how often the likeliest class is the label")
      ->check(readable_file());
  const std::vector<std::pair<const char*, std::vector<const char*>>> groups{
      {"What is read", {"--model", "--adapter", "--prompt", "--tokens", "--tokenizer", "--document-end", "--score"}},
      {"How tokens are drawn",
       {"--new", "--temperature", "--top-k", "--top-p", "--repetition-penalty", "--seed", "--beams",
        "--length-penalty", "--stop", "--ignore-eos"}},
      {"How it is computed",
       {"--weights", "--outliers", "--calibrate", "--calibrate-tokens", "--kv", "--context", "--rows", "--threads",
        "--draft", "--draft-tokens", "--no-cache"}},
      {"What is written", {"--json", "--logits"}}};
  for (const auto& [group, names] : groups) {
    for (const char* const name : names) app.get_option(name)->group(group);
  }
}

void check(const CLI::App& app, Options& o) {
  const auto refuse = [](const char* option, const std::string& why) { throw CLI::ValidationError(option, why); };
  const bool has_prompt = !o.prompts.empty() || !o.token_lists.empty();
  if (!o.prompts.empty() && !o.token_lists.empty()) refuse("--tokens", "is given beside --prompt: give one of the two");
  if (has_prompt && !o.score.empty()) refuse("--score", "is given beside a prompt: give one of the two");
  if (!has_prompt && o.score.empty()) refuse("--prompt", "is missing: a text, --tokens, or a file to --score");
  if (o.outliers >= 0 && o.weight_form() != reef::graph::WeightForm::int8) {
    refuse("--outliers", reef::concat("are of --weights int8, not of ", o.weights));
  }
  if (!o.calibrate.empty() && o.outliers_of_form() == 0) {
    refuse("--calibrate", reef::concat("chooses outliers of --weights int8, of which ",
                                       o.outliers == 0 ? "--outliers 0" : reef::concat("--weights ", o.weights), " has none"));
  }
  if (o.calibrate.empty() && app.get_option("--calibrate-tokens")->count() > 0)
    refuse("--calibrate-tokens", "are of --calibrate, the file that they are read from");
  if (o.logits && !o.json) refuse("--logits", "are written with --json alone");
  if (o.logits && !o.score.empty()) refuse("--logits", "are of a prompt");
  if (o.no_cache && !o.score.empty()) refuse("--no-cache", "is of a prompt: a file is scored from what is computed once");
  check_beams(app, {"--stop", "--score", "--no-cache", "--logits"});
  if (!o.draft.empty() && !o.score.empty()) refuse("--draft", "is of a prompt: what is scored is there");
  if (!o.draft.empty() && o.no_cache) refuse("--draft", "is given beside --no-cache: give one of the two");
  if (o.ignore_ends && !o.score.empty()) refuse("--ignore-eos", "is of a prompt");
  for (const char* const name : {"--temperature", "--top-k", "--top-p", "--repetition-penalty", "--seed"}) {
    if (o.draw_option.empty() && app.get_option(name)->count() > 0) o.draw_option = name;
  }
  if (!o.draw_option.empty() && !o.score.empty())
    refuse(o.draw_option.c_str(), "is of a prompt: of what is scored nothing is drawn");
  if (o.new_tokens >= 0 && !o.score.empty()) refuse("--new", "is of a prompt: to what is scored nothing is added");
  if (!o.stops.empty() && !o.score.empty()) refuse("--stop", "is of a prompt");
  if (!o.tokenizer.empty() && split_tokenizer_name(o.tokenizer).first.empty()) {
    refuse("--tokenizer", reef::concat(reef::in_quotes(o.tokenizer), " is none of these: ", tokenizer_forms));
  }
}

}  // namespace reef_generate
