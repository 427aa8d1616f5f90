#pragma once

#include <CLI/CLI.hpp>

#include "options.hpp"

namespace reef_examples {

/// Throws OptionError on every rank, with the options and both values, unless all ranks have the same command
/// line: but for what a rank may have of its own (threads, its device, its micro-batches), and for files that
/// are the same under other names; and unless there are as many ranks as --plan is for. All ranks call it, before
/// anything else.
void require_same_options(const CLI::App& app, const TrainOptions& options);

/// Sets what this rank has of the lists by rank. Throws OptionError on every rank for one that is of other ranks. All ranks
/// call it, before anything else.
void take_figures_of_rank(TrainOptions& options);

/// Throws FileError on every rank where rank 0 cannot write what the run is asked for: before anything is planned, rather
/// than after the training. All ranks call it.
void require_outputs(const TrainOptions& options);

/// TrainOptions::of_the_run.
std::map<std::string, std::string> options_of_the_run(const CLI::App& app,
                                                      const TrainOptions& options);

}  // namespace reef_examples
