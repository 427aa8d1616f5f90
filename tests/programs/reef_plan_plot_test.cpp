// What reef-plan draws.

#include <cstddef>
#include <filesystem>
#include <string>
#include <tuple>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reef/core/units.hpp>
#include <reef/io/file.hpp>
#include <reef/io/json.hpp>

#include "reef_plan_case.hpp"

namespace reef::test {
namespace {

class ReefPlanPlot : public ReefPlan {
protected:
  [[nodiscard]] std::string drawing() const { return (folder_ / "plan.svg").string(); }

  /// What a command draws of a case.
  std::string drawn(const std::string& command, const io::Json& test,
                    const std::string& more = "") {
    std::filesystem::remove(drawing());
    const io::Json found = answer(command, test, "--plot " + drawing() + " " + more);
    EXPECT_EQ(found, answer(command, test, more)) << "a drawing changes no answer";
    return io::read_file(drawing(), 4_MiB);
  }

  static std::size_t count(const std::string& text, const std::string& part) {
    std::size_t found = 0;
    for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
      ++found;
    return found;
  }

  static void expect_devices(const std::string& svg, int devices) {
    EXPECT_TRUE(svg.starts_with("<svg data-drawn-by=\"reef-plan\""));
    EXPECT_TRUE(svg.ends_with("</svg>\n"));
    EXPECT_EQ(count(svg, "<g class=\"device\">"), static_cast<std::size_t>(devices));
    for (int device = 0; device < devices; ++device)
      EXPECT_EQ(count(svg, ", number " + std::to_string(device) + "<") +
                    count(svg, ", number " + std::to_string(device) + "\n"),
                1U)
          << device;
  }
};

TEST_F(ReefPlanPlot, allocate_draws_clusters_pipelines_and_stages) {
  io::Json test = file("allocate_case5.json");
  const std::string svg = drawn("allocate", test, "--effort 0");
  expect_devices(svg, 64);
  EXPECT_EQ(count(svg, "<polyline class=\"path\""), 8U);
  EXPECT_GE(count(svg, "class=\"cluster\""), 2U);
  EXPECT_THAT(svg, HasSubstr("8 pipelines of 8 stages on the devices of case.json"));
  EXPECT_THAT(svg, HasSubstr("no placement takes less than: "));
  for (int stage = 0; stage < 8; ++stage)
    EXPECT_EQ(count(svg, "\nstage " + std::to_string(stage) + "<"), 8U) << stage;
  test["D_DP"] = 7;
  const std::string seven = drawn("allocate", test, "--effort 0");
  expect_devices(seven, 64);
  EXPECT_EQ(count(seven, "\nstage "), 56U) << "eight are left out";
  test["D_DP"] = 9;
  const std::string none = drawn("allocate", test);
  expect_devices(none, 64);
  EXPECT_THAT(none, HasSubstr("no plan: "));
  EXPECT_EQ(count(none, "<polyline"), 0U);
}

TEST_F(ReefPlanPlot, op_fence_draws_the_pipeline) {
  io::Json test = case_of("op_fence.json", 1);
  const io::Json found = answer("op-fence", test);
  test["devices"] = io::Json::array();
  const std::size_t devices = test.at("speed").size();
  for (std::size_t device = 0; device < devices; ++device)
    test["devices"].push_back("host-" + std::to_string(device));
  const std::string svg = drawn("op-fence", test);
  expect_devices(svg, static_cast<int>(devices));
  std::string pipeline = "pipeline 0: ";
  for (const io::Json& stage : found.at("plan"))
    pipeline +=
        (pipeline.back() == ' ' ? "host-" : ", host-") + std::to_string(stage[0].get<int>());
  EXPECT_THAT(svg, HasSubstr(pipeline + "<"));
  EXPECT_EQ(count(svg, "\nstage "), found.at("plan").size());
  EXPECT_THAT(svg, HasSubstr("operators by stage: 0"));
  test["cap"] = {1, 2, 3, 4};
  EXPECT_THAT(drawn("op-fence", test), HasSubstr("no plan: operator 0 needs"));
}

TEST_F(ReefPlanPlot, cluster_draws_bandwidths_in_the_unit_of_the_case) {
  io::Json test = case_of("louvain.json", 0);
  const std::string svg = drawn("cluster", test);
  expect_devices(svg, 8);
  EXPECT_EQ(count(svg, "class=\"cluster\""), 2U);
  EXPECT_THAT(svg, HasSubstr("cluster 1: 4 devices"));
  EXPECT_THAT(svg, HasSubstr("inside 10k Mbit/s; to others 100 Mbit/s"));
  test.erase("unit");
  for (std::size_t to = 0; to < 8; ++to) test["bandwidth"][3][to] = test["bandwidth"][to][3] = 0;
  const std::string alone = drawn("cluster", test);
  expect_devices(alone, 8);
  EXPECT_THAT(alone, HasSubstr("inside none; to others none"));
  EXPECT_THAT(alone, testing::Not(HasSubstr("bit/s")));
}

TEST_F(ReefPlanPlot, takes_no_foreign_files_place_and_an_earlier_drawing_goes_aside) {
  for (const auto& [command, test] : {std::tuple{"allocate", file("allocate_small_6.json")},
                                      std::tuple{"cluster", case_of("louvain.json", 0)},
                                      std::tuple{"op-fence", case_of("op_fence.json", 0)}}) {
    std::filesystem::remove(drawing() + ".1");
    write_file(drawing(), "<svg>my own</svg>");
    refused(command, test,
            "--plot: '" + drawing() + "' holds something else than an earlier drawing",
            "--plot " + drawing());
    EXPECT_EQ(io::read_file(drawing(), 1_MiB), "<svg>my own</svg>");
    const std::string first = drawn(command, test);
    const Ending again = plan(command, test.dump(), "--plot " + drawing());
    EXPECT_EQ(again.status, 0) << again;
    EXPECT_THAT(again.errors,
                HasSubstr("(what an earlier run left there is now in " + drawing() + ".1)"));
    EXPECT_EQ(io::read_file(drawing() + ".1", 1_MiB), first);
    EXPECT_EQ(io::read_file(drawing(), 1_MiB), first);
    refused(command, test, "", "--plot " + (folder_ / "case.json").string());
    refused(command, test, "/nowhere/", "--plot /nowhere/plan.svg");
  }
}

}  // namespace
}  // namespace reef::test
