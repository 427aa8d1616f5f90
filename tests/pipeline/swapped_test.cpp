// Stages that swap their segments, unit by unit of micro-batches: the bits of one process in whose memory the model stays.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <reef/core/text.hpp>
#include <reef/nn/add.hpp>
#include <reef/nn/cross_entropy.hpp>
#include <reef/nn/dropout.hpp>
#include <reef/nn/embedding.hpp>
#include <reef/nn/gelu.hpp>
#include <reef/nn/layer_norm.hpp>
#include <reef/nn/linear.hpp>
#include <reef/optim/adamw.hpp>
#include <reef/optim/ddp.hpp>
#include <reef/optim/zero1.hpp>
#include <reef/pipeline/ordered.hpp>
#include <reef/swap/atom.hpp>
#include <reef/trainer/checkpoint.hpp>

#include "../support/random_stages.hpp"
#include "../support/small_gpt.hpp"

namespace reef::test {
namespace {

namespace swapped {

using Zero1 = optim::Zero1<optim::AdamW>;
using Whole = Trainer<Zero1>;
using Stays = Trainer<pipeline::Ordered, Zero1>;
using Swapped = Trainer<swap::Atom<>, pipeline::Ordered, Zero1>;
using SwappedDdp = Trainer<swap::Atom<>, pipeline::Ordered, optim::Ddp<optim::AdamW>>;
using Model = graph::Graph<device::Host, float>;

Model deep() {
  nn::GptConfig config = small_config();
  config.layers = 6;
  config.dropout = 0.2F;
  return nn::gpt<device::Host, float>(config, 1);
}

constexpr std::int64_t batch = 2, length = 11, channels = 20, vocabulary = 37;

/// Each pair of neighbours has one weight, and reads what was there three layers before; the head is the embedding's.
Model paired() {
  Model g(1);
  const int tokens = g.input("tokens", {{batch, length}, Element::int32});
  const int targets = g.input("targets", {{batch, length}, Element::int32});
  std::vector<int> values{g.add("embedding", nn::Embedding{vocabulary, length, channels}, {tokens})[0]};
  for (int layer = 0; layer < 12; ++layer) {
    const auto add = [&](std::string_view what, auto op, std::vector<int> inputs, std::vector<std::string> names = {}) {
      return g.add(concat(what, layer), op, std::move(inputs), std::move(names))[0];
    };
    int x = add("norm", nn::LayerNorm{}, {values.back()});
    x = add("linear", nn::Linear{channels, false}, {x}, {concat("w", layer / 2)});
    x = add("dropout", nn::Dropout{0.2F}, {add("gelu", nn::Gelu{}, {x})});
    values.push_back(add("add", nn::Add{}, {x, values[static_cast<std::size_t>(std::max(layer - 3, 0))]}));
  }
  const std::string head = g.dag().parameters[0].name;
  const int x = g.add("head", nn::Linear{vocabulary, false, nn::Transpose::yes}, {values.back()}, {head})[0];
  g.loss(g.add("loss", nn::CrossEntropy{}, {x, targets})[0]);
  return g;
}

/// A replica has so many.
int count_of(int replica) { return replica == 0 ? 5 : 3; }

struct Trained {
  std::vector<double> numbers{};
  std::vector<std::vector<float>> weights{};

