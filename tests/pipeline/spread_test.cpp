// A model that is spread over stages is saved, resumed on other stages, read, and sampled from as a whole one.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <reef/comm/mpi.hpp>
#include <reef/optim/adamw.hpp>
#include <reef/optim/zero1.hpp>
#include <reef/pipeline/ordered.hpp>
#include <reef/pipeline/searched.hpp>
#include <reef/pipeline/three_slot.hpp>
#include <reef/plan/pipeline_model.hpp>
#include <reef/plan/pipeline_schedules.hpp>
#include <reef/run/chunk_bounds.hpp>
#include <reef/run/fenced_stages.hpp>
#include <reef/schedule/simulate.hpp>
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

TEST(Spread, stages_of_uneven_ranks_in_another_order_train_to_the_bits_of_one_process) {
  const comm::Communicator world;
  const comm::Communicator self = world.split(world.rank(), 0, "self");
  const int ranks = world.size();
  auto model = nn::gpt<device::Host, float>(small_config(), 1);
  run::RankFigures figures;
  figures.links = {ranks, std::vector<Seconds>(static_cast<std::size_t>(ranks * ranks), 1e-3),
                   std::vector<double>(static_cast<std::size_t>(ranks * ranks), 1e9), {}};
  for (int rank = 0; rank < ranks; ++rank) figures.speeds.push_back(rank + 1);
  const std::vector<Seconds> times(static_cast<std::size_t>(model.dag().node_count()), 0.1);
  Spread::Options options;
  options.topology = run::fenced_stages(model.dag(), times, run::Topology(1, ranks), figures, 3).topology;
  std::rotate(options.topology->rank_at.begin(), options.topology->rank_at.begin() + 1, options.topology->rank_at.end());
  EXPECT_NE(options.topology->bounds, run::chunk_bounds(model.dag(), times, ranks));
  options.pipeline.schedule = "1f1b";
  options.micro_batches = {3};
  options.learning_rate = {.peak = 0.01, .warmup = 0};
  options.device.threads = 1;
  const std::vector<int> bounds = options.topology->bounds;
  const auto planned = Spread::planned(model, options, ranks);
  EXPECT_TRUE(planned.topology->bounds.empty()) << "the cuts have them";
  const auto both = [&] {
    auto wrong = options;
    wrong.cuts = {1};
    return Spread::planned(model, wrong, ranks);
  };
  EXPECT_THROW((void)both(), OptionError);
  Spread trainer(std::move(model), small_source(), options, small_source(), world);
  const run::StepPlan& plan = trainer.plan();
  for (std::size_t s = 0; s < plan.segments.size(); ++s) {
    const auto stage = static_cast<std::size_t>(plan.stage_of_segment[s]);
    EXPECT_GE(plan.segments[s].first, bounds[stage]);
    EXPECT_LE(plan.segments[s].last, bounds[stage + 1]);
  }
  std::vector<double> numbers;
  for (int step = 0; step < 2; ++step) {
    const StepResult result = trainer.step();
    numbers.push_back(result.loss);
    numbers.push_back(result.gradient_norm);
  }
  EXPECT_EQ(numbers, train_whole(self, 1, 2));
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
  EXPECT_EQ(refusal([](auto& o) { o.pipeline.schedule = "zb-h1"; }), "none") << "backwards in halves";
  EXPECT_NE(refusal([](auto& o) { o.network = profile::Network::uniform(2, 0, 1e9); })
                .find("options.network has links between 2 devices, but there is 1 rank"),
            std::string::npos);
  EXPECT_NE(refusal([](auto& o) { o.network = profile::Network{.devices = 1}; }).find("1 devices have 0 latencies"), std::string::npos);
  EXPECT_EQ(refusal([](auto& o) {
              o.virtual_ranks = 2;
              o.network = profile::Network::uniform(1, 0, 1e9);
            }),
            "none");
}

