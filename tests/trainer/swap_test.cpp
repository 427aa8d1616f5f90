// Models that are swapped through the device: the bits of those that stay there, in memory that would
// not hold them.

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <new>
#include <random>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include <reef/comm/mpi.hpp>
#include <reef/optim/acco.hpp>
#include <reef/optim/adamw.hpp>
#include <reef/optim/ddp.hpp>
#include <reef/optim/zero1.hpp>
#include <reef/schedule/simulate.hpp>
#include <reef/swap/atom.hpp>
#include <reef/swap/layer_streaming.hpp>
#include <reef/swap/paper_atom.hpp>

#include "../laws/trainer.hpp"
#include "swapped.hpp"

namespace {
std::atomic<int> fails_in{-1};  // how many more allocations of arenas succeed; below 0: all
std::span<const std::uint32_t> first_arena{};  // that was allocated since this was emptied
}  // namespace

// Arenas come from these.
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  const auto align = static_cast<std::size_t>(alignment);
  void* const data = std::aligned_alloc(align, (bytes + align - 1) / align * align);
  if (data == nullptr) throw std::bad_alloc();
  return data;
}
void* operator new(std::size_t bytes, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  if (fails_in.load() >= 0 && fails_in.fetch_sub(1) == 0) return nullptr;
  const auto align = static_cast<std::size_t>(alignment);
  void* const data = std::aligned_alloc(align, (bytes + align - 1) / align * align);
  if (first_arena.empty()) first_arena = {static_cast<const std::uint32_t*>(data), bytes / 4};
  return data;
}
void operator delete(void* data, std::align_val_t) noexcept { std::free(data); }
void operator delete(void* data, std::size_t, std::align_val_t) noexcept { std::free(data); }

