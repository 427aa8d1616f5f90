#include <reef/comm/at_work.hpp>

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reef/comm/all_to_all.hpp>
#include <reef/comm/call_task.hpp>
#include <reef/comm/functions.hpp>
#include <reef/comm/mpi.hpp>

// Who is late, and who is lost. Signs of life have as long as they may need; what an operation may take is short, as it
// only counts where nobody is at work.

namespace reef::test {

namespace {

using namespace comm;
using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;
using testing::Not;

ProgressOptions options(Seconds of_operation) {
  ProgressOptions options;
  options.deadline = 60;
  options.heartbeat = 0.1;
  options.operation_deadline = of_operation;
  options.abort_on_deadline = false;
  options.transport = Transport::messages;
  return options;
}

constexpr Seconds of_operation = 2;
constexpr std::chrono::seconds long_work{7};

/// What a function that communicates says when it fails; "" if it does not.
template <class F>
std::string failure_of(const F& function) {
  try {
    function();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

float sum(Progress& progress) {
  float one = 1;
  all_reduce(progress, "sum", std::span(&one, 1));
  return one;
}

struct LateRank : testing::Test {
  Communicator world;
};

TEST_F(LateRank, that_says_it_is_at_work_is_waited_for) {
  Progress progress(world, options(of_operation));
  EXPECT_EQ(failure_of([&] {
              if (world.rank() == 0) {
                const AtWork at_work(progress, "sleeps");
                std::this_thread::sleep_for(long_work);
              }
              EXPECT_EQ(sum(progress), static_cast<float>(world.size()));
            }),
            "");
}

TEST_F(LateRank, that_is_in_a_call_is_waited_for) {
  Progress progress(world, options(of_operation));
  CallTask call("sleeps", [] { std::this_thread::sleep_for(long_work); });
  EXPECT_EQ(failure_of([&] {
              if (world.rank() == 0) progress.run(progress.queue("calls"), call);
              EXPECT_EQ(sum(progress), static_cast<float>(world.size()));
            }),
            "");
}

TEST_F(LateRank, is_waited_for_by_who_waits_for_somebody_that_waits_for_it) {
  Progress progress(world, options(of_operation));
  // Each hands on what the one ahead of it has: the last works.
  const int rank = world.rank();
  const int last = world.size() - 1;
  float token = 3;
  EXPECT_EQ(failure_of([&] {
              if (rank == last) {
                const AtWork at_work(progress, "sleeps");
                std::this_thread::sleep_for(long_work);
              } else {
                receive(progress, "token", rank + 1, std::span(&token, 1));
              }
              if (rank > 0) send(progress, "token", rank - 1, std::span(&token, 1));
              barrier(progress, "end");
            }),
            "");
}

/// Of a shaped link that takes several times as long as an operation may.
struct ThinLink : LateRank {
  ProgressOptions thin() {
    ProgressOptions result = options(of_operation);
    result.network = profile::Network::uniform(world.size(), 1e-3, 10e3);
    return result;
  }
  static constexpr std::size_t bytes = 90'000;
};

TEST_F(ThinLink, sends_for_as_long_as_it_takes) {
  Progress progress(world, thin());
  std::vector<std::byte> data(bytes);
  EXPECT_EQ(failure_of([&] {
              if (world.rank() == 0) send(progress, "long", 1, std::span(data));
              if (world.rank() == 1) receive(progress, "long", 0, std::span(data));
              barrier(progress, "end");
            }),
            "");
}

TEST_F(ThinLink, carries_an_all_to_all_for_as_long_as_it_takes) {
  Progress progress(world, thin());
  const auto equal = even_offsets(static_cast<std::int64_t>(bytes), world.size());
  std::vector<std::byte> in(bytes);
  std::vector<std::byte> out(bytes);
  EXPECT_EQ(failure_of([&] {
              all_to_all(progress, "all", in, equal, out, equal);
              barrier(progress, "end");
            }),
            "");
}

TEST_F(ThinLink, carries_the_collective_of_a_group_while_the_others_wait) {
  Progress progress(world, thin());
  std::vector<float> data(bytes / sizeof(float));
  const Group pair{"pair", {0, 1}};
  EXPECT_EQ(failure_of([&] {
              if (world.rank() < 2) all_reduce(progress, "sum of two", std::span(data), pair);
              barrier(progress, "end");
            }),
            "");
}

TEST_F(LateRank, is_lost_where_ranks_wait_for_each_other_and_both_are_named) {
  // An operation may take an hour, and the signs of life are there: this is known at once.
  ProgressOptions short_silence = options(3600);
  short_silence.deadline = 5;
  std::string text;
  {
    Progress progress(world, short_silence);
    std::optional<AtWork> at_work;
    if (world.rank() == 1) at_work.emplace(progress, "a detour", "a detour was taken");
    text = failure_of([&] {
      float one = 1;
      if (world.rank() == 1) receive(progress, "detour", 0, std::span(&one, 1));
      all_reduce(progress, "sum", std::span(&one, 1));
    });
  }
  EXPECT_THAT(text, AnyOf(HasSubstr("these ranks wait for each other"),
                          HasSubstr("it was ended by an exception")));
  if (text.find("wait for each other") != std::string::npos) {
    EXPECT_THAT(text, HasSubstr("receive 'detour' number 0"));
    EXPECT_THAT(text, HasSubstr("all-reduce 'sum' number 0"));
    EXPECT_THAT(text, HasSubstr("why: a detour was taken, on rank 1 alone"));
    EXPECT_THAT(text, HasSubstr("within: a detour, since"));
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

TEST_F(LateRank, is_lost_where_all_receive_under_one_name_before_they_send) {
  ProgressOptions short_silence = options(3600);
  short_silence.deadline = 5;
  std::string text;
  {
    Progress progress(world, short_silence);
    const int ranks = world.size();
    std::vector<float> in(3);
    std::vector<float> out(3);
    text = failure_of([&] {
      receive(progress, "ring", (world.rank() + 1) % ranks, std::span(in));
      send(progress, "ring", (world.rank() + ranks - 1) % ranks, std::span(out));
    });
    MPI_Barrier(MPI_COMM_WORLD);
  }
  EXPECT_THAT(text, HasSubstr("these ranks wait for each other"));
}

TEST_F(LateRank, is_lost_where_its_program_does_nothing_that_is_known_and_it_is_named) {
  if (world.size() < 3) GTEST_SKIP() << "nobody waits in between";
  Progress progress(world, options(of_operation));
  float token = 3;
  const std::string text = failure_of([&] {
    if (world.rank() == 0) receive(progress, "token", 1, std::span(&token, 1));
    if (world.rank() == 1) receive(progress, "other", 2, std::span(&token, 1));
    if (world.rank() == 2) {
      const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
      while (std::chrono::steady_clock::now() < end) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
        progress.throw_failure();
      }
    }
  });
  EXPECT_THAT(text, HasSubstr("did not arrive"));
  EXPECT_THAT(text, AnyOf(HasSubstr("rank 2 is alive"),
                          HasSubstr("rank 2, which is waited for in turn, is alive")));
  EXPECT_THAT(text, HasSubstr("did it leave this operation out?"));
  EXPECT_THAT(text, Not(HasSubstr("rank 1 is alive (heard")));
  MPI_Barrier(MPI_COMM_WORLD);
}

TEST_F(LateRank, whose_work_only_fills_a_wait_is_no_reason_to_wait) {
  Progress progress(world, options(of_operation));
  CallTask filler("filler", [] { std::this_thread::sleep_for(std::chrono::milliseconds(100)); });
  float one = 1;
  const std::string text = failure_of([&] {
    if (world.rank() != 0) {
      all_reduce(progress, "sum", std::span(&one, 1));
      return;
    }
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (std::chrono::steady_clock::now() < end) {
      filler.fill_wait([] { return true; });
      progress.run(progress.queue("fill"), filler);
    }
  });
  EXPECT_THAT(text, HasSubstr("did not arrive"));
  EXPECT_THAT(text, HasSubstr("rank 0"));
  MPI_Barrier(MPI_COMM_WORLD);
}

TEST_F(LateRank, may_outlive_the_progress_object_that_it_told) {
  auto progress = std::make_unique<Progress>(world, options(of_operation));
  const AtWork at_work(*progress, "lives on");
  progress.reset();
  SUCCEED();
}

}  // namespace

}  // namespace reef::test
