// What it costs to run a program whose instructions do nothing: the executor's own time.
//
//   build/release/bench/run_executor_bench
//
// A round has 1000 instructions. The roof is 1000 calls of a std::function on one thread. The rival
// is what one would write by hand: a function for each instruction on a queue with a thread, and an
// event between two lanes wherever one waits for another.

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include <reef/comm/environment.hpp>
#include <reef/comm/mpi.hpp>
#include <reef/device/host.hpp>
#include <reef/run/executor.hpp>

namespace {

using namespace reef;
using device::Host;
using schedule::Lane;

constexpr int instructions = 1000;
constexpr std::array<Lane, 3> host_lanes{Lane::compute, Lane::load, Lane::evict};

/// Instruction i runs on lane i mod `lanes`; every tenth reads what the one before it has written.
schedule::Program empty_program(int lanes) {
  schedule::Program program;
  const schedule::StorageId value =
      program.add_storage("value", 64, schedule::Place::device, schedule::Life::reserved);
  for (int i = 0; i < instructions; ++i) {
    schedule::Instruction& instruction =
        program.add("Nothing", host_lanes[static_cast<std::size_t>(i % lanes)], i, -1);
    if (lanes == 1) continue;
    if (i % 10 == 9) instruction.reads.push_back({value, i / 10});
    if (i % 10 == 8) instruction.writes.push_back({value, i / 10});
  }
  return program;
}

/// Rounds of the executor, with `range(0)` lanes.
void executor(benchmark::State& state) {
  const comm::Communicator self(MPI_COMM_SELF);
  comm::Progress progress(self);
  Host host({.threads = 1});
  run::Lanes lanes(host, progress, nullptr, std::make_shared<run::FailureSwitch>());
  run::Handlers<Host> handlers;
  std::int64_t calls = 0;
  handlers.on_lane("Nothing", [&](const schedule::Instruction&) -> run::Handlers<Host>::Code {
    return [&calls](Host::Lane&) { benchmark::DoNotOptimize(calls); };
  });
  const schedule::Program program = empty_program(static_cast<int>(state.range(0)));
  run::Executor executor(progress, lanes, program,
                         schedule::derive(program, schedule::place(program)), handlers.table());
  for (auto _ : state) executor.run();
  state.SetItemsProcessed(state.iterations() * instructions);
}
BENCHMARK(executor)->Arg(1)->Arg(3)->ArgName("lanes")->UseRealTime();

/// By hand: a function a queue for each instruction, an event for each hand-over.
void by_hand(benchmark::State& state) {
  const auto count = static_cast<std::size_t>(state.range(0));
  Host host({.threads = 1});
  std::vector<std::unique_ptr<Host::Lane>> lanes;
  for (std::size_t lane = 0; lane < count; ++lane) {
    lanes.push_back(std::make_unique<Host::Lane>(host, "lane " + std::to_string(lane)));
  }
  std::vector<std::unique_ptr<Host::Event>> events(instructions);
  for (auto& event : events) event = std::make_unique<Host::Event>(host);
  std::uint64_t round = 0;
  for (auto _ : state) {
    ++round;
    for (std::size_t i = 0; i < instructions; ++i) {
      lanes[i % count]->submit([&, i](Host::Lane& lane) {
        if (count > 1 && i % 10 == 9) lane.wait(*events[i - 1], round);
        if (count > 1 && i % 10 == 8) lane.record(*events[i]);
      });
    }
    for (const auto& lane : lanes) lane->synchronize();
  }
  state.SetItemsProcessed(state.iterations() * instructions);
}
BENCHMARK(by_hand)->Arg(1)->Arg(3)->ArgName("lanes")->UseRealTime();

/// The roof: calls on this thread.
void calls(benchmark::State& state) {
  std::int64_t count = 0;
  std::vector<std::function<void()>> functions(instructions,
                                               [&count] { benchmark::DoNotOptimize(++count); });
  for (auto _ : state) {
    for (const auto& function : functions) function();
  }
  state.SetItemsProcessed(state.iterations() * instructions);
}
BENCHMARK(calls)->UseRealTime();

}  // namespace

int main(int argc, char** argv) {
  const comm::Environment mpi(argc, argv);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
