#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/graph/estimate.hpp>
#include <reef/optim/adamw.hpp>
#include <reef/trainer/trainer.hpp>

#include "optim/recipes.hpp"

namespace reef_bench {

template <class TrainerType>
class TrainingOf final : public Training {
public:
  TrainingOf(Setting& setting, typename TrainerType::Options options,
             const reef::comm::Communicator& ranks)
      : trainer_(std::move(setting.model), std::move(setting.source), std::move(options),
                 std::move(setting.held_out), ranks) {}

  reef::StepResult step() override { return trainer_.step(); }
  double evaluate(int rounds) override { return trainer_.evaluate(rounds); }
  std::vector<float> parameter(const std::string& name) override {
    return trainer_.parameter(name);
  }
  void set_parameter(const std::string& name, std::span<const float> values) override {
    trainer_.set_parameter(name, values);
  }
  [[nodiscard]] const Model& model() const override { return trainer_.model(); }
  [[nodiscard]] const reef::run::StepPlan& plan() const override { return trainer_.plan(); }
  [[nodiscard]] reef::comm::Progress& progress() override { return trainer_.progress(); }

private:
  TrainerType trainer_;
};

/// The body of every recipe_NAME.cpp. `own` are the options of the optimizer policy, `of_codecs` those of the compressor, where
/// it has any.
template <class Optim, class Compress = reef::compress::Dense>
std::unique_ptr<Training> make_training(Setting setting, const reef::comm::Communicator& ranks,
                                        reef::options_of<Optim> own = {}, reef::options_of<Compress> of_codecs = {}) {
  using Tested = reef::Trainer<Optim, Compress>;
  constexpr bool overlaps = reef::optim::overlapping_policy<Optim>;
  int phases = 1;
  if constexpr (overlaps) phases = Optim::phases_per_step;
  if (setting.micro_batches % phases != 0) {
    throw reef::OptionError("reef_bench: ", setting.micro_batches, " micro-batches over ", phases,
                            " phases.\n  fix: as many in each phase.");
  }
  typename Tested::Options options;
  options.micro_batches = {setting.micro_batches / phases};
  options.seed = setting.seed;
  options.optim = std::move(own);
  options.compress = std::move(of_codecs);
  options.learning_rate = setting.learning_rate;
  options.clip_norm = setting.clip_norm;
  options.bucket_bytes = overlaps ? 0 : setting.bucket_bytes;
  if (overlaps) options.accumulation = setting.accumulation;
  options.device.threads = 1;
  options.device.slowdown = setting.slowdown;
  if (setting.flops > 0) {
    options.profile = reef::graph::estimate(setting.model.dag(), {setting.flops, 0, 0});
    options.paced = true;
  }
  options.communication.network = setting.network;
  options.trace = setting.trace;
  return std::make_unique<TrainingOf<Tested>>(setting, std::move(options), ranks);
}

}  // namespace reef_bench