  friend bool operator==(const Trained&, const Trained&) = default;
};

template <class TrainerType>
Trained train(TrainerType& trainer) {
  Trained result;
  for (int step = 0; step < 2; ++step) {
    const StepResult done = trainer.step();
    result.numbers.push_back(done.loss);
    result.numbers.push_back(done.gradient_norm);
  }
  result.numbers.push_back(trainer.evaluate(2));
  for (const graph::Parameter& parameter : trainer.model().dag().parameters) {
    result.weights.push_back(trainer.gather_parameter(parameter.name));
  }
  return result;
}

/// What a lone process comes to that stands for the replicas.
Trained train_whole(Model model, int replicas, const comm::Communicator& self) {
  auto options = small_options<Whole>();
  options.virtual_ranks = replicas;
  options.micro_batches.clear();
  for (int replica = 0; replica < replicas; ++replica) options.micro_batches.push_back(count_of(replica));
  Whole trainer(std::move(model), small_source(), options, small_source(), self);
  return train(trainer);
}

/// Of this rank in replicas of so many stages, behind a link, where nobody may read what has left.
template <class TrainerType>
typename TrainerType::Options spread_options(int replicas, int stages) {
  auto options = small_options<TrainerType>();
  options.topology = run::Topology(replicas, stages);
  options.pipeline.schedule = "gpipe";
  options.micro_batches = {count_of(options.topology->replica_of(world_rank()))};
  options.device.link_bytes_per_second = 4e9;
  options.device.poison_freed = true;
  return options;
}

/// All ways to spread the model over the ranks.
std::vector<std::pair<int, int>> replicas_and_stages() {
  if (world_size() == 4) return {{1, 4}, {2, 2}};
  return {{1, world_size()}};
}

template <class TrainerType>
void expect_bits(Model (*model)(), int replicas, int stages, const comm::Communicator& world, const Trained& expected) {
  const std::vector<run::SwapSchedule> schedules{
      {},
      {.weight_slots = 3, .per_micro_batch = true, .stash_slots = 1},
      {.copies_on_compute_lane = true, .writes_back = true},
      {.weight_slots = 4, .resident_segments = 1, .stash_slots = 3}};
  std::size_t next = 0;
  for (const char* const order : {"gpipe", "1f1b", "zb-h1", "zb-v"}) {
    for (const int unit : {1, 2, 0}) {
      auto options = spread_options<TrainerType>(replicas, stages);
      options.pipeline.schedule = order;
      options.pipeline.unit = unit;
      options.swapping = schedules[next % 4];
      options.activations = {run::all_activations[(next + next / 4) % 4]};
      ++next;
      TrainerType trainer(model(), small_source(), options, small_source(), world);
      EXPECT_EQ(train(trainer), expected) << order << ", " << replicas << " replicas of " << stages
                                          << " stages, units of " << unit;
    }
  }
}

TEST(SwappedStages, give_the_bits_of_a_model_that_stays_whatever_the_unit) {
  const comm::Communicator world;
  const comm::Communicator self = world.split(world.rank(), 0, "self");
  for (const auto& [replicas, stages] : replicas_and_stages()) {
    const Trained expected = train_whole(deep(), replicas, self);
    expect_bits<Swapped>(deep, replicas, stages, world, expected);
    expect_bits<SwappedDdp>(deep, replicas, stages, world, expected);
  }
}

TEST(SwappedStages, give_the_bits_where_weights_and_values_are_used_again) {
  const comm::Communicator world;
  const comm::Communicator self = world.split(world.rank(), 0, "self");
  for (const auto& [replicas, stages] : replicas_and_stages()) {
    expect_bits<Swapped>(paired, replicas, stages, world, train_whole(paired(), replicas, self));
  }
}

/// Orders in which halves of backwards come whenever they can, of segments anywhere.
TEST(SwappedStages, of_any_model_in_any_order_give_the_bits_of_one_process) {
  namespace any = random_stages;
  const comm::Communicator world;
  const comm::Communicator self = world.split(world.rank(), 0, "self");
  const std::vector<Activations> kept(run::all_activations.begin(), run::all_activations.end());
  int apart = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    any::Instance one = any::random_instance(seed, 3 * static_cast<int>(seed), any::random_model(seed).dag(), world.size());
    one.recomputes = false;
    Swapped::Options options;
    options.topology = run::Topology(one.replicas, one.stages);
    options.topology->stage_of_segment = one.stage_of_segment;
    options.pipeline.order = one.order;
    options.pipeline.unit = one.unit;
    options.activations = {kept[seed % kept.size()]};
    options.swapping = run::SwapSchedule{.weight_slots = 2 + static_cast<int>(seed % 3),
                                         .writes_back = seed % 5 == 0,
                                         .resident_segments = static_cast<int>(seed % 2),
                                         .stash_slots = 1 + static_cast<int>(seed % 4)};
    options.device.link_bytes_per_second = 4e9;
    options.device.poison_freed = true;
    SCOPED_TRACE(one.text);
    const any::Trained spread = any::train<Swapped>(seed, one, options, world);
    const any::Trained alone = any::train_alone<Zero1>(seed, one, self);
    EXPECT_EQ(spread.numbers, alone.numbers);
    for (const auto& [name, values] : spread.weights) EXPECT_EQ(values, alone.weights.at(name)) << name;
    for (const auto& tasks : one.order.tasks) {
      apart += std::any_of(tasks.begin(), tasks.end(), [](const plan::PipelineTask& task) {
        return task.kind == plan::PipelineTaskKind::weight_backward;
      });
    }
  }
  EXPECT_GT(apart, 10);
}

TEST(SwappedStages, run_in_memory_that_would_not_hold_them) {
  const comm::Communicator world;
  const comm::Communicator self = world.split(world.rank(), 0, "self");
  const int stages = world.size();
  auto stays = spread_options<Stays>(1, stages);
  stays.pipeline.unit = 0;
  Bytes least = 0;
  for (int rank = 0; rank < stages; ++rank) {
    const Bytes bytes = Stays::estimate(deep(), stays, stages, rank).device_bytes;
    least = rank == 0 ? bytes : std::min(least, bytes);
  }
  auto options = spread_options<Swapped>(1, stages);
  options.pipeline.unit = 0;
  options.activations = {Activations::recompute_and_stash};  // then there is less to plan
  options.device.memory_bytes = stays.device.memory_bytes = least * 2 / 3;
  EXPECT_THROW(Stays(deep(), small_source(), stays, {}, world), Error) << "on every rank";
  Swapped trainer(deep(), small_source(), options, small_source(), world);
  EXPECT_EQ(train(trainer), train_whole(deep(), 1, self));
  EXPECT_LE(trainer.device().memory().peak, options.device.memory_bytes);
  const run::StepPlan& plan = trainer.plan();
  EXPECT_GT(plan.segments_of(plan.topology.stage_of(world.rank())).size(), 1U) << "as they are planned";
}

TEST(SwappedStages, bring_a_segment_once_a_unit_and_direction) {
  const int stages = world_size();
  for (const int micro_batches : {4, 5}) {
    for (const int unit : {1, 2, 3, 0}) {
      SCOPED_TRACE(concat("units of ", unit, " of ", micro_batches));
      const int units = unit == 0 ? 1 : (micro_batches + unit - 1) / unit;
      auto options = spread_options<Swapped>(1, stages);
      options.micro_batches = {micro_batches};
      options.pipeline.unit = unit;
      options.bucket_bytes = 1024;  // several segments on each of four stages
      options.swapping = run::SwapSchedule{};
      const comm::Communicator world;
      const Swapped trainer(deep(), small_source(), options, {}, world);
      const run::StepPlan& plan = trainer.plan();
      for (const schedule::Program& program : Swapped::programs(deep(), options, stages, {micro_batches})) {
        std::map<std::string, std::map<int, int>> counts;
        for (const schedule::Instruction& i : program.round) ++counts[i.kind][i.index];
        std::vector<int> swapping = plan.segments_of(plan.topology.stage_of(program.rank));
        std::erase_if(swapping, [&](int s) { return plan.bucket_of_segment[static_cast<std::size_t>(s)] < 0; });
        EXPECT_GE(swapping.size(), 4U) << "more than slots";
        for (std::size_t i = 0; i < swapping.size(); ++i) {
          const int s = swapping[i];
          const int kept = i + 2 >= swapping.size() ? 1 : 0;  // in its slot, from the last forwards to the first backwards
          EXPECT_EQ(counts["Load"][s], 2 * units - kept) << s;
          EXPECT_EQ(counts["Evict"][s], units) << s;
          EXPECT_EQ(counts["LoadGradients"][s], units - 1) << s;
        }
      }
    }
  }
}

TEST(SwappedStages, are_saved_for_one_process) {
  const comm::Communicator world;
  const comm::Communicator self = world.split(world.rank(), 0, "self");
  const SharedFolder folder("swapped-stages");
  auto options = spread_options<Swapped>(1, world.size());
  options.pipeline.unit = 2;
  Swapped trainer(deep(), small_source(), options, small_source(), world);
  train(trainer);
  checkpoint::save(trainer, folder.path());
  if (world.rank() > 0) return;
  auto whole = small_options<Whole>();
  whole.micro_batches = {count_of(0)};
  Whole undisturbed(deep(), small_source(), whole, small_source(), self);
  train(undisturbed);
  Whole resumed(deep(), small_source(), whole, small_source(), self);
  ASSERT_TRUE(checkpoint::resume(resumed, folder.path()).has_value());
  EXPECT_EQ(train(resumed), train(undisturbed));
}

TEST(SwappedStages, refuse_what_they_cannot_run_by_name) {
  const auto refusal = [](const auto& change) -> std::string {
    auto options = spread_options<Swapped>(1, 2);
    change(options);
    try {
      (void)Swapped::programs(deep(), options, 2);
    } catch (const OptionError& error) {
      return error.what();
    }
    return "nothing";
  };
  EXPECT_EQ(refusal([](auto&) {}), "nothing");
  EXPECT_NE(refusal([](auto& o) { o.pipeline.unit = -1; }).find("a unit of -1 micro-batches"), std::string::npos);
}

}  // namespace swapped

}  // namespace
}  // namespace reef::test
