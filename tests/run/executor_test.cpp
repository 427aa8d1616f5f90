#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <reef/comm/call_task.hpp>
#include <reef/comm/error.hpp>
#include <reef/device/host.hpp>
#include <reef/run/executor.hpp>

#include "../schedule/programs.hpp"

namespace reef::test {

namespace {

using device::Host;

/// A process of one rank with the lanes of a host, and a log of what ran.
struct Bench {
  comm::Communicator self{MPI_COMM_SELF};
  Host host{Host::Options{.threads = 1}};
  std::shared_ptr<run::FailureSwitch> failure = std::make_shared<run::FailureSwitch>();
  std::atomic<bool> failed{false};  ///< the lanes were told that the communication failed
  comm::Progress progress{self, options()};
  run::Lanes<Host> lanes{host, progress, nullptr, failure};
  run::Handlers<Host> handlers;
  std::mutex mutex;
  std::vector<std::string> log;

  comm::ProgressOptions options() {
    comm::ProgressOptions result;
    result.on_failure = [this](const std::string&) {
      failure->trip();
      failed = true;
    };
    return result;
  }

  void note(const std::string& what) {
    const std::scoped_lock lock(mutex);
    log.push_back(what);
  }

  /// Kinds of the lanes sleep a little and note themselves; "Fail" throws in its second round.
  void handle(const Program& program) {
    for (const Instruction& instruction : program.round) {
      const std::string kind = instruction.kind;
      if (kind == "Break") continue;  // a test's own
      if (schedule::communicates(instruction.lane)) {
        handlers.on_wire(
            kind, [this, kind](const Instruction&) -> run::Handlers<Host>::Communication {
              return {std::make_shared<comm::CallTask>(kind, [this, kind] { note(kind); })};
            });
      } else {
        handlers.on_lane(kind, [this, kind](const Instruction&) -> run::Handlers<Host>::Code {
          return [this, kind, count = 0](Host::Lane&) mutable {
            std::this_thread::sleep_for(std::chrono::microseconds(50));
            if (kind == "Fail" && ++count == 2) throw Error("the second round fails");
            note(kind);
          };
        });
      }
    }
  }

  std::unique_ptr<run::Executor<Host>> executor(const Program& program, bool serial = false) {
    handle(program);
    return std::make_unique<run::Executor<Host>>(
        host, progress, lanes, program,
        serial ? run::serial_order(program) : schedule::derive(program, schedule::place(program)),
        handlers);
  }
};

std::size_t place_of(const std::vector<std::string>& log, const std::string& what,
                     std::size_t round) {
  std::size_t seen = 0;
  for (std::size_t i = 0; i < log.size(); ++i) {
    if (log[i] == what && seen++ == round) return i;
  }
  ADD_FAILURE() << what << " did not run in round " << round;
  return 0;
}

}  // namespace

TEST(Executor, keeps_the_order_of_values_on_any_drawn_program) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Program program = random_program(seed);
    Bench bench;
    const auto executor = bench.executor(program);
    for (int round = 0; round < 3; ++round) executor->run();
    ASSERT_EQ(bench.log.size(), 3 * program.round.size());
    const auto waits = schedule::derive(program, schedule::place(program));
    for (std::size_t i = 0; i < program.round.size(); ++i) {
      for (const schedule::Dependency wait : waits[i]) {
        for (std::size_t round = wait.previous_round ? 1 : 0; round < 3; ++round) {
          EXPECT_LT(place_of(bench.log, program.round[wait.instruction].kind,
                             round - (wait.previous_round ? 1 : 0)),
                    place_of(bench.log, program.round[i].kind, round));
        }
      }
    }
  }
}

TEST(Executor, in_serial_order_runs_one_instruction_after_the_other) {
  for (std::uint64_t seed = 20; seed < 30; ++seed) {
    const Program program = random_program(seed);
    Bench bench;
    const auto executor = bench.executor(program, true);
    executor->run();
    executor->run();
    for (std::size_t i = 0; i < bench.log.size(); ++i) {
      EXPECT_EQ(bench.log[i], program.round[i % program.round.size()].kind);
    }
  }
}

TEST(Executor, throws_what_a_lane_threw_and_no_lane_waits_for_ever) {
  Writer w;
  const StorageId x = w.storage("x");
  const StorageId y = w.storage("y");
  w.writes("Fail", Lane::compute, x);
  w.moves("Copy", Lane::evict, x, y);
  w.reads("Use", Lane::load, y);
  Bench bench;
  const auto executor = bench.executor(w.program);
  executor->run();
  EXPECT_THROW(executor->run(), Error);
}

