#pragma once

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <string>

#include <CLI/CLI.hpp>

#include <reef/core/text.hpp>
#include <reef/graph/rows.hpp>
#include <reef/nn/beam_search.hpp>
#include <reef/nn/draw_token.hpp>
#include <reef/nn/speculate.hpp>

#include "number_option.hpp"
#include "numbers.hpp"

namespace reef_examples {

/// How the rows of a model are computed.
struct RowOptions {
  std::string weights = "fp32";
  std::string states = "fp32";
  std::int64_t rows = 256;
  int threads = 0;

  [[nodiscard]] reef::graph::WeightForm weight_form() const {
    using reef::graph::WeightForm;
    if (weights == "bf16") return WeightForm::bf16;
    if (weights == "int8") return WeightForm::int8;
    if (weights == "blockwise8") return WeightForm::blockwise8;
    return weights == "nf4" ? WeightForm::nf4 : WeightForm::as_given;
  }
  [[nodiscard]] reef::graph::StateForm state_form() const {
    using reef::graph::StateForm;
    if (states == "bf16") return StateForm::bf16;
    return states == "int8" ? StateForm::int8 : StateForm::as_given;
  }
};

/// How tokens are drawn, and whether a text ends at those that mean its end.
struct DrawOptions {
  double temperature = 0.8;
  std::int64_t top_k = 40;
  double top_p = 1;
  double repetition_penalty = 1;
  std::uint64_t seed = 0;
  bool ignore_ends = false;

  [[nodiscard]] reef::nn::GenerateOptions generate_options(std::int64_t tokens) const {
    reef::nn::GenerateOptions how;
    how.tokens = tokens;
    how.temperature = temperature;
    how.top_k = top_k;
    how.top_p = top_p;
    how.repetition_penalty = repetition_penalty;
    how.seed = seed;
    return how;
  }
};

/// Who proposes tokens that the model checks several at a time, and how many.
struct DraftOptions {
  std::string draft;                  ///< "ngram", or the folder of a model; empty: nobody
  std::string draft_tokens = "auto";  ///< "auto", or a number

  [[nodiscard]] reef::nn::SpeculateOptions speculate_options() const {
    reef::nn::SpeculateOptions how;
    how.tokens = parse_number<std::int64_t>(draft_tokens);
    return how;
  }
};

/// Whether the likeliest continuations are searched for, in place of drawing one.
struct BeamSearchOptions {
  std::int64_t beams = 0;  ///< 0: none is
  double length_penalty = 1;

  [[nodiscard]] reef::nn::BeamOptions beam_options(std::int64_t tokens) const {
    reef::nn::BeamOptions how;
    how.beams = beams;
    how.tokens = tokens;
    how.length_penalty = length_penalty;
    return how;
  }
};

/// `who`: what is to be said of the forms, such as that all have the same.
inline void add_row_options(CLI::App& app, RowOptions& o, const std::string& who = "") {
  app.add_option("--weights", o.weights,
                 reef::concat("the form of matrices: fp32, bf16, int8, blockwise8 or nf4, of 32, 16, 8, 8.5 and 4.13 bits", who))
      ->check(CLI::IsMember({"fp32", "bf16", "int8", "blockwise8", "nf4"}))
      ->capture_default_str();
  app.add_option("--kv", o.states,
                 reef::concat("the form of keys and values, kept for each token: fp32, bf16 or int8", who))
      ->check(CLI::IsMember({"fp32", "bf16", "int8"}))
      ->capture_default_str();
  app.add_option("--rows", o.rows, "the most tokens that are computed at once")
      ->transform(number_from<std::int64_t>(1, 1'000'000))
      ->capture_default_str();
  app.add_option("--threads", o.threads, "default: all cores")->transform(number_from<int>(1, 1024));
}

inline void add_draw_options(CLI::App& app, DrawOptions& o) {
  app.add_option("--temperature", o.temperature, "0: the likeliest token")
      ->transform(number_from<double>(0, 1e9))
      ->capture_default_str();
  app.add_option("--top-k", o.top_k, "draw among so many of the likeliest; 0: all")
      ->transform(number_from<std::int64_t>(0, 1'000'000'000))
      ->capture_default_str();
  app.add_option("--top-p", o.top_p, "draw among the likeliest whose probabilities sum to this")
      ->transform(number_from<double>(1e-9, 1))
      ->capture_default_str();
  app.add_option("--repetition-penalty", o.repetition_penalty, "divides the logits of tokens that are there; 1: none")
      ->transform(number_from<double>(1e-3, 1e3))
      ->capture_default_str();
  app.add_option("--seed", o.seed, "of what is drawn")
      ->transform(number_from<std::uint64_t>(0, UINT64_MAX))
      ->capture_default_str();
  app.add_flag("--ignore-eos", o.ignore_ends,
               "go on behind tokens that end a text: eos_token_id in generation_config.json or config.json, else the "
               "tokenizer's");
}

/// Throws CLI::ValidationError where --beams stands beside an option that it has no use for.
inline void check_beams(const CLI::App& app, std::initializer_list<const char*> others) {
  if (app.get_option("--beams")->count() == 0) return;
  for (const char* const other : others) {
    if (app.get_option(other)->count() > 0)
      throw CLI::ValidationError("--beams", reef::concat("is given beside ", other, ": give one of the two"));
  }
}

/// Adds the options of a search behind those of draws and of drafts.
inline void add_beam_options(CLI::App& app, BeamSearchOptions& o) {
  CLI::Option* const beams =
      app.add_option("--beams", o.beams,
                     "search for so many likeliest continuations, and tell all of them, the best first; nothing is drawn")
          ->transform(number_from<std::int64_t>(1, 1024));
  app.parse_complete_callback([&app] {
    check_beams(app, {"--temperature", "--top-k", "--top-p", "--repetition-penalty", "--seed", "--draft"});
  });
  app.add_option("--length-penalty", o.length_penalty,
                 "of --beams: a continuation's log-probability is divided by its length to the power of this")
      ->transform(number_from<double>(-100, 100))
      ->needs(beams)
      ->capture_default_str();
}

inline void add_draft_options(CLI::App& app, DraftOptions& o) {
  const auto is_draft = [](const std::string& text) {
    if (text == "ngram" || std::filesystem::is_directory(text)) return std::string();
    return reef::concat(reef::in_quotes(text), " is neither ngram nor a folder");
  };
  const auto is_count = [](const std::string& text) {
    if (text == "auto") return std::string();
    return not_in_range<std::int64_t>(text, parse_number<std::int64_t>(text), 0, 256);
  };
  CLI::Option* const draft =
      app.add_option("--draft", o.draft,
                     "propose tokens, which the model checks several at a time: ngram, by what followed the last "
                     "tokens before, or the folder of a smaller model of the same tokens; the text is the same")
          ->check(CLI::Validator(is_draft, "ngram or FOLDER"));
  app.add_option("--draft-tokens", o.draft_tokens,
                 "how many tokens --draft proposes at a time; auto: as many as pay, by what it has measured")
      ->check(CLI::Validator(is_count, "auto or 0 - 256"))
      ->needs(draft)
      ->capture_default_str();
}

}  // namespace reef_examples
