// The planner of sub-models against known answers: cost and feasibility of every variant, the smallest
// accumulation, and what Algorithm 1 does as it is printed.

#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <reef/io/json.hpp>
#include <reef/plan/atom_algorithm_1.hpp>
#include <reef/plan/chain_json.hpp>
#include <reef/plan/partition_chain.hpp>

#include "case_file.hpp"

namespace reef::test {
namespace {

std::string name_in_cases(plan::Variant variant) {
  return variant == plan::Variant::three_stash ? "three_stash"
                                               : std::string(plan::name_of(variant));
}

/// Bounds of the sub-models between these cuts.
std::vector<int> bounds_of(const io::Json& cuts, int operators) {
  std::vector<int> bounds{0};
  for (const io::Json& cut : cuts) bounds.push_back(cut.get<int>());
  bounds.push_back(operators);
  return bounds;
}

TEST(AtomPartition, every_variant_gives_the_known_cost_or_none) {
  const io::Json file = read_case_file("atom_partition.json");
  int cases = 0;
  for (const io::Json& test : file.at("cases")) {
    SCOPED_TRACE(test.value("name", ""));
    const plan::OperatorChain chain = plan::chain_from_json(test.at("chain"), "chain");
    const io::Json& expected = test.at("expected");
    plan::PartitionOptions options;
    options.memory = test.at("cap").get<Bytes>();
    options.accumulation = test.at("C").get<std::int64_t>();
    for (std::size_t v = 0; v < plan::variant_names.size(); ++v) {
      options.variant = static_cast<plan::Variant>(v);
      const auto known = expected.find(name_in_cases(options.variant));
      if (known == expected.end()) continue;
      SCOPED_TRACE(plan::name_of(options.variant));
      ++cases;
      const plan::Partition found = plan::partition_chain(chain, options);
      const bool feasible = known->at("feasible").get<bool>();
      EXPECT_EQ(found.feasible, feasible) << found.why;
      EXPECT_EQ(found.why.empty(), feasible);
      if (!feasible || !found.feasible) continue;
      EXPECT_EQ(found.cut_bytes, known->at("cut_bytes").get<Bytes>());
      EXPECT_EQ(found.iteration, known->at("iter_us").get<plan::Ticks>());
      EXPECT_LE(found.peak_bytes, options.memory);
      if (!known->contains("one_optimal_cuts")) continue;
      const plan::Partition given = plan::evaluate_partition(
          chain, bounds_of(known->at("one_optimal_cuts"), chain.size()), options);
      EXPECT_TRUE(given.feasible) << given.why;
      EXPECT_EQ(given.iteration, found.iteration);
    }
    if (expected.contains("min_C_full")) {
      options.variant = plan::Variant::full;
      const io::Json& fewest = expected.at("min_C_full");
      const plan::Partition smallest = plan::smallest_accumulation(chain, options);
      EXPECT_EQ(smallest.feasible, !fewest.is_null());
      if (smallest.feasible && !fewest.is_null()) {
        EXPECT_EQ(smallest.accumulation, fewest.get<std::int64_t>());
      }
    }
    if (expected.contains("literal_alg1_C1")) {
      const io::Json& literal = expected.at("literal_alg1_C1");
      const plan::AtomAlgorithm1 counts = plan::atom_algorithm_1(chain, options.memory);
      EXPECT_EQ(counts.calls, literal.at("calls").get<std::uint64_t>());
      EXPECT_EQ(counts.inserted, literal.at("n_inserted").get<std::uint64_t>());
      EXPECT_EQ(counts.inserted_empty, literal.at("n_inserted_empty").get<std::uint64_t>());
    }
  }
  EXPECT_GT(cases, 0);
}

}  // namespace
}  // namespace reef::test
