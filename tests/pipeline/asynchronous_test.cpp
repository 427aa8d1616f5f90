// Pipelines that update within a step are their serial definition, bit for bit: which weights a micro-batch has follows
// from numbers alone, not from time.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <reef/optim/adamw.hpp>
#include <reef/optim/ddp.hpp>
#include <reef/optim/dpu.hpp>
#include <reef/optim/zero1.hpp>
#include <reef/pipeline/asynchronous.hpp>
#include <reef/pipeline/ordered.hpp>
#include <reef/schedule/verify.hpp>
#include <reef/trainer/checkpoint.hpp>

#include "../support/small_gpt.hpp"

namespace reef::test {
namespace {

using Asynchronous = Trainer<pipeline::Ordered, optim::Zero1<optim::AdamW>>;

/// The weight becomes the mean gradient.
struct Record {
  struct Options {};
  struct Coefficients {};
  static constexpr std::string_view name = "record";
  static constexpr int states = 0;

  Record() = default;
  explicit Record(Options /*none*/) {}
  void validate() const {}
  template <real T>
  [[nodiscard]] Coefficients coefficients(std::int64_t /*t*/, double /*lr*/, bool /*decays*/) const {
    return {};
  }
  REEF_RULE template <class V, class C>
  REEF_HOST_DEVICE static void update(V& w, V* /*state*/, const V& g, const C& /*none*/) {
    w = g;
  }
};

using Recorder = Trainer<optim::Zero1<Record>>;
using Weights = std::vector<std::vector<float>>;  // by parameter

Asynchronous::Options asynchronous_options(int stages, const std::string& schedule, int micro_batches) {
  auto options = small_options<Asynchronous>();
  options.topology = run::Topology(1, stages);
  options.pipeline.schedule = schedule;
  options.micro_batches = {micro_batches};
  options.non_finite = optim::NonFinite::ignore;
  options.clip_norm = 0;
  return options;
}

Weights weights_of(Asynchronous& trainer) {
  Weights weights;
  for (const graph::Parameter& parameter : trainer.model().dag().parameters) {
    weights.push_back(trainer.gather_parameter(parameter.name));
  }
  return weights;
}

/// One update after the other, by a process alone.
class Serial {
public:
  /// `kept`: versions of each parameter, by that of the stage that owns it.
  Serial(const comm::Communicator& self, const Asynchronous& like, std::vector<int> kept, int every)
      : options_(like.options()), kept_(std::move(kept)), every_(every) {
    for (std::size_t p = 0; p < like.model().dag().parameters.size(); ++p) {
      stage_of_.push_back(like.plan().owner_of(static_cast<int>(p)));
    }
    auto options = small_options<Recorder>();
    options.micro_batches = {every};
    options.non_finite = optim::NonFinite::ignore;
    options.clip_norm = 0;
    recorder_.emplace(nn::gpt<device::Host, float>(small_config(), 1), small_source(), options, run::Source{}, self);
    for (const graph::Parameter& parameter : recorder_->model().dag().parameters) {
      newest_.push_back(recorder_->parameter(parameter.name));
      for (auto& state : states_) state.emplace_back(newest_.back().size(), 0.0F);
    }
  }

  [[nodiscard]] const Weights& weights() const { return newest_; }

  /// The losses of its updates.
  std::vector<double> step(int updates) {
    const double rate = options_.learning_rate.at(steps_++);
    std::vector<Weights> versions{newest_};
    std::vector<double> losses;
    const auto& parameters = recorder_->model().dag().parameters;
    for (int k = 0; k < updates; ++k) {
      for (std::size_t p = 0; p < parameters.size(); ++p) {
        const int version = std::max(0, k - (kept_[static_cast<std::size_t>(stage_of_[p])] - 1));
        recorder_->set_parameter(parameters[p].name, versions[static_cast<std::size_t>(version)][p]);
      }
      losses.push_back(recorder_->step().loss);
      ++updates_;
      for (std::size_t p = 0; p < parameters.size(); ++p) {
        update(p, recorder_->parameter(parameters[p].name), rate, parameters[p].decay);
      }
      versions.push_back(newest_);
    }
    return losses;
  }

private:
  void update(std::size_t p, const std::vector<float>& gradient, double rate, bool decays) {
    optim::detail::RuleKernel<optim::AdamW, float> kernel;
    kernel.weight = newest_[p].data();
    kernel.g = gradient.data();
    for (std::size_t k = 0; k < states_.size(); ++k) kernel.state[k] = states_[k][p].data();
    kernel.c = options_.rule.coefficients<float>(updates_, rate, decays);
    device::Host host({.threads = 1});
    device::Host::Lane lane(host, "serial");
    lane.submit([&](device::Host::Lane& self) {
      device::transform_vectors<float>(self, static_cast<std::int64_t>(gradient.size()), kernel);
    });
    lane.synchronize();
  }

