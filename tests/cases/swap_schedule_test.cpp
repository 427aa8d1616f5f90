// Schedules of swapping in virtual time against known times, to the microsecond.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <reef/io/json.hpp>
#include <reef/plan/chain_json.hpp>
#include <reef/plan/swap_program.hpp>

#include "case_file.hpp"

namespace reef::test {
namespace {

TEST(AtomSchedule, takes_the_known_times) {
  const io::Json file = read_case_file("swap_schedule.json");
  int cases = 0;
  for (const io::Json& test : file.at("cases")) {
    SCOPED_TRACE(test.at("model").dump() + " " + test.at("variant").dump() + " " +
                 test.at("opts").dump() + " C " + test.at("C").dump());
    const plan::OperatorChain chain = plan::chain_from_json(test.at("chain"), "chain", false);
    const std::optional<plan::SwapLanes> lanes =
        plan::swap_lanes_of(test.at("variant").get<std::string>());
    if (!lanes) {
      ADD_FAILURE() << "no schedule is called so";
      continue;
    }
    plan::AtomSchedule schedule;
    schedule.lanes = *lanes;
    schedule.accumulation = test.at("C").get<std::int64_t>();
    schedule.weight_slots = io::value_or<int>(test, "opts.slots", 0);
    schedule.turn = io::value_or<bool>(test, "opts.turn", false);
    std::vector<int> bounds{0};
    for (const io::Json& cut : test.at("cuts")) bounds.push_back(cut.get<int>());
    bounds.push_back(chain.size());
    const plan::SwapTimes times = plan::swap_times(chain, bounds, schedule);
    EXPECT_EQ(times.iteration, test.at("iter_us").get<plan::Ticks>());
    EXPECT_EQ(times.compute, test.at("compute_us").get<plan::Ticks>());
    EXPECT_EQ(times.first, test.at("first_iter_us").get<plan::Ticks>());
    ++cases;
  }
  EXPECT_GT(cases, 0);
}

}  // namespace
}  // namespace reef::test
