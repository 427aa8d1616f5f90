#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "../support/generation_options.hpp"

namespace reef_generate {

/// What the command line says.
struct Options : reef_examples::RowOptions,
                 reef_examples::DrawOptions,
                 reef_examples::DraftOptions,
                 reef_examples::BeamSearchOptions {
  std::string model;
  std::string adapter;
  std::vector<std::string> prompts;
  std::vector<std::string> token_lists;
  std::string score;
  std::string tokenizer;
  std::string document_end;
  std::int64_t new_tokens = -1;  ///< -1: 100, or as many as the model has room for
  std::vector<std::string> stops;
  std::int64_t outliers = -1;  ///< of 256 inputs of an int8 matrix; -1: 1
  std::string calibrate;                 ///< a file of texts, by which outliers are chosen
  std::int64_t calibrate_tokens = 4096;  ///< the most tokens that are read of it
  std::int64_t context = 0;
  std::string draw_option;  ///< the first option given that says how tokens are drawn; empty: none is
  bool json = false;
  bool logits = false;
  bool no_cache = false;

  /// Returns the outliers of 256 inputs; 0 in another form than int8.
  [[nodiscard]] std::int64_t outliers_of_form() const;
};

void add_options(CLI::App& app, Options& options);

/// Fills in Options::draw_option. Throws CLI::ValidationError for options that do not go together.
void check(const CLI::App& app, Options& options);

}  // namespace reef_generate
