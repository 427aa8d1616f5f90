// All four axes at once over random models, cut anywhere, in every order that there is by its name and in random ones.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <set>
#include <string>
#include <vector>

#include <reef/comm/communicator.hpp>
#include <reef/compress/ada_top_k.hpp>
#include <reef/optim/acco.hpp>
#include <reef/optim/adamw.hpp>
#include <reef/pipeline/ordered.hpp>
#include <reef/schedule/world.hpp>
#include <reef/swap/atom.hpp>

#include "../support/overlapping_trainers.hpp"
#include "../support/random_stages.hpp"

namespace reef::test {
namespace {

namespace all_axes_orders {

using Acco = optim::Acco<optim::AdamW>;
using All = Trainer<swap::Atom<>, pipeline::Ordered, compress::AdaTopK, Acco>;
using random_stages::Instance;
using random_stages::Trained;

/// All orders by their names come in 20.
int count_of_instances() {
  const char* const given = std::getenv("REEF_PIPELINES");
  return std::max(20, given != nullptr ? std::atoi(given) : 0);
}

/// Of an instance the options that change bits, behind a link where nobody may read what has left.
All::Options options_of(const Instance& one, double ratio) {
  All::Options options;
  options.topology = run::Topology(one.replicas, one.stages);
  if (!one.a_segment_is_a_chunk) options.topology->stage_of_segment = one.stage_of_segment;
  options.pipeline.order = one.order;
  options.pipeline.unit = one.unit;
  options.network = profile::Network::uniform(one.replicas * one.stages, 0, 1e7);
  options.compress.activation.ratio = ratio;
  options.device.link_bytes_per_second = 4e9;
  options.device.poison_freed = true;
  return options;
}

/// A way to swap, another one for each number.
void swap(All::Options& options, std::uint64_t number) {
  options.activations = {run::all_activations[number % run::all_activations.size()]};
  options.swapping = run::SwapSchedule{.weight_slots = 2 + static_cast<int>(number % 3),
                                       .writes_back = number % 5 == 0,
                                       .resident_segments = static_cast<int>(number % 2),
                                       .stash_slots = 1 + static_cast<int>(number % 4)};
}

void expect_same(const Trained& tested, const Trained& expected) {
  EXPECT_EQ(tested.numbers, expected.numbers);
  for (const auto& [name, values] : tested.weights) EXPECT_EQ(values, expected.weights.at(name)) << name;
}

TEST(AllAxesInAnyOrder, have_the_bits_of_one_process_and_with_ratios_those_of_segments_that_stay) {
  const comm::Communicator world;
  const comm::Communicator self = world.split(world.rank(), 0, "self");
  std::set<std::string> schedules;
  for (int number = 1; number <= count_of_instances(); ++number) {
    const auto seed = static_cast<std::uint64_t>(number);
    Instance one = random_stages::random_instance(seed, number, random_stages::random_model(seed).dag(), world.size());
    one.recomputes = false;
    schedules.insert(one.schedule);
    SCOPED_TRACE(one.text);
    auto whole = options_of(one, 1);
    swap(whole, seed);
    const Trained expected = random_stages::train_alone<Acco>(seed, one, self);
    expect_same(random_stages::train<All>(seed, one, whole, world), expected);

    auto stays = options_of(one, 3);
    stays.swapping = run::SwapSchedule{.resident_segments = 1000};
    const Trained shrunk = random_stages::train<All>(seed, one, stays, world);
    auto passes = options_of(one, 3);
    swap(passes, seed + 1);
    expect_same(random_stages::train<All>(seed, one, passes, world), shrunk);
    EXPECT_NE(shrunk.numbers, expected.numbers) << "something is left out";
  }
  for (const std::string& schedule : random_stages::drawn_schedules) EXPECT_TRUE(schedules.contains(schedule)) << schedule;
  EXPECT_TRUE(schedules.contains("random"));
}

}  // namespace all_axes_orders

}  // namespace
}  // namespace reef::test
