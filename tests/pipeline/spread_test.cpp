// A model that is spread over stages is saved, resumed on other stages, read, and sampled from as a whole one.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <reef/optim/adamw.hpp>
#include <reef/optim/zero1.hpp>
#include <reef/pipeline/ordered.hpp>
#include <reef/pipeline/searched.hpp>
#include <reef/trainer/checkpoint.hpp>
#include <reef/trainer/generate.hpp>

#include "../support/small_gpt.hpp"

namespace reef::test {
namespace {

using Spread = Trainer<pipeline::Ordered, optim::Zero1<optim::AdamW>>;
using Whole = Trainer<optim::Zero1<optim::AdamW>>;

/// The first `replicas` x `stages` ranks, with the model spread over them.
class Job {
public:
  Job(const comm::Communicator& world, int replicas, int stages, const std::string& schedule = "1f1b")
      : here_(world.rank() < replicas * stages),
        ranks_(world.split(here_ ? 0 : 1, world.rank(), "job")) {
    if (!here_) return;
    Spread::Options options;
    options.topology = run::Topology(replicas, stages);
    options.pipeline.schedule = schedule;
    options.micro_batches = {3};
    options.learning_rate = {.peak = 0.01, .warmup = 0};
    options.device.threads = 1;
    trainer_.emplace(nn::gpt<device::Host, float>(small_config(), 1), small_source(), options,
                     small_source(), ranks_);
  }
  [[nodiscard]] bool here() const { return here_; }
  Spread& trainer() { return *trainer_; }

