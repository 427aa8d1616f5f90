// reef-plan allocate as a user runs it.

#include <algorithm>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reef/io/json.hpp>

#include "support/job.hpp"
#include "support/temporary_folder.hpp"

namespace reef::test {
namespace {

using testing::HasSubstr;

class ReefPlanAllocate : public testing::Test {
protected:
  static io::Json file(const std::string& name) {
    return io::read_json(std::string(REEF_TEST_DATA) + "/" + name);
  }

  Ending allocate(const std::string& text, const std::string& more = "") {
    write_file(folder_ / "case.json", text);
    return run_command(std::string(REEF_PLAN) + " allocate " + (folder_ / "case.json").string() +
                       " " + more);
  }

  io::Json answer(const io::Json& test, const std::string& more = "") {
    const Ending ending = allocate(test.dump(), more);
    EXPECT_EQ(ending.status, 0) << ending.output;
    return io::parse_json(ending.output, "answer");
  }

  TemporaryFolder folder_;
};

TEST_F(ReefPlanAllocate, says_which_device_does_what_and_how_good_that_is) {
  const io::Json test = file("allocate_small_6.json");
  const io::Json found = answer(test);
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

TEST_F(ReefPlanAllocate, seed_and_effort_decide_the_answer_and_threads_do_not) {
  const io::Json test = file("allocate_case5.json");
  const io::Json one = answer(test, "--effort 1 --seed 3 --threads 1");
  EXPECT_EQ(one.at("effort"), 1);
  EXPECT_EQ(answer(test, "--effort 1 --seed 3 --threads 3"), one);
  EXPECT_NEAR(one.at("total_s").get<double>(), 49.218380, 1e-6);
  const io::Json quick = answer(test, "--budget 0.001");
  EXPECT_EQ(quick.at("effort"), 0);
  EXPECT_EQ(quick.at("optimal"), false);
  EXPECT_LT(quick.at("lower_bound_s"), quick.at("total_s"));
}

TEST_F(ReefPlanAllocate, baselines_shapes_and_directions_are_options) {
  io::Json test = file("allocate_small_6.json");
  const double least = test.at("optimum").at("total_s").get<double>();
  for (const char* method : {"genetic", "kernighan-lin"}) {
    const io::Json found = answer(test, std::string("--method ") + method);
    EXPECT_NEAR(found.at("total_s").get<double>(), least, 1e-9) << "there are ten partitions";
    EXPECT_EQ(found.at("optimal"), false);
  }
  const io::Json any = answer(test, "--shape any");
  EXPECT_EQ(any.at("D_PP").get<int>() * any.at("D_DP").get<int>(), 6);
  EXPECT_LE(any.at("total_s").get<double>(), least);
  EXPECT_EQ(answer(test, "--links directed").at("total_s"), answer(test).at("total_s"));
  test["bandwidth_gbps"][0][1] = 100;
  EXPECT_NE(answer(test, "--links directed").at("total_s"), answer(test).at("total_s"));
}

TEST_F(ReefPlanAllocate, devices_that_do_not_suffice_are_an_answer) {
  io::Json test = file("allocate_small_6.json");
  test["D_DP"] = 4;
  const io::Json none = answer(test);
  EXPECT_EQ(none.at("feasible"), false);
  EXPECT_THAT(none.at("why").get<std::string>(), HasSubstr("2 x 4 need 8 devices"));
  test["D_DP"] = 2;
  EXPECT_EQ(answer(test).at("optimal"), true) << "two are left out";
  test["cap"] = {1e9, 1e9, 1e9, 1e9, 1e8, 1e8};
  test["stage_bytes"] = 5e8;
  test["speed"] = {1e12, 1e12, 1e12, 1e12, 1e12, 1e12};
  test["stage_flops"] = 3e12;
  const io::Json found = answer(test);
  EXPECT_DOUBLE_EQ(found.at("compute_s").get<double>(), 3);
  for (const io::Json& pipeline : found.at("sigma")) {
    for (const io::Json& device : pipeline) EXPECT_LT(device, 4);
  }
}

TEST_F(ReefPlanAllocate, what_cannot_be_meant_is_one_line_that_names_the_field_and_status_2) {
  const io::Json good = file("allocate_small_6.json");
  const auto refused = [&](const std::string& text, const std::string& what,
                           const std::string& more = "") {
    const Ending ending = allocate(text, more);
    EXPECT_EQ(ending.status, 2) << ending.output;
    EXPECT_EQ(std::count(ending.output.begin(), ending.output.end(), '\n'), 1) << ending.output;
    EXPECT_THAT(ending.output, testing::StartsWith("reef-plan: "));
    EXPECT_THAT(ending.output, HasSubstr(what));
  };
  const auto with = [&](const std::string& where, const io::Json& value) {
    io::Json test = good;
    test[io::Json::json_pointer(where)] = value;
    return test.dump();
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
  refused("{\"D_PP\": 2, \"latency_ms\": [[0, NaN], [1, 0]]}", "case.json");
  io::Json missing = good;
  missing.erase("latency_ms");
  refused(missing.dump(), "'latency_ms' is missing");
  refused(good.dump(), "--shape", "--shape some");
  refused(good.dump(), "--method genetic has no", "--method genetic --effort 3");
}

}  // namespace
}  // namespace reef::test