TEST(Executor, ends_the_communication_with_what_a_lane_threw_though_no_task_waits) {
  Writer w;
  w.writes("Fail", Lane::compute, w.storage("x"));
  Bench bench;
  const auto executor = bench.executor(w.program);
  executor->run();
  EXPECT_THROW(executor->run(), Error);
  std::string text;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (text.empty() && std::chrono::steady_clock::now() < end) {
    comm::CallTask next("next", [] {});
    try {
      bench.progress.submit(bench.progress.queue("q"), next);
      bench.progress.wait(next);
    } catch (const Error& error) {
      text = error.what();
    }
  }
  EXPECT_EQ(text, "the second round fails");
}

TEST(Executor, throws_a_failure_of_the_communication_that_came_after_its_last_task) {
  Writer w;
  const StorageId x = w.storage("x");
  const StorageId y = w.storage("y");
  w.writes("Make", Lane::compute, x);
  w.moves("Sum", Lane::reduce, x, y);
  w.reads("Break", Lane::compute, y);
  w.reads("Update", Lane::compute, y);
  Bench bench;
  comm::CallTask other("other", [] {});
  bench.handlers.on_lane("Break", [&](const Instruction&) -> run::Handlers<Host>::Code {
    return [&](Host::Lane&) {
      bench.progress.submit(bench.progress.queue("other"), other,
                            []() -> bool { throw comm::MpiError("rank 1 is gone"); });
      while (!bench.failed) std::this_thread::yield();
    };
  });
  const auto executor = bench.executor(w.program);
  try {
    executor->run();
    ADD_FAILURE() << "no MpiError, though Update did not run";
  } catch (const comm::MpiError& error) {
    EXPECT_STREQ(error.what(), "rank 1 is gone");
  }
  EXPECT_EQ(bench.log, (std::vector<std::string>{"Make", "Sum"}));
}

TEST(Executor, refuses_a_kind_without_code_by_name) {
  Writer w;
  w.writes("Unknown", Lane::compute, w.storage("x"));
  Bench bench;
  try {
    const run::Executor<Host> executor(bench.host, bench.progress, bench.lanes, w.program,
                                       schedule::derive(w.program, schedule::place(w.program)),
                                       bench.handlers);
    ADD_FAILURE() << "no ScheduleError";
  } catch (const ScheduleError& error) {
    EXPECT_NE(std::string(error.what()).find("Unknown"), std::string::npos);
  }
}

TEST(Executor, records_each_instruction_in_the_trace) {
  Writer w;
  const StorageId x = w.storage("x");
  w.writes("A", Lane::compute, x);
  w.reads("B", Lane::load, x);
  trace::Sink sink(0);
  Bench bench;
  bench.handle(w.program);
  run::Lanes<Host> lanes(bench.host, bench.progress, &sink);
  run::Executor<Host> executor(bench.host, bench.progress, lanes, w.program,
                               schedule::derive(w.program, schedule::place(w.program)),
                               bench.handlers);
  executor.run();
  trace::Recording recording;
  const auto spans = sink.collect(recording);
  ASSERT_EQ(spans.size(), 2U);
  std::vector<std::string> names;
  for (const trace::Span& span : spans) names.emplace_back(recording.name_of(span));
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, (std::vector<std::string>{"A", "B"}));
}

TEST(Executor, says_in_the_trace_which_instruction_another_waited_for) {
  Writer w;
  const StorageId x = w.storage("x");
  w.writes("A", Lane::compute, x);
  w.reads("B", Lane::load, x);
  w.reads("C", Lane::reduce, x);
  trace::Sink sink(0);
  Bench bench;
  bench.handle(w.program);
  comm::ProgressOptions options;
  options.trace = &sink;
  comm::Progress progress(bench.self, options);
  run::Lanes<Host> lanes(bench.host, progress, &sink);
  run::Executor<Host> executor(bench.host, progress, lanes, w.program,
                               schedule::derive(w.program, schedule::place(w.program)),
                               bench.handlers);
  int waited = 0;
  std::set<std::uint32_t> ids;
  std::map<std::string, std::uint32_t> before;
  std::size_t rounds = 0;
  for (; rounds < 10 || (waited == 0 && rounds < 10'000); ++rounds) {
    executor.run();
    trace::Recording recording;
    std::map<std::string, trace::Span> spans;
    for (const trace::Span& span : sink.collect(recording)) {
      spans.emplace(recording.name_of(span), span);
      ids.insert(span.id);
    }
    ASSERT_EQ(spans.size(), 3U);
    // A lane that comes late does not wait. A waits for nobody but the readers of its last round.
    const std::uint32_t a = spans.at("A").id;
    for (const char* reader : {"B", "C"}) {
      const std::uint32_t cause = spans.at(reader).cause;
      EXPECT_TRUE(cause == a || cause == 0) << reader;
      waited += cause == a ? 1 : 0;
    }
    const std::uint32_t cause = spans.at("A").cause;
    EXPECT_TRUE(cause == 0 || cause == before["B"] || cause == before["C"]);
    for (const auto& [name, span] : spans) before[name] = span.id;
  }
  EXPECT_EQ(ids.size(), 3 * rounds);
  EXPECT_GT(waited, 0);
}

}  // namespace reef::test