  std::vector<double> train(int steps) {
    std::vector<double> numbers;
    for (int i = 0; i < steps && here_; ++i) {
      const StepResult result = trainer_->step();
      numbers.push_back(result.loss);
      numbers.push_back(result.gradient_norm);
    }
    return numbers;
  }

private:
  bool here_;
  comm::Communicator ranks_;
  std::optional<Spread> trainer_;
};

/// What one process comes to that stands for the replicas.
std::vector<double> train_whole(const comm::Communicator& self, int replicas, int steps) {
  Whole::Options options;
  options.virtual_ranks = replicas;
  options.micro_batches = {3};
  options.learning_rate = {.peak = 0.01, .warmup = 0};
  options.device.threads = 1;
  Whole trainer(nn::gpt<device::Host, float>(small_config(), 1), small_source(), options, {}, self);
  std::vector<double> numbers;
  for (int i = 0; i < steps; ++i) {
    const StepResult result = trainer.step();
    numbers.push_back(result.loss);
    numbers.push_back(result.gradient_norm);
  }
  return numbers;
}

TEST(Spread, a_checkpoint_is_resumed_on_other_stages_to_the_bits_of_one_process) {
  const comm::Communicator world;
  const comm::Communicator self = world.split(world.rank(), 0, "self");
  const std::vector<double> undisturbed = train_whole(self, 1, 6);
  const SharedFolder folder("stages");
  {
    Job job(world, 1, world.size());
    const std::vector<double> begun = job.train(2);
    EXPECT_EQ(begun, std::vector<double>(undisturbed.begin(), undisturbed.begin() + 4));
    checkpoint::save(job.trainer(), folder.path(), {{"note", "of all stages"}});
  }
  {
    Job job(world, 1, 2, "gpipe");
    if (job.here()) {
      const auto facts = checkpoint::resume(job.trainer(), folder.path());
      ASSERT_TRUE(facts.has_value());
      EXPECT_EQ(facts->at("note"), "of all stages");
      EXPECT_EQ(job.train(2), std::vector<double>(undisturbed.begin() + 4, undisturbed.begin() + 8));
      checkpoint::save(job.trainer(), folder.path());
    }
  }
  MPI_Barrier(MPI_COMM_WORLD);
  Job job(world, 1, 1);
  if (job.here()) {
    ASSERT_TRUE(checkpoint::resume(job.trainer(), folder.path()).has_value());
    EXPECT_EQ(job.train(2), std::vector<double>(undisturbed.begin() + 8, undisturbed.end()));
  }
}

TEST(Spread, a_checkpoint_of_stages_is_resumed_by_as_many_replicas) {
  const comm::Communicator world;
  const SharedFolder folder("replicas");
  {
    Job job(world, 1, world.size());
    job.train(2);
    checkpoint::save(job.trainer(), folder.path());
  }
  Job job(world, world.size(), 1);
  ASSERT_TRUE(checkpoint::resume(job.trainer(), folder.path()).has_value());
  EXPECT_EQ(job.trainer().progress_state().committed, 2);
  for (const double number : job.train(2)) EXPECT_TRUE(std::isfinite(number));
}

TEST(Spread, parameters_are_gathered_from_the_stages_that_own_them) {
  const comm::Communicator world;
  Job job(world, 1, world.size());
  job.train(1);
  Spread& trainer = job.trainer();
  int held = 0;
  for (const graph::Parameter& parameter : trainer.model().dag().parameters) {
    const std::vector<float> whole = trainer.gather_parameter(parameter.name);
    EXPECT_EQ(static_cast<std::int64_t>(whole.size()), parameter.spec.shape.size());
    if (!trainer.holds(parameter.name)) continue;
    ++held;
    EXPECT_EQ(trainer.parameter(parameter.name), whole) << "also what is tied, on both stages: " << parameter.name;
  }
  EXPECT_LT(held, static_cast<int>(trainer.model().dag().parameters.size()));
}

TEST(Spread, a_sample_of_stages_is_that_of_one_rank) {
  const comm::Communicator world;
  const comm::Communicator self = world.split(world.rank(), 0, "self");
  nn::GptConfig config = small_config();
  config.batch = 1;
  const auto model = nn::gpt<device::Host, float>(config, 1);
  const std::vector<std::int32_t> prompt{1, 2, 3};
  Job job(world, 1, world.size());
  job.train(1);
  const auto spread = generate(job.trainer(), model, prompt, {.tokens = 8, .seed = 3});
  Whole::Options options;
  options.micro_batches = {3};
  options.learning_rate = {.peak = 0.01, .warmup = 0};
  options.device.threads = 1;
  Whole whole(nn::gpt<device::Host, float>(small_config(), 1), small_source(), options, {}, self);
  whole.step();
  EXPECT_EQ(spread, generate(whole, model, prompt, {.tokens = 8, .seed = 3}));
}

TEST(Spread, other_weights_on_one_holder_are_named) {
  const comm::Communicator world;
  Job job(world, 1, world.size());
  Spread& trainer = job.trainer();
  // The embedding is on the first stage and, as the head, on the last.
  const std::string name = trainer.model().dag().parameters[0].name;
  if (world.rank() == 0) {
    std::vector<float> values = trainer.parameter(name);
    values[0] += 1;
    trainer.set_parameter(name, values);
  }
  try {
    trainer.step();
    FAIL() << "nobody noticed";
  } catch (const OptionError& error) {
    EXPECT_NE(std::string(error.what()).find("weights of '" + name + "'"), std::string::npos)
        << error.what();
  }
}

TEST(Spread, weights_are_set_between_steps_by_all_ranks_alike) {
  const comm::Communicator world;
  Job job(world, 1, world.size());
  job.train(1);
  Spread& trainer = job.trainer();
  const graph::Parameter& first = trainer.model().dag().parameters[0];
  const std::vector<float> halves(static_cast<std::size_t>(first.spec.shape.size()), 0.5F);
  trainer.set_parameter(first.name, halves);  // also on stages that do not use it
  for (const double number : job.train(1)) EXPECT_TRUE(std::isfinite(number));
  EXPECT_NE(trainer.gather_parameter(first.name), halves) << "they have been trained since";
}

TEST(Spread, what_no_stage_can_run_is_refused_by_name) {
  const comm::Communicator world;
  const comm::Communicator self = world.split(world.rank(), 0, "self");
  const auto refusal = [&](const auto& change) -> std::string {
    Spread::Options options;
    options.device.threads = 1;
    options.pipeline.schedule = "1f1b";
    change(options);
    try {
      Spread(nn::gpt<device::Host, float>(small_config(), 1), small_source(), options, {}, self);
    } catch (const Error& error) {
      return error.what();
    }
    return "none";
  };
  EXPECT_EQ(refusal([](auto& o) { o.pipeline.schedule = "interleaved"; }), "none") << "two chunks on one stage";
  EXPECT_NE(refusal([](auto& o) { o.pipeline.schedule = ""; }).find("neither a schedule nor an order"),
            std::string::npos);
  EXPECT_NE(refusal([](auto& o) { o.pipeline.schedule = "zb-h1"; }).find("halves of backwards"), std::string::npos);
  EXPECT_NE(refusal([](auto& o) { o.pipeline.network = schedule::World::uniform(2, {}, {}); })
                .find("2 machines and 4 links for 1 ranks"),
            std::string::npos);
  EXPECT_EQ(refusal([](auto& o) {
              o.virtual_ranks = 2;
              o.pipeline.network = schedule::World::uniform(1, {}, {});
            }),
            "none");
}

TEST(Spread, a_searched_order_fits_its_memory_and_hides_slow_links) {
  plan::PipelineModel model{plan::one_f_one_b_order(4, 8)};
  model.times = plan::PipelineTimes::even(model.order, 1, 1, 1, {4, 0});
  const plan::PipelineEstimate plain = plan::estimate(model);
  pipeline::SearchedOptions options;
  options.effort = 2;
  EXPECT_LE(plan::estimate({pipeline::Searched::order(model, 8, options), model.times}).makespan, plain.makespan)
      << "with the memory of 1F1B, which is what it has when nothing is said";
  options.max_activations = {6, 6, 4, 4};
  model.order = pipeline::Searched::order(model, 8, options);
  const plan::PipelineEstimate found = plan::estimate(model);
  EXPECT_LT(found.makespan, 0.95 * plain.makespan) << "links take longer than a stage";
  for (std::size_t stage = 0; stage < 4; ++stage) {
    EXPECT_LE(found.peak_activations[stage], options.max_activations[stage]);
  }
}

}  // namespace
}  // namespace reef::test
