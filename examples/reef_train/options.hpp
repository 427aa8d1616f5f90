#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <reef/comm/stop_request.hpp>
#include <reef/core/text.hpp>
#include <reef/io/json.hpp>
#include <reef/nn/adapter_file.hpp>
#include <reef/nn/class_labels.hpp>
#include <reef/nn/model_config.hpp>
#include <reef/run/parameter_group.hpp>
#include <reef/trainer/options.hpp>

#include "../support/text_source.hpp"

namespace reef_examples {

/// The command line of reef-train. Zero or empty means: not given.
struct TrainOptions {
  std::string recipe = "ddp";
  std::vector<std::string> data;
  std::string data_kind = "auto";
  std::string document_end;
  std::string chat_template;  // empty: that of the tokenizer's folder
  bool pack = false;
  std::int64_t classes = 0;  // 0: a language model
  std::optional<reef::nn::ClassLabels> labels;  // of --init, if that tells classes
  std::string tokenizer = "bytes";
  std::string graph;     // a file
  reef::io::Json model;  // what is in it
  std::uint64_t graph_hash = 0;
  std::string graph_optimizers;
  std::int64_t layers = 4, heads = 4, channels = 128;
  bool shape_given = false;  // by --model
  std::int64_t context = 128;
  std::int64_t batch = 0;
  int micro_batches = 1;
  std::optional<reef::Accumulation> accumulation;
  std::string sampler = "own";
  int sync_every = 50;
  int fragments = 1;
  std::string overlap = "none";
  double mix = 0.5;
  double outer_lr = 0.7;
  double outer_momentum = 0.9;
  std::string divisor = "peers";
  bool clip_median = false;
  double decay = 0.95;
  std::int64_t steps = 300;
  double lr = 3e-3;
  std::int64_t warmup = -1;
  std::string rule = "adamw";
  std::vector<reef::run::ParameterGroup> groups;
  double weight_decay = 0.1;
  double clip = 1.0;
  float dropout = 0;
  std::uint64_t seed = 1;
  std::string precision = "fp32";
  int threads = 0;
  std::string init;
  std::optional<reef::nn::ModelConfig> given;  // what --init is, where its config.json says that and it is no GPT-2
  bool from_scratch = false;                  // --init is that config.json alone
  std::vector<std::string> freeze;      // patterns
  std::optional<reef::nn::Adapter> adapter;  // of --lora, of --prompts, or of --init-adapter
  bool deep_prompts = false;            // of --prompts
  std::string init_adapter;             // a folder
  std::string export_adapter;           // a folder
  std::string export_file;
  std::string network;
  std::vector<std::uint64_t> device_memories;  // by rank, or one for all
  std::vector<double> device_links;
  std::uint64_t device_memory = 0;  // this rank's, as the next
  double device_link = 0;
  double device_flops = 0;  // 1e9 a second; 0: as fast as the cores are
  std::string activations = "planned";
  std::string pipeline = "1f1b";
  int micro_batches_per_update = 0;
  std::string order;  // a file
  std::map<std::string, std::string> compress;  // channel: codec
  bool adapt_ratios = false;
  bool one_mask = false;
  std::int64_t ramp_ratios = 0;  // steps
  std::int64_t replan_ratios = 0;  // steps; 0: never
  std::string replay_ratios;       // a file
  bool measure_error = false;
  std::int64_t record_step = 0;  // 0: none is recorded
  std::string record_edges;      // a file
  int stages = 0;     // as many as ranks
  std::vector<int> place;  // ranks by replica and stage; none: by the network, or in turn
  std::string plan;        // a file
  int planned_ranks = 0;   // of that; 0: it does not say
  std::int64_t planned_vocabulary = 0;
  std::string planned_otherwise;  // "--model 2x2x32 (here 4x4x128), ...": what it is for, and is not here
  int unit = 1;       // 0: all micro-batches
  std::string layout = "balanced";
  std::string profile;
  std::vector<std::pair<int, double>> slow;  // rank, how many times slower
  std::string checkpoint;
  std::int64_t checkpoint_every = 0;
  std::uint64_t checkpoint_keep = 0;
  bool resume = false;
  std::int64_t eval_tokens = std::int64_t{1} << 20;
  std::int64_t eval_every = 0;
  double deadline = 30;
  std::string non_finite = "stop";
  std::string metrics;
  std::string trace;
  std::string report;
  std::optional<std::string> prompt;
  std::int64_t prompt_tokens = 200;

  /// B: as given, or 1024 tokens' worth.
  [[nodiscard]] std::int64_t samples() const {
    return batch > 0 ? batch : std::max<std::int64_t>(1, 1024 / std::max<std::int64_t>(1, context));
  }
  /// P, the positions of a sample that a soft prompt takes; 0 without one.
  [[nodiscard]] std::int64_t prompt_positions() const {
    const auto* const soft = adapter ? std::get_if<reef::nn::SoftPrompt>(&*adapter) : nullptr;
    return soft == nullptr ? 0 : soft->tokens;
  }
  /// The tokens of text in a sample: T, less those of a soft prompt.
  [[nodiscard]] std::int64_t text_context() const { return context - prompt_positions(); }
  [[nodiscard]] DataOptions data_options() const {
    return {data_kind, document_end, classes, text_context(), chat_template, folder_of_tokenizer(tokenizer), labels};
  }
  [[nodiscard]] Rows rows() const { return {text_context(), prompt_positions(), pack}; }
  [[nodiscard]] std::int64_t warmup_steps() const {
    return warmup >= 0 ? warmup : std::min<std::int64_t>(100, steps / 10);
  }

  /// The options that change what is trained, by name and value: what a checkpoint keeps of them.
  std::map<std::string, std::string> of_the_run;
};

/// "4 layers, 4 heads, 128 channels", or the file that says what is trained.
inline std::string text_of_model(const TrainOptions& options) {
  if (!options.graph.empty()) return options.graph;
  return reef::concat(options.layers, " layers, ", options.heads, " heads, ", options.channels, " channels");
}

/// The exit status of a run that was asked to stop, and left what a --resume goes on from: EX_TEMPFAIL of
/// sysexits.h.
inline constexpr int stopped_status = 75;

/// The recipes: each is a Trainer of its own, compiled in a file of its own; fusion is dtfm's. Each returns an exit status.
int run_ddp(const TrainOptions& options, const reef::comm::StopRequest& stop);
int run_atom(const TrainOptions& options, const reef::comm::StopRequest& stop);
int run_zero1(const TrainOptions& options, const reef::comm::StopRequest& stop);
int run_dpu(const TrainOptions& options, const reef::comm::StopRequest& stop);
int run_acco_wp(const TrainOptions& options, const reef::comm::StopRequest& stop);
int run_acco(const TrainOptions& options, const reef::comm::StopRequest& stop);
int run_dtfm(const TrainOptions& options, const reef::comm::StopRequest& stop);
int run_reef(const TrainOptions& options, const reef::comm::StopRequest& stop);
int run_diloco(const TrainOptions& options, const reef::comm::StopRequest& stop);
int run_sparse(const TrainOptions& options, const reef::comm::StopRequest& stop);

}  // namespace reef_examples
