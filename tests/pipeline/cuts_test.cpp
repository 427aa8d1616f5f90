// Models that are cut anywhere and spread over stages, run in any order, train to the bits of one process: random
// models with skips, ties and values without gradient, random cuts, placements, schedules and replicas.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <reef/comm/communicator.hpp>
#include <reef/comm/mpi.hpp>
#include <reef/nn/layer_prompt.hpp>
#include <reef/nn/lora_linear.hpp>
#include <reef/nn/mean_squared_error.hpp>
#include <reef/nn/packed.hpp>
#include <reef/nn/prompt_cross_entropy.hpp>
#include <reef/nn/split_heads.hpp>
#include <reef/optim/acco.hpp>
#include <reef/optim/adamw.hpp>
#include <reef/optim/ddp.hpp>
#include <reef/optim/zero1.hpp>

#include "../support/random_stages.hpp"
#include "../support/resumed_stages.hpp"

namespace reef::test::random_stages {
namespace {

using Zero1 = optim::Zero1<optim::AdamW>;
using Acco = optim::Acco<optim::AdamW>;

/// What instances had: so that the seeds are seen to reach what the law is about.
class Histogram {
public:
  void add(const graph::Dag& dag, const Instance& one) {
    const Reach reach = reach_of(dag, one);
    ++drawn_[one.schedule];
    ++drawn_[one.optimizer];
    bool halves = false, whole = false;
    for (const auto& tasks : one.order.tasks) {
      for (const auto& task : tasks) {
        halves = halves || task.kind == PipelineTaskKind::input_backward;
        whole = whole || task.kind == PipelineTaskKind::backward;
      }
    }
    const auto has = [&](std::string_view kind) {
      return std::ranges::any_of(dag.nodes, [&](const graph::Node& node) { return node.kind == kind; });
    };
    const auto has_parameter = [&](std::string_view name) {
      return std::ranges::any_of(dag.parameters, [&](const graph::Parameter& parameter) { return parameter.name == name; });
    };
    for (const auto& [what, is] :
         {std::pair{"tensors skip a chunk", reach.skips}, {"readers go back and forth", reach.alternates},
          {"no gradient comes back", reach.unlearned}, {"ties between stages", reach.tied},
          {"recomputed", one.recomputes}, {"halves of backwards", halves}, {"halves beside whole ones", halves && whole},
          {"several replicas", one.replicas > 1}, {"heads whose queries, keys and values are one tensor", has(nn::SplitHeads::kind)},
          {"low-rank updates of frozen maps", has(nn::LoraLinear::kind)}, {"soft prompts", has(nn::PromptCrossEntropy::kind)},
          {"prompts of a layer", has(nn::LayerPrompt::kind)}, {"class heads", has_parameter("score.weight")},
          {"samples packed into rows", has(nn::Packed<nn::GroupedAttention>::kind)},
          {"squared errors", has(nn::MeanSquaredError::kind)},
          {"fewer micro-batches than stages", one.micro_batches < one.stages},
          {"units of several micro-batches", one.unit != 1}}) {
      drawn_[what] += is ? 1 : 0;
    }
  }
  [[nodiscard]] int of(const std::string& what) const { return drawn_.contains(what) ? drawn_.at(what) : 0; }
  void print() const {
    for (const auto& [what, times] : drawn_) std::printf("%4d  %s\n", times, what.c_str());
  }

private:
  std::map<std::string, int> drawn_;
};

int count_of_instances() {
  const char* const given = std::getenv("REEF_PIPELINES");
  return given != nullptr ? std::atoi(given) : 24;
}
std::uint64_t first_seed() {
  const char* const given = std::getenv("REEF_SEED");
  return given != nullptr ? std::strtoull(given, nullptr, 10) : 1;
}

/// The 500 of all numbers of ranks, whatever the seed.
TEST(Cuts, instances_have_what_the_law_is_about) {
  if (world_size() != 2) GTEST_SKIP() << "two ranks draw those of all numbers of ranks";
  if (world_rank() != 0) GTEST_SKIP() << "rank 0 counts them";
  Histogram histogram;
  const int each = 100;
  for (int ranks = 2; ranks <= 6; ++ranks) {
    for (int i = 0; i < each; ++i) {
      const std::uint64_t seed = first_seed() + static_cast<std::uint64_t>(i);
      const Model model = random_model(seed);
      histogram.add(model.dag(), random_instance(seed, i, model.dag(), ranks));
    }
  }
  histogram.print();
  const int all = 5 * each;
  for (const std::string& schedule : drawn_schedules) EXPECT_GE(histogram.of(schedule), 20) << schedule;
  for (const char* const optimizer : {"zero1", "ddp", "acco"}) EXPECT_GE(histogram.of(optimizer), all / 5) << optimizer;
  for (const char* const what : {"tensors skip a chunk", "ties between stages", "no gradient comes back"}) {
    EXPECT_GE(histogram.of(what), all / 2) << what;
  }
  EXPECT_GE(histogram.of("readers go back and forth"), all / 5);
  EXPECT_GE(histogram.of("heads whose queries, keys and values are one tensor"), all / 5);
  for (const char* const what : {"low-rank updates of frozen maps", "soft prompts", "prompts of a layer", "class heads",
                                 "samples packed into rows", "squared errors"}) {
    EXPECT_GE(histogram.of(what), all / 20) << what;
  }
}

TEST(Cuts, any_model_on_any_stages_in_any_order_trains_to_the_bits_of_one_process) {
  const comm::Communicator world;
  const comm::Communicator self = world.split(world.rank(), 0, "self");
  Histogram histogram;
  for (int i = 0; i < count_of_instances(); ++i) {
    const std::uint64_t seed = first_seed() + static_cast<std::uint64_t>(i);
    const Model model = random_model(seed);
    const Instance one = random_instance(seed, i, model.dag(), world.size());
    SCOPED_TRACE(one.text);
    histogram.add(model.dag(), one);
    const bool overlaps = one.optimizer == "acco";
    const Trained spread = overlaps                  ? train_spread<Acco>(seed, one, world)
                           : one.optimizer == "ddp" ? train_spread<optim::Ddp<optim::AdamW>>(seed, one, world)
                                                    : train_spread<Zero1>(seed, one, world);
    const Trained alone = overlaps ? train_alone<Acco>(seed, one, self) : train_alone<Zero1>(seed, one, self);
    EXPECT_EQ(spread.numbers, alone.numbers);
    for (const auto& [name, values] : spread.weights) {
      EXPECT_EQ(values, alone.weights.at(name)) << name;
    }
    int failed = testing::Test::HasFailure() ? 1 : 0;
    MPI_Allreduce(MPI_IN_PLACE, &failed, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    if (failed != 0) break;
  }
  if (world.rank() == 0) histogram.print();
}

TEST(Cuts, replicas_may_have_other_numbers_of_micro_batches) {
  const comm::Communicator world;
  if (world.size() % 2 != 0) GTEST_SKIP() << "two stages";
  const comm::Communicator self = world.split(world.rank(), 0, "self");
  const int replicas = world.size() / 2;
  const auto counts = [](int replica) { return replica == 0 ? 3 : 1; };
  const auto losses = [](auto& trainer) {
    std::vector<double> numbers;
    for (int step = 0; step < 3; ++step) {
      const StepResult done = trainer.step();
      numbers.push_back(done.loss);
      numbers.push_back(done.gradient_norm);
    }
    return numbers;
  };
  for (const char* const schedule : {"1f1b", "zb-h1"}) {
    Piped<Zero1>::Options options;
    options.topology = run::Topology(replicas, 2);
    options.pipeline.schedule = schedule;
    options.micro_batches = {counts(world.rank() / 2)};
    options.device.threads = 1;
    Piped<Zero1> spread(random_model(7), fill, options, {}, world);
    Trainer<Zero1>::Options whole;
    whole.virtual_ranks = replicas;
    whole.micro_batches.clear();
    for (int replica = 0; replica < replicas; ++replica) whole.micro_batches.push_back(counts(replica));
    whole.device.threads = 1;
    Trainer<Zero1> alone(random_model(7), fill, whole, {}, self);
    EXPECT_EQ(losses(spread), losses(alone)) << schedule;
  }
}

TEST(Cuts, what_stages_cannot_do_is_refused_by_name) {
  const auto refusal = [](auto options, const auto& change) -> std::string {
    using Options = decltype(options);
    using Tested = std::conditional_t<std::is_same_v<Options, Piped<Acco>::Options>, Piped<Acco>, Piped<Zero1>>;
    options.topology = run::Topology(1, 2);
    options.pipeline.schedule = "1f1b";
    change(options);
    try {
      (void)Tested::programs(random_model(7), options, 2);
    } catch (const Error& error) {
      return error.what();
    }
    return "nothing";
  };
  EXPECT_EQ(refusal(Piped<Zero1>::Options{}, [](auto&) {}), "nothing");
  EXPECT_NE(refusal(Piped<Zero1>::Options{}, [](auto& o) { o.serial = true; }).find("one instruction is to run at a time"),
            std::string::npos);
  EXPECT_EQ(refusal(Piped<Acco>::Options{}, [](auto& o) { o.accumulation = {}; }), "nothing");
  EXPECT_EQ(refusal(Piped<Acco>::Options{}, [](auto& o) { o.accumulation = Accumulation::adaptive(); }), "nothing");
}

TEST(Cuts, a_gradient_that_is_pending_is_resumed_on_other_stages) { expect_resumed_on_other_stages<Acco>(); }

}  // namespace
}  // namespace reef::test::random_stages
