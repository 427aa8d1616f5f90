#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <reef/core/element.hpp>
#include <reef/core/error.hpp>
#include <reef/core/finite.hpp>
#include <reef/core/text.hpp>
#include <reef/io/atomic_file.hpp>
#include <reef/io/json.hpp>
#include <reef/io/manifest.hpp>
#include <reef/nn/adapter_file.hpp>
#include <reef/nn/gpt2_config.hpp>
#include <reef/nn/gpt2_file.hpp>
#include <reef/nn/model_config.hpp>
#include <reef/nn/model_folder.hpp>
#include <reef/trainer/checkpoint.hpp>

#include "../support/earlier_files.hpp"
#include "../support/weight_files.hpp"
#include "checkpoint_facts.hpp"
#include "exported_files.hpp"
#include "failures.hpp"
#include "graph_model.hpp"
#include "metrics.hpp"
#include "options.hpp"
#include "setup.hpp"

namespace reef_examples {

/// Saves what a run has trained: checkpoints, and the weights at the end. What fails takes nothing else with it. All
/// ranks call its members, which write nothing that is not finite.
template <class TrainerType>
class Saving {
  using T = typename TrainerType::T;
  using Sum = reef::sum_t<T>;

public:
  /// `facts` gives what a checkpoint is to say of this run.
  Saving(TrainerType& trainer, const Setup& run, Metrics& metrics,
         std::function<CheckpointFacts()> facts, Failures& failures)
      : trainer_(trainer),
        run_(run),
        options_(run.options),
        config_(run.config),
        metrics_(metrics),
        facts_(std::move(facts)),
        failures_(failures) {}

  /// After the steps that were there before this run.
  void begin() { first_step_ = tried_ = committed(); }

  /// A checkpoint that fails is told, and the run goes on: what there is after it can still be saved.
  void checkpoint() {
    tried_ = committed();
    const auto fails = [&](const std::string& why) {
      failures_.add("--checkpoint " + options_.checkpoint,
                    reef::concat("after step ", committed(), ": ", why));
    };
    if (const std::string weight = trainer_.weight_not_finite(); !weight.empty())
      return fails(reef::concat("not finite: ", weight, "; nothing is saved"));
    try {
      reef::io::Json facts = facts_().json();
      facts["tokens"] = metrics_.tokens();
      facts["seconds"] = metrics_.seconds();
      if (const auto line = metrics_.make_durable()) {
        facts["metrics"] = {
            {"step", line->step}, {"tokens", line->tokens}, {"seconds", line->seconds}};
      }
      const auto folder = reef::checkpoint::save(trainer_, options_.checkpoint, facts);
      say("checkpoint: " + folder.string());
    } catch (const reef::FileError& error) {  // of all ranks
      return fails(error.what());
    }
    if (options_.checkpoint_keep == 0 || !first()) return;
    failures_.attempt("--checkpoint-keep", [&] {
      reef::io::remove_old_checkpoints(options_.checkpoint, options_.checkpoint_keep);
    });
  }

  /// First what is dear: a checkpoint of the last step, if it has none, and the weights. `readable`: the data can
  /// still be read.
  void save_what_is_dear(bool readable) {
    const bool steps_taken = committed() > first_step_;
    if (!options_.checkpoint.empty() && steps_taken && tried_ != committed()) checkpoint();
    if (!options_.export_file.empty()) {
      export_weights("--export " + options_.export_file, options_.export_file, readable,
                     [this](const auto& values) { write_weights(values); });
    }
    if (options_.export_adapter.empty()) return;
    export_weights("--export-adapter " + options_.export_adapter,
                   std::filesystem::path(options_.export_adapter) / "adapter_model.safetensors", readable,
                   [this](const auto& values) { write_adapter(values); });
  }

private:
  [[nodiscard]] bool first() const { return trainer_.rank() == 0; }
  [[nodiscard]] std::int64_t committed() const { return trainer_.progress_state().committed; }
  void say(const std::string& text) { run_.say(text); }

