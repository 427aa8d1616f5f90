#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <reef/comm/communicator.hpp>
#include <reef/profile/network.hpp>
#include <reef/comm/progress.hpp>
#include <reef/device/host.hpp>
#include <reef/graph/graph.hpp>
#include <reef/optim/learning_rate.hpp>
#include <reef/run/rank_context.hpp>
#include <reef/run/step_plan.hpp>
#include <reef/trace/sink.hpp>
#include <reef/trainer/options.hpp>

/// The optimizers that are measured beside each other, all over AdamW in fp32 with one thread a rank.
/// Each is a Trainer of its own type; here they are one, so that each is compiled once, in its own file.
namespace reef_bench {

using Model = reef::graph::Graph<reef::device::Host, float>;

/// What a training is made of, the same for every recipe.
struct Setting {
  Model model;
  reef::run::Source source;
  reef::run::Source held_out{};
  int micro_batches = 1;  ///< of a step, on each rank: a recipe shares them out over its phases
  reef::Accumulation accumulation{};  ///< of recipes that overlap
  double slowdown = 1;                ///< of this rank's device
  double flops = 0;  ///< a second, of an emulated device; 0: as fast as the cores are
  std::uint64_t seed = 1;
  double clip_norm = 1;
  reef::optim::LearningRate learning_rate{};
  reef::Bytes bucket_bytes = 0;  ///< of recipes that hide them behind a backward; others choose
  reef::profile::Network network{};
  reef::trace::Sink* trace = nullptr;
};

/// A Trainer whose type is known only where it was made. Members are those of Trainer.
class Training {
public:
  Training() = default;
  Training(const Training&) = delete;
  Training& operator=(const Training&) = delete;
  virtual ~Training() = default;

  virtual reef::StepResult step() = 0;
  virtual double evaluate(int rounds) = 0;
  virtual std::vector<float> parameter(const std::string& name) = 0;
  virtual void set_parameter(const std::string& name, std::span<const float> values) = 0;
  [[nodiscard]] virtual const Model& model() const = 0;
  [[nodiscard]] virtual const reef::run::StepPlan& plan() const = 0;
  [[nodiscard]] virtual reef::comm::Progress& progress() = 0;
};

using MakeTraining = std::unique_ptr<Training>(Setting, const reef::comm::Communicator&);

struct Recipe {
  std::string_view name;
  /// A step has a multiple of so many micro-batches, and sends the model so often.
  int phases_per_step;
  MakeTraining* make;
};

/// All of them. A new one has a file recipe_NAME.cpp and a line in recipes.cpp.
std::span<const Recipe> recipes();

/// Throws OptionError with the names that there are.
const Recipe& recipe_of(std::string_view name);

MakeTraining make_ddp, make_zero1;
MakeTraining make_dpu, make_dpu_500, make_dpu_predicted;
MakeTraining make_acco_wp, make_acco;
MakeTraining make_diloco, make_diloco_mix;
MakeTraining make_sparse, make_sparse_peers;

}  // namespace reef_bench
