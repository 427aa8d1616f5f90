// Stages that swap and update within a step: the versions of their weights lie in host memory, and the bits are those of
// the same stages whose model stays.

#include <gmock/gmock.h>
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
#include <reef/pipeline/asynchronous.hpp>
#include <reef/pipeline/ordered.hpp>
#include <reef/schedule/simulate.hpp>
#include <reef/schedule/verify.hpp>
#include <reef/swap/atom.hpp>
#include <reef/swap/kinds.hpp>
#include <reef/swap/layer_streaming.hpp>
#include <reef/swap/paper_atom.hpp>
#include <reef/swap/views.hpp>
#include <reef/trainer/checkpoint.hpp>

#include "../support/small_gpt.hpp"

namespace reef::test {
namespace {

namespace swapped_versions {

using Stays = Trainer<pipeline::Ordered, optim::Zero1<optim::AdamW>>;
using Swapped = Trainer<swap::Atom<>, pipeline::Ordered, optim::Zero1<optim::AdamW>>;
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

const std::vector<std::pair<std::string, int>> asynchronous{{"2bw", 1}, {"2bw", 4}, {"pipedream", 1}, {"pipedream", 9}};

TEST(SwappedVersions, give_the_bits_of_the_same_stages_whose_model_stays) {
  const comm::Communicator world;
  const std::vector<run::SwapSchedule> schedules{
      swap::Atom<>::schedules().front(),
      swap::PaperAtom::schedules().front(),
      swap::LayerStreaming::schedules().front(),
      {.weight_slots = 9, .resident_segments = 1, .stash_slots = 3}};
  for (std::size_t c = 0; c < asynchronous.size(); ++c) {
    const auto& [schedule, updates] = asynchronous[c];
    Stays stays(model(), small_source(), options_of<Stays>(world.size(), schedule, updates), small_source(), world);
    const Trained expected = train(stays);
    for (std::size_t i = 0; i < schedules.size(); ++i) {
      auto options = options_of<Swapped>(world.size(), schedule, updates);
      options.swapping = schedules[i];
      options.activations = {run::all_activations[(i + c) % 4]};
      if ((i + c / 2) % 2 == 1) options.bucket_bytes = 1 << 20;  // one segment of a stage
      Swapped trainer(model(), small_source(), options, small_source(), world);
      EXPECT_EQ(train(trainer), expected)
          << schedule << ", " << updates << " updates, " << schedules[i].weight_slots << " slots, "
          << trainer.plan().segments.size() << " segments";
      EXPECT_EQ(trainer.device().memory().peak,
                Swapped::estimate(model(), options, world.size(), world.rank()).device_bytes);
    }
  }
}

TEST(SwappedVersions, are_drained_into_a_checkpoint_that_goes_on_here_or_where_the_model_stays) {
  const comm::Communicator world;
  for (const char* const schedule : {"2bw", "pipedream"}) {
    const SharedFolder folder(concat("swapped-versions-", schedule));
    const auto options = options_of<Swapped>(world.size(), schedule, 3);
    Swapped trainer(model(), small_source(), options, small_source(), world);
    trainer.step();
    checkpoint::save(trainer, folder.path());
    const Trained expected = train(trainer);
    Swapped here(model(), small_source(), options, small_source(), world);
    ASSERT_TRUE(checkpoint::resume(here, folder.path()).has_value());
    EXPECT_EQ(train(here), expected) << schedule;
    Stays there(model(), small_source(), options_of<Stays>(world.size(), schedule, 3), small_source(), world);
    ASSERT_TRUE(checkpoint::resume(there, folder.path()).has_value());
    EXPECT_EQ(train(there), expected) << schedule;
  }
}

TEST(SwappedVersions, run_in_memory_that_would_not_hold_them) {
  const comm::Communicator world;
  const int stages = world.size();
  auto stays = options_of<Stays>(stages, "pipedream", 5);
  auto options = options_of<Swapped>(stages, "pipedream", 5);
  stays.bucket_bytes = options.bucket_bytes = 0;
  Bytes least = 0;
  for (int rank = 0; rank < stages; ++rank) {
    const Bytes bytes = Stays::estimate(model(2 * stages), stays, stages, rank).device_bytes;
    least = rank == 0 ? bytes : std::min(least, bytes);
  }
  Stays resident(model(2 * stages), small_source(), stays, small_source(), world);
  options.activations = {Activations::recompute_and_stash};  // then there is less to plan,
  options.swapping = run::SwapSchedule{};                    // and with two slots
  options.device.memory_bytes = stays.device.memory_bytes = least * 4 / 5;
  try {
    Stays(model(2 * stages), small_source(), stays, {}, world);
    ADD_FAILURE() << "the rank has room";
  } catch (const Error& error) {  // a rank may hear it from another before it finds out
    EXPECT_THAT(error.what(), testing::HasSubstr("device memory")) << "on every rank";
  }
  Swapped trainer(model(2 * stages), small_source(), options, small_source(), world);
  EXPECT_EQ(train(trainer), train(resident));
  EXPECT_LE(trainer.device().memory().peak, options.device.memory_bytes);
}

constexpr int stages_in_all = 4;

std::vector<schedule::Program> programs_of(const Swapped::Options& options) {
  return Swapped::programs(model(12), options, stages_in_all);
}

/// Of the weights of a program's stage, the storages that have their versions: the first, and those behind it.
using Rings = std::map<std::string, std::vector<schedule::StorageId>>;

Rings rings_of(const schedule::Program& program) {
  Rings rings;
  for (schedule::StorageId id = 0; id < program.storages.size(); ++id) {
    std::string name = program.storages[id].name;
    if (name.starts_with("version ")) name = name.substr(name.find("weights "));
    const bool tied = name.starts_with("weights of ");  // on their way
    const bool whole = program.storages[id].parent == schedule::no_storage;
    if (name.starts_with("weights ") && !tied && whole) rings[name].push_back(id);
  }
  return rings;
}

/// What a value of a ring is: counted in updates of the step.
int version_in(const Rings& rings, const schedule::Value& value) {
  for (const auto& [name, ring] : rings) {
    const auto slot = std::find(ring.begin(), ring.end(), value.storage) - ring.begin();
    if (slot < static_cast<std::ptrdiff_t>(ring.size())) {
      return static_cast<int>(slot) + value.version * static_cast<int>(ring.size());
    }
  }
  ADD_FAILURE() << "no weights";
  return -1;
}

bool reads_weights(const schedule::Instruction& i) {
  return i.kind == kinds::forward || i.kind == kinds::backward || i.kind == run::kinds::recompute;
}

/// Versions are in host memory, as many as are read, and what a forward or backward reads on the device was loaded from
/// that of its micro-batch.
TEST(SwappedVersions, are_loaded_as_each_micro_batch_has_them) {
  for (const auto& [schedule, updates] : {std::pair<std::string, int>{"2bw", 4}, {"pipedream", 9}}) {
    auto options = options_of<Swapped>(stages_in_all, schedule, updates);
    options.activations = {Activations::recompute};
    const run::WeightVersions versions = pipeline::Ordered::weight_versions(stages_in_all, options.pipeline);
    const std::vector<schedule::Program> programs = programs_of(options);
    EXPECT_NO_THROW(schedule::verify(programs));
    for (const schedule::Program& program : programs) {
      SCOPED_TRACE(concat(schedule, ", stage ", program.rank));
      const Rings rings = rings_of(program);
      EXPECT_GE(rings.size(), 4U) << "more than slots";
      for (const auto& [name, ring] : rings) {
        EXPECT_EQ(ring.size(), static_cast<std::size_t>(versions.kept[static_cast<std::size_t>(program.rank)])) << name;
        for (const schedule::StorageId id : ring) EXPECT_EQ(program.storages[id].place, schedule::Place::host);
      }
      std::map<schedule::StorageId, int> loaded;
      int read = 0;
      for (const schedule::Instruction& i : program.round) {
        if (i.kind == swap::kinds::load) {
          for (std::size_t k = 0; k < i.reads.size(); ++k) loaded[i.writes[k].storage] = version_in(rings, i.reads[k]);
        }
        for (const schedule::Value& value : i.reads) {
          if (!reads_weights(i) || !loaded.contains(value.storage)) continue;
          EXPECT_EQ(loaded.at(value.storage), versions.version_of(program.rank, i.micro_batch)) << i.text();
          ++read;
        }
      }
      EXPECT_GE(read, 3 * 4 * options.micro_batches.front());
    }
  }
}

/// Under PipeDream a backward has other weights than the forward before it, but on the last stage: its segments are there.
TEST(SwappedVersions, are_loaded_once_for_each_pass) {
  constexpr int micro_batches = 9;
  for (const schedule::Program& program : programs_of(options_of<Swapped>(stages_in_all, "pipedream", micro_batches))) {
    std::map<int, int> loads;
    for (const schedule::Instruction& i : program.round) {
      if (i.kind == swap::kinds::load) ++loads[i.index];
    }
    ASSERT_GE(loads.size(), 4U) << "more than slots";
    std::size_t behind = loads.size();
    for (const auto& [segment, count] : loads) {
      const int stays = --behind >= 2 ? 0 : program.rank + 1 == stages_in_all ? micro_batches : 1;
      EXPECT_EQ(count, 2 * micro_batches - stays) << "segment " << segment << " of stage " << program.rank;
    }
  }
}

/// Two slots have both versions of a stage's only segment, and an update leaves them there.
TEST(SwappedVersions, stay_where_slots_have_room_for_all) {
  auto options = options_of<Swapped>(stages_in_all, "2bw", 4);  // which read the versions 0 to 2
  options.bucket_bytes = 1 << 20;
  const auto is_load = [](const schedule::Instruction& i) { return i.kind == swap::kinds::load; };
  for (const schedule::Program& program : programs_of(options)) {
    EXPECT_EQ(std::count_if(program.round.begin(), program.round.end(), is_load), 3) << program.rank;
  }
}

std::string error_of(const std::vector<schedule::Program>& programs) {
  try {
    schedule::verify(programs);
  } catch (const ScheduleError& error) {
    return error.what();
  }
  return "nothing is refused";
}

TEST(SwappedVersions, are_refused_where_host_memory_has_one) {
  auto programs = programs_of(options_of<Swapped>(stages_in_all, "pipedream", 4));
  EXPECT_EQ(error_of(programs), "nothing is refused");
  schedule::Program& program = programs.front();
  const Rings rings = rings_of(program);
  for (schedule::Instruction& i : program.round) {
    for (auto* const values : {&i.reads, &i.writes, &i.accumulates}) {
      for (schedule::Value& value : *values) {
        for (const auto& [name, ring] : rings) {
          const bool here = std::find(ring.begin(), ring.end(), value.storage) != ring.end();
          if (here) value = {ring.front(), version_in(rings, value)};
        }
      }
    }
  }
  EXPECT_THAT(error_of(programs), testing::HasSubstr("Load("));
  EXPECT_THAT(error_of(programs), testing::HasSubstr("but version 1 is there"));
}

TEST(SwappedVersions, are_refused_where_a_slot_has_another) {
  auto options = options_of<Swapped>(stages_in_all, "2bw", 4);
  options.bucket_bytes = 1 << 20;  // one segment of a stage: no other takes its slots
  options.device.poison_freed = false;
  auto programs = programs_of(options);
  EXPECT_EQ(error_of(programs), "nothing is refused");
  std::vector<schedule::Instruction>& round = programs.front().round;
  round.erase(std::find_if(round.begin(), round.end(), [](const schedule::Instruction& i) {
    return i.kind == swap::kinds::load && i.writes.front().version == 2;
  }));
  EXPECT_THAT(error_of(programs), testing::HasSubstr("in slot 0 version 2, but version 0 is there"));
}

/// The device has slots, however many versions there are, and foresees what it has.
TEST(SwappedVersions, take_host_memory_alone) {
  constexpr int micro_batches = 8;
  const auto estimates_of = [](const std::string& schedule) {
    auto options = options_of<Swapped>(stages_in_all, schedule, micro_batches);
    options.micro_batches = {micro_batches};
    const Model of = model(12);
    const auto all = Swapped::estimate_all(of, options, stages_in_all, [&](int, const auto& programs, const auto& placements) {
      const auto world =
          schedule::World::uniform(stages_in_all, {.flops_per_second = 1e9}, {.latency = 0, .bytes_per_second = 1e9});
      EXPECT_GT(schedule::simulate(programs, placements, world).step, 0);
    });
    for (int rank = 0; rank < stages_in_all; ++rank) {
      const StepEstimate own = Swapped::estimate(of, options, stages_in_all, rank);
      EXPECT_EQ(all[static_cast<std::size_t>(rank)].device_bytes, own.device_bytes);
      EXPECT_EQ(all[static_cast<std::size_t>(rank)].host_bytes, own.host_bytes);
    }
    return all;
  };
  const auto held_by = [](int rank) {
    Bytes bytes = 0;
    const auto programs = programs_of(options_of<Swapped>(stages_in_all, "pipedream", micro_batches));
    const schedule::Program& program = programs[static_cast<std::size_t>(rank)];
    for (const auto& [name, ring] : rings_of(program)) bytes += program.storages[ring.front()].bytes;
    return bytes;
  };
  const Bytes messages = 2 * stages_in_all * model().dag().parameters[0].spec.bytes();  // of the tied embedding
  const Bytes others = micro_batches * Bytes{64} + messages;  // with what updates divide by
  const auto once = estimates_of("1f1b");
  const auto stashed = estimates_of("pipedream");
  for (std::size_t rank = 0; rank < once.size(); ++rank) {
    EXPECT_EQ(stashed[rank].device_bytes, once[rank].device_bytes) << rank;
    const Bytes versions = (once.size() - 1 - rank) * held_by(static_cast<int>(rank));
    EXPECT_GE(stashed[rank].host_bytes, once[rank].host_bytes + versions * 9 / 10) << rank << ": messages share some";
    EXPECT_LE(stashed[rank].host_bytes, once[rank].host_bytes + versions + others) << rank;
  }
}

static_assert(composable<swap::Atom<>, pipeline::PipeDream, optim::Ddp<optim::AdamW>>);
static_assert(composable<swap::PaperAtom, pipeline::TwoBw, optim::Ddp<optim::AdamW>>);
static_assert(composable<swap::LayerStreaming, pipeline::TwoBw, optim::Zero1<optim::AdamW>>);

}  // namespace swapped_versions

}  // namespace
}  // namespace reef::test
