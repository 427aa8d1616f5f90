#pragma once

#include <cstdint>
#include <string>

#include <CLI/CLI.hpp>

#include <reef/core/text.hpp>
#include <reef/graph/rows.hpp>
#include <reef/nn/draw_token.hpp>

#include "number_option.hpp"

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

}  // namespace reef_examples
