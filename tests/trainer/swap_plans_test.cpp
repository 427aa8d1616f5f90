// What is planned of models that are swapped through the device.

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <numeric>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include <reef/comm/mpi.hpp>
#include <reef/graph/crossing.hpp>
#include <reef/graph/estimate.hpp>
#include <reef/graph/measure.hpp>
#include <reef/nn/cross_entropy.hpp>
#include <reef/nn/embedding.hpp>
#include <reef/nn/linear.hpp>
#include <reef/optim/sgd.hpp>
#include <reef/optim/zero1.hpp>
#include <reef/run/costs.hpp>
#include <reef/schedule/simulate.hpp>
#include <reef/swap/layer_streaming.hpp>
#include <reef/swap/paper_atom.hpp>

#include "swapped.hpp"

namespace reef::test {
namespace {

/// What a step takes on one rank, by the profile of the options.
template <class Tested>
Seconds foreseen_step(const typename Tested::Options& options) {
  const auto programs = Tested::programs(nn::gpt<device::Host, float>(deep(0.1F), 1), options, 1);
  const auto world = schedule::World::uniform(1, run::machine_of(*options.profile), {});
  return schedule::simulate(programs, world, 1).total;
}

TEST_F(SwapAlone, is_planned_for_the_memory_that_there_is) {
  const auto model = [] { return nn::gpt<device::Host, float>(deep(0.1F), 1); };
  auto options = small_options<Swapped>();
  options.micro_batches = {3};
  options.device.link_bytes_per_second = 1e9;
  options.profile = graph::estimate(model().dag(), {5e10, 1e10, 1e9});
  auto resident = small_options<Resident>();
  resident.micro_batches = {3};
  resident.device.link_bytes_per_second = 1e9;
  const Bytes stays = Resident::estimate(model(), resident, 1).device_bytes;
  const auto expected = left_by<Resident>(resident, 0.1F);
  Seconds fast = 0;
  const comm::Communicator self(MPI_COMM_SELF, "self");
  for (const Bytes memory : {stays, stays / 2, stays / 3}) {
    options.device.memory_bytes = memory;
    const auto planned = Swapped::planned(model(), options);
    const Bytes foreseen = Swapped::estimate(model(), planned, 1).device_bytes;
    EXPECT_LE(foreseen, memory);
    EXPECT_EQ(left_by<Swapped>(planned, 0.1F), expected);
    Swapped trainer(model(), small_source(), planned, {}, self);
    EXPECT_EQ(trainer.device().memory().peak, foreseen);
    const Seconds step = foreseen_step<Swapped>(planned);
    EXPECT_GE(step * swap::detail::PlanEvaluator::alike, fast) << "less memory is no faster";
    fast = step;
  }
  options.device.memory_bytes = stays / 40;
  try {
    (void)Swapped::estimate(model(), options, 1);
    ADD_FAILURE() << "no device is too small";
  } catch (const ScheduleError& error) {
    const std::string why = error.what();
    EXPECT_THAT(why, testing::HasSubstr("its largest segment, '"));
    const std::string before = "the least that was found needs ";
    ASSERT_NE(why.find(before), std::string::npos) << why;
    options.device.memory_bytes = std::stoull(why.substr(why.find(before) + before.size()));
    EXPECT_NO_THROW((void)Swapped::estimate(model(), options, 1)) << "that much is enough";
  }
}

/// Nearly all of its parameters are embeddings: its first operator's.
graph::Graph<device::Host, float> embeddings_and_a_head() {
  graph::Graph<device::Host, float> model(1);
  const Shape shape{2, 11};
  const int tokens = model.input("tokens", {shape, Element::int32});
  const int targets = model.input("targets", {shape, Element::int32});
  int x = model.add("embedding", nn::Embedding{2000, 11, 16}, {tokens})[0];
  for (const char* name : {"first", "second"}) {
    x = model.add(name, nn::Linear{16, true, nn::Transpose::no, 0.02}, {x})[0];
  }
  model.loss(model.add("loss", nn::CrossEntropy{}, {x, targets})[0]);
  return model;
}

TEST_F(SwapAlone, is_planned_where_only_a_large_segment_that_stays_leaves_room_for_others) {
  using Sgd = Trainer<swap::Atom<>, optim::Ddp<optim::Sgd>>;
  const auto model = embeddings_and_a_head();
  auto options = small_options<Sgd>();
  options.cuts = {1, 2};
  options.activations = {Activations::recompute_and_stash};
  const auto needs = [&](int stays) {
    options.swapping = run::SwapSchedule{.weight_slots = 2, .resident_segments = stays};
    return Sgd::estimate(model, options, 1).device_bytes;
  };
  const Bytes none = needs(0);
  const Bytes one = needs(1);
  ASSERT_LT(one, none) << "two slots for weights and two for gradients are larger than both once";
  options.swapping.reset();
  options.device.memory_bytes = one;
  options.device.link_bytes_per_second = 1e9;
  const auto planned = Sgd::planned(model, options);
  EXPECT_GE(planned.swapping->resident_segments, 1);
  EXPECT_LE(Sgd::estimate(model, planned, 1).device_bytes, one);
}

/// The fastest step of all plans of these cuts that fit: every swap schedule, number of segments
/// that stay, and activations of each.
Seconds fastest_of_all(const Swapped::Options& options) {
  const auto model = nn::gpt<device::Host, float>(deep(0.1F), 1);
  const std::size_t segments = options.cuts.size() + 1;
  const int choices = 1 << (2 * (segments - 1));  // four activations of each but the last
  Seconds fastest = HUGE_VAL;
  for (run::SwapSchedule swapping : swap::Atom<>::schedules()) {
    if (swapping.weight_slots > static_cast<int>(segments)) continue;
    for (swapping.resident_segments = 0; swapping.resident_segments < static_cast<int>(segments);
         ++swapping.resident_segments) {
      for (int choice = 0; choice < choices; ++choice) {
        auto given = options;
        given.swapping = swapping;
        given.activations.assign(segments, Activations::keep);
        for (std::size_t s = 0; s + 1 < segments; ++s)
          given.activations[s] =
              run::all_activations[static_cast<std::size_t>(choice >> (2 * s)) % 4];
        if (Swapped::estimate(model, given, 1).device_bytes > options.device.memory_bytes) continue;
        fastest = std::min(fastest, foreseen_step<Swapped>(given));
      }
    }
  }
  return fastest;
}

/// Of sweeps that take long: all, or those in the middle.
template <class Value>
std::vector<Value> swept(std::vector<Value> all, std::vector<Value> middle) {
  return std::getenv("REEF_SWAP_PLANS") != nullptr ? all : middle;
}

TEST_F(SwapAlone, no_other_plan_of_the_same_cuts_is_much_faster) {
  const auto model = nn::gpt<device::Host, float>(deep(0.1F), 1);
  auto options = small_options<Swapped>();
  options.micro_batches = {2};
  const int nodes = model.dag().node_count();
  options.cuts = {nodes / 4, nodes / 2, 3 * nodes / 4};
  options.activations = {Activations::recompute_and_stash};
  options.swapping = run::SwapSchedule{};
  const Bytes least = Swapped::estimate(model, options, 1).device_bytes;
  options.activations.clear();
  options.swapping.reset();
  int fastest = 0;
  const std::vector<double> links = swept<double>({1e8, 4e8, 1.6e9}, {4e8});
  for (const double link : links) {  // from waiting for the link to waiting for kernels
    for (const double share : {1.1, 1.6, 2.2}) {  // of the least memory: in the last, all is kept
      options.device.link_bytes_per_second = link;
      options.device.memory_bytes = static_cast<Bytes>(share * static_cast<double>(least));
      options.profile = graph::estimate(model.dag(), {1e10, 1e10, link});
      const Seconds planned = foreseen_step<Swapped>(options);
      const Seconds best = fastest_of_all(options);
      EXPECT_LE(planned, 1.05 * best) << link << " B/s, " << share << " of the least memory";
      if (planned <= swap::detail::PlanEvaluator::alike * best) ++fastest;
    }
  }
  EXPECT_GE(fastest, links.size() == 1 ? 2 : 8) << "of " << 3 * links.size();
}

TEST_F(SwapAlone, what_streams_alone_is_not_faster) {
  using Streamed = Trainer<swap::LayerStreaming, optim::Ddp<optim::AdamW>>;
  const auto model = nn::gpt<device::Host, float>(deep(0.1F), 1);
  for (const int micro_batches : swept<int>({1, 4}, {4})) {
    for (const double link : {2e8, 1.6e9}) {  // waiting for the link, and for kernels
      const auto planned = [&]<class Tested>(std::type_identity<Tested>) {
        auto options = small_options<Tested>();
        options.micro_batches = {micro_batches};
        options.device.link_bytes_per_second = link;
        options.device.memory_bytes = micro_batches == 1 ? 350'000 : 550'000;
        options.profile = graph::estimate(model.dag(), {1e10, 1e10, link});
        return foreseen_step<Tested>(options);
      };
      EXPECT_LE(planned(std::type_identity<Swapped>()),
                swap::detail::PlanEvaluator::alike * planned(std::type_identity<Streamed>()))
          << micro_batches << " micro-batches, " << link << " B/s";
    }
  }
}

TEST_F(SwapAlone, what_has_room_lives_on_the_device) {
  const auto model = nn::gpt<device::Host, float>(deep(0.1F), 1);
  auto options = small_options<Swapped>();
  options.micro_batches = {3};
  options.device.link_bytes_per_second = 1e8;
  const auto foreseen = [&](const auto& given) {
    const auto world = schedule::World::uniform(1, {5e10, 1e10, 1e8}, {});
    return schedule::simulate(Swapped::programs(model, given, 1), world, 1).total;
  };
  options.device.memory_bytes = 750'000;
  const auto planned = Swapped::planned(model, options);
  EXPECT_GT(planned.swapping->resident_segments, 0);
  auto none = planned;
  none.swapping->resident_segments = 0;
  EXPECT_LT(foreseen(planned), foreseen(none));
  const auto moved = [&](const auto& given) {
    Bytes bytes = 0;
    const auto programs = Swapped::programs(model, given, 1);
    for (const schedule::Instruction& i : programs[0].round) {
      const bool weights = i.kind == "Load" || i.kind == "Evict";
      if (weights) {
        EXPECT_GE(i.index, given.swapping->resident_segments) << i.text();
        bytes += i.cost.bytes;
      }
    }
    return bytes;
  };
  EXPECT_LT(moved(planned), moved(none));
}

TEST_F(SwapAlone, a_plan_fits_every_rank_where_shards_live_on_the_device) {
  using Sharded = Trainer<swap::Atom<>, optim::Zero1<optim::AdamW>>;
  const auto model = nn::gpt<device::Host, float>(deep(0.1F), 1);
  auto options = small_options<Sharded>();
  options.micro_batches = {2};
  options.device.link_bytes_per_second = 1e8;
  int stays = 0;
  for (const Bytes memory : {350'000U, 450'000U, 600'000U}) {
    options.device.memory_bytes = memory;
    const auto planned = Sharded::planned(model, options, 3);
    stays += planned.swapping->resident_segments;
    for (int rank = 0; rank < 3; ++rank) {
      EXPECT_LE(Sharded::estimate(model, planned, 3, rank).device_bytes, memory) << "rank " << rank;
    }
  }
  EXPECT_GT(stays, 0);
}

TEST_F(SwapAlone, is_planned_by_what_was_measured_though_its_copies_were_slower_than_the_link) {
  const auto model = [] { return nn::gpt<device::Host, float>(deep(0.1F), 1); };
  auto options = small_options<Swapped>();
  options.device.threads = 1;
  options.device.link_bytes_per_second = 1e15;  // no memory is copied at that
  device::Host device(options.device);
  graph::MeasureOptions measuring;
  measuring.classes = static_cast<std::int32_t>(deep(0.1F).vocabulary);
  options.profile = graph::measure(device, model(), measuring);
  EXPECT_LT(options.profile->copy_bytes_per_second, 1e14);
  options.device.memory_bytes = 300'000;
  EXPECT_LE(Swapped::estimate(model(), options).device_bytes, 300'000U);
  options.device.link_bytes_per_second = 1e9;
  EXPECT_THROW((void)Swapped::estimate(model(), options), OptionError);
}

TEST_F(SwapAlone, a_plan_is_kept_and_refused_on_a_smaller_device) {
  const auto model = [] { return nn::gpt<device::Host, float>(deep(0.1F), 1); };
  auto options = small_options<Swapped>();
  options.micro_batches = {3};
  options.device.link_bytes_per_second = 1e9;
  options.device.memory_bytes = 300'000;
  const auto kept = Swapped::planned(model(), options);
  EXPECT_FALSE(kept.cuts.empty());
  EXPECT_FALSE(kept.activations.empty());
  EXPECT_EQ(Swapped::estimate(model(), kept).device_bytes,
            Swapped::estimate(model(), options).device_bytes);
  EXPECT_EQ(left_by<Swapped>(kept, 0.1F), left_by<Swapped>(options, 0.1F));
  auto smaller = kept;
  smaller.device.memory_bytes = Swapped::estimate(model(), kept).device_bytes - 1;
  const comm::Communicator self(MPI_COMM_SELF, "self");
  try {
    Swapped(model(), small_source(), smaller, {}, self);
    ADD_FAILURE() << "a plan for another device";
  } catch (const ScheduleError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("memory"));
  }
}

TEST_F(SwapAlone, needs_less_memory_where_segments_are_computed_again_or_stashed) {
  // Of some micro-batches: what is kept grows with each, what crosses the bounds of segments little.
  const auto model = [] { return nn::gpt<device::Host, float>(deep(0.1F), 1); };
  const auto needs = [&](int micro_batches, Activations activations) {
    auto options = small_options<Swapped>();
    options.device.link_bytes_per_second = 1e9;
    options.micro_batches = {micro_batches};
    options.activations = {activations};
    return Swapped::estimate(model(), options, 1).device_bytes;
  };
  EXPECT_GT(needs(8, Activations::keep), 3 * needs(8, Activations::recompute));
  EXPECT_GT(needs(8, Activations::keep), 3 * needs(8, Activations::stash));
  EXPECT_GT(needs(8, Activations::recompute), needs(8, Activations::recompute_and_stash));
  EXPECT_LT(needs(8, Activations::recompute), 3 * needs(1, Activations::recompute));
}

TEST_F(SwapAlone, more_slots_for_stashes_let_the_link_catch_up) {
  // Segments that stash more than the link takes beside their kernels, between such that stash nothing.
  const auto model = [] { return nn::gpt<device::Host, float>(deep(0.1F), 1); };
  auto options = small_options<Swapped>();
  options.micro_batches = {4};
  const int nodes = model().dag().node_count();
  options.cuts = {nodes / 4, nodes / 2, 3 * nodes / 4};
  options.activations = {Activations::stash, Activations::keep, Activations::stash,
                         Activations::keep};
  const auto takes = [&](int stash_slots, double link) {
    options.device.link_bytes_per_second = link;
    options.profile = graph::estimate(model().dag(), {1e9, 1e9, link});
    options.swapping = run::SwapSchedule{.weight_slots = 4, .stash_slots = stash_slots};
    return std::pair(foreseen_step<Swapped>(options),
                     Swapped::estimate(model(), options, 1).device_bytes);
  };
  const auto [few, little] = takes(2, 2e7);
  const auto [many, much] = takes(4, 2e7);
  EXPECT_LT(many, 0.99 * few);
  EXPECT_GT(much, little);
  EXPECT_EQ(takes(1000, 2e7), takes(12, 2e7)) << "no more than there are stashes";
  EXPECT_LE(takes(4, 1e12).first, takes(2, 1e12).first) << "where nothing waits, nothing is gained";
}

TEST_F(SwapAlone, thinned_cuts_lack_bounds_that_much_crosses) {
  const auto model = nn::gpt<device::Host, float>(deep(0.1F), 1);
  const graph::Dag& dag = model.dag();
  const int nodes = dag.node_count();
  std::vector<int> all(static_cast<std::size_t>(nodes) + 1);
  std::iota(all.begin(), all.end(), 0);
  const std::vector<Bytes> crossing = graph::crossing_bytes(dag);
  const double mean =
      static_cast<double>(std::accumulate(crossing.begin(), crossing.end(), Bytes{})) / (nodes - 1);
  const auto heavy = [&](int bound) {
    return static_cast<double>(crossing[static_cast<std::size_t>(bound)]) > mean;
  };
  const auto count = std::count_if(all.begin(), all.end(), heavy);
  ASSERT_GT(count, 4);
  ASSERT_LT(count, nodes - 1);
  for (const int quarters : {0, 1, 2, 3, 4}) {
    const std::vector<int> left = swap::detail::thinned(dag, all, quarters, 4);
    EXPECT_EQ(std::count_if(left.begin(), left.end(), heavy), count - count * quarters / 4);
    EXPECT_EQ(std::count_if(left.begin(), left.end(), [&](int bound) { return !heavy(bound); }),
              nodes + 1 - count);
    EXPECT_TRUE(std::is_sorted(left.begin(), left.end()));
  }
  EXPECT_EQ(swap::detail::thinned(dag, {0, nodes}, 4, 4), (std::vector{0, nodes}));
  EXPECT_EQ(swap::detail::thinned(dag, {0, 5, nodes}, 4, 4), (std::vector{0, 5, nodes}));
}

TEST_F(SwapAlone, loads_no_segment_again_that_is_still_in_a_slot) {
  const auto count_of = []<class Tested>(std::type_identity<Tested>, int slots) {
    auto options = small_options<Tested>();
    options.micro_batches = {4};
    if (slots > 0) options.swapping = run::SwapSchedule{.weight_slots = slots};
    const auto programs = Tested::programs(nn::gpt<device::Host, float>(deep(0), 1), options, 1);
    std::map<std::string, int> count;
    for (const schedule::Instruction& i : programs[0].round) ++count[i.kind];
    return count;
  };
  for (const int slots : {2, 3, 5, 100}) {
    auto count = count_of(std::type_identity<Swapped>(), slots);
    const int segments = count["Forward"] / 4;
    EXPECT_GT(segments, 5);
    EXPECT_EQ(count["Load"], segments + std::max(segments - slots, 0)) << slots << " slots";
    EXPECT_EQ(count["Evict"], segments);
    EXPECT_EQ(count["Backward"], 4 * segments);
  }
  using Paper = Trainer<swap::PaperAtom, optim::Ddp<optim::AdamW>>;
  auto count = count_of(std::type_identity<Paper>(), 0);
  EXPECT_EQ(count["Load"], 2 * count["Forward"] / 4 - 1) << "written back, it is not there";
}

}  // namespace
}  // namespace reef::test
