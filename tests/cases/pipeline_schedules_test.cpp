// Pipelines in virtual time against known makespans, to the microsecond: with transfers that hold their lane until
// they have arrived, in two orders, and with posted ones.

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <reef/core/error.hpp>
#include <reef/io/json.hpp>
#include <reef/schedule/simulate.hpp>
#include <reef/schedule/transfer_order.hpp>
#include <reef/schedule/verify.hpp>

#include "../support/pipeline_programs.hpp"
#include "case_file.hpp"

namespace reef::test {
namespace {

using schedule::Completion;
using schedule::Program;
using schedule::World;

/// "F3", and of several chunks "5F3".
PipelineOperation operation_of(const std::string& text, int stage) {
  const std::size_t at = text.find_first_of("FBIW");
  return {text[at], at == 0 ? stage : std::stoi(text.substr(0, at)), std::stoi(text.substr(at + 1))};
}

Pipeline pipeline_of(const io::Json& test) {
  Pipeline result;
  const int p = test.at("p").get<int>();
  const int stages = p * test.at("v").get<int>();
  const auto placement = test.at("placement").get<std::string>();
  for (int s = 0; s < stages; ++s) {
    const int folded = s < p ? s : 2 * p - 1 - s;
    result.rank_of.push_back(placement == "v" ? folded : s % p);
    if (s > 0) result.edges.emplace_back(s - 1, s);
  }
  result.t_f = test.at("t_f").get<std::vector<Seconds>>();
  result.t_b = test.at("t_b").get<std::vector<Seconds>>();
  result.t_w = test.at("t_w").get<std::vector<Seconds>>();
  for (const io::Json& order : test.at("expected").at("orders")) {
    auto& operations = result.orders.emplace_back();
    const int rank = static_cast<int>(result.orders.size()) - 1;
    for (const io::Json& text : order) {
      operations.push_back(operation_of(text.get<std::string>(), rank));
    }
  }
  return result;
}

World world_of(const io::Json& test, const Pipeline& pipeline) {
  World world = World::uniform(pipeline.ranks(), {}, {});
  for (const io::Json& link : test.at("links")) {
    const auto from = link.at("from").get<std::size_t>();
    const auto to = link.at("to").get<std::size_t>();
    const auto wire = link.at("wire_us").get<double>();
    world.links[from * world.machines.size() + to] = {
        link.at("latency_us").get<double>(),
        wire > 0 ? static_cast<double>(pipeline.bytes) / wire : 0};
  }
  return world;
}

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

TEST(PipelineSchedules, take_the_known_times) {
  const io::Json file = read_case_file("pipeline_schedules.json");
  int cases = 0;
  for (const io::Json& test : file.at("cases")) {
    SCOPED_TRACE(test.at("name").get<std::string>());
    const Pipeline pipeline = pipeline_of(test);
    const World world = world_of(test, pipeline);
    const io::Json& expected = test.at("expected");
    const auto of = [&](const char* model) {
      return expected.at(model).at("makespan_us").get<Seconds>();
    };

    // Receives in the order of consumers, each holding its lane.
    const PipelinePrograms held(pipeline, Completion::held);
    const bool deadlock = expected.at("lanes").at("deadlock").get<bool>();
    EXPECT_EQ(deadlocks(held.programs), deadlock);
    if (!deadlock) {
      EXPECT_EQ(makespan(held.programs, world), of("lanes"));
    }

    // Posted, in the order of production.
    PipelinePrograms posted(pipeline, Completion::posted);
    const auto transfers = schedule::free_transfers(posted.programs, world);
    schedule::order_transfers(posted.programs, world);
    EXPECT_FALSE(deadlocks(posted.programs));
    EXPECT_EQ(makespan(posted.programs, world), of("free"));

    // As many slots as are used at one time change nothing.
    const PipelinePrograms apart(pipeline, Completion::posted);
    const auto slots = PipelinePrograms::slots_of(
        apart.programs, transfers,
        schedule::transfer_slots(apart.programs, transfers, schedule::SlotUse::to_last_use));
    PipelinePrograms rings(pipeline, Completion::posted, slots);
    schedule::order_transfers(rings.programs, world);
    EXPECT_FALSE(deadlocks(rings.programs));
    EXPECT_EQ(makespan(rings.programs, world), of("free"));

    // In that order lanes that are held cannot deadlock either.
    hold(posted.programs);
    EXPECT_FALSE(deadlocks(posted.programs));
    EXPECT_EQ(makespan(posted.programs, world), of("lanes_by_production"));
    ++cases;
  }
  EXPECT_GE(cases, 26);
}

}  // namespace
}  // namespace reef::test