namespace reef::test {

using SwappedZero1 = TrainerCase<Trainer<swap::Atom<>, optim::Zero1<optim::AdamW>>,
                                 Trainer<optim::Ddp<optim::AdamW>>>;
INSTANTIATE_TYPED_TEST_SUITE_P(Atom, TrainerLaws, testing::Types<SwappedZero1>);

namespace {

/// Nothing but what crosses the bounds of segments is kept.
template <class Options>
Options recomputing(Options options) {
  options.activations = {Activations::recompute};
  return options;
}

TEST(SwapAtom, gives_the_bits_of_a_model_that_stays) {
  for (const int micro_batches : {1, 3}) {
    for (const float dropout : {0.0F, 0.2F}) {
      auto resident = small_options<Resident>();
      resident.micro_batches = {micro_batches};
      auto swapped = small_options<Swapped>();
      swapped.micro_batches = {micro_batches};
      const auto expected = left_by<Resident>(resident, dropout);
      EXPECT_EQ(left_by<Resident>(recomputing(resident), dropout), expected);
      EXPECT_EQ(left_by<Swapped>(swapped, dropout), expected);
      EXPECT_EQ(left_by<Swapped>(recomputing(swapped), dropout), expected);
      // A search of seconds: each count and each dropout in one of the two.
      if ((micro_batches == 1) == (dropout == 0)) continue;
      swapped.device.link_bytes_per_second = 1e9;
      swapped.device.memory_bytes =
          Swapped::estimate(nn::gpt<device::Host, float>(deep(dropout), 1), swapped, 1)
              .device_bytes;
      EXPECT_EQ(left_by<Swapped>(swapped, dropout), expected);
    }
  }
}

/// What it leaves with several micro-batches and dropout on all ranks, behind a link, where nobody may read
/// what has left.
template <class TrainerType>
auto swapped_options() {
  auto options = small_options<TrainerType>();
  options.micro_batches = {3};
  options.device.link_bytes_per_second = 4e9;
  options.device.poison_freed = true;
  return options;
}
template <class TrainerType>
auto left_by_ranks(Activations activations = Activations::recompute) {
  auto options = swapped_options<TrainerType>();
  options.activations = {activations};
  return left_by<TrainerType>(options, 0.2F);
}

TEST(SwapAtom, gives_its_bits_under_every_schedule) {
  const auto expected = left_by_ranks<Resident>(Activations::keep);
  for (const Activations activations : run::all_activations) {
    using Rule = optim::Ddp<optim::AdamW>;
    EXPECT_EQ((left_by_ranks<Trainer<swap::Atom<3>, Rule>>(activations)), expected);
    EXPECT_EQ((left_by_ranks<Trainer<swap::PaperAtom, Rule>>(activations)), expected);
    EXPECT_EQ((left_by_ranks<Trainer<swap::LayerStreaming, Rule>>(activations)), expected);
  }
}

TEST(SwapAtom, gives_its_bits_whatever_each_segment_keeps) {
  const auto expected = left_by_ranks<Resident>(Activations::keep);
  const int nodes = nn::gpt<device::Host, float>(deep(0.2F), 1).dag().node_count();
  std::mt19937 draw(7);
  for (int round = 0; round < 12; ++round) {
    using Tested = Trainer<swap::Atom<>, optim::Ddp<optim::AdamW>>;
    auto options = swapped_options<Tested>();
    for (int node = 1; node < nodes; ++node) {
      if (draw() % 5 == 0) options.cuts.push_back(node);
    }
    for (std::size_t s = 0; s <= options.cuts.size(); ++s) {
      options.activations.push_back(run::all_activations[draw() % 4]);
    }
    options.swapping = run::SwapSchedule{.weight_slots = 2 + static_cast<int>(draw() % 5),
                                         .per_micro_batch = draw() % 3 == 0,
                                         .copies_on_compute_lane = draw() % 3 == 0,
                                         .writes_back = draw() % 3 == 0,
                                         .resident_segments = static_cast<int>(draw() % 5),
                                         .stash_slots = 1 + static_cast<int>(draw() % 5)};
    EXPECT_EQ(left_by<Tested>(options, 0.2F), expected) << "round " << round;
  }
}

TEST(SwapAtom, waits_for_what_is_small_too) {
  // A segment of one operator may keep nothing, or less than the last that had its slot.
  const int nodes = nn::gpt<device::Host, float>(deep(0.2F), 1).dag().node_count();
  for (const int micro_batches : {1, 2, 4}) {
    auto resident = swapped_options<Resident>();
    resident.micro_batches = {micro_batches};
    const auto expected = left_by<Resident>(resident, 0.2F);
    for (const Activations activations : {Activations::stash, Activations::recompute_and_stash}) {
      auto options = swapped_options<Swapped>();
      options.micro_batches = {micro_batches};
      for (int node = 1; node < nodes; ++node) options.cuts.push_back(node);
      options.activations = {activations};
      EXPECT_EQ(left_by<Swapped>(options, 0.2F), expected);
      const auto programs =
          Swapped::programs(nn::gpt<device::Host, float>(deep(0.2F), 1), options, 1);
      for (const schedule::Instruction& i : programs[0].round) {
        if (i.kind == "Stash" || i.kind == "Restore") {
          EXPECT_GT(i.cost.bytes, 0U) << i.text();
        }
      }
    }
  }
}

TEST(SwapAtom, gives_the_bits_of_rounds_that_overlap) {
  using Acco = optim::Acco<optim::AdamW>;
  const auto expected = left_by_ranks<Trainer<Acco>>(Activations::keep);
  EXPECT_EQ((left_by_ranks<Trainer<swap::Atom<>, Acco>>()), expected);
  EXPECT_EQ((left_by_ranks<Trainer<swap::Atom<>, Acco>>(Activations::stash)), expected);
  EXPECT_EQ((left_by_ranks<Trainer<swap::LayerStreaming, Acco>>()), expected);
}

TEST(SwapAtom, gives_the_bits_of_rounds_that_overlap_as_they_are_planned_for_a_device) {
  using Acco = optim::Acco<optim::AdamW>;
  using Tested = Trainer<swap::Atom<>, Acco>;
  auto options = swapped_options<Tested>();
  options.device.memory_bytes = 400'000;
  const auto model = nn::gpt<device::Host, float>(deep(0.2F), 1);
  EXPECT_LT(
      options.device.memory_bytes,
      Trainer<Acco>::estimate(model, small_options<Trainer<Acco>>(), world_size()).device_bytes);
  EXPECT_EQ(left_by<Tested>(options, 0.2F), left_by_ranks<Trainer<Acco>>(Activations::keep));
}

TEST(SwapAtom, gives_its_bits_where_all_segments_stay_and_where_there_is_one) {
  const auto expected = left_by_ranks<Resident>(Activations::keep);
  auto options = swapped_options<Swapped>();
  options.swapping = run::SwapSchedule{.resident_segments = 100};
  EXPECT_EQ(left_by<Swapped>(options, 0.2F), expected);
  options.bucket_bytes = Bytes{1} << 30;
  for (const int stays : {0, 1}) {
    options.swapping = run::SwapSchedule{.resident_segments = stays};
    EXPECT_EQ(left_by<Swapped>(options, 0.2F), expected) << "one segment, " << stays << " stay";
  }
}

TEST(SwapAtom, updates_beside_the_backward_where_nothing_is_looked_for) {
  const auto ignoring = [](auto options) {
    options.micro_batches = {2};
    options.clip_norm = 0;
    options.non_finite = optim::NonFinite::ignore;
    return options;
  };
  auto looking = small_options<Resident>();
  looking.micro_batches = {2};
  looking.clip_norm = 0;
  const auto expected = left_by<Resident>(looking, 0.2F);
  const auto resident = left_by<Resident>(ignoring(small_options<Resident>()), 0.2F);
  EXPECT_EQ(resident.first.losses, expected.first.losses);
  EXPECT_EQ(resident.first.weights, expected.first.weights);
  const auto swapped = ignoring(small_options<Swapped>());
  EXPECT_EQ(left_by<Swapped>(swapped, 0.2F), resident);

  const auto programs = Swapped::programs(nn::gpt<device::Host, float>(deep(0), 1), swapped, 1);
  const auto world = schedule::World::uniform(1, {1e9, 1e9, 1e9}, {});
  const auto run = schedule::simulate(programs, world, 1);
  double first_update = HUGE_VAL;
  double last_backward = 0;
  for (const schedule::SimulatedSpan& span : run.spans) {
    const std::string& kind = programs[0].round[span.instruction].kind;
    if (kind == "Update") first_update = std::min(first_update, span.begin);
    if (kind == "Backward") last_backward = std::max(last_backward, span.end);
  }
  EXPECT_LT(first_update, last_backward / 2);
}

TEST(SwapAtom, needs_the_memory_that_is_foreseen_and_no_more) {
  auto options = small_options<Swapped>();
  options.device.link_bytes_per_second = 1e9;
  const auto model = [] { return nn::gpt<device::Host, float>(deep(0.1F), 1); };
  options.cuts = run::choose_cuts(model().dag(), options.bucket_bytes);
  options.cuts = {options.cuts.begin() + 1, options.cuts.end() - 1};
  options.activations = {Activations::keep};
  options.swapping = run::SwapSchedule{};
  const StepEstimate foreseen = Swapped::estimate(model(), options, 1);
  auto resident = small_options<Resident>();
  resident.device.link_bytes_per_second = 1e9;
  const Bytes stays = Resident::estimate(model(), resident, 1).device_bytes;
  EXPECT_LT(2 * foreseen.device_bytes, stays);

  const comm::Communicator self(MPI_COMM_SELF, "self");
  const auto peak = [&](Bytes memory) {
    options.device.memory_bytes = memory;
    Swapped trainer(model(), small_source(), options, {}, self);
    trainer.step();
    return trainer.device().memory().peak;
  };
  EXPECT_EQ(peak(foreseen.device_bytes), foreseen.device_bytes);
  EXPECT_THROW(peak(foreseen.device_bytes - 1), ScheduleError);
}

TEST(SwapAtom, ranks_of_different_devices_and_counts_plan_for_the_smallest) {
  const auto expected = left_by<Resident>(uneven_options<Resident>(), 0.1F);
  auto options = uneven_options<Swapped>();
  options.device.memory_bytes = 300'000 + 100'000 * static_cast<Bytes>(world_rank());
  options.device.link_bytes_per_second = 4e9 / (1 + world_rank());
  EXPECT_EQ(left_by<Swapped>(options, 0.1F), expected);
  // They read one profile: of the slowest link.
  const double slowest = 4e9 / world_size();
  options.profile =
      graph::estimate(nn::gpt<device::Host, float>(deep(0.1F), 1).dag(), {1e9, 0, slowest});
  options.profile->measured = true;
  options.profile->device = device::Host::name;
  options.profile->link_bytes_per_second = slowest;
  EXPECT_EQ(left_by<Swapped>(options, 0.1F), expected);
}

TEST_F(SwapAlone, trains_what_is_eight_times_its_device) {
  const auto model = [] {
    nn::GptConfig config = deep(0.1F);
    config.layers = 12;
    return nn::gpt<device::Host, float>(config, 1);
  };
  auto options = small_options<Swapped>();
  options.micro_batches = {4};
  options.device.link_bytes_per_second = 4e9;
  options.activations = {Activations::keep};
  const StepEstimate all = Swapped::estimate(model(), options, 1);
  options.activations.clear();
  options.device.memory_bytes = (all.weights + all.gradients + all.activations) / 8;
  const comm::Communicator self(MPI_COMM_SELF, "self");
  auto resident = small_options<Resident>();
  resident.micro_batches = {4};
  const auto expected = [&] {
    Resident stays(model(), small_source(), resident, {}, self);
    return outcome_of(stays, 2);
  }();
  Swapped swapped(model(), small_source(), options, {}, self);
  EXPECT_EQ(outcome_of(swapped, 2), expected);
  EXPECT_LE(swapped.device().memory().peak, options.device.memory_bytes);
}

TEST_F(SwapAlone, an_allocation_that_fails_is_named_and_leaves_nothing) {
  // Of the device, then of pinned memory; the trainer that was there before goes on.
  const auto model = [] { return nn::gpt<device::Host, float>(deep(0.1F), 1); };
  auto options = small_options<Swapped>();
  options.device.link_bytes_per_second = 1e9;
  const comm::Communicator self(MPI_COMM_SELF, "self");
  Swapped undisturbed(model(), small_source(), options, {}, self);
  const auto expected = outcome_of(undisturbed, 3);
  Swapped survivor(model(), small_source(), options, {}, self);
  Outcome<float> outcome = outcome_of(survivor, 1);
  int failures = 0;
  for (int n = 0; n < 2; ++n) {
    fails_in = n;
    try {
      const Swapped trainer(model(), small_source(), options, {}, self);
    } catch (const MemoryError& error) {
      ++failures;
      EXPECT_THAT(error.what(), testing::HasSubstr("the machine's memory is exhausted"));
      EXPECT_THAT(error.what(), testing::HasSubstr("fix: "));
    }
    fails_in = -1;
    const Outcome<float> next = outcome_of(survivor, 1);
    outcome.losses.push_back(next.losses.front());
    outcome.norms.push_back(next.norms.front());
    outcome.weights = next.weights;
  }
  EXPECT_EQ(failures, 2);
  EXPECT_EQ(outcome, expected);
}

TEST_F(SwapAlone, nobody_may_read_what_has_left) {
  // At the end of a step all has, so slots are NaN.
  auto options = small_options<Swapped>();
  options.device.link_bytes_per_second = 1e9;
  options.swapping = run::SwapSchedule{.weight_slots = 2};
  options.activations = {Activations::stash};
  const comm::Communicator self(MPI_COMM_SELF, "self");
  Bytes slots = 0;
  const auto poisoned = [&](bool checked) {
    options.device.poison_freed = checked;
    first_arena = {};
    Swapped trainer(nn::gpt<device::Host, float>(deep(0), 1), small_source(), options, {}, self);
    trainer.step();
    trainer.step();
    slots = 0;
    for (const schedule::Storage& storage : trainer.program().storages) {
      // Others lie where these are not yet, or no more.
      const bool lasts =
          storage.name.ends_with("of weights") || storage.name.ends_with("of gradients");
      if (storage.name.starts_with("slot ") && lasts) slots += storage.bytes;
    }
    const auto words = std::count(first_arena.begin(), first_arena.end(), ~std::uint32_t{0});
    return 4 * static_cast<Bytes>(words);
  };
  EXPECT_EQ(poisoned(false), 0U);
  EXPECT_GE(poisoned(true), slots - slots / 50);
}

TEST_F(SwapAlone, what_comes_is_dropped_where_a_device_checks) {
  // verify() refuses a program that reads it afterwards, so it is enough that all is.
  auto options = small_options<Swapped>();
  options.device.poison_freed = true;
  options.activations = {Activations::stash};
  for (const bool streams : {false, true}) {
    options.swapping = run::SwapSchedule{.weight_slots = 3, .per_micro_batch = streams};
    const auto model = nn::gpt<device::Host, float>(deep(0), 1);
    const schedule::Program program = Swapped::programs(model, options, 1).front();
    std::set<schedule::StorageId> there;
    int drops = 0;
    for (const schedule::Instruction& i : program.round) {
      const auto is_kept = [&](const schedule::Value& value) {
        const schedule::StorageId slot = program.storages[value.storage].parent;
        return slot != schedule::no_storage &&
               program.storages[slot].name.ends_with("of what is kept");
      };
      for (const schedule::Value& value : i.writes) {
        if (i.kind == "Load" || i.kind == "Restore" || (i.kind == "Forward" && is_kept(value))) {
          EXPECT_TRUE(there.insert(value.storage).second) << program.name(value) << " comes twice";
        } else if (i.kind == "Drop") {
          EXPECT_EQ(there.erase(value.storage), 1U) << program.name(value);
          ++drops;
        }
      }
    }
    EXPECT_TRUE(there.empty()) << there.size();
    EXPECT_GT(drops, 0);
  }
}

TEST_F(SwapAlone, programs_say_each_copy_and_what_folds_move) {
  // So that simulation counts the latency of each, and the sums of tied embeddings.
  auto options = small_options<Swapped>();
  options.activations = {Activations::stash};
  const comm::Communicator self(MPI_COMM_SELF, "self");
  const Swapped trainer(nn::gpt<device::Host, float>(deep(0), 1), small_source(), options, {},
                        self);
  const schedule::Program& program = trainer.program();
  std::map<std::string, int> seen;
  bool some_have_runs = false;
  for (const schedule::Instruction& i : program.round) {
    ++seen[i.kind];
    if (i.kind == "Load" || i.kind == "Stash" || i.kind == "Restore") {
      EXPECT_EQ(i.cost.copies, static_cast<int>(i.reads.size())) << i.text();
    }
    if (i.kind == "Evict") {  // of a bucket, each run of parameters between paddings
      const int b = trainer.plan().bucket_of_segment[static_cast<std::size_t>(i.index)];
      const std::size_t runs = b >= 0 ? trainer.plan().parameters_in(b).size() : 1;
      EXPECT_EQ(i.cost.copies, static_cast<int>(runs + i.reads.size() - 1)) << i.text();
      some_have_runs = some_have_runs || runs > 1;
    }
    if (i.kind == "FoldUses") {
      EXPECT_EQ(i.cost.bytes, 3 * program.storages[i.reads.front().storage].bytes);
    }
  }
  for (const char* kind : {"Load", "Stash", "Restore", "Evict", "FoldUses"}) {
    EXPECT_GT(seen[kind], 0) << kind;
  }
  EXPECT_TRUE(some_have_runs);
}

TEST_F(SwapAlone, a_policy_with_one_schedule_takes_no_other) {
  const auto model = nn::gpt<device::Host, float>(deep(0), 1);
  using Streaming = Trainer<swap::LayerStreaming, optim::Ddp<optim::AdamW>>;
  using Three = Trainer<swap::Atom<3>, optim::Ddp<optim::AdamW>>;
  auto streaming = small_options<Streaming>();
  auto three = small_options<Three>();
  for (const run::SwapSchedule& of_another :
       {run::SwapSchedule{.weight_slots = 2},
        {.weight_slots = 2, .per_micro_batch = true, .resident_segments = 1}}) {
    streaming.swapping = three.swapping = of_another;
    EXPECT_THROW((void)Streaming::estimate(model, streaming, 1), OptionError);
    EXPECT_THROW((void)Three::estimate(model, three, 1), OptionError);
  }
  try {
    three.swapping = run::SwapSchedule{.weight_slots = 2, .per_micro_batch = true};
    (void)Three::estimate(model, three, 1);
  } catch (const OptionError& error) {
    EXPECT_THAT(error.what(),
                testing::HasSubstr("has 2 slots, streams.\n  why: this policy has 3 slots, and no"));
  }
  three.swapping = run::SwapSchedule{.weight_slots = 3, .resident_segments = 1, .stash_slots = 4};
  EXPECT_NO_THROW((void)Three::estimate(model, three, 1));
  streaming.swapping = Streaming::planned(model, small_options<Streaming>()).swapping;
  EXPECT_NO_THROW((void)Streaming::estimate(model, streaming, 1));
}

TEST_F(SwapAlone, refuses_cuts_that_are_none_and_a_profile_of_another_model) {
  const auto model = nn::gpt<device::Host, float>(deep(0), 1);
  auto options = small_options<Swapped>();
  for (const std::vector<int>& cuts :
       {std::vector<int>{0}, {5, 5}, {7, 3}, {model.dag().node_count()}, {-1}}) {
    options.cuts = cuts;
    EXPECT_THROW((void)Swapped::estimate(model, options, 1), OptionError);
  }
  options.cuts = {5, 9};
  options.activations = {Activations::keep, Activations::stash};
  EXPECT_THROW((void)Swapped::estimate(model, options, 1), OptionError) << "of three segments";
  options.activations.push_back(Activations::recompute);
  EXPECT_NO_THROW((void)Swapped::estimate(model, options, 1));
  options.swapping = run::SwapSchedule{.stash_slots = 0};
  EXPECT_THROW((void)Swapped::estimate(model, options, 1), OptionError);
  options.swapping = run::SwapSchedule{.resident_segments = -1};
  EXPECT_THROW((void)Swapped::estimate(model, options, 1), OptionError);
  options.swapping = run::SwapSchedule{.resident_segments = 1000};
  const auto planned = Swapped::planned(model, options);
  EXPECT_EQ(planned.swapping->resident_segments, 3) << "all that there are";
  options.cuts = {};
  options.activations = {};
  options.swapping.reset();
  options.profile = graph::estimate(nn::gpt<device::Host, float>(small_config(), 1).dag(), 1e9);
  EXPECT_THROW((void)Swapped::programs(model, options, 1), OptionError);
  options.device.memory_bytes = Bytes{1} << 30;
  EXPECT_THROW((void)Swapped::estimate(model, options, 1), OptionError);

  options.device.link_bytes_per_second = 1e9;
  const auto measured_on = [&](const char* device, double link) {
    options.profile = graph::estimate(model.dag(), {1e9, 0, link});
    options.profile->measured = true;
    options.profile->device = device;
    options.profile->link_bytes_per_second = link;
  };
  const auto refused = [&](const char* why) {
    try {
      (void)Swapped::estimate(model, options, 1);
      ADD_FAILURE() << "a profile of another device";
    } catch (const OptionError& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr(why));
    }
  };
  measured_on("cuda", 1e9);
  refused("measured on 'cuda', this is 'host'");
  measured_on("host", 8e9);
  refused("its link's bandwidth was 8e+09 B/s");
  measured_on("host", 1e9);
  options.profile->link_latency = 0.5;
  refused("its link's latency was 0.5 s");
  measured_on("host", 1e9);
  options.profile->slowdown = 3;
  refused("its kernels' slowdown was 3, this one's");
  measured_on("host", 1e9);
  options.device.threads = 2;
  refused("it had 1 threads, this one has 2");
}

}  // namespace
}  // namespace reef::test
