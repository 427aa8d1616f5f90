#include <reef/device/host.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <ctime>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#if defined(__linux__)
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <gtest/gtest.h>

#include <laws/device.hpp>
#include <support/no_more_threads.hpp>

namespace reef {
namespace {

using device::Copy;
using device::Host;

struct HostModel {
  using Device = Host;
  static std::optional<std::string> unavailable() { return std::nullopt; }
  static std::unique_ptr<Host> make(Bytes memory_bytes) {
    return std::make_unique<Host>(Host::Options{.memory_bytes = memory_bytes});
  }
};

// Everything must also hold behind a link, and with more threads than cores.
struct LinkedModel {
  using Device = Host;
  static std::optional<std::string> unavailable() { return std::nullopt; }
  static std::unique_ptr<Host> make(Bytes memory_bytes) {
    return std::make_unique<Host>(Host::Options{.memory_bytes = memory_bytes,
                                                .link_bytes_per_second = 4e9,
                                                .link_latency = 1e-5,
                                                .threads = 5,
                                                .poison_freed = true});
  }
};

}  // namespace

namespace laws {
INSTANTIATE_TYPED_TEST_SUITE_P(Host, DeviceLaws, HostModel);
INSTANTIATE_TYPED_TEST_SUITE_P(HostBehindALink, DeviceLaws, LinkedModel);
}  // namespace laws

namespace {

Seconds wall() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Seconds processor() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

TEST(MemoryLedger, reports_the_largest_holder_first_and_those_of_one_size_in_the_order_in_which_they_came) {
  device::MemoryLedger ledger("a device", 0);
  for (int i = 0; i < 40; ++i) ledger.take(i == 30 ? 128 : 64, concat("holder ", i));
  const auto holders = ledger.report().holders;
  ASSERT_EQ(holders.size(), 40U);
  EXPECT_EQ(holders.front(), std::pair(std::string("holder 30"), Bytes{128}));
  for (int i = 0; i < 30; ++i) EXPECT_EQ(holders[static_cast<std::size_t>(i) + 1], std::pair(concat("holder ", i), Bytes{64}));
}

TEST(HostLink, a_copy_takes_the_time_of_the_link_and_burns_no_core) {
  Host host({.link_bytes_per_second = 100e6, .link_latency = 0.01});
  Host::Lane load(host, "load");
  std::vector<char> from(4'000'000, 7);
  auto to = host.allocate(from.size(), "to");
  Seconds least = 1;
  Seconds burnt = 1;
  for (int attempt = 0; attempt < 50 && !(least < 0.150 && burnt < 0.5 * least); ++attempt) {
    const Seconds processor_before = processor();
    const Seconds begin = wall();
    load.submit([&](Host::Lane& lane) {
      lane.copy(to.data(), from.data(), from.size() / 2, Copy::to_device);
      lane.copy(to.data(), from.data(), from.size() / 2, Copy::to_device);
    });
    load.synchronize();
    const Seconds took = wall() - begin;
    // Two copies of 20 ms, each seen 10 ms later; the second waits for the first to have arrived.
    EXPECT_GE(took, 0.0599);
    least = std::min(least, took);
    burnt = std::min(burnt, processor() - processor_before);
  }
  EXPECT_LT(least, 0.150);
  EXPECT_LT(burnt, 0.5 * least);
}

TEST(HostLink, the_two_directions_share_nothing_and_lanes_of_one_direction_share_the_link) {
  Host host({.link_bytes_per_second = 100e6});
  std::vector<char> memory(3'000'000, 7);
  auto on_device = host.allocate(memory.size(), "values");
  auto up_target = host.allocate(memory.size(), "target");
  std::vector<char> down_target(memory.size());
  const auto run = [&](bool opposite) {
    Host::Lane first(host, "first");
    Host::Lane second(host, "second");
    const Seconds begin = wall();
    first.submit([&](Host::Lane& lane) {
      lane.copy(up_target.data(), memory.data(), memory.size(), Copy::to_device);
    });
    second.submit([&](Host::Lane& lane) {
      if (opposite) {
        lane.copy(down_target.data(), on_device.data(), memory.size(), Copy::to_host);
      } else {
        lane.copy(on_device.data(), memory.data(), memory.size(), Copy::to_device);
      }
    });
    first.synchronize();
    second.synchronize();
    return wall() - begin;
  };
  EXPECT_GE(run(false), 0.0599);  // one after the other
  Seconds best = 1;
  for (int attempt = 0; attempt < 50 && best >= 0.055; ++attempt) best = std::min(best, run(true));
  EXPECT_GE(best, 0.0299);
  EXPECT_LT(best, 0.055);  // side by side
}

TEST(HostSpeed, a_slowed_device_sleeps_out_what_its_kernels_would_have_taken) {
  Host host({.slowdown = 4, .threads = 1});
  double kernels = 0;
  double all = 0;
  double burnt = 0;
  Host::Lane lane(host, "compute");
  lane.submit([&](Host::Lane& l) {
    const double begin = wall();
    const double burnt_before = processor();
    for (int i = 0; i < 4; ++i) {
      l.parallel(1, [&](std::int64_t) {
        const double kernel = wall();
        while (wall() - kernel < 0.01) {
        }
        kernels += wall() - kernel;
      });
    }
    burnt = processor() - burnt_before;
    all = wall() - begin;
  });
  lane.synchronize();
  EXPECT_GE(all, 4 * kernels - 0.001);  // less than a millisecond stays owed
  EXPECT_LT(burnt, 2 * kernels);
}

TEST(HostSpeed, a_stamp_is_behind_what_a_short_slowed_kernel_would_have_taken) {
  Host host({.slowdown = 4, .threads = 1});
  Host::Lane lane(host, "compute");
  Seconds begin = 0;
  Seconds end = 0;
  double kernel = 0;
  lane.submit([&](Host::Lane& l) {
    l.stamp(begin);
    l.parallel(1, [&](std::int64_t) {
      const double start = wall();
      while ((kernel = wall() - start) < 0.0002) {
      }
    });
    l.stamp(end);
  });
  lane.synchronize();
  EXPECT_GE(end - begin, 4 * kernel - 1e-6);
}

TEST(HostSpeed, options_without_a_meaning_are_refused) {
  const double nan = std::nan("");
  EXPECT_THROW(Host({.slowdown = 0.5}), OptionError);
  EXPECT_THROW(Host({.slowdown = nan}), OptionError);
  EXPECT_THROW(Host({.link_bytes_per_second = -5}), OptionError);
  EXPECT_THROW(Host({.link_bytes_per_second = nan}), OptionError);
  EXPECT_THROW(Host({.link_latency = -1}), OptionError);
  EXPECT_THROW(Host({.link_latency = 1e300}), OptionError);
  EXPECT_THROW(Host({.threads = -1}), OptionError);
  EXPECT_THROW(Host({.threads = 1'000'000}), OptionError);
}

TEST(HostLink, copies_on_the_device_do_not_take_the_link) {
  Host host({.link_bytes_per_second = 1000});
  Host::Lane lane(host, "compute");
  auto a = host.allocate(100'000, "a");
  auto b = host.allocate(100'000, "b");
  const Seconds begin = wall();
  lane.submit([&](Host::Lane& l) {
    l.fill_zero(a.data(), a.bytes());
    l.copy(b.data(), a.data(), a.bytes(), Copy::on_device);
  });
  lane.synchronize();
  EXPECT_LT(wall() - begin, 10.0);  // over the link: 100 s
}

TEST(HostMemory, poisoned_memory_reads_as_not_a_number) {
  Host host({.poison_freed = true});
  auto buffer = host.allocate(1000 * sizeof(float), "values");
  const auto* const values = static_cast<const float*>(buffer.data());
  EXPECT_TRUE(std::all_of(values, values + 1000, [](float x) { return std::isnan(x); }));
}

TEST(HostLane, a_lane_that_waits_stops_when_another_lane_of_the_device_fails) {
  Host host;
  Host::Lane waiting(host, "waiting");
  Host::Lane failing(host, "failing");
  Host::Event never(host);
  waiting.submit([&](Host::Lane& lane) { lane.wait(never, 1); });
  failing.submit([](Host::Lane&) { throw std::runtime_error("the cause"); });
  try {
    waiting.synchronize();
    ADD_FAILURE() << "the waiting lane did not stop";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("\"waiting\""), std::string::npos) << error.what();
  }
  EXPECT_THROW(failing.synchronize(), std::runtime_error);
  // Both are usable again, and so is waiting.
  waiting.submit([&](Host::Lane& lane) { lane.wait(never, 1); });
  failing.submit([&](Host::Lane& lane) { lane.record(never); });
  EXPECT_NO_THROW(waiting.synchronize());
  EXPECT_NO_THROW(failing.synchronize());
}

TEST(HostLane, synchronize_from_its_own_function_is_refused) {
  Host host;
  Host::Lane lane(host, "compute");
  lane.submit([](Host::Lane& l) { l.synchronize(); });
  EXPECT_THROW(lane.synchronize(), Error);
}

TEST(HostLane, idle_lanes_burn_no_core) {
  Host host({.threads = 4});
  std::vector<std::unique_ptr<Host::Lane>> lanes;
  for (int i = 0; i < 6; ++i) {
    lanes.push_back(std::make_unique<Host::Lane>(host, "lane"));
    lanes.back()->submit([](Host::Lane& lane) { lane.parallel(16, [](std::int64_t) {}); });
  }
  for (auto& lane : lanes) lane->synchronize();
  // A thread naps after a few turns, which take longer where it gets no core.
  Seconds burnt = 1;
  for (int attempt = 0; attempt < 50 && burnt >= 0.02; ++attempt) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    const Seconds before = processor();
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    burnt = processor() - before;
  }
  EXPECT_LT(burnt, 0.02);
}

#if defined(__linux__) && defined(SYS_sched_getattr)
struct Scheduling {
  std::uint32_t size, policy;
  std::uint64_t flags;
  std::int32_t nice;
  std::uint32_t priority;
  std::uint64_t
      slice_ns;  // 0 where the kernel does not say: before 6.12 no thread has one of its own
  std::uint64_t deadline, period;
};

struct LaneScheduling : testing::Test {
  void SetUp() override {
    const Scheduling here = current();
    if (here.size == 0) GTEST_SKIP() << "the system does not say how it treats a thread";
    if (here.policy != 0) GTEST_SKIP() << "the user has chosen a policy: it is left alone";
  }