  Asynchronous::Options options_;
  std::vector<int> kept_;
  int every_;
  std::vector<int> stage_of_{};  ///< by parameter
  std::optional<Recorder> recorder_{};
  Weights newest_{};
  std::array<Weights, 2> states_{};
  std::int64_t updates_ = 0;
  std::int64_t steps_ = 0;
};

void expect_serial(const std::string& schedule, int micro_batches, int every, const std::vector<int>& kept) {
  SCOPED_TRACE(concat(schedule, ", ", micro_batches, " micro-batches"));
  const comm::Communicator world;
  const comm::Communicator self = world.split(world.rank(), 0, "self");
  auto trainer =
      small_trainer<Asynchronous>(asynchronous_options(world.size(), schedule, micro_batches), world);
  Serial serial(self, trainer, kept, every);
  for (int step = 0; step < 3; ++step) {
    const StepResult result = trainer.step();
    const std::vector<double> losses = serial.step(micro_batches / every);
    double mean = 0;
    for (const double loss : losses) mean += loss / static_cast<double>(losses.size());
    EXPECT_NEAR(result.loss, mean, 1e-12 * mean);
    EXPECT_EQ(result.micro_batches, static_cast<std::uint64_t>(micro_batches));
    EXPECT_EQ(weights_of(trainer), serial.weights()) << "step " << step;
  }
}

std::vector<int> kept_by_pipedream(int stages) {
  std::vector<int> kept;
  for (int stage = 0; stage < stages; ++stage) kept.push_back(stages - stage);
  return kept;
}

TEST(Asynchronous, pipedream_is_its_serial_definition) {
  const int stages = world_size();
  for (const int micro_batches : {1, stages, 2 * stages + 1}) {
    expect_serial("pipedream", micro_batches, 1, kept_by_pipedream(stages));
  }
}

TEST(Asynchronous, two_buffered_weights_are_their_serial_definition) {
  const int stages = world_size();
  for (const int updates : {1, 2, 5}) {
    expect_serial("2bw", updates * stages, stages, std::vector<int>(static_cast<std::size_t>(stages), 2));
  }
}

TEST(Asynchronous, a_resume_goes_on_where_the_pipeline_was_drained) {
  const comm::Communicator world;
  const auto options = asynchronous_options(world.size(), "pipedream", 4);
  const SharedFolder folder("asynchronous");
  auto trainer = small_trainer<Asynchronous>(options, world);
  trainer.step();
  checkpoint::save(trainer, folder.path());
  const double held_out = trainer.evaluate(1);
  trainer.step();
  auto other = small_trainer<Asynchronous>(options, world);
  ASSERT_TRUE(checkpoint::resume(other, folder.path()).has_value());
  EXPECT_EQ(other.evaluate(1), held_out);
  EXPECT_EQ(other.progress_state().updates, 4);
  other.step();
  EXPECT_EQ(weights_of(other), weights_of(trainer));
}

/// What waits to be sent or read takes no more memory the longer a step is; its batches and verdicts do.
TEST(Asynchronous, memory_does_not_grow_with_the_updates_of_a_step) {
  const auto model = nn::gpt<device::Host, float>(small_config(), 1);
  Bytes each_batch = 0;  // with what it is counted by; a tensor between stages has 1848 bytes
  for (const int input : model.dag().inputs) each_batch += round_up(model.dag().tensor_at(input).spec.bytes(), 64);
  for (const char* const schedule : {"1f1b", "zb-h1", "pipedream", "2bw"}) {
    for (int rank = 0; rank < 4; ++rank) {
      const auto estimate = [&](int m) {
        return Asynchronous::estimate(model, asynchronous_options(4, schedule, m), 4, rank);
      };
      const StepEstimate few = estimate(16);
      const StepEstimate many = estimate(64);
      EXPECT_LE(many.device_bytes, few.device_bytes + 48 * (each_batch + 128)) << schedule << " on stage " << rank;
      EXPECT_LE(many.host_bytes, few.host_bytes + 48 * Bytes{64}) << schedule << " on stage " << rank;
    }
  }
}

/// The storages that a stage's first bucket is updated in, in the order in which they are written.
std::vector<schedule::StorageId> ring_of(const schedule::Program& program) {
  std::vector<schedule::StorageId> ring;
  int bucket = -1;
  for (const schedule::Instruction& i : program.round) {
    if (i.kind != optim::kinds::update) continue;
    if (bucket < 0) bucket = i.index;
    if (i.index != bucket) continue;
    const schedule::StorageId read = i.reads.back().storage;  // the weights before
    if (std::find(ring.begin(), ring.end(), read) == ring.end()) ring.push_back(read);
  }
  return ring;
}

TEST(Asynchronous, as_many_versions_are_kept_as_are_read) {
  const auto model = nn::gpt<device::Host, float>(small_config(), 1);
  constexpr int stages = 4;
  for (const auto& [schedule, updates] : {std::pair<std::string, int>{"pipedream", 12}, {"2bw", 3}}) {
    const auto programs =
        Asynchronous::programs(model, asynchronous_options(stages, schedule, 12), stages);
    EXPECT_NO_THROW(schedule::verify(programs));
    for (const schedule::Program& program : programs) {
      const auto is_weigh = [](const auto& i) { return i.kind == optim::kinds::weigh; };
      EXPECT_EQ(std::count_if(program.round.begin(), program.round.end(), is_weigh), updates);
      const std::size_t kept =
          schedule == "2bw" ? 2 : static_cast<std::size_t>(stages - program.rank);
      EXPECT_EQ(ring_of(program).size(), kept) << schedule << " on stage " << program.rank;
    }
  }
}

/// PipeDream without its stash: micro-batch 1 comes forward by weights that are gone when it goes back.
TEST(Asynchronous, weights_that_are_updated_where_they_are_are_refused) {
  const auto model = nn::gpt<device::Host, float>(small_config(), 1);
  auto programs = Asynchronous::programs(model, asynchronous_options(2, "pipedream", 4), 2);
  schedule::Program& program = programs.front();
  const std::vector<schedule::StorageId> ring = ring_of(program);
  ASSERT_EQ(ring.size(), 2U);
  for (schedule::Instruction& i : program.round) {
    for (auto* const values : {&i.reads, &i.writes, &i.accumulates}) {
      for (schedule::Value& value : *values) {
        const auto slot = std::find(ring.begin(), ring.end(), value.storage) - ring.begin();
        if (slot == static_cast<std::ptrdiff_t>(ring.size())) continue;
        value = {ring.front(), 2 * value.version + static_cast<int>(slot)};
      }
    }
  }
  EXPECT_THROW(schedule::verify(programs), ScheduleError);
}

template <class TrainerType>
std::string refusal(const typename TrainerType::Options& options, int ranks) {
  try {
    TrainerType::programs(nn::gpt<device::Host, float>(small_config(), 1), options, ranks);
  } catch (const OptionError& error) {
    return error.what();
  }
  return "nothing is refused";
}

TEST(Asynchronous, what_cannot_be_drained_or_waits_for_all_is_refused) {
  auto options = asynchronous_options(2, "2bw", 4);
  options.micro_batches = {3};
  EXPECT_THAT(refusal<Asynchronous>(options, 2), testing::HasSubstr("no multiple of the 2 of an update"));
  options = asynchronous_options(2, "pipedream", 4);
  options.non_finite = optim::NonFinite::skip;
  EXPECT_THAT(refusal<Asynchronous>(options, 2), testing::HasSubstr("NonFinite::ignore"));
  options = asynchronous_options(2, "pipedream", 4);
  options.topology = run::Topology(2, 2);
  EXPECT_THAT(refusal<Asynchronous>(options, 4), testing::HasSubstr("there are 2 replicas"));
  EXPECT_THROW(pipeline::TwoBw::weight_versions(4, {{}, 3}), OptionError);
}

static_assert(composable<pipeline::PipeDream, optim::Ddp<optim::AdamW>>);
static_assert(composable<pipeline::TwoBw, optim::Zero1<optim::AdamW>>);
static_assert(!composable<pipeline::TwoBw, optim::Dpu<optim::AdamW>>);

}  // namespace
}  // namespace reef::test
