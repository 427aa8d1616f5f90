// Programs whose transfers are posted, run between processes: any pipeline ends, with the values that it has on one
// rank.

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <reef/comm/call_task.hpp>
#include <reef/comm/communicator.hpp>
#include <reef/comm/mpi.hpp>
#include <reef/comm/point_to_point.hpp>
#include <reef/comm/progress.hpp>
#include <reef/device/host.hpp>
#include <reef/run/executor.hpp>
#include <reef/schedule/dependencies.hpp>
#include <reef/schedule/placement.hpp>
#include <reef/schedule/transfer_order.hpp>
#include <reef/schedule/verify.hpp>

#include "../support/pipeline_programs.hpp"
#include "../support/random_pipeline.hpp"

namespace reef::test {
namespace {

using device::Host;
using schedule::Instruction;
using schedule::Program;

/// What operations come to: by kind, stage and micro-batch.
using Results = std::map<std::tuple<char, int, int>, std::uint64_t>;

std::uint64_t own_part(char what, int stage, int j) {
  return static_cast<std::uint64_t>(what) * 1'000'003 + static_cast<std::uint64_t>(stage) * 4099 +
         static_cast<std::uint64_t>(j) + 1;
}

/// Of all stages, by the edges alone.
Results expected(const Pipeline& pipeline) {
  Results results;
  int micro_batches = 0;
  const int stages = static_cast<int>(pipeline.rank_of.size());
  for (const auto& order : pipeline.orders) {
    for (const PipelineOperation& o : order) micro_batches = std::max(micro_batches, o.j + 1);
  }
  for (int j = 0; j < micro_batches; ++j) {
    for (int s = 0; s < stages; ++s) {
      std::uint64_t sum = 0;
      for (const auto& [from, to] : pipeline.edges) {
        if (to == s) sum += results.at({'F', from, j});
      }
      results[{'F', s, j}] = own_part('F', s, j) + 31 * sum;
    }
    for (int s = stages; s-- > 0;) {
      std::uint64_t sum = results.at({'F', s, j});
      for (const auto& [from, to] : pipeline.edges) {
        if (from == s) sum += results.at({'B', to, j});
      }
      results[{'B', s, j}] = own_part('B', s, j) + 31 * sum;
    }
  }
  return results;
}

/// One rank's program with memory and code.
class Rank {
public:
  Rank(comm::Progress& progress, run::Lanes& lanes, Program program)
      : program_(std::move(program)),
        placement_(schedule::place(program_)),
        memory_(static_cast<std::size_t>(placement_.device_bytes) / sizeof(std::uint64_t) + 1) {
    for (const char* kind : {"F", "B"}) {
      handlers_.on_lane(kind, [this](const Instruction& i) -> run::Handlers<Host>::Code {
        return [this, &i](Host::Lane&) { compute(i); };
      });
    }
    for (const char* kind : {"SendActivation", "SendGradient"}) {
      handlers_.on_wire(kind, [this](const Instruction& i) -> Communication {
        return {std::make_shared<comm::SendTask>(name_of(i), i.sends[0].peer,
                                                 bytes_of(i.reads[0]))};
      });
    }
    for (const char* kind : {"ReceiveActivation", "ReceiveGradient"}) {
      handlers_.on_wire(kind, [this](const Instruction& i) -> Communication {
        return {std::make_shared<comm::ReceiveTask>(name_of(i), i.receives[0].peer,
                                                    bytes_of(i.writes[0]))};
      });
    }
    executor_ = std::make_unique<run::Executor>(
        progress, lanes, program_, schedule::derive(program_, placement_), handlers_.table());
  }

  Results run() {
    results_.clear();
    executor_->run();
    return results_;
  }

private:
  using Communication = run::Handlers<Host>::Communication;

  std::uint64_t* at(schedule::Value value) {
    return memory_.data() + placement_.address(program_, value.storage) / sizeof(std::uint64_t);
  }
  std::span<std::uint64_t> bytes_of(schedule::Value value) {
    return {at(value), program_.storages[value.storage].bytes / sizeof(std::uint64_t)};
  }
  static std::string name_of(const Instruction& i) {
    return concat(schedule::name_of(i.traffic), " ", i.index);
  }

  void compute(const Instruction& i) {
    std::uint64_t sum = 0;
    for (const schedule::Value value : i.reads) {
      const auto all = bytes_of(value);
      if (all.front() != all.back()) ADD_FAILURE() << i.text() << " reads what has half arrived";
      sum += all.front();
    }
    const std::uint64_t result = own_part(i.kind[0], i.index, i.micro_batch) + 31 * sum;
    for (const schedule::Value value : i.writes) {
      for (std::uint64_t& element : bytes_of(value)) element = result;
    }
    const std::scoped_lock lock(mutex_);
    results_[{i.kind[0], i.index, i.micro_batch}] = result;
  }

  Program program_;
  schedule::Placement placement_;
  std::vector<std::uint64_t> memory_;
  run::Handlers<Host> handlers_;
  std::unique_ptr<run::Executor> executor_;
  std::mutex mutex_;
  Results results_;
};

void expect_values(bool in_slots) {
  const comm::Communicator world;
  Host host(Host::Options{.threads = 1});
  comm::Progress progress(world);
  run::Lanes lanes(host, progress, nullptr);
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE(seed);
    const RandomPipeline random(seed, world.size());
    using schedule::Completion;
    std::vector<Program> programs = PipelinePrograms(random.pipeline, Completion::posted).programs;
    if (in_slots) {
      const auto transfers = schedule::free_transfers(programs, random.world);
      const auto slots = PipelinePrograms::slots_of(
          programs, transfers,
          schedule::transfer_slots(programs, transfers, schedule::SlotUse::to_last_use));
      programs = PipelinePrograms(random.pipeline, Completion::posted, slots).programs;
    }
    schedule::order_transfers(programs, random.world);
    schedule::verify(programs);
    const auto rank = static_cast<std::size_t>(world.rank());
    const Results all = expected(random.pipeline);
    Rank mine(progress, lanes, programs[rank]);
    for (int round = 0; round < 3; ++round) {
      const Results results = mine.run();
      EXPECT_EQ(results.size(), random.pipeline.orders[rank].size());
      for (const auto& [operation, result] : results) EXPECT_EQ(result, all.at(operation));
    }
  }
}

TEST(Posted, every_pipeline_ends_with_its_values) { expect_values(false); }

TEST(Posted, every_pipeline_ends_with_its_values_in_as_few_slots_as_can_be) { expect_values(true); }

TEST(Posted, code_that_is_no_transfer_is_refused) {
  const comm::Communicator self(MPI_COMM_SELF);
  Host host(Host::Options{.threads = 1});
  comm::Progress progress(self);
  run::Lanes lanes(host, progress, nullptr);
  Program program;
  Instruction& i = program.add("Call", schedule::Lane::send);
  i.completion = schedule::Completion::posted;
  run::Handlers<Host> handlers;
  handlers.on_wire("Call", [](const Instruction&) -> run::Handlers<Host>::Communication {
    return {std::make_shared<comm::CallTask>("call", [] {})};
  });
  EXPECT_THROW(run::Executor(progress, lanes, program, schedule::Dependencies(1), handlers.table()),
               ScheduleError);
}

}  // namespace
}  // namespace reef::test