TEST(Spread, a_stage_needs_the_memory_that_it_takes_and_not_what_another_does) {
  const comm::Communicator world;
  Spread::Options options;
  options.topology = run::Topology(1, world.size());
  options.pipeline.schedule = "gpipe";
  options.micro_batches = {4};
  options.device.threads = 1;
  const auto make = [&] {
    return Spread(nn::gpt<device::Host, float>(small_config(), 1), small_source(), options, small_source(), world);
  };
  options.device.memory_bytes = make().device().memory().peak;
  EXPECT_NO_THROW((void)make()) << "each has exactly what its stage takes";
  if (world.rank() == world.size() - 1) options.device.memory_bytes -= 64;
  try {
    (void)make();
    ADD_FAILURE() << "the last stage has less";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(concat("rank ", world.size() - 1)), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("of device memory"), std::string::npos) << error.what();
  }
}

TEST(Spread, what_is_not_finite_is_named_by_the_stage_that_computes_it_first) {
  const comm::Communicator world;
  Job job(world, 1, world.size());
  Spread& trainer = job.trainer();
  const graph::Dag& dag = *trainer.plan().dag;
  const graph::Parameter& first = dag.parameters.front();  // held by the first stage
  std::vector<float> values = trainer.gather_parameter(first.name);
  values[5] = std::nanf("");
  trainer.set_parameter(first.name, values);
  std::string why;
  try {
    trainer.step();
  } catch (const NonFiniteError& error) {
    why = error.what();
  }
  const int of_loss = trainer.plan().topology.rank(0, trainer.plan().loss_stage());
  EXPECT_NE(why.find(concat("the loss on rank ", of_loss, ", in its micro-batch 0")), std::string::npos) << why;
  EXPECT_NE(why.find(concat("it began with are not finite: element 5 of '", first.name)), std::string::npos) << why;
}

/// out = w in, and as many bytes saved as all chunks save.
struct Keep {
  static constexpr std::string_view kind = "Keep";

  graph::Signature signature(const auto& call) const {
    graph::Signature result;
    result.outputs = {call.inputs[0]};
    result.saved = {call.tensor({1 << 14})};
    result.parameters = {{"w", {1}, graph::Init::ones(), false}};
    result.backward_reads_inputs = false;
    result.forward_flops = 1e7;  // 10 ms, where there is no profile
    result.backward_flops = 2e7;
    result.splits_backward = true;
    result.weight_flops = 1e7;
    return result;
  }
  void forward(const auto&) const {}
  void backward(const auto&) const {}
};

struct Sum {
  static constexpr std::string_view kind = "Sum";

  graph::Signature signature(const auto& call) const {
    graph::Signature result;
    result.outputs = {call.tensor({})};
    result.backward_reads_inputs = false;
    return result;
  }
  void forward(const auto&) const {}
  void backward(const auto&) const {}
};

