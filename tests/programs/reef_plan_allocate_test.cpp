// reef-plan allocate as a user runs it.

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reef/io/json.hpp>

#include "reef_plan_case.hpp"

namespace reef::test {
namespace {

TEST_F(ReefPlan, allocate_says_which_device_does_what_and_how_good_that_is) {
  const io::Json test = file("allocate_small_6.json");
  const io::Json found = answer("allocate", test);
  EXPECT_EQ(found.at("feasible"), true);
  for (const char* key : {"total_s", "datap_s", "pipelinep_s"}) {
    EXPECT_NEAR(found.at(key).get<double>(), test.at("optimum").at(key).get<double>(), 1e-9) << key;
  }
  EXPECT_EQ(found.at("lower_bound_s"), found.at("total_s"));
  EXPECT_EQ(found.at("optimal"), true);
  EXPECT_EQ(found.at("effort"), 0) << "proven without a search";
  EXPECT_EQ(found.at("sigma").size(), 3U);
  EXPECT_EQ(found.at("sigma").at(0).size(), 2U);
}

TEST_F(ReefPlan, allocate_answers_by_seed_and_effort_whatever_the_threads) {
  const io::Json test = file("allocate_case5.json");
  const io::Json one = answer("allocate", test, "--effort 1 --seed 3 --threads 1");
  EXPECT_EQ(one.at("effort"), 1);
  EXPECT_EQ(answer("allocate", test, "--effort 1 --seed 3 --threads 3"), one);
  EXPECT_NEAR(one.at("total_s").get<double>(), 49.218380, 1e-6);
  const io::Json quick = answer("allocate", test, "--budget 0.001");
  EXPECT_EQ(quick.at("effort"), 0);
  EXPECT_EQ(quick.at("optimal"), false);
  EXPECT_LT(quick.at("lower_bound_s"), quick.at("total_s"));
}

TEST_F(ReefPlan, allocate_has_baselines_shapes_and_directions_as_options) {
  io::Json test = file("allocate_small_6.json");
  const double least = test.at("optimum").at("total_s").get<double>();
  for (const char* method : {"genetic", "kernighan-lin"}) {
    const io::Json found = answer("allocate", test, std::string("--method ") + method);
    EXPECT_NEAR(found.at("total_s").get<double>(), least, 1e-9) << "there are ten partitions";
    EXPECT_EQ(found.at("optimal"), false);
    EXPECT_GT(found.at("lower_bound_s"), 0);
    EXPECT_LE(found.at("lower_bound_s").get<double>(), least);
  }
  const io::Json any = answer("allocate", test, "--shape any");
  EXPECT_EQ(any.at("D_PP").get<int>() * any.at("D_DP").get<int>(), 6);
  EXPECT_LE(any.at("total_s").get<double>(), least);
  EXPECT_EQ(answer("allocate", test, "--links directed").at("total_s"),
            answer("allocate", test).at("total_s"));
  test["bandwidth_gbps"][0][1] = 100;
  EXPECT_NE(answer("allocate", test, "--links directed").at("total_s"),
            answer("allocate", test).at("total_s"));
}

TEST_F(ReefPlan, allocate_says_why_devices_do_not_suffice) {
  io::Json test = file("allocate_small_6.json");
  test["D_DP"] = 4;
  const io::Json none = answer("allocate", test);
  EXPECT_EQ(none.at("feasible"), false);
  EXPECT_THAT(none.at("why").get<std::string>(), HasSubstr("2 x 4 need 8 devices"));
  test["D_DP"] = 2;
  EXPECT_EQ(answer("allocate", test).at("optimal"), true) << "two are left out";
  test["cap"] = {1e9, 1e9, 1e9, 1e9, 1e8, 1e8};
  test["stage_bytes"] = 5e8;
  test["speed"] = {1e12, 1e12, 1e12, 1e12, 1e12, 1e12};
  test["stage_flops"] = 3e12;
  const io::Json found = answer("allocate", test);
  EXPECT_DOUBLE_EQ(found.at("compute_s").get<double>(), 3);
  for (const io::Json& pipeline : found.at("sigma")) {
    for (const io::Json& device : pipeline) EXPECT_LT(device, 4);
  }
}

TEST_F(ReefPlan, allocate_names_the_field_that_cannot_be) {
  const io::Json good = file("allocate_small_6.json");
  const auto refused = [&](const io::Json& test, const std::string& text,
                           const std::string& more = "") {
    this->refused("allocate", test, text, more);
  };
  const auto with = [&](const std::string& at, const io::Json& value) {
    return ReefPlan::with(good, at, value);
  };
  refused(with("/bandwidth_gbps/0/1", 0), "bandwidth_gbps[0][1] is 0");
  refused(with("/bandwidth_gbps/2/1", -3), "bandwidth_gbps[2][1] is -3");
  refused(with("/latency_ms/4/0", -1), "latency_ms[4][0] is -1");
  refused(with("/latency_ms/4", io::Json::array({1, 2})), "latency_ms[4] has 2 numbers");
  refused(with("/latency_ms/4/3", nullptr), "latency_ms");
  refused(with("/devices", 1'000'000), "devices says 1000000");
  refused(with("/D_PP", 0), "D_PP is 0");
  refused(with("/D_DP", "many"), "'D_DP' must be");
  refused(with("/c_pp_bytes", -1), "c_pp_bytes is -1");
  refused(with("/c_dp_byte", 1), "did you mean 'c_dp_bytes'?");
  refused(with("/speed", {1, 2}), "speed has 2 numbers for 6 devices");
  expect_refusal(plan("allocate", "{\"D_PP\": 2, \"latency_ms\": [[0, NaN], [1, 0]]}"),
                 "case.json");
  io::Json missing = good;
  missing.erase("latency_ms");
  refused(missing, "'latency_ms' is missing");
  refused(good, "--shape", "--shape some");
  refused(good, "--method genetic has no", "--method genetic --effort 3");
}

}  // namespace
}  // namespace reef::test