  using Values = std::map<std::string, std::vector<Sum>>;

  /// Weights that are of use to somebody, written by `write` to `file`. All ranks; rank 0 writes.
  template <class Write>
  void export_weights(const std::string& what, const std::filesystem::path& file, bool readable, const Write& write) {
    if (committed() == 0) return say(what + ": no step was taken, there is nothing to export");
    if (const std::string weight = trainer_.weight_not_finite(); !weight.empty())
      return failures_.add(what, reef::concat("not finite: ", weight, "; no weights are exported"));
    // A first look before the whole evaluation: finite weights may still be of no use.
    if (readable && !reef::is_finite(trainer_.evaluate(1))) {
      return failures_.add(what, "the held-out loss is not finite; no weights are exported");
    }
    Values spread;  // over stages
    for (const reef::graph::Parameter& parameter : trainer_.model().dag().parameters) {
      if (trainer_.plan().topology.stages == 1) break;
      std::vector<Sum> values = trainer_.gather_parameter(parameter.name);
      if (first()) spread[parameter.name] = std::move(values);
    }
    std::string aside;
    const auto in_place = [&] { aside = write_in_place(file.string(), [&] { write(spread); }); };
    if (first() && failures_.attempt(what, in_place)) say("wrote " + file.string() + aside);
  }

  /// A parameter's values, on rank 0.
  [[nodiscard]] std::vector<T> values_of(const Values& spread, const std::string& name) {
    const auto found = spread.find(name);
    const std::vector<Sum> values = found != spread.end() ? found->second : trainer_.parameter(name);
    return std::vector<T>(values.begin(), values.end());
  }

  /// Together they are what Hugging Face's from_pretrained reads. A config.json that is there stays,
  /// since it may say more. Adapters are merged into the weights.
  void write_weights(const Values& spread) {
    const auto base = with_head(options_, base_model_of<typename TrainerType::Device, T>(options_, config_, 1));
    const auto merged = [&](const std::string& name) {
      return reef::nn::merged_lora<T>(trainer_.model(), name, [&](const std::string& of) { return values_of(spread, of); });
    };
    const std::filesystem::path beside = config_beside(options_.export_file);
    const bool is_there = exists(beside);
    if (options_.given) {
      reef::nn::write_weights<T>(options_.export_file, *options_.given, base.dag(), merged);
    } else {
      reef::nn::write_gpt2<T>(options_.export_file, base.dag(), config_.vocabulary, merged);
    }
    if (!is_there) {
      const reef::nn::ModelConfig config = options_.given ? *options_.given : reef::nn::ModelConfig(config_);
      if (options_.classes == 0) {
        reef::nn::write_model_config(beside, config);
      } else {
        reef::nn::write_model_config(beside, config, labels_of(options_));
      }
      complete_config(options_, beside, reef::element_of<T> == reef::Element::bfloat16 ? "bfloat16" : "float32");
    }
    copy_beside_export(options_);
  }

  /// Together they are what PEFT reads.
  void write_adapter(const Values& spread) {
    reef::io::create_folders(options_.export_adapter);
    reef::nn::write_adapter<T>(options_.export_adapter, trainer_.model().dag(),
                               [&](const std::string& name) { return values_of(spread, name); });
    reef::nn::write_adapter_config(options_.export_adapter, *options_.adapter, options_.init, !options_.given,
                                   trainer_.model().dag());
  }

  TrainerType& trainer_;
  Setup run_;
  const TrainOptions& options_;
  const reef::nn::GptConfig& config_;
  Metrics& metrics_;
  std::function<CheckpointFacts()> facts_;
  Failures& failures_;
  std::int64_t first_step_ = 0;  // of this run
  std::int64_t tried_ = 0;  // the step after which a checkpoint was written, or should have been
};

}  // namespace reef_examples
