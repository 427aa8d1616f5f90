// Stages that swap and update within a step: the versions of their weights lie in host memory, and the bits are those of
// the same stages whose model stays.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <reef/core/text.hpp>
#include <reef/optim/adamw.hpp>
#include <reef/optim/ddp.hpp>
#include <reef/optim/zero1.hpp>
#include <reef/pipeline/ordered.hpp>
#include <reef/schedule/verify.hpp>
#include <reef/swap/atom.hpp>
#include <reef/swap/kinds.hpp>
#include <reef/swap/layer_streaming.hpp>
#include <reef/swap/paper_atom.hpp>
#include <reef/trainer/checkpoint.hpp>

#include "../support/small_gpt.hpp"

namespace reef::test {
namespace {

namespace swapped_versions {

using Stays = Trainer<pipeline::Ordered, optim::Zero1<optim::AdamW>>;
using Swapped = Trainer<swap::Atom<>, pipeline::Ordered, optim::Zero1<optim::AdamW>>;
using SwappedDdp = Trainer<swap::Atom<>, pipeline::Ordered, optim::Ddp<optim::AdamW>>;
using Model = graph::Graph<device::Host, float>;

/// The embedding is the head's weight, and so on the first stage and the last.
Model model(int layers = 4) {
  nn::GptConfig config = small_config();
  config.layers = layers;
  config.dropout = 0.2F;
  return nn::gpt<device::Host, float>(config, 1);
}

struct Trained {
  std::vector<double> numbers{};
  std::vector<std::vector<float>> weights{};

  friend bool operator==(const Trained&, const Trained&) = default;
};

template <class TrainerType>
Trained train(TrainerType& trainer, int steps = 2) {
  Trained result;
  for (int step = 0; step < steps; ++step) result.numbers.push_back(trainer.step().loss);
  result.numbers.push_back(trainer.evaluate(2));
  for (const graph::Parameter& parameter : trainer.model().dag().parameters) {
    result.weights.push_back(trainer.gather_parameter(parameter.name));
  }
  return result;
}

/// Of `updates` updates within a step.
template <class TrainerType>
typename TrainerType::Options options_of(int stages, const std::string& schedule, int updates) {
  auto options = small_options<TrainerType>();
  options.topology = run::Topology(1, stages);
  options.pipeline.schedule = schedule;
  options.micro_batches = {schedule == "2bw" ? updates * stages : updates};
  options.non_finite = optim::NonFinite::ignore;
  options.clip_norm = 0;
  options.bucket_bytes = 1024;  // several segments on each stage
  options.device.link_bytes_per_second = 4e9;
  options.device.poison_freed = true;
  return options;
}

TEST(SwappedVersions, give_the_bits_of_the_same_stages_whose_model_stays) {
  const comm::Communicator world;
  const std::vector<run::SwapSchedule> schedules{
      {},
      {.slots = 3, .per_micro_batch = true, .stash_slots = 1},
      {.copies_on_compute_lane = true, .writes_back = true},
      {.slots = 9, .resident_segments = 1, .stash_slots = 3}};
  std::size_t next = 0;
  for (const auto& [schedule, updates] : {std::pair<std::string, int>{"2bw", 1}, {"2bw", 4}, {"pipedream", 1}, {"pipedream", 9}}) {
    auto stays = options_of<Stays>(world.size(), schedule, updates);
    Stays resident(model(), small_source(), stays, small_source(), world);
    const Trained expected = train(resident);
    for (const run::SwapSchedule& swapping : schedules) {
      for (const Bytes bucket : {Bytes{1024}, Bytes{1} << 20}) {  // several segments of a stage, or one
        auto options = options_of<Swapped>(world.size(), schedule, updates);
        options.swapping = swapping;
        options.activations = {run::all_activations[next++ % 4]};
        options.bucket_bytes = bucket;
        Swapped trainer(model(), small_source(), options, small_source(), world);
        EXPECT_EQ(train(trainer), expected) << schedule << ", " << updates << " updates, " << swapping.slots << " slots, "
                                            << trainer.plan().segments.size() << " segments";
        const StepEstimate estimate = Swapped::estimate(model(), trainer.options(), world.size(), world.rank());
        EXPECT_EQ(trainer.device().memory().peak, estimate.device_bytes);
      }
    }
  }
}

}  // namespace swapped_versions

}  // namespace
}  // namespace reef::test