  static Scheduling current() {
    Scheduling result{};
    syscall(SYS_sched_getattr, 0, &result, sizeof result, 0);
    return result;
  }
  /// What `look` sees on a lane of that priority.
  template <class Look>
  Scheduling on_a_lane(device::Priority priority, Look look) {
    Scheduling result{};
    Host::Lane lane(device, "lane", priority);
    lane.submit([&](Host::Lane&) { result = look(); });
    lane.synchronize();
    return result;
  }

  Host device{{.threads = 1}};
};

TEST_F(LaneScheduling, high_priority_asks_for_the_shortest_time_slice) {
  const std::uint64_t usual = on_a_lane(device::Priority::normal, current).slice_ns;
  if (usual == 0) GTEST_SKIP() << "this kernel has no time slices of a thread's own";
  EXPECT_EQ(on_a_lane(device::Priority::high, current).slice_ns, 100'000U);
  EXPECT_GT(usual, 100'000U);
}

TEST_F(LaneScheduling, high_priority_has_a_larger_share_where_the_process_may) {
  const std::int32_t usual = on_a_lane(device::Priority::normal, current).nice;
  const std::int32_t larger = std::max(usual - 10, -20);
  bool may = false;
  std::thread([&] {
    Scheduling asked = current();
    asked.nice = larger;
    may = syscall(SYS_sched_setattr, 0, &asked, 0) == 0;
  }).join();
  EXPECT_EQ(on_a_lane(device::Priority::high, current).nice, may ? larger : usual);
}

TEST_F(LaneScheduling, threads_that_a_lane_of_high_priority_makes_are_treated_as_usual) {
  const Scheduling usual = on_a_lane(device::Priority::normal, current);
  const Scheduling made = on_a_lane(device::Priority::high, [] {
    Scheduling result{};
    std::thread([&] { result = current(); }).join();
    return result;
  });
  EXPECT_EQ(made.slice_ns, usual.slice_ns);
  EXPECT_GE(made.nice, std::min(usual.nice, 0));
}
#endif

#if defined(__GLIBC__)

TEST(HostPool, threads_that_cannot_be_made_are_an_error_with_their_number) {
  try {
    const reef::test::NoMoreThreads now;
    const Host host({.threads = 4});
    ADD_FAILURE() << "no OptionError";
  } catch (const OptionError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("1 of 4 threads could be made: "), std::string::npos) << text;
    EXPECT_NE(text.find("\n  fix: fewer threads"), std::string::npos) << text;
  }
  EXPECT_EQ(Host({.threads = 4}).threads(), 4);
}

TEST(HostLane, whose_thread_cannot_be_made_is_an_error_that_leaves_the_device_as_it_was) {
  Host host({.threads = 2});
  {
    const reef::test::NoMoreThreads now;
    try {
      const Host::Lane lane(host, "none");
      ADD_FAILURE() << "no OptionError";
    } catch (const OptionError& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find("lane \"none\" gets no thread: "), std::string::npos) << text;
    }
  }
  Host::Lane lane(host, "one");
  Host::Lane waiting(host, "another");
  Host::Event event(host);
  std::atomic<bool> ran = false;
  waiting.submit([&](Host::Lane& l) { l.wait(event, 1); });
  waiting.submit([&](Host::Lane&) { ran = true; });
  lane.submit([&](Host::Lane& l) { l.record(event); });
  EXPECT_NO_THROW(lane.synchronize());
  EXPECT_NO_THROW(waiting.synchronize());
  EXPECT_TRUE(ran);
}

#endif

TEST(HostPool, every_part_runs_once_whatever_the_number_of_threads) {
  for (const int threads : {1, 2, 3, 7}) {
    Host host({.threads = threads});
    EXPECT_EQ(host.threads(), threads);
    Host::Lane lane(host, "compute");
    for (const std::int64_t parts : {0, 1, 2, 3, 100}) {
      std::vector<std::atomic<int>> runs(static_cast<std::size_t>(parts));
      lane.submit([&](Host::Lane& l) {
        l.parallel(parts,
                   [&](std::int64_t part) { runs[static_cast<std::size_t>(part)].fetch_add(1); });
      });
      lane.synchronize();
      for (const auto& count : runs) EXPECT_EQ(count.load(), 1);
    }
  }
}

TEST(HostPool, lanes_that_use_it_at_once_do_not_mix_their_parts) {
  Host host({.threads = 3});
  constexpr std::size_t lane_count = 12;  // more than the pool serves at once
  std::vector<std::unique_ptr<Host::Lane>> lanes;
  std::vector<std::vector<std::int64_t>> sums(lane_count, std::vector<std::int64_t>(50, 0));
  for (std::size_t i = 0; i < lane_count; ++i) {
    lanes.push_back(std::make_unique<Host::Lane>(host, "lane" + std::to_string(i)));
  }
  for (int round = 0; round < 200; ++round) {
    for (std::size_t i = 0; i < lane_count; ++i) {
      lanes[i]->submit([&sums, i](Host::Lane& lane) {
        lane.parallel(50, [&](std::int64_t part) {
          sums[i][static_cast<std::size_t>(part)] += part + static_cast<std::int64_t>(i);
        });
      });
    }
  }
  for (auto& lane : lanes) lane->synchronize();
  for (std::size_t i = 0; i < lane_count; ++i) {
    for (std::size_t part = 0; part < 50; ++part) {
      EXPECT_EQ(sums[i][part], static_cast<std::int64_t>(200 * (part + i)));
    }
  }
}

TEST(HostPool, a_part_may_use_the_pool_itself) {
  Host host({.threads = 3});
  Host::Lane lane(host, "compute");
  std::atomic<int> runs{0};
  lane.submit([&](Host::Lane& l) {
    l.parallel(10, [&](std::int64_t) { l.parallel(10, [&](std::int64_t) { runs.fetch_add(1); }); });
  });
  lane.synchronize();
  EXPECT_EQ(runs.load(), 100);
}

TEST(HostPool, an_exception_of_a_part_reaches_the_caller) {
  for (const int threads : {1, 3}) {
    Host host({.threads = threads});
    Host::Lane lane(host, "compute");
    lane.submit([](Host::Lane& l) {
      l.parallel(100, [](std::int64_t part) {
        if (part == 37) throw std::out_of_range("part 37");
      });
    });
    EXPECT_THROW(lane.synchronize(), std::out_of_range);
    std::atomic<int> runs{0};
    lane.submit([&](Host::Lane& l) { l.parallel(100, [&](std::int64_t) { runs.fetch_add(1); }); });
    lane.synchronize();
    EXPECT_EQ(runs.load(), 100);
  }
}

TEST(HostEvent, may_be_destroyed_by_whoever_waited_for_it) {
  Host host;
  Host::Lane lane(host, "compute");
  for (int i = 0; i < 2000; ++i) {
    auto event = std::make_unique<Host::Event>(host);
    lane.submit([&event](Host::Lane& l) { l.record(*event); });
    event->synchronize(1);
    event.reset();
  }
  lane.synchronize();
}

#if defined(__linux__)

TEST(HostThreads, follow_the_affinity_mask_and_more_of_them_than_its_cores_are_complained_of_once) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  if (sysconf(_SC_NPROCESSORS_ONLN) < 2) GTEST_SKIP() << "a mask cannot be smaller than one core";
  int first = 0;
  while (!CPU_ISSET(first, &before)) ++first;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(device::available_cores(), 1);
  EXPECT_TRUE(device::own_cores().test(static_cast<std::size_t>(first)));
  EXPECT_EQ(Host().threads(), 1);
  EXPECT_EQ(device::binding_complaint(1), "");
  EXPECT_NE(device::binding_complaint(2).find("is bound to 1 core of "), std::string::npos);
  testing::internal::CaptureStderr();
  const Host fits({.threads = 1});
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  testing::internal::CaptureStderr();
  const Host bound({.threads = 2});
  const Host again({.threads = 2});
  EXPECT_EQ(testing::internal::GetCapturedStderr(), device::binding_complaint(2) + "\n");
  EXPECT_EQ(bound.threads(), 2) << "what was asked for is given";
  ASSERT_EQ(sched_setaffinity(0, sizeof before, &before), 0);
}

#endif

}  // namespace
}  // namespace reef
