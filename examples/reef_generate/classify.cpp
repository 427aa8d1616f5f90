#include "classify.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <reef/core/text.hpp>
#include <reef/data/labelled_texts.hpp>
#include <reef/io/json.hpp>
#include <reef/nn/class_labels.hpp>
#include <reef/nn/draw_token.hpp>

#include "../support/continuations.hpp"
#include "../support/progress.hpp"
#include "../support/terminal_text.hpp"
#include "model.hpp"

namespace reef_generate {

namespace {

using Tokens = std::vector<std::int32_t>;

/// An option of generation that was given would be ignored.
void refuse_generation(const Options& options) {
  const char* const whose = classes_of_adapter(options) > 0 ? "--adapter" : "--model";
  const auto refuse = [&](const char* option) {
    throw reef::OptionError(
        option, " is of generation, and ", whose, " has a class head: a text's class is told.\n  fix: leave it out.");
  };
  if (options.new_tokens >= 0) refuse("--new");
  if (!options.stops.empty()) refuse("--stop");
  if (options.ignore_ends) refuse("--ignore-eos");
  if (options.no_cache) refuse("--no-cache");
  if (!options.draft.empty()) refuse("--draft");
  if (options.beams > 0) refuse("--beams");
  if (options.logits) refuse("--logits");
  if (!options.draw_option.empty()) refuse(options.draw_option.c_str());
  if (placeholders_of(options) > 0) {
    throw reef::OptionError("--adapter ", options.adapter, " has a soft prompt, and --model tells classes.\n",
                            "  why: a soft prompt continues texts.\n  fix: leave it out, or a language model.");
  }
}

/// Encodes texts as reef-train --classes does: names of special tokens are characters, a long text is cut at its end,
/// and there the pad_token of --model is no part of it.
class Reader {
public:
  explicit Reader(const Options& options)
      : options_(options), labels_(labels_of(options)),
        tokenizer_(tokenizer_of(options, reef_examples::TextUse::training)) {
    const auto config = reef::nn::read_model_config(std::filesystem::path(options.model) / "config.json");
    most_ = static_cast<std::size_t>(options.context != 0 ? options.context : reef::nn::longest_sequence(config));
  }

  [[nodiscard]] Tokens tokens(const std::string& text, const char* what) const {
    if (!tokenizer_) refuse_text(options_, what);
    Tokens tokens = tokenizer_->encode_begin(text);
    if (!options_.document_end.empty()) tokens.push_back(tokenizer_->token(options_.document_end));
    return cut(std::move(tokens));
  }

  [[nodiscard]] Tokens cut(Tokens tokens) const {
    if (tokens.empty()) throw reef::OptionError("a text has no token.\n  fix: one at least.");
    tokens.resize(std::min(tokens.size(), most_));
    if (labels_) tokens.resize(labels_->length_of(tokens));
    return tokens;
  }

private:
  const Options& options_;
  std::optional<reef::nn::ClassLabels> labels_;
  std::optional<reef_examples::Tokenizer> tokenizer_;
  std::size_t most_;
};

/// The model of texts of at most so many tokens.
Model model_of_texts(const Options& options, std::span<const Tokens> texts) {
  std::size_t longest = 1;
  for (const Tokens& text : texts) longest = std::max(longest, text.size());
  return {options, static_cast<std::int64_t>(longest), 1};
}

/// Returns the log-probabilities of the classes of a text.
std::vector<double> read_text(Session& session, const Tokens& text) {
  const int sequence = session.open();
  const reef::nn::Logits logits = session.append({{sequence, text}});
  std::vector<double> result;
  for (std::int32_t c = 0; c < static_cast<std::int32_t>(session.vocabulary()); ++c)
    result.push_back(reef::nn::log_probability(logits.row(0), c));
  session.close(sequence);
  return result;
}

std::int64_t likeliest(const std::vector<double>& classes) {
  return std::max_element(classes.begin(), classes.end()) - classes.begin();
}

std::string classify_prompts(const Options& options, const Reader& reader) {
  std::vector<Tokens> texts;
  for (const std::string& list : options.token_lists) texts.push_back(reader.cut(reef_examples::tokens_of(list)));
  for (const std::string& text : options.prompts) texts.push_back(reader.tokens(text, "--prompt"));
  Model model = model_of_texts(options, texts);
  const auto labels = classes_of_adapter(options) > 0 ? std::nullopt : labels_of(options);
  reef::io::Json answers = reef::io::Json::array();
  std::string lines;
  for (const Tokens& text : texts) {
    std::vector<double> classes = read_text(model.session(), text);
    const std::int64_t first = likeliest(classes);
    lines += reef::concat("class ", first);
    if (labels) lines += " " + reef_examples::shown_on_output(labels->names.at(static_cast<std::size_t>(first)));
    lines += "  probabilities";
    for (double& of_class : classes) of_class = std::exp(of_class);
    for (const double of_class : classes) lines += reef::concat(" ", of_class);
    lines += "\n";
    answers.push_back({{"class", first}, {"probabilities", classes}});
    if (labels) answers.back()["label"] = labels->names.at(static_cast<std::size_t>(first));
  }
  if (!options.json) return lines;
  return (answers.size() == 1 ? answers[0] : reef::io::Json{{"texts", answers}}).dump() + "\n";
}

std::string score_labels(const Options& options, const Reader& reader) {
  if (!options.score.ends_with(".jsonl")) {
    throw reef::OptionError("--score: ", options.score, " is no .jsonl, and ",
                            classes_of_adapter(options) > 0 ? "--adapter" : "--model", " has a class head.\n",
                            "  fix: lines {\"text\": ..., \"label\": ...}.");
  }
  const auto labelled = reef::data::read_labelled_texts(options.score, classes_of(options));
  std::vector<Tokens> texts;
  for (const auto& text : labelled) texts.push_back(reader.tokens(text.text, "--score"));
  Model model = model_of_texts(options, texts);
  std::int64_t right = 0;
  double loss = 0;
  reef_examples::Progress bar;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const std::vector<double> classes = read_text(model.session(), texts[i]);
    right += likeliest(classes) == labelled[i].label ? 1 : 0;
    loss -= classes[static_cast<std::size_t>(labelled[i].label)];
    bar.show(reef::concat("scoring: text ", i + 1, " of ", texts.size()));
  }
  bar.finish();
  const auto count = static_cast<double>(texts.size());
  const double accuracy = static_cast<double>(right) / count;
  if (options.json) {
    return reef::io::Json{{"accuracy", accuracy}, {"right", right}, {"lines", texts.size()}, {"loss", loss / count}}
               .dump() +
           "\n";
  }
  return reef::concat("accuracy ", accuracy, "  ", right, " of ", texts.size(), " labels; loss ", loss / count, "\n");
}

}  // namespace

std::string classify(const Options& options) {
  refuse_generation(options);
  const Reader reader(options);
  return options.score.empty() ? classify_prompts(options, reader) : score_labels(options, reader);
}

}  // namespace reef_generate
