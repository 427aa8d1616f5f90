#include <reef/run/executor.hpp>
#include <reef/run/serial_order.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <reef/comm/call_task.hpp>
#include <reef/comm/error.hpp>
#include <reef/comm/mpi.hpp>
#include <reef/device/host.hpp>

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
  run::Lanes lanes{host, progress, nullptr, failure};
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

  std::unique_ptr<run::Executor> executor(const Program& program, bool serial = false) {
    handle(program);
    return std::make_unique<run::Executor>(
        progress, lanes, program,
        serial ? run::serial_order(program) : schedule::derive(program, schedule::place(program)),
        handlers.table());
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

TEST(Executor, paces_a_lane_and_makes_good_what_was_late) {
  for (std::uint64_t seed = 40; seed < 45; ++seed) {
    const Program program = random_program(seed);
    Bench bench;
    const auto executor = bench.executor(program);
    constexpr Seconds each = 0.002;
    std::vector<Seconds> seconds(program.round.size(), 0);
    std::array<Seconds, schedule::lane_count> lanes{};
    for (std::size_t i = 0; i < seconds.size(); ++i) {
      if (schedule::communicates(program.round[i].lane)) continue;
      lanes[static_cast<std::size_t>(program.round[i].lane)] += seconds[i] = each;
    }
    executor->pace(seconds);
    const Seconds begin = trace::now();
    executor->run();
    // The last sleep of a lane may end a little before its time, never its sum by more.
    EXPECT_GE(trace::now() - begin, *std::max_element(lanes.begin(), lanes.end()) - 1e-4) << "seed " << seed;
    EXPECT_EQ(bench.log.size(), program.round.size());
  }
  Bench bench;
  const Program program = random_program(40);
  EXPECT_THROW(bench.executor(program)->pace({0.1}), ScheduleError);
}

TEST(Executor, that_is_paced_rests_no_longer_than_the_others_go_on) {
  Program program;
  program.add("Fail", schedule::Lane::compute);
  program.add("Rest", schedule::Lane::update);
  Bench bench;
  const auto executor = bench.executor(program);
  executor->run();
  EXPECT_THROW(executor->pace({0, 1e300}), ScheduleError);
  executor->pace({0, 3600});
  EXPECT_THROW(executor->run(), Error) << "the second round fails, and nobody waits for an hour";
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
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(120);
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
    const run::Executor executor(bench.progress, bench.lanes, w.program,
                                 schedule::derive(w.program, schedule::place(w.program)),
                                 bench.handlers.table());
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
  run::Lanes lanes(bench.host, bench.progress, &sink);
  run::Executor executor(bench.progress, lanes, w.program,
                         schedule::derive(w.program, schedule::place(w.program)),
                         bench.handlers.table());
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
  run::Lanes lanes(bench.host, progress, &sink);
  run::Executor executor(progress, lanes, w.program,
                         schedule::derive(w.program, schedule::place(w.program)),
                         bench.handlers.table());
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

namespace {

/// What the test of a loop decides: the instruction Until, on a lane of its own, ends when it may, and
/// Ended behind it says so.
struct Latch {
  std::atomic<bool> open{false};
  std::atomic<bool> ended{false};

  void add_to(run::Handlers<Host>& handlers) {
    handlers.on_lane("Until", [this](const Instruction&) -> run::Handlers<Host>::Code {
      return [this](Host::Lane&) { await(open); };
    });
    handlers.on_lane("Ended", [this](const Instruction&) -> run::Handlers<Host>::Code {
      return [this](Host::Lane&) { ended = true; };
    });
  }
  /// Lets Until end, and waits until it has.
  void let_end() {
    open = true;
    await(ended);
  }
  void close() { open = ended = false; }

  static void await(const std::atomic<bool>& what) {
    while (!what) std::this_thread::yield();
  }
};

/// Until, Ended; Before; a body of Batch, Load, Work; Later behind it on the queue of Batch, Use.
Program looped() {
  Writer w;
  const StorageId batch = w.storage("batch");
  const StorageId loaded = w.storage("loaded");
  const StorageId sum = w.storage("sum", 64, Life::persistent);
  w.writes("Until", Lane::update, w.storage("x"));
  w.writes("Ended", Lane::update, w.storage("y"));
  w.writes("Early", Lane::receive, w.storage("early"));
  w.program.add("Before", Lane::compute).accumulates = {{sum, 0}};
  w.writes("Batch", Lane::receive, batch);
  w.moves("Load", Lane::load, batch, loaded);
  w.reads("Work", Lane::compute, loaded).accumulates = {{sum, 0}};
  w.repeat_from(4, 0);
  w.writes("Later", Lane::receive, w.storage("later"));
  w.reads("Use", Lane::load, sum);
  return std::move(w.program);
}

/// Handlers of what `looped` has beside the test's own kinds.
void handle_loop(Bench& bench, Latch& latch, const Program& program,
                 const std::set<std::string>& own) {
  latch.add_to(bench.handlers);
  Program rest;
  for (const Instruction& i : program.round) {
    if (i.kind != "Until" && i.kind != "Ended" && !own.contains(i.kind)) rest.round.push_back(i);
  }
  bench.handle(rest);
}

std::unique_ptr<run::Executor> executor_of(Bench& bench, run::Lanes& lanes, const Program& program,
                                           bool serial = false) {
  return std::make_unique<run::Executor>(
      bench.progress, lanes, program,
      serial ? run::serial_order(program) : schedule::derive(program, schedule::place(program)),
      bench.handlers.table());
}

using Log = std::vector<std::string>;

Log log_of_iterations(int iterations) {
  Log log{"Early", "Before"};
  for (int iteration = 0; iteration < iterations; ++iteration)
    log.insert(log.end(), {"Batch", "Load", "Work"});
  log.insert(log.end(), {"Later", "Use"});
  return log;
}

/// The log but for the order of two that nothing orders.
void expect_iterations(Log log, int iterations) {
  ASSERT_GE(log.size(), 4U);
  std::sort(log.begin(), log.begin() + 2, std::greater<>());
  std::sort(log.end() - 2, log.end());
  EXPECT_EQ(log, log_of_iterations(iterations));
}

}  // namespace

TEST(Executor, runs_iterations_until_the_instruction_is_complete) {
  const Program program = looped();
  Bench bench;
  Latch latch;
  handle_loop(bench, latch, program, {"Work", "Before"});
  int wanted = 0;
  int seen = 0;
  const run::Executor* running = nullptr;
  bench.handlers.on_lane("Before", [&](const Instruction&) -> run::Handlers<Host>::Code {
    return [&](Host::Lane&) {
      bench.note("Before");
      if (wanted == 0) latch.let_end();
    };
  });
  bench.handlers.on_lane("Work", [&](const Instruction&) -> run::Handlers<Host>::Code {
    return [&](Host::Lane&) {
      bench.note("Work");
      EXPECT_EQ(running->trip_counts()[0], seen++);
      if (seen == wanted) latch.let_end();
    };
  });
  const auto executor = executor_of(bench, bench.lanes, program);
  running = executor.get();
  for (const int iterations : {3, 0, 1, 20, 0}) {
    wanted = iterations;
    seen = 0;
    latch.close();
    bench.log.clear();
    executor->run();
    ASSERT_EQ(executor->trip_counts().size(), 1U);
    EXPECT_EQ(executor->trip_counts()[0], iterations);
    expect_iterations(bench.log, iterations);
  }
}

TEST(Executor, replays_iterations_without_asking_and_asks_again_in_the_next_round) {
  const Program program = looped();
  Bench bench;
  Latch latch;
  handle_loop(bench, latch, program, {"Use", "Before"});
  bool early = false;
  bench.handlers.on_lane("Before", [&](const Instruction&) -> run::Handlers<Host>::Code {
    return [&](Host::Lane&) {
      bench.note("Before");
      if (early) latch.let_end();
    };
  });
  bench.handlers.on_lane("Use", [&](const Instruction&) -> run::Handlers<Host>::Code {
    return [&](Host::Lane&) {
      bench.note("Use");
      latch.open = true;
    };
  });
  const auto executor = executor_of(bench, bench.lanes, program);
  for (const bool first : {false, true}) {
    for (const int iterations : {2, 0, 5}) {
      early = first;  // before the loop, or behind it: it does not matter
      latch.close();
      bench.log.clear();
      executor->replay({iterations});
      executor->run();
      EXPECT_EQ(executor->trip_counts()[0], iterations);
      expect_iterations(bench.log, iterations);
    }
  }
  latch.close();
  executor->run();
  EXPECT_EQ(executor->trip_counts()[0], 0);
  EXPECT_THROW(executor->replay({}), ScheduleError);
  EXPECT_THROW(executor->replay({1, 1}), ScheduleError);
  EXPECT_THROW(executor->replay({-1}), ScheduleError);
}

TEST(Executor, refuses_code_by_which_ranks_cannot_agree_about_a_loop) {
  Program program = looped();
  program.repeats[0].first_agree = 2;  // Early
  program.repeats[0].agree = 4;        // Batch
  Bench bench;
  Latch latch;
  handle_loop(bench, latch, program, {"Early"});
  const auto refusal = [&](bool says, bool hears) -> std::string {
    run::Handlers<Host> handlers = bench.handlers;
    handlers.on_wire("Early", [=](const Instruction&) {
      run::Handlers<Host>::Communication code{std::make_shared<comm::CallTask>("Early", [] {})};
      if (says) code.say = [](bool) {};
      if (hears) code.all_done = [] { return true; };
      return code;
    });
    try {
      const run::Executor executor(bench.progress, bench.lanes, program,
                                   schedule::derive(program, schedule::place(program)),
                                   handlers.table());
      return "";
    } catch (const ScheduleError& error) {
      return error.what();
    }
  };
  EXPECT_THAT(refusal(false, true), testing::HasSubstr("Early"));
  EXPECT_THAT(refusal(false, true), testing::HasSubstr("has no say"));
  EXPECT_THAT(refusal(true, false), testing::HasSubstr("has no all_done"));
  EXPECT_THAT(refusal(true, true), testing::HasSubstr("Batch"));  // whose code has neither
}

TEST(Executor, runs_no_more_iterations_than_the_limit) {
  Program program = looped();
  program.repeats[0].max = 4;
  Bench bench;
  Latch latch;
  handle_loop(bench, latch, program, {"Use"});
  bench.handlers.on_lane("Use", [&](const Instruction&) -> run::Handlers<Host>::Code {
    return [&](Host::Lane&) {
      bench.note("Use");
      latch.open = true;
    };
  });
  const auto executor = executor_of(bench, bench.lanes, program);
  for (int round = 0; round < 2; ++round) {
    latch.close();
    bench.log.clear();
    executor->run();
    EXPECT_EQ(executor->trip_counts()[0], 4);
    expect_iterations(bench.log, 4);
  }
}

TEST(Executor, asks_the_code_that_says_when_a_loop_ends_before_each_iteration_and_once) {
  Program program = looped();
  program.repeats[0].until = 2;  // Early, which is complete before the loop is asked
  program.repeats[0].expected = 5;
  Bench bench;
  Latch latch;
  latch.open = true;
  handle_loop(bench, latch, program, {"Early"});
  int asked = 0;
  int wanted = 0;
  bench.handlers.on_wire("Early", [&](const Instruction&) {
    run::Handlers<Host>::Communication code{std::make_shared<comm::CallTask>("Early", [&] { bench.note("Early"); })};
    code.ends = [&] { return asked++ == wanted; };
    return code;
  });
  for (const bool serial : {false, true}) {
    const auto executor = executor_of(bench, bench.lanes, program, serial);
    for (const int iterations : {3, 0, 1, 20}) {
      wanted = iterations;
      asked = 0;
      bench.log.clear();
      executor->run();
      EXPECT_EQ(executor->trip_counts()[0], iterations);
      EXPECT_EQ(asked, iterations + 1);
      expect_iterations(bench.log, iterations);
    }
    EXPECT_THAT([&] { executor->replay({2}); }, testing::ThrowsMessage<ScheduleError>(testing::HasSubstr("Early")));
  }
  program.repeats[0].max = 4;
  const auto bounded = executor_of(bench, bench.lanes, program);
  wanted = 20;
  asked = 0;
  bench.log.clear();
  bounded->run();
  EXPECT_EQ(bounded->trip_counts()[0], 4);
  EXPECT_EQ(asked, 4);
  program.repeats[0].until = 0;  // Until, whose code does not say
  EXPECT_THAT([&] { executor_of(bench, bench.lanes, program); },
              testing::ThrowsMessage<ScheduleError>(testing::HasSubstr("Until")));
}

TEST(Executor, in_serial_order_runs_the_iterations_that_are_replayed_or_none) {
  const Program program = looped();
  Bench bench;
  Latch latch;
  latch.open = true;
  handle_loop(bench, latch, program, {});
  const auto executor = executor_of(bench, bench.lanes, program, true);
  for (const int iterations : {0, 3, 0, 1}) {
    if (iterations > 0) executor->replay({iterations});
    bench.log.clear();
    executor->run();
    EXPECT_EQ(executor->trip_counts()[0], iterations);
    EXPECT_EQ(bench.log, log_of_iterations(iterations));
  }
}

TEST(Executor, keeps_the_order_of_values_with_any_number_of_iterations_of_any_drawn_loop) {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    const Program program = random_loops(seed);
    const schedule::Placement placement = schedule::place(program);
    Bench bench;
    const auto executor = bench.executor(program);
    std::vector<std::size_t> expected;
    for (int round = 0; round < 4; ++round) {
      std::vector<int> iterations;
      for (std::size_t loop = 0; loop < program.repeats.size(); ++loop) {
        iterations.push_back(
            static_cast<int>((seed + static_cast<std::size_t>(round) * (loop + 1)) % 3));
      }
      const std::vector<std::size_t> next = unrolled(program, iterations);
      expected.insert(expected.end(), next.begin(), next.end());
      executor->replay(iterations);
      executor->run();
      ASSERT_TRUE(
          std::equal(iterations.begin(), iterations.end(), executor->trip_counts().begin()));
    }
    ASSERT_EQ(bench.log.size(), expected.size()) << "seed " << seed;
    std::map<std::size_t, std::size_t> runs;
    std::vector<std::size_t> places;
    for (const std::size_t i : expected) {
      places.push_back(place_of(bench.log, program.round[i].kind, runs[i]++));
    }
    const auto conflict = [&](const Instruction& a, const Instruction& b) {
      const auto touches = [&](const auto& x, const auto& y) {
        for (const auto v : x) {
          for (const auto u : y) {
            if (schedule::overlap(program, placement, v.storage, u.storage)) return true;
          }
        }
        return false;
      };
      return touches(a.writes, b.writes) || touches(a.writes, b.reads) ||
             touches(a.reads, b.writes);
    };
    for (std::size_t j = 0; j < expected.size(); ++j) {
      for (std::size_t i = 0; i < j; ++i) {
        if (!conflict(program.round[expected[i]], program.round[expected[j]])) continue;
        EXPECT_LT(places[i], places[j])
            << "seed " << seed << ": " << expected[i] << " then " << expected[j];
      }
    }
  }
}

TEST(Executor, throws_what_any_lane_of_a_body_threw_and_no_lane_waits_or_loops_for_ever) {
  for (const std::string kind : {"Batch", "Load", "Work"}) {
    for (const int iteration : {1, 3}) {
      const Program program = looped();
      Bench bench;
      Latch latch;
      handle_loop(bench, latch, program, {kind});
      std::atomic<int> count = 0;
      const auto fail = [&] {
        if (++count < iteration) return;
        latch.open = true;  // Until must end, since its code is no lane's wait
        throw Error(kind + " fails");
      };
      if (kind == "Batch") {
        bench.handlers.on_wire(kind, [&](const Instruction&) -> run::Handlers<Host>::Communication {
          return {std::make_shared<comm::CallTask>(kind, fail)};
        });
      } else {
        bench.handlers.on_lane(kind, [&](const Instruction&) -> run::Handlers<Host>::Code {
          return [&](Host::Lane&) { fail(); };
        });
      }
      const auto executor = executor_of(bench, bench.lanes, program);
      try {
        executor->run();
        ADD_FAILURE() << kind << " failed and run() threw nothing";
      } catch (const Error& error) {
        EXPECT_EQ(error.what(), kind + " fails");
      }
      EXPECT_EQ(count, iteration);
    }
  }
}

TEST(Executor, leaves_a_loop_whose_end_never_comes_when_the_communication_fails) {
  Writer w;
  const StorageId x = w.storage("x");
  w.writes("Make", Lane::compute, w.storage("z"));
  w.writes("Hang", Lane::reduce, x);
  w.writes("Batch", Lane::receive, w.storage("y"));
  w.reads("Work", Lane::compute, w.storage("z", 64, Life::persistent));
  w.repeat_from(2, 1);
  Bench bench;
  std::atomic<int> iterations = 0;
  comm::CallTask broken("broken", [] {});
  Program rest = w.program;
  rest.round.resize(3);
  bench.handle(rest);
  bench.handlers.on_lane("Work", [&](const Instruction&) -> run::Handlers<Host>::Code {
    return [&](Host::Lane&) {
      if (++iterations != 3) return;
      bench.progress.submit(bench.progress.queue("other"), broken,
                            []() -> bool { throw comm::MpiError("rank 1 is gone"); });
    };
  });
  // Nothing makes the reduction ready, so only the failure ends the loop.
  schedule::Dependencies waits = schedule::derive(w.program, schedule::place(w.program));
  waits[1].push_back({3, false});
  run::Executor executor(bench.progress, bench.lanes, w.program, waits, bench.handlers.table());
  try {
    executor.run();
    ADD_FAILURE() << "no MpiError";
  } catch (const comm::MpiError& error) {
    EXPECT_STREQ(error.what(), "rank 1 is gone");
  }
  EXPECT_GE(iterations, 3);
}

TEST(Executor, records_each_iteration_in_the_trace_and_what_it_waited_for) {
  const Program program = looped();
  Bench bench;
  Latch latch;
  latch.open = true;
  handle_loop(bench, latch, program, {});
  trace::Sink sink(0);
  comm::ProgressOptions options;
  options.trace = &sink;
  comm::Progress progress(bench.self, options);
  run::Lanes lanes(bench.host, progress, &sink);
  run::Executor executor(progress, lanes, program,
                         schedule::derive(program, schedule::place(program)),
                         bench.handlers.table());
  std::set<std::uint32_t> ids;
  std::size_t spans_in_all = 0;
  int waited = 0;
  for (int round = 0; round < 20 || (waited == 0 && round < 10'000); ++round) {
    const int iterations = round % 4;
    executor.replay({iterations});
    executor.run();
    trace::Recording recording;
    std::map<std::string, std::vector<trace::Span>> spans;
    for (const trace::Span& span : sink.collect(recording)) {
      spans[std::string(recording.name_of(span))].push_back(span);
      ids.insert(span.id);
      EXPECT_LE(span.begin, span.end);
      ++spans_in_all;
    }
    EXPECT_EQ(spans["Before"].size(), 1U);
    for (const char* name : {"Batch", "Load", "Work"}) {
      ASSERT_EQ(spans[name].size(), static_cast<std::size_t>(iterations)) << name;
    }
    for (std::size_t iteration = 0; iteration < spans["Work"].size(); ++iteration) {
      const auto expect_cause = [&](const char* name, std::uint32_t cause) {
        const trace::Span& span = spans[name][iteration];
        EXPECT_TRUE(span.cause == cause || span.cause == 0)
            << name << " of iteration " << iteration;
        waited += span.cause == cause ? 1 : 0;
      };
      expect_cause("Load", spans["Batch"][iteration].id);
      expect_cause("Work", spans["Load"][iteration].id);
      if (iteration == 0) continue;
      EXPECT_LE(spans["Work"][iteration - 1].end, spans["Batch"][iteration].begin);
    }
    const std::uint32_t cause = spans["Use"].at(0).cause;
    EXPECT_TRUE(cause == 0 || (iterations > 0 && cause == spans["Work"].back().id));
  }
  EXPECT_EQ(ids.size(), spans_in_all);
  EXPECT_GT(waited, 0);
}

}  // namespace reef::test
