#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <reef/core/bfloat16.hpp>
#include <reef/device/host.hpp>
#include <reef/graph/dag.hpp>
#include <reef/graph/graph_json.hpp>
#include <reef/nn/adapter_file.hpp>
#include <reef/nn/gpt.hpp>
#include <reef/run/operator_groups.hpp>
#include <reef/run/parameter_group.hpp>

#include "options.hpp"

namespace reef_examples {

/// Reads the model of --graph, if one is given: into it go the file, what it is (a hash), and the samples and tokens of
/// its inputs.
///
/// | inputs  | "tokens" (B, T) int32 and "targets" (B, T) int32, in this order, and no others |
/// | loss    | there is one                                                                    |
/// | tensors | "logits" (B, T, V), if a sample of text is to be made                           |
///
/// Throws FileError, DecodeError, and OptionError for a graph that reads something else.
void read_graph(TrainOptions& options);

/// Throws OptionError for tokens of which the model of --graph has no vectors or logits.
void require_vocabulary(const TrainOptions& options, std::int64_t vocabulary);

/// The model of --graph, for another number of samples if that is not 0.
template <class Device, reef::real T>
reef::graph::Model<Device, T> graph_model(const TrainOptions& options, int threads, std::int64_t batch = 0);

extern template reef::graph::Model<reef::device::Host, float> graph_model(const TrainOptions&, int, std::int64_t);
extern template reef::graph::Model<reef::device::Host, reef::Bfloat16> graph_model(const TrainOptions&, int,
                                                                                   std::int64_t);

/// Finds out whether --init is a model other than GPT-2, by the config.json beside it: into the options go that and its
/// size. A GPT-2 stays as --model says. The classes of one for sequence classification are --classes. Throws FileError,
/// DecodeError, and OptionError for another --classes.
void read_init(TrainOptions& options);

/// Reads what kind of adapter --init-adapter has, if it is given. Throws FileError, DecodeError.
void read_adapter_options(TrainOptions& options);

/// The model of --init that its config.json describes, for so many samples.
template <class Device, reef::real T>
reef::graph::Graph<Device, T> given_model(const TrainOptions& options, int threads, std::int64_t batch);

extern template reef::graph::Graph<reef::device::Host, float> given_model(const TrainOptions&, int, std::int64_t);
extern template reef::graph::Graph<reef::device::Host, reef::Bfloat16> given_model(const TrainOptions&, int, std::int64_t);

/// The model of --graph, that of the config.json of --init, or a GPT; for the samples of `config`.
template <class Device, reef::real T>
reef::graph::Graph<Device, T> base_model_of(const TrainOptions& options, const reef::nn::GptConfig& config, int threads) {
  if (!options.graph.empty()) return graph_model<Device, T>(options, threads, config.batch).graph;
  if (options.given) return given_model<Device, T>(options, threads, config.batch);
  return reef::nn::gpt<Device, T>(config, threads);
}

/// The model with the head of --classes in the place of that of the language, if it tells classes.
template <class Device, reef::real T>
reef::graph::Graph<Device, T> with_head(const TrainOptions& options, reef::graph::Graph<Device, T> model);

/// What is trained: that with the adapter of --lora, --prompts or --init-adapter, the head of --classes, and the parameters of
/// --freeze frozen.
template <class Device, reef::real T>
reef::graph::Graph<Device, T> model_of(const TrainOptions& options, const reef::nn::GptConfig& config, int threads);

/// The same for the rows that the data fills: of --pack with several samples each.
template <class Device, reef::real T>
reef::graph::Graph<Device, T> model_of_rows(const TrainOptions& options, const reef::nn::GptConfig& config, int threads);

#define REEF_TRAIN_MODELS(declared, T)                                                                                      \
  declared template reef::graph::Graph<reef::device::Host, T> with_head(const TrainOptions&,                                  \
                                                                        reef::graph::Graph<reef::device::Host, T>);           \
  declared template reef::graph::Graph<reef::device::Host, T> model_of(const TrainOptions&, const reef::nn::GptConfig&, int); \
  declared template reef::graph::Graph<reef::device::Host, T> model_of_rows(const TrainOptions&, const reef::nn::GptConfig&, int);
REEF_TRAIN_MODELS(extern, float)
REEF_TRAIN_MODELS(extern, reef::Bfloat16)

/// The classes that an export names: those of --init, or numbers.
inline reef::nn::ClassLabels labels_of(const TrainOptions& options) {
  return options.labels ? *options.labels : reef::nn::ClassLabels::numbered(options.classes);
}

/// The groups of the command line, and behind them those of operators that a file trains otherwise.
template <class TrainerType>
std::vector<reef::run::ParameterGroup> groups_of(const TrainOptions& options) {
  std::vector<reef::run::ParameterGroup> groups = options.groups;
  if (options.graph.empty()) return groups;
  const auto model = graph_model<typename TrainerType::Device, typename TrainerType::T>(options, 1);
  for (auto& group : reef::run::groups_of_operators(model.graph.dag(), model.optimizers,
                                                    reef::optim::rule_names<typename TrainerType::Rule>)) {
    const bool is_taken = std::any_of(options.groups.begin(), options.groups.end(),
                                      [&](const auto& given) { return given.fits(group.pattern); });
    if (!is_taken) groups.push_back(std::move(group));
  }
  return groups;
}

}  // namespace reef_examples