/// As published, a message has its lanes until it has arrived: the time of the lanes that are held, of which the closed form
/// counts latency for every micro-batch.
TEST(Spread, three_slots_take_the_time_of_the_paper_and_train_to_the_same_bits) {
  const comm::Communicator world;
  const comm::Communicator self = world.split(world.rank(), 0, "self");
  using Slots = Trainer<pipeline::ThreeSlot, optim::Zero1<optim::AdamW>>;
  const auto numbers = [&](bool held, bool barrier) {
    Slots::Options options;
    options.topology = run::Topology(1, world.size());
    options.pipeline.held = held;
    options.pipeline.barrier = barrier;
    options.micro_batches = {3};
    options.learning_rate = {.peak = 0.01, .warmup = 0};
    options.device.threads = 1;
    Slots trainer(nn::gpt<device::Host, float>(small_config(), 1), small_source(), options, {}, world);
    std::vector<double> result;
    for (int step = 0; step < 2; ++step) {
      const StepResult done = trainer.step();
      result.push_back(done.loss);
      result.push_back(done.gradient_norm);
    }
    return result;
  };
  const std::vector<double> alone = train_whole(self, 1, 2);
  for (const bool held : {false, true}) {
    for (const bool barrier : {false, true}) EXPECT_EQ(numbers(held, barrier), alone) << held << barrier;
  }

  // f = 10, b + w = 20 ms, wire 5 and latency 30 ms: p stages, m micro-batches.
  const int p = world.size();
  const int m = 5;
  graph::Graph<device::Host, float> g(1);
  int x = g.input("x", {{1000}, Element::float32});
  for (int c = 0; c < p; ++c) x = g.add(concat("keep", c), Keep{}, {x})[0];
  g.loss(g.add("sum", Sum{}, {x})[0]);
  Slots::Options options;
  options.topology = run::Topology(1, p);
  options.micro_batches = {m};
  for (int c = 1; c < p; ++c) options.cuts.push_back(c);
  const Bytes bytes = comm::message_cost(4000).bytes;
  options.network = profile::Network::uniform(p, 0.030, static_cast<double>(bytes) / 0.005);
  const schedule::World slow = schedule::World::of(*options.network);
  const auto makespan = [&](bool held, bool barrier) {
    options.pipeline.held = held;
    options.pipeline.barrier = barrier;
    std::vector<schedule::Program> programs = Slots::programs(g, options, p);
    for (schedule::Program& program : programs) {
      for (schedule::Instruction& i : program.round) {
        i.cost = {.seconds = 0};
        if (i.kind == run::kinds::forward) i.cost.seconds = 0.010;
        if (i.kind == run::kinds::backward) i.cost.seconds = 0.020;
      }
    }
    Seconds end = 0;
    for (const schedule::SimulatedSpan& span : schedule::simulate(programs, slow, 1).spans) {
      if (programs[static_cast<std::size_t>(span.rank)].round[span.instruction].kind == run::kinds::backward) {
        end = std::max(end, span.end);
      }
    }
    return end;
  };
  const Seconds through = p * 0.030 + 2 * (p - 1) * 0.035;
  EXPECT_NEAR(makespan(false, false), through + (m - 1) * (0.010 + 0.020), 1e-9);
  EXPECT_NEAR(makespan(true, false), through + (m - 1) * (0.035 + 0.035), 1e-9);
  EXPECT_GT(makespan(true, true), makespan(true, false)) << "nobody goes back before all have gone forth";
}

/// The scalars of a step are exchanged when the first stage, whose backward is the last, has ended: it has those of the
/// others by then, and goes on.
TEST(Spread, a_simulated_step_takes_the_makespan_and_no_latency_more) {
  const int p = comm::Communicator().size();
  graph::Graph<device::Host, float> g(1);
  int x = g.input("x", {{1000}, Element::float32});
  for (int c = 0; c < p; ++c) x = g.add(concat("keep", c), Keep{}, {x})[0];
  g.loss(g.add("sum", Sum{}, {x})[0]);
  const schedule::Link link{0.040, 1e6};
  for (const char* const name : {"gpipe", "1f1b", "zb-h1"}) {
    Spread::Options options;
    options.topology = run::Topology(1, p);
    for (int c = 1; c < p; ++c) options.cuts.push_back(c);
    options.pipeline.schedule = name;
    options.network = profile::Network::uniform(p, link.latency, link.bytes_per_second);
    options.micro_batches = {4};
    std::vector<schedule::Program> programs = Spread::programs(g, options, p);
    for (schedule::Program& program : programs) {
      for (schedule::Instruction& i : program.round) {
        i.cost = {.seconds = 0};
        if (i.kind == run::kinds::forward || i.kind == run::kinds::backward_input) i.cost.seconds = 0.010;
        if (i.kind == run::kinds::backward_weight) i.cost.seconds = 0.010;
        if (i.kind == run::kinds::backward) i.cost.seconds = 0.020;
      }
    }
    plan::PipelineModel model{plan::pipeline_order_of(name, p, 4), {}};
    model.times = plan::PipelineTimes::even(model.order, 0.010, 0.010, 0.010, link);
    model.forward = plan::chain_edges(p, comm::message_cost(4000).bytes);
    const Seconds makespan = plan::estimate(model).makespan;
    const Seconds step = schedule::simulate(programs, schedule::World::of(*options.network), 3).step;
    EXPECT_GE(step, makespan - 1e-9) << name;
    EXPECT_LE(step, makespan + 0.002) << name << ": the bytes of some scalars";
  }
}

