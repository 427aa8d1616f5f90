// reef-plan messages as a user runs it.

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reef/io/json.hpp>

#include "reef_plan_case.hpp"

namespace reef::test {
namespace {

TEST_F(ReefPlan, messages_says_what_goes_where_and_who_adds_what) {
  for (const io::Json& test : ReefPlan::file("remote_dag.json").at("cases")) {
    EXPECT_EQ(answer("messages", test), test.at("expected")) << test.at("name");
  }
  const Ending help = run_command(std::string(REEF_PLAN) + " messages --help");
  EXPECT_EQ(help.status, 0);
  EXPECT_THAT(help.output, HasSubstr("CASE: ranks; inputs"));
}

TEST_F(ReefPlan, messages_between_nodes_in_no_row_of_ranks_are_chained_there_and_back) {
  // x is made on rank 0, and read there, on rank 1, and there again.
  io::Json test{{"ranks", 2},
                {"inputs", {{{"name", "data"}, {"bytes", 8}, {"kind", "int"}}}},
                {"parameters", {{{"name", "W"}, {"bytes", 16}}, {{"name", "V"}, {"bytes", 8}}}},
                {"loss", "loss"}};
  const auto add = [&](const char* name, int rank, const std::vector<std::string>& inputs,
                       const char* output, int bytes, const std::vector<std::string>& parameters) {
    const io::Json made{{"name", output}, {"bytes", bytes}, {"kind", "float"}};
    test["nodes"].push_back({{"name", name},
                             {"rank", rank},
                             {"inputs", inputs},
                             {"outputs", io::Json::array({made})},
                             {"parameters", parameters}});
  };
  add("first", 0, {"data"}, "x", 400, {"W"});
  add("second", 0, {"x"}, "y", 400, {"V"});
  add("third", 1, {"x", "y"}, "z", 400, {"W"});
  add("last", 0, {"z", "x"}, "loss", 4, {"W", "V"});
  const io::Json found = answer("messages", test);
  EXPECT_EQ(found.at("bytes"), (io::Json{{"0>1", 1200}, {"1>0", 1200}}));
  EXPECT_EQ(found.at("sums").at(0).at("order"),
            (io::Json{"node:last#1", "rank:1", "node:second#0"}));
  EXPECT_EQ(found.at("sums").at(0).at("serial_bits"), true);
  EXPECT_EQ(found.at("chained").at(0).at("messages"),
            io::Json::array({{{"from", 0}, {"to", 1}, {"bytes", 400}},
                             {{"from", 1}, {"to", 0}, {"bytes", 400}}}));
  ASSERT_EQ(found.at("tied").size(), 2U);
  EXPECT_EQ(found.at("tied").at(0).at("fold"), (io::Json{"first", "third", "last"}));
  EXPECT_EQ(found.at("tied").at(0).at("gradient_messages").size(), 1U);
  EXPECT_EQ(found.at("tied").at(1).at("parameter_messages").size(), 0U) << "V stays on rank 0";
}

TEST_F(ReefPlan, messages_of_models_that_cannot_be_are_one_line_that_names_the_member) {
  const io::Json test = case_of("remote_dag.json", 0);
  refused("messages", with(test, "/nodes/2/inputs/0", "x9"), "'nodes.2.inputs.0' is 'x9'");
  refused("messages", with(test, "/nodes/2/inputs/0", "logits"), "which nodes.3 makes");
  refused("messages", with(test, "/nodes/3/rank", 3), "'nodes.3.rank' is 3");
  refused("messages", with(test, "/nodes/0/parameters/0", "F"), "'nodes.0.parameters.0' is 'F'");
  refused("messages", with(test, "/nodes/0/outputs/0/bytes", 4095), "a multiple of 4");
  refused("messages", with(test, "/loss", "logits"), "'loss' is 'logits', which has 16384 bytes");
  refused("messages", with(test, "/losses", "loss"), "did you mean 'loss'?");
  refused("messages", with(test, "/ranks", 2e18), "'ranks'");
  expect_refusal(plan("messages", "[]"), "must be an object");
}

}  // namespace
}  // namespace reef::test
