// Schedules of pipelines against known orders, and in virtual time against known makespans, to the microsecond: in the
// asynchronous model, with transfers that hold their lane until they have arrived, in two orders, and with posted ones.

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <reef/core/error.hpp>
#include <reef/io/json.hpp>
#include <reef/plan/pipeline_case_json.hpp>
#include <reef/plan/pipeline_model.hpp>
#include <reef/schedule/simulate.hpp>
#include <reef/schedule/transfer_order.hpp>
#include <reef/schedule/verify.hpp>

#include "case_file.hpp"

namespace reef::test {
namespace {

using schedule::Completion;
using schedule::Program;
using schedule::World;

Seconds makespan(const std::vector<Program>& programs, const World& world) {
  Seconds end = 0;
  for (const auto& span : schedule::simulate(programs, world, 1).spans) {
    if (span.lane == schedule::Lane::compute) end = std::max(end, span.end);
  }
  return end;
}

bool deadlocks(const std::vector<Program>& programs) {
  try {
    schedule::verify(programs);
    return false;
  } catch (const ScheduleError& error) {
    EXPECT_NE(std::string(error.what()).find("the programs deadlock:"), std::string::npos)
        << error.what();
    EXPECT_NE(std::string(error.what()).find(" waits for "), std::string::npos);
    return true;
  }
}

void hold(std::vector<Program>& programs) {
  for (Program& program : programs) {
    for (schedule::Instruction& i : program.round) i.completion = Completion::held;
  }
}

io::Json texts_of(const plan::PipelineOrder& order) {
  io::Json orders = io::Json::array();
  for (const auto& tasks : order.tasks) {
    orders.push_back(io::Json::array());
    for (const auto& task : tasks) {
      orders.back().push_back(plan::text_of(task, plan::names_chunks(order)));
    }
  }
  return orders;
}

TEST(PipelineSchedules, are_the_known_orders_and_hold_what_is_known) {
  const io::Json file = read_case_file("pipeline_schedules.json");
  int cases = 0;
  for (const io::Json& test : file.at("cases")) {
    SCOPED_TRACE(test.at("name").get<std::string>());
    const plan::PipelineCase asked = plan::pipeline_case_from_json(test, "case");
    const plan::PipelineOrder order = asked.order();
    EXPECT_NO_THROW(order.validate());
    const io::Json& expected = test.at("expected");
    EXPECT_EQ(texts_of(order), expected.at("orders"));
    EXPECT_EQ(plan::parse_pipeline_order(plan::text_of(order)), order);

    const plan::PipelineEstimate estimate = plan::estimate(asked.model(order));
    const io::Json& free = expected.at("free");
    EXPECT_EQ(estimate.makespan, free.at("makespan_us").get<double>());
    EXPECT_EQ(estimate.rank_end, free.at("rank_end_us").get<std::vector<double>>());
    EXPECT_EQ(estimate.idle, free.at("idle_us").get<std::vector<double>>());
    EXPECT_EQ(estimate.span_idle, free.at("span_idle_us").get<std::vector<double>>());
    EXPECT_NEAR(estimate.bubble, free.at("bubble").get<double>(), 1e-11);
    EXPECT_EQ(io::Json(estimate.peak_activations), expected.at("peak_activations"));
    EXPECT_EQ(io::Json(estimate.peak_until_input_half), expected.at("peak_until_input_half"));
    EXPECT_EQ(io::Json(estimate.peak_pending_weight), expected.at("peak_pending_weight"));
    io::Json messages = io::Json::object();
    for (const auto& [pair, count] : estimate.messages) {
      messages[concat(pair.first, ">", pair.second)] = count;
    }
    EXPECT_EQ(messages, expected.at("messages"));
    if (expected.contains("closed_form")) {
      for (const io::Json& form : expected.at("closed_form")) {
        if (form.at("model") == "free") {
          EXPECT_EQ(estimate.makespan, form.at("makespan_us").get<double>());
        }
      }
    }
    ++cases;
  }
  EXPECT_GE(cases, 26);
}

TEST(PipelineSchedules, take_the_known_times) {
  const io::Json file = read_case_file("pipeline_schedules.json");
  int cases = 0;
  for (const io::Json& test : file.at("cases")) {
    SCOPED_TRACE(test.at("name").get<std::string>());
    const plan::PipelineCase asked = plan::pipeline_case_from_json(test, "case");
    const plan::PipelineModel model = asked.model(asked.order());
    const World& world = model.times.world;
    const io::Json& expected = test.at("expected");
    const auto of = [&](const char* lanes) {
      return expected.at(lanes).at("makespan_us").get<Seconds>();
    };

    // Receives in the order of consumers, each holding its lane.
    const std::vector<Program> held = plan::programs_of(model, Completion::held);
    const bool deadlock = expected.at("lanes").at("deadlock").get<bool>();
    EXPECT_EQ(deadlocks(held), deadlock);
    if (!deadlock) {
      EXPECT_EQ(makespan(held, world), of("lanes"));
    }

    // Posted, in the order of production.
    std::vector<Program> posted = plan::programs_of(model);
    const auto transfers = schedule::free_transfers(posted, world);
    schedule::order_transfers(posted, world);
    EXPECT_FALSE(deadlocks(posted));
    EXPECT_EQ(makespan(posted, world), of("free"));

    // As many slots as are used at one time change nothing.
    const std::vector<Program> apart = plan::programs_of(model);
    const auto slots = plan::pipeline_slots(
        apart, transfers,
        schedule::transfer_slots(apart, transfers, schedule::SlotUse::to_last_use));
    std::vector<Program> rings = plan::programs_of(model, Completion::posted, slots);
    schedule::order_transfers(rings, world);
    EXPECT_FALSE(deadlocks(rings));
    EXPECT_EQ(makespan(rings, world), of("free"));

    // In that order lanes that are held cannot deadlock either.
    hold(posted);
    EXPECT_FALSE(deadlocks(posted));
    EXPECT_EQ(makespan(posted, world), of("lanes_by_production"));
    ++cases;
  }
  EXPECT_GE(cases, 26);
}

}  // namespace
}  // namespace reef::test
