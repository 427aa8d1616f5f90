#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include <reef/graph/rows.hpp>

namespace reef_generate {

/// What the command line says.
struct Options {
  std::string model;
  std::string adapter;
  std::vector<std::string> prompts;
  std::vector<std::string> token_lists;
  std::string score;
  std::string tokenizer;
  std::string document_end;
  std::int64_t new_tokens = -1;  ///< -1: 100, or as many as the model has room for
  double temperature = 0.8;
  std::int64_t top_k = 40;
  double top_p = 1;
  double repetition_penalty = 1;
  std::uint64_t seed = 0;
  std::vector<std::string> stops;
  std::string weights = "fp32";
  std::int64_t outliers = -1;  ///< of 256 inputs of an int8 matrix; -1: 1
  std::string calibrate;                 ///< a file of texts, by which outliers are chosen
  std::int64_t calibrate_tokens = 4096;  ///< the most tokens that are read of it
  std::string states = "fp32";
  std::int64_t rows = 256;
  std::int64_t context = 0;
  int threads = 0;
  bool json = false;
  bool logits = false;
  bool no_cache = false;
  bool ignore_ends = false;

  [[nodiscard]] reef::graph::WeightForm weight_form() const;
  [[nodiscard]] reef::graph::StateForm state_form() const;
  /// Returns the outliers of 256 inputs; 0 in another form than int8.
  [[nodiscard]] std::int64_t outliers_of_form() const;
};

void add_options(CLI::App& app, Options& options);

/// Throws CLI::ValidationError for options that do not go together.
void check(const CLI::App& app, const Options& options);

/// Returns the tokens of a list such as "5 17 80" or "5,17,80". Throws OptionError for what is no number.
std::vector<std::int32_t> tokens_of(const std::string& list);

}  // namespace reef_generate
