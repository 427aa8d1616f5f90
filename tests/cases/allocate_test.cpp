// The allocator against known answers: every allocate_*.json of the folder of cases.

#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include <reef/io/json.hpp>
#include <reef/plan/allocate.hpp>
#include <reef/plan/allocation_cost.hpp>
#include <reef/plan/allocation_json.hpp>

#include "case_file.hpp"

namespace reef::test {
namespace {

struct KnownCost {
  double total;
  bool proven;
};

/// The least costs that are known of the cases whose files do not say them.
const std::map<std::string, KnownCost> known_costs{{"datacenter_on_demand", {3.439799, true}},
                                                   {"datacenter_spot", {31.634160, true}},
                                                   {"multi_datacenter", {16.086840, true}},
                                                   {"regional_geo", {34.802041, true}},
                                                   {"worldwide_geo", {49.218380, false}}};

TEST(Allocate, every_case_is_placed_at_its_known_cost) {
  const char* const chosen = std::getenv("REEF_CASES");
  const std::filesystem::path folder = chosen != nullptr ? chosen : REEF_TEST_DATA;
  std::set<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("allocate_") && name.ends_with(".json")) files.insert(name);
  }
  EXPECT_FALSE(files.empty()) << "no allocate_*.json in " << folder;
  for (const std::string& name : files) {
    SCOPED_TRACE(name);
    const io::Json test = read_case_file(name);
    const plan::AllocationProblem problem = plan::allocation_from_json(test, name);
    plan::AllocationOptions options;
    options.effort = 1;
    const plan::Allocation found = plan::allocate(problem, options);
    ASSERT_TRUE(found.feasible) << found.why;
    const double total = found.cost.total();
    EXPECT_NEAR(plan::allocation_cost(problem, found.sigma).total(), total, total * 1e-9);
    EXPECT_LE(found.lower_bound, total);
    if (const auto known = known_costs.find(test.value("name", "")); known != known_costs.end()) {
      EXPECT_NEAR(total, known->second.total, 1e-6);
      EXPECT_LE(found.lower_bound, known->second.total + 1e-6);
      if (known->second.proven) {
        EXPECT_TRUE(found.optimal);
      }
    }
    if (!test.contains("optimum")) continue;
    const io::Json& optimum = test.at("optimum");
    const auto least = optimum.at("total_s").get<double>();
    EXPECT_NEAR(total, least, least * 1e-9);
    EXPECT_TRUE(found.optimal);
    if (!optimum.contains("sigma")) continue;
    const plan::AllocationCost given =
        plan::allocation_cost(problem, optimum.at("sigma").get<plan::Placement>());
    EXPECT_NEAR(given.total(), least, least * 1e-9);
    EXPECT_NEAR(given.datap, optimum.at("datap_s").get<double>(), least * 1e-9);
    EXPECT_NEAR(given.pipelinep, optimum.at("pipelinep_s").get<double>(), least * 1e-9);
  }
}

TEST(Allocate, the_needle_is_found_at_every_seed) {
  const io::Json test = read_case_file("allocate_case2.json");
  const plan::AllocationProblem problem = plan::allocation_from_json(test, "allocate_case2.json");
  plan::AllocationOptions options;
  for (options.seed = 0; options.seed < 20; ++options.seed) {
    EXPECT_NEAR(plan::allocate(problem, options).cost.total(), 31.634160, 1e-6);
  }
}

}  // namespace
}  // namespace reef::test
