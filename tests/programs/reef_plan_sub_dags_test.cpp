// reef-plan sub-dags as a user runs it.

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reef/io/json.hpp>

#include "reef_plan_case.hpp"

namespace reef::test {
namespace {

io::Json branches() { return io::read_json(std::string(REEF_TEST_DATA) + "/../../examples/graphs/branches.json"); }

TEST_F(ReefPlan, sub_dags_says_what_each_rank_of_a_model_holds_receives_and_sends) {
  const io::Json found = answer("sub-dags", branches(), "--place 0,0,0,0,0,1,1,1,2,2,2,2,2");
  const io::Json& ranks = found.at("ranks");
  ASSERT_EQ(ranks.size(), 3U);
  EXPECT_EQ(ranks[1].at("operators"), (io::Json{"wide", "act", "narrow"}));
  EXPECT_EQ(ranks[1].at("forward"), io::parse_json(R"({"receives": [{"tensor": "norm", "from": 0, "bytes": 131072}],
                                                       "sends": [{"tensor": "narrow", "to": 2, "bytes": 131072}]})", ""));
  EXPECT_EQ(ranks[1].at("backward"), io::parse_json(R"({"receives": [{"tensor": "narrow", "from": 2, "bytes": 131072}],
                                                        "sends": [{"tensor": "norm", "to": 0, "bytes": 131072}]})", ""));
  EXPECT_EQ(ranks[0].at("forward").at("sends").size(), 3U);
  EXPECT_EQ(ranks[0].at("inputs"), io::Json{"tokens"});
  EXPECT_EQ(ranks[2].at("tied_gradients").at("sends"),
            io::parse_json(R"([{"parameter": "tokens.weight", "to": 0, "bytes": 65536}])", ""));
  EXPECT_EQ(ranks[2].at("tied_weights").at("receives"),
            io::parse_json(R"([{"parameter": "tokens.weight", "from": 0, "bytes": 65536}])", ""));
  EXPECT_EQ(answer("sub-dags", branches(), "--cut wide,branches"), found);
  EXPECT_EQ(answer("sub-dags", branches(), "--stages 2").at("ranks").size(), 2U);
  EXPECT_EQ(answer("sub-dags", branches()).at("ranks").size(), 1U);
}

TEST_F(ReefPlan, sub_dags_prints_a_table) {
  const Ending table = plan("sub-dags", branches().dump(), "--cut wide,branches --table");
  EXPECT_EQ(table.status, 0);
  EXPECT_THAT(table.output, HasSubstr("rank 1: 3 operators, 129.25 KiB of parameters"));
  EXPECT_THAT(table.output, HasSubstr("  operators wide, act, narrow\n"
                                      "  forward, receives 128.00 KiB, sends 128.00 KiB\n"
                                      "    receives norm (8, 64, 64) fp32 from rank 0, 128.00 KiB\n"
                                      "    sends    narrow (8, 64, 64) fp32 to rank 2, 128.00 KiB\n"));
}

TEST_F(ReefPlan, sub_dags_of_a_case_of_messages_and_of_a_recipe_are_on_the_ranks_that_it_says) {
  const io::Json test = case_of("remote_dag.json", 0);
  const io::Json found = answer("sub-dags", test);
  EXPECT_EQ(found.at("ranks").size(), test.at("ranks").get<std::size_t>());
  std::size_t forward = 0, backward = 0;
  for (const io::Json& rank : found.at("ranks")) {
    forward += rank.at("forward").at("sends").size();
    backward += rank.at("backward").at("receives").size();
  }
  EXPECT_EQ(forward, test.at("expected").at("forward").size());
  EXPECT_GT(backward, 0U);

  const io::Json recipe = io::parse_json(R"({"recipe": "dtfm", "model": {"shape": "4x2x32", "context": 32, "batch": 2},
      "micro_batches": 4, "device": {"flops": 1e9}, "stages": 2, "rank_at": [1, 0, 3, 2],
      "network": {"ranks": 4, "latency_ms": 1, "bandwidth_gbps": 1}})", "");
  const io::Json stages = answer("sub-dags", recipe).at("ranks");
  ASSERT_EQ(stages.size(), 2U) << "of the first replica";
  EXPECT_EQ(stages[1].at("operators").at(0), "transformer.embedding") << "rank 1 has the first stage";
  EXPECT_EQ(stages[1].at("rank"), 1);
  EXPECT_EQ(stages[0].at("forward").at("receives").at(0).at("from"), 1);
}

TEST_F(ReefPlan, sub_dags_refuses_places_and_models_that_cannot_be) {
  refused("sub-dags", branches(), "--place has 2 ranks, and the model has 13 operators", "--place 0,1");
  EXPECT_EQ(answer("sub-dags", branches(), "--place 00,00,0,0,0,01,1,1,02,2,2,2,2"),
            answer("sub-dags", branches(), "--place 0,0,0,0,0,1,1,1,2,2,2,2,2"));
  EXPECT_EQ(answer("sub-dags", branches(), "--place 010,8,8,8,8,8,8,8,8,8,8,8,8").at("ranks").at(1).at("rank"), 10);
  for (const auto& [list, why] : {std::pair{"0x1,0", "'0x1' is not a whole number from 0 to 9999"}, std::pair{"0,-1", "number 2 of the list '0,-1'"},
                                  std::pair{"", "'' is not a whole number"}, std::pair{"0,", "number 2 of the list '0,': '' is not"},
                                  std::pair{"+1", "'+1' is not"}, std::pair{"one", "'one' is not"}, std::pair{"10000", "from 0 to 9999"}})
    refused("sub-dags", branches(), why, std::string("--place '") + list + "'");
  refused("sub-dags", branches(), "'wideer' is no operator of the model", "--cut wideer");
  refused("sub-dags", branches(), "'qkv' does not come after the one before", "--cut wide,qkv");
  refused("sub-dags", branches(), "excludes", "--cut wide --stages 2");
  refused("sub-dags", branches(), "14 chunks of a model of 13 nodes", "--stages 14");
  refused("sub-dags", case_of("remote_dag.json", 0), "--stages, --cut and --place are of a model's file", "--stages 2");
  refused("sub-dags", with(branches(), "/nodes/2/kind", "Liner"), "nodes.2, 'qkv': there is no operator of kind 'Liner'; did you mean 'Linear'?");
}

}  // namespace
}  // namespace reef::test
