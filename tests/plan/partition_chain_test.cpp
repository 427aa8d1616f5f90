// The planner against every partition of thousands of random chains, its baselines, and its errors.

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reef/core/error.hpp>
#include <reef/plan/atom_algorithm_1.hpp>
#include <reef/plan/detail/chain_partitioner.hpp>
#include <reef/plan/detail/chain_sums.hpp>
#include <reef/plan/detail/pair_rules.hpp>
#include <reef/plan/detail/three_resident.hpp>
#include <reef/plan/partition_chain.hpp>

#include "support/chains.hpp"

namespace reef::plan {
namespace {

using test::Bounds;
using test::random_chain;
using test::SubModel;
using testing::HasSubstr;

/// The rules as they are written down, partition by partition.
bool allowed(const OperatorChain& chain, const Bounds& bounds, const PartitionOptions& options) {
  const std::vector<SubModel> s = SubModel::all(chain, bounds, options.accumulation);
  const auto memory = static_cast<std::int64_t>(options.memory);
  const Variant v = options.variant;
  const std::size_t last = s.size() - 1;
  bool ok = true;
  const auto room = [&](std::int64_t needed) { ok = ok && needed <= memory; };
  std::int64_t stash = 0;
  for (std::size_t i = 0; i < last; ++i) {
    const SubModel& a = s[i];
    const SubModel& b = s[i + 1];
    if (v == Variant::paper) {
      room(a.alone);
      room(b.alone);
      ok = ok && a.forward >= b.load;
      continue;
    }
    if (v == Variant::stash || v == Variant::three_stash) {
      stash += options.accumulation *
               static_cast<std::int64_t>(chain.cut[static_cast<std::size_t>(bounds[i + 1])]);
    }
    room(a.weights + a.forward_workspace + b.weights + stash);
    room(b.weights + b.gradients + b.backward_workspace + a.weights + stash);
    if (i == 0) room(a.weights + a.gradients + a.backward_workspace + stash);
    if (i + 1 == last) room(b.weights + b.forward_workspace + stash);
    if (v == Variant::turn && i == 0) {
      room(a.weights + a.gradients + a.backward_workspace + b.weights);
    }
    if (v == Variant::turn && i + 1 == last) room(b.weights + b.forward_workspace + a.weights);
    if ((v == Variant::three || v == Variant::three_stash) && i > 0) {
      const SubModel& z = s[i - 1];
      room(z.weights + a.weights + a.forward_workspace + b.weights + stash);
      room(z.weights + a.weights + a.gradients + a.backward_workspace + b.weights + b.gradients +
           stash);
    }
    if (v == Variant::soft) continue;
    const bool turn = v == Variant::turn;
    ok = ok && a.forward + (turn && i == 0 ? a.backward : 0) >= b.load;
    ok = ok && b.backward + (turn && i + 1 == last ? b.forward : 0) >= a.load;
  }
  return ok;
}

/// Bytes through the cuts, and time.
std::pair<std::int64_t, Ticks> cost_of(const OperatorChain& chain, const Bounds& bounds,
                                       const PartitionOptions& options) {
  const std::vector<SubModel> s = SubModel::all(chain, bounds, options.accumulation);
  std::int64_t bytes = 0;
  for (std::size_t i = 1; i + 1 < bounds.size(); ++i) {
    bytes += static_cast<std::int64_t>(chain.cut[static_cast<std::size_t>(bounds[i])]);
  }
  const bool turn = options.variant == Variant::turn;
  return {bytes, turn ? test::time_without_waits(s) : test::time_of(s)};
}

std::pair<std::int64_t, Ticks> in_order(Variant variant, std::pair<std::int64_t, Ticks> cost) {
  if (variant == Variant::soft) std::swap(cost.first, cost.second);
  return cost;
}

constexpr std::array every_variant{Variant::paper, Variant::full,  Variant::turn,
                                   Variant::stash, Variant::three, Variant::three_stash,
                                   Variant::soft};

class EveryVariant : public testing::TestWithParam<Variant> {};

TEST_P(EveryVariant, finds_what_the_search_of_all_partitions_finds) {
  std::mt19937_64 random(7);
  int found = 0;
  int none = 0;
  for (int run = 0; run < 3000; ++run) {
    const int n = 2 + run % 8;
    const OperatorChain chain = random_chain(random, n);
    PartitionOptions options;
    options.variant = GetParam();
    options.accumulation = 1 + run % 3;
    options.memory = 20 + random() % 200;
    std::optional<std::pair<std::int64_t, Ticks>> best;
    test::for_each_partition(n, [&](const Bounds& bounds) {
      if (!allowed(chain, bounds, options)) return;
      const auto cost = in_order(GetParam(), cost_of(chain, bounds, options));
      if (!best || cost < *best) best = cost;
    });
    const detail::ChainPartitioner partitioner(chain, options.variant);
    const Partition result =
        partitioner.evaluate(partitioner.bounds(options.memory, options.accumulation),
                             options.memory, options.accumulation);
    ASSERT_EQ(result.feasible, best.has_value()) << "run " << run;
    if (!best) {
      ++none;
      continue;
    }
    ++found;
    ASSERT_TRUE(allowed(chain, result.bounds, options)) << "run " << run;
    ASSERT_EQ(in_order(GetParam(), cost_of(chain, result.bounds, options)), *best) << "run " << run;
    ASSERT_EQ(std::pair(static_cast<std::int64_t>(result.cut_bytes), result.iteration),
              cost_of(chain, result.bounds, options))
        << "run " << run;
    // The peak is the least memory in which this partition is allowed.
    PartitionOptions tight = options;
    tight.memory = result.peak_bytes;
    EXPECT_LE(result.peak_bytes, options.memory);
    EXPECT_TRUE(allowed(chain, result.bounds, tight)) << "run " << run;
    tight.memory = result.peak_bytes - 1;
    EXPECT_FALSE(allowed(chain, result.bounds, tight)) << "run " << run;
  }
  EXPECT_GT(found, 300);
  EXPECT_GT(none, 300);
}

TEST_P(EveryVariant, says_what_would_be_enough) {
  std::mt19937_64 random(11);
  int told = 0;
  for (int run = 0; run < 200; ++run) {
    const OperatorChain chain = random_chain(random, 2 + run % 7);
    PartitionOptions options{20 + random() % 150, 1, GetParam()};
    const Partition result = partition_chain(chain, options);
    EXPECT_EQ(result.why.empty(), result.feasible);
    if (result.feasible) continue;
    const detail::ChainPartitioner partitioner(chain, options.variant);
    const Bytes memory = partitioner.smallest_memory(1);
    if (memory > 0) {
      EXPECT_THAT(result.why, HasSubstr(std::to_string(memory) + " bytes"));
      EXPECT_FALSE(partitioner.bounds(memory, 1).empty());
      EXPECT_TRUE(partitioner.bounds(memory - 1, 1).empty());
      EXPECT_EQ(partitioner.smallest_memory(1, options.memory), memory);
    }
    told += memory > 0 ? 1 : 0;
    if (GetParam() == Variant::soft) continue;
    std::int64_t fewest = 1;
    while (fewest <= 400 && partitioner.bounds(options.memory, fewest).empty()) ++fewest;
    const Partition more = smallest_accumulation(chain, options);
    EXPECT_EQ(more.feasible, fewest <= 400) << "run " << run;
    if (fewest <= 400) {
      EXPECT_EQ(more.accumulation, fewest) << "run " << run;
    }
    const bool alone = result.why.starts_with("operator");
    if (fewest <= 400 && !alone) {
      EXPECT_THAT(result.why, HasSubstr(std::to_string(fewest) + " micro-batches"));
    }
    if (memory == 0 && !alone && fewest > 400) {
      EXPECT_THAT(result.why,
                  testing::AnyOf(HasSubstr(" micro-batches and "), HasSubstr("faster link")));
    }
  }
  EXPECT_GT(told, 10);
}

std::string name_of_case(const testing::TestParamInfo<Variant>& info) {
  std::string name(name_of(info.param));
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(PartitionChain, EveryVariant, testing::ValuesIn(every_variant),
                         name_of_case);

/// Operators of a byte each, with times forward, backward and of their loads.
OperatorChain chain_of(const std::vector<std::array<Ticks, 3>>& times,
                       const std::vector<Bytes>& cut) {
  OperatorChain chain;
  for (const auto& [forward, backward, load] : times) {
    ChainOperator o;
    o.weights = o.gradients = 1;
    o.forward = forward;
    o.backward = backward;
    o.load = load;
    chain.operators.push_back(o);
  }
  chain.cut = cut;
  return chain;
}

TEST(PartitionChain, many_micro_batches_are_found_where_few_are_of_no_use) {
  // Between the first two operators much is cut; behind the second, which loads for long, nothing.
  const OperatorChain stashes = chain_of({{100, 1, 1}, {1, 100, 299}, {1, 1, 1}}, {0, 1000, 0, 0});
  EXPECT_EQ(smallest_accumulation(stashes, {100, 0, Variant::full}).accumulation, 3);
  EXPECT_EQ(smallest_accumulation(stashes, {100, 0, Variant::stash}).accumulation, 300);
  const OperatorChain slow = chain_of({{1, 1, 2'000'000}, {1, 1, 2'000'000}}, {0, 0, 0});
  const Partition found = smallest_accumulation(slow, {100, 0, Variant::full});
  EXPECT_TRUE(found.feasible);
  EXPECT_EQ(found.accumulation, 2'000'000);
  // What is never hidden is told without numbers that are none.
  const OperatorChain never = chain_of({{0, 1, 1}, {0, 1, 1}, {0, 1, 1}, {1'000'000'000'000, 1, 1}},
                                       {0, 1'000'000'000'000, 1'000'000'000'000, 1, 0});
  const Partition none = partition_chain(never, {10'000'000'000, 1, Variant::full});
  EXPECT_FALSE(none.feasible);
  EXPECT_THAT(none.why, HasSubstr("in any memory; enough would be a faster link"));
}

TEST(PartitionChain, names_the_operator_that_fits_no_device) {
  std::mt19937_64 random(3);
  OperatorChain chain = random_chain(random, 5);
  chain.operators[2].weights = 1000;
  chain.operators[2].name = "head";
  const Partition result = partition_chain(chain, {100, 1, Variant::full});
  EXPECT_FALSE(result.feasible);
  EXPECT_THAT(result.why, HasSubstr("operator head alone needs 1"));
  EXPECT_THAT(result.why, HasSubstr(" of 100 bytes; enough would be "));
}

TEST(PartitionChain, a_thousand_operators_are_planned) {
  std::mt19937_64 random(5);
  const OperatorChain chain = random_chain(random, 1000);
  for (const Variant variant : {Variant::paper, Variant::full, Variant::turn, Variant::soft}) {
    const Partition result = partition_chain(chain, {4000, 4, variant});
    EXPECT_TRUE(result.feasible) << name_of(variant);
    EXPECT_LE(result.peak_bytes, Bytes{4000});
  }
}

TEST(PartitionChain, three_resident_sub_models_keep_few_states_where_memory_is_ample) {
  // Every later cut is dearer, so that each longer sub-model before is cheaper: none goes for its cost.
  OperatorChain chain;
  chain.cut.push_back(0);
  for (int i = 1; i <= 300; ++i) {
    plan::ChainOperator o;
    o.name = std::to_string(i);
    o.weights = o.gradients = 1;
    o.forward = o.backward = 1;
    chain.operators.push_back(o);
    chain.cut.push_back(i < 300 ? static_cast<Bytes>(i) : 0);
  }
  const PartitionOptions options{1'000'000, 1, Variant::three};
  const Partition result = partition_chain(chain, options);
  EXPECT_TRUE(result.feasible) << result.why;
  EXPECT_EQ(result.cut_bytes, 1U) << "one cut, the first";

  const plan::detail::ChainSums sums(chain, 1);
  const auto search = [&](std::int64_t memory) {
    const plan::detail::PairRules rules(sums, chain, memory, Variant::three, 1);
    return plan::detail::ThreeResident(rules, 100'000).run();
  };
  EXPECT_EQ(search(1'000'000), (Bounds{0, 1, 300})) << "one for every two neighbours: 44850";
  EXPECT_THROW(search(400), OptionError) << "neither scarce nor ample";
}

TEST(PartitionChain, given_bounds_are_judged_by_the_same_rules) {
  std::mt19937_64 random(9);
  for (int run = 0; run < 300; ++run) {
    const OperatorChain chain = random_chain(random, 6);
    for (const Variant variant : every_variant) {
      const PartitionOptions options{60 + random() % 200, 2, variant};
      const Bounds bounds{0, 2, 3, 6};
      const Partition result = evaluate_partition(chain, bounds, options);
      EXPECT_EQ(result.feasible, allowed(chain, bounds, options)) << name_of(variant) << result.why;
      EXPECT_EQ(result.feasible, result.why.empty());
    }
  }
}

template <class F>
std::string refusal(F&& call) {
  try {
    call();
  } catch (const OptionError& error) {
    return error.what();
  }
  return "no error";
}

TEST(PartitionChain, bad_chains_and_options_are_refused) {
  std::mt19937_64 random(2);
  const OperatorChain chain = random_chain(random, 4);
  const PartitionOptions options{100, 1, Variant::full};
  EXPECT_THAT(refusal([&] { partition_chain(random_chain(random, 1), options); }),
              HasSubstr("one operator has no cut"));
  OperatorChain broken = chain;
  broken.cut.pop_back();
  EXPECT_THAT(refusal([&] { partition_chain(broken, options); }),
              HasSubstr("4 operators and 4 boundaries"));
  broken = chain;
  broken.operators[1].load = -1;
  EXPECT_THAT(refusal([&] { partition_chain(broken, options); }),
              HasSubstr("operator 1 has a time below 0"));
  broken = chain;
  broken.operators[1].forward = std::numeric_limits<Ticks>::max();
  EXPECT_THAT(refusal([&] { partition_chain(broken, options); }),
              HasSubstr("sums are exact below 1e18"));
  broken = chain;
  broken.operators[1].weights = std::numeric_limits<Bytes>::max();
  EXPECT_THAT(refusal([&] { partition_chain(broken, options); }),
              HasSubstr("sums are exact below 1e18"));
  EXPECT_THAT(refusal([&] {
                partition_chain(chain, {100, 0, Variant::full});
              }),
              HasSubstr("C is 0"));
  EXPECT_THAT(refusal([&] {
                partition_chain(random_chain(random, 1025), {100, 1, Variant::three});
              }),
              HasSubstr("1025 operators for the variant 'three', which takes at most 1024"));
  EXPECT_THAT(refusal([&] {
                evaluate_partition(chain, {0, 4}, options);
              }),
              HasSubstr("do not cut"));
  EXPECT_THAT(refusal([&] {
                evaluate_partition(chain, {0, 2, 2, 4}, options);
              }),
              HasSubstr("do not cut"));
}

TEST(AtomAlgorithm1, gives_up_where_it_would_take_for_ever) {
  std::mt19937_64 random(2);
  OperatorChain chain = random_chain(random, 40);
  for (ChainOperator& o : chain.operators) {
    o.forward = 10;
    o.load = 1;
  }
  EXPECT_THAT(refusal([&] { atom_algorithm_1(chain, 1 << 20, 1000); }),
              HasSubstr("more than 1000 calls for 40 operators"));
}

}  // namespace
}  // namespace reef::plan
