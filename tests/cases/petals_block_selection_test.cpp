// Where a server joins, whether it moves and what it announces, against known decisions.

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <reef/io/json.hpp>
#include <reef/plan/block_choice.hpp>
#include <reef/plan/swarm_json.hpp>

#include "case_file.hpp"

namespace reef::test {
namespace {

TEST(PetalsBlockSelection, decides_as_known) {
  const io::Json file = read_case_file("petals_block_selection.json");
  int cases = 0;
  for (const io::Json& test : file.at("cases")) {
    SCOPED_TRACE(test.at("name").get<std::string>());
    const auto op = test.at("op").get<std::string>();
    if (op == "best_start") {
      EXPECT_EQ(plan::best_start<double>(test.at("t").get<std::vector<double>>(),
                                         test.at("K").get<int>()),
                test.at("expect").get<int>());
    } else if (op == "choose_blocks") {
      EXPECT_EQ(
          plan::best_start<plan::Throughput>(block_throughputs(plan::swarm_from_json(test, "case")),
                                             test.at("K").get<int>()),
          test.at("expect_start").get<int>());
    } else if (op == "should_move") {
      const auto found =
          plan::should_move(plan::swarm_from_json(test, "case"), test.at("me").get<std::string>(),
                            test.at("balance_quality").get<double>());
      EXPECT_EQ(found.move, test.at("expect").get<bool>());
      EXPECT_EQ(plan::per_second(found.now), test.at("current_throughput").get<double>());
      const io::Json& simulated = test.at("simulated_throughput");
      EXPECT_EQ(found.then.has_value(), simulated.is_array());
      if (!found.then || !simulated.is_array()) continue;
      bool known = false;
      for (const io::Json& then : simulated) known |= then == plan::per_second(*found.then);
      EXPECT_TRUE(known) << *found.then;
    } else if (op == "throughput") {
      plan::ServerSpeed speed;
      speed.forward_rps = test.at("forward_rps_one_block").get<double>();
      speed.network_rps = test.at("network_rps").get<double>();
      speed.blocks = test.at("num_blocks").get<int>();
      speed.relay = test.at("relay").get<bool>();
      EXPECT_DOUBLE_EQ(plan::advertised_throughput(speed), test.at("expect").get<double>());
    } else {
      ADD_FAILURE() << "nothing is called " << op;
    }
    ++cases;
  }
  EXPECT_GT(cases, 0);
}

}  // namespace
}  // namespace reef::test
