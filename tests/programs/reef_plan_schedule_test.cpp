// reef-plan schedule as a user runs it.

#include <cstddef>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reef/core/units.hpp>
#include <reef/io/file.hpp>
#include <reef/io/json.hpp>

#include "reef_plan_case.hpp"

namespace reef::test {
namespace {

class ReefPlanSchedule : public ReefPlan {
protected:
  /// Four even ranks on slow links.
  static io::Json four() { return case_of("pipeline_search.json", 3); }

  [[nodiscard]] std::string drawing() const { return (folder_ / "schedule.svg").string(); }

  static std::size_t count(const std::string& text, const std::string& part) {
    std::size_t found = 0;
    for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
      ++found;
    }
    return found;
  }
};

TEST_F(ReefPlanSchedule, known_orders_take_and_hold_what_is_known) {
  for (const std::size_t index : {0U, 6U, 8U, 11U, 18U, 22U}) {
    const io::Json test = case_of("pipeline_schedules.json", index);
    SCOPED_TRACE(test.at("name"));
    const io::Json& expected = test.at("expected");
    const io::Json found = answer("schedule", test);
    EXPECT_EQ(found.at("feasible"), true);
    EXPECT_EQ(found.at("schedule"), test.at("schedule"));
    EXPECT_EQ(found.at("orders"), expected.at("orders"));
    EXPECT_EQ(found.at("makespan_us"), expected.at("free").at("makespan_us"));
    EXPECT_NEAR(found.at("bubble").get<double>(), expected.at("free").at("bubble").get<double>(),
                1e-11);
    EXPECT_EQ(found.at("peak_activations"), expected.at("peak_activations"));
    EXPECT_EQ(found.at("messages"), expected.at("messages"));
    EXPECT_LE(found.at("lower_bound_us").get<double>(), found.at("makespan_us").get<double>());
  }
}

TEST_F(ReefPlanSchedule, searches_the_best_order_within_the_memory) {
  const io::Json test = four();
  const io::Json found = answer("schedule", test, "--schedule searched --seed 3 --effort 8");
  const double takes = found.at("makespan_us").get<double>();
  EXPECT_EQ(found.at("best_fixed"), "zb-h1");
  EXPECT_EQ(found.at("best_fixed_us"), test.at("expected").at("fixed_us").at("zb-h1"));
  EXPECT_LT(takes, found.at("best_fixed_us").get<double>());
  EXPECT_LE(found.at("lower_bound_us").get<double>(), takes);
  EXPECT_LE(found.at("lower_bound_us"), test.at("expected").at("best_known_us"));
  for (const io::Json& peak : found.at("peak_activations")) EXPECT_LE(peak, 4);
  EXPECT_EQ(answer("schedule", test, "--seed 3 --effort 8"), found)
      << "what names no schedule is searched, and a seed decides";
  const io::Json exact = answer("schedule", case_of("pipeline_search.json", 0));
  EXPECT_EQ(exact.at("makespan_us"), 111);
  EXPECT_EQ(exact.at("optimal"), true);
}

TEST_F(ReefPlanSchedule, another_schedule_than_that_of_the_case_may_be_asked) {
  const io::Json test = case_of("pipeline_schedules.json", 3);
  EXPECT_EQ(answer("schedule", test).at("makespan_us"), 330);
  EXPECT_EQ(answer("schedule", test, "--schedule gpipe").at("makespan_us"), 330);
  EXPECT_EQ(answer("schedule", test, "--schedule zb-h1").at("makespan_us"), 270);
  EXPECT_EQ(answer("schedule", test, "--schedule zb-h1").at("optimal"), true);
  EXPECT_EQ(answer("schedule", test, "--schedule searched").at("makespan_us"), 270);
}

TEST_F(ReefPlanSchedule, what_does_not_fit_is_an_answer) {
  const io::Json gpipe = answer("schedule", four(), "--schedule gpipe");
  EXPECT_EQ(gpipe.at("feasible"), false);
  EXPECT_EQ(gpipe.at("why"), "rank 0 holds 16 activations, and may hold 4");
  const io::Json halves = answer("schedule", with(four(), "/split", false), "--schedule zb-h1");
  EXPECT_EQ(halves.at("why"), "zb-h1 runs backwards in halves, which split: false rules out");
  io::Json two = case_of("pipeline_schedules.json", 8);
  two["max_activations"] = {1, 2};
  const io::Json none = answer("schedule", two, "--schedule searched");
  EXPECT_EQ(none.at("feasible"), false);
  EXPECT_THAT(none.at("why").get<std::string>(), HasSubstr("rank 0 may hold 1 activations"));
}

TEST_F(ReefPlanSchedule, an_order_is_written_and_read) {
  const std::string file = (folder_ / "order.txt").string();
  const io::Json found = answer("schedule", four(), "--effort 1 --write-order " + file);
  const std::string text = io::read_file(file, 1_MiB);
  EXPECT_TRUE(text.starts_with("# An order of a pipeline, written by reef-plan: searched\nF0 F1 "));
  const io::Json read = answer("schedule", four(), "--order " + file);
  EXPECT_EQ(read.at("schedule"), "given");
  for (const char* key : {"orders", "makespan_us", "lower_bound_us", "peak_activations"}) {
    EXPECT_EQ(read.at(key), found.at(key)) << key;
  }
  refused("schedule", four(), "--order and --schedule", "--schedule 1f1b --order " + file);
  refused("schedule", with(four(), "/m", 15), "is an order of 16 micro-batches", "--order " + file);
  refused("schedule", four(), "--plot", "--plot " + file + " --order " + file);
  write_file(file, "F0 B0\nF0 G0\n");
  refused("schedule", four(), "line 2: 'G0' is no task", "--order " + file);
  io::Json two = case_of("pipeline_schedules.json", 0);
  two["m"] = 2;
  write_file(file, "F0 B0 F1 B1\nF0 F1 B0 B1\n");
  refused("schedule", two, "rank 0 waits at B0 for B0 of rank 1", "--order " + file);
}

TEST_F(ReefPlanSchedule, draws_when_each_rank_runs_what) {
  const io::Json test = case_of("pipeline_schedules.json", 22);  // halves, and two chunks on a rank
  const io::Json found = answer("schedule", test, "--plot " + drawing());
  EXPECT_EQ(found, answer("schedule", test)) << "a drawing changes no answer";
  const std::string svg = io::read_file(drawing(), 4_MiB);
  EXPECT_TRUE(svg.starts_with("<svg data-drawn-by=\"reef-plan\""));
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
  std::size_t tasks = 0;
  for (const io::Json& order : found.at("orders")) {
    tasks += order.size();
    for (const io::Json& task : order) {
      EXPECT_EQ(count(svg, "<title>" + task.get<std::string>() + ", "), 1U);
    }
  }
  EXPECT_EQ(count(svg, "<g class=\"bar\">"), tasks);
  EXPECT_EQ(count(svg, "class=\"idle\""), test.at("p").get<std::size_t>());
  for (const char* text : {"bubble", "forward", "rank 0", "no order takes less than"}) {
    EXPECT_THAT(svg, HasSubstr(text));
  }
}

TEST_F(ReefPlanSchedule, a_case_that_cannot_be_is_refused_by_name) {
  const io::Json test = four();
  refused("schedule", with(test, "/p", 0), "'p' is 0");
  refused("schedule", with(test, "/p", 1 << 20), "'p' is 1048576");
  refused("schedule", with(test, "/m", 0), "'m' is 0");
  refused("schedule", with(test, "/m", 1e12), "'m'");
  refused("schedule", with(test, "/m", 1 << 24), "tasks are planned", "--schedule gpipe");
  refused("schedule", with(test, "/m", 1 << 19), "a search over orders of");
  refused("schedule", with(test, "/t_f", {1, 2}), "'t_f' has 2 entries for 4 chunks");
  refused("schedule", with(test, "/t_b/1", -1), "t_b[1] is -1");
  refused("schedule", with(test, "/t_w", "long"), "'t_w'");
  refused("schedule", with(test, "/links", 3), "'links' is no list");
  refused("schedule", with(test, "/links/0/to", 4), "'links.0.to' is 4");
  refused("schedule", with(test, "/links/1/to", 1), "'links.1' is a link from rank 1 to rank 1");
  refused("schedule", with(test, "/links/1/from", 0), "'links.1' is ");
  refused("schedule", with(test, "/links/0/wire", 1), "nothing reads the key");
  refused("schedule", with(test, "/links/0/wire_us", -1), "'links.0.wire_us' is -1");
  refused("schedule", with(test, "/schedule", "zb-x"), "'schedule' is 'zb-x'");
  refused("schedule", with(test, "/placement", "ring"), "'placement' is 'ring'");
  refused("schedule", with(test, "/warm_up", {3, 2, 1, 0}), "'warm_up' is of the schedule 1f1b");
  refused("schedule", with(test, "/max_activations", {4, 4}), "'max_activations' has 2 entries");
  refused("schedule", with(test, "/max_activations/2", 0), "max_activations[2] is 0");
  refused("schedule", with(test, "/micro_batches", 3), "nothing reads the key 'micro_batches'");
  refused("schedule", test, "on each rank (v)", "--schedule zb-v");
  refused("schedule", test, "--schedule", "--schedule fastest");
  refused("schedule", test, "--effort with the schedule 1f1b", "--schedule 1f1b --effort 3");
  const io::Json loop = case_of("pipeline_schedules.json", 8);
  refused("schedule", with(loop, "/placement", "v"), "interleaved places chunks as loop");
  refused("schedule", with(loop, "/group", 1), "groups of 1 micro-batches on 2 ranks");
  io::Json warm = case_of("pipeline_schedules.json", 7);
  refused("schedule", with(warm, "/warm_up/0", 0), "would wait for more forwards");
  refused("schedule", with(warm, "/warm_up/0", -1), "warm_up[0] is -1");
}

}  // namespace
}  // namespace reef::test
