#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include <reef/comm/communicator.hpp>
#include <reef/data/pairs.hpp>
#include <reef/data/token_view.hpp>
#include <reef/nn/gpt.hpp>
#include <reef/trace/sink.hpp>

#include "../support/text_source.hpp"
#include "../support/tokenizer.hpp"
#include "edge_recorder.hpp"
#include "options.hpp"
#include "ratio_log.hpp"

namespace reef_examples {

/// What tells a person something, on rank 0.
using Say = std::function<void(const std::string&)>;

/// What a run has before it has its Trainer.
struct Setup {
  const TrainOptions& options;
  const reef::comm::Communicator& ranks;
  const reef::nn::GptConfig& config;
  const Tokenizer& tokenizer;
  const std::vector<std::int32_t>& prompt;  // that the sample continues
  TrainingData& data;
  int threads;
  reef::trace::Sink& sink;
  EdgeRecorder& edges;
  RatioLog& ratios;
  Say say;
};

/// The files to train on: what was given, or Reef's own sources.
std::vector<std::filesystem::path> files_of(const TrainOptions& options, const Say& say);

/// The GPT that was asked for, or of --graph its batch and context; of --init with the positions and the heads of that. Throws OptionError also for an
/// --export whose config.json would be beside another model's, and for a --graph without these tokens.
reef::nn::GptConfig model_config(const TrainOptions& options, std::int64_t vocabulary);

/// The prompt that the sample continues, begun as the tokenizer's files begin a text, its special tokens found; empty
/// where no sample is asked for.
std::vector<std::int32_t> prompt_of(const TrainOptions& options, const Tokenizer& tokenizer);

/// What of the held-out tokens the loss is of: the first --eval-tokens of them.
reef::data::TokenView evaluated(const reef::data::TokenView& all, const TrainOptions& options);

/// The same of held-out pairs: the first of them, of --eval-tokens tokens or a few more.
std::span<const reef::data::TokenPair> evaluated_pairs(std::span<const reef::data::TokenPair> all, const TrainOptions& options);

}  // namespace reef_examples