TEST(Spread, every_schedule_has_places_for_as_many_activations_as_it_holds_at_one_time) {
  const int p = comm::Communicator().size();
  for (const std::string_view schedule : plan::pipeline_schedule_names(false)) {
    for (const int m : {1, p, 2 * p + 1}) {
      SCOPED_TRACE(concat(schedule, " on ", p, " stages, ", m, " micro-batches"));
      plan::PipelineModel timed{plan::pipeline_order_of(schedule, p, m)};
      timed.times = plan::PipelineTimes::even(timed.order, 1e-3, 1e-3, 1e-3);
      const plan::PipelineEstimate estimate = plan::estimate(timed);
      graph::Graph<device::Host, float> g(1);
      int x = g.input("x", {{4}, Element::float32});
      for (int c = 0; c < timed.order.chunks(); ++c) x = g.add(concat("keep", c), Keep{}, {x})[0];
      g.loss(g.add("sum", Sum{}, {x})[0]);
      Spread::Options options;
      options.topology = run::Topology(1, p);
      options.pipeline.schedule = schedule;
      options.micro_batches = {m};
      for (int c = 1; c < timed.order.chunks(); ++c) options.cuts.push_back(c);
      for (const schedule::Program& program : Spread::programs(g, options, p)) {
        const schedule::Placement placement = schedule::place(program);
        std::set<Bytes> places;
        Bytes saved = 0, pending_bytes = 0, stays = 0, small = 0;  // of what is on the device
        for (schedule::StorageId id = 0; id < program.storages.size(); ++id) {
          const schedule::Storage& storage = program.storages[id];
          const Bytes bytes = round_up(storage.bytes, 64);
          const bool is_region = storage.parent == schedule::no_storage && bytes > 0;
          if (!is_region || storage.place != schedule::Place::device) continue;
          if (storage.name.starts_with("saved of")) {
            places.insert(placement.offset[id]);
            saved = bytes;
          } else if (storage.name.starts_with("pending gradients")) {
            pending_bytes = bytes;
          } else {
            (storage.life == schedule::Life::persistent ? stays : small) += bytes;  // small: also landing buffers
          }
        }
        int pending = 0, max_pending = 0;  // between the halves of a backward
        for (const schedule::Instruction& i : program.round) {
          if (i.kind == run::kinds::backward_input) max_pending = std::max(max_pending, ++pending);
          if (i.kind == run::kinds::backward_weight) --pending;
        }
        const auto r = static_cast<std::size_t>(program.rank);
        EXPECT_EQ(static_cast<int>(places.size()), estimate.peak_activations[r]) << "stage " << r;
        EXPECT_EQ(max_pending, estimate.peak_pending_weight[r]) << "stage " << r;
        // The device has their sum, with what lands and batches: all of which is less than one activation.
        const Bytes sum = stays + static_cast<Bytes>(estimate.peak_activations[r]) * saved +
                          static_cast<Bytes>(max_pending) * pending_bytes;
        EXPECT_GE(placement.device_bytes, sum) << "stage " << r;
        EXPECT_LE(placement.device_bytes, sum + small) << "stage " << r;
        EXPECT_LT(small, saved) << "or a place too many is not seen";
      }
    }
  }
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
