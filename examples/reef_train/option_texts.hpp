#pragma once

#include <string>
#include <utility>

#include <reef/run/parameter_group.hpp>

#include "options.hpp"

/// The texts of options that say more than a number. Each throws CLI::ValidationError, with the form that is awaited.

namespace reef_examples {

/// "4x4x128" as layers, heads and channels.
void parse_model(const std::string& text, TrainOptions& options);

/// "3:4" as rank 3, four times slower.
std::pair<int, double> parse_slow(const std::string& text);

/// "*.bias:0.5" as half the rate, "*.bias:1:0" as the rate and no decay.
reef::run::ParameterGroup parse_group(const std::string& text);

/// As lora_of, whose errors are of --lora.
reef::nn::Lora parse_lora(const std::string& text);

/// "gradients=ef+top-k:100", checked.
void parse_compress(const std::string& text, TrainOptions& options);

/// "100:edges.safetensors" as step 100 into that file.
void parse_record_edges(const std::string& text, TrainOptions& options);

/// "adaptive", "cap:8" as at most eight micro-batches a phase, "fixed:4" as four, "fixed" as those of --micro-batches.
void parse_accumulate(const std::string& text, TrainOptions& options);

}  // namespace reef_examples
