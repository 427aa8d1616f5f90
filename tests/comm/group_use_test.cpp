// What else groups can do, and what is refused.

#include <reef/comm/gather.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <comm/groups.hpp>
#include <comm/reference.hpp>
#include <reef/comm/functions.hpp>
#include <reef/trace/sink.hpp>

namespace {

using namespace reef;
using namespace reef::comm;
using reef::test::inputs_of;
using reef::test::no_reads;
using reef::test::offsets_of;
using reef::test::options_of;
using reef::test::own_group;
using reef::test::partitions_of;
using reef::test::same_bits;
using reef::test::tests_another_way;
using reef::test::Travel;
using testing::HasSubstr;

class GroupsOf : public testing::TestWithParam<Travel> {
protected:
  void SetUp() override {
    if (tests_another_way(GetParam(), world)) GTEST_SKIP() << no_reads;
  }

  /// Deadlines are thrown.
  [[nodiscard]] static ProgressOptions patient() {
    ProgressOptions options = options_of(GetParam());
    options.abort_on_deadline = false;
    return options;
  }

  /// Of `n` elements of each member, large enough to be read in place.
  static constexpr std::int64_t n = 40'000;

  /// The text of what ends the progress of every rank: out of `task`, or of waiting for the others'.
  static std::string failure_of(Progress& progress, Task* task) {
    try {
      if (task != nullptr) progress.run(progress.queue("q"), *task);
      barrier(progress, "after");
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  Communicator world;
};

INSTANTIATE_TEST_SUITE_P(Ways, GroupsOf,
                         testing::Values(Travel::messages, Travel::slots, Travel::reads),
                         [](const auto& way) {
                           return std::string(way.param == Travel::messages ? "messages"
                                              : way.param == Travel::slots  ? "slots"
                                                                            : "reads");
                         });

TEST_P(GroupsOf, any_root_broadcast_and_gather_among_their_members) {
  Progress progress(world, patient());
  const int rank = world.rank();
  const auto partitions = partitions_of(world.size());
  for (std::size_t number = 0; number < partitions.size(); ++number) {
    const Group group = own_group("part " + std::to_string(number), partitions[number], rank);
    for (const int root : group.members) {
      std::vector<float> data = inputs_of<float>(rank, 77);
      broadcast(progress, "from the root", root, std::span(data), group);
      EXPECT_TRUE(same_bits(data, inputs_of<float>(root, 77)));

      const auto offsets = offsets_of(2, 90, group.size());
      const auto at = static_cast<std::size_t>(group.position_of(rank));
      const std::vector<float> whole = inputs_of<float>(root, 90);
      const auto own = std::span<const float>(whole).subspan(
          static_cast<std::size_t>(offsets[at]),
          static_cast<std::size_t>(offsets[at + 1] - offsets[at]));
      std::vector<float> output(rank == root ? 90 : 0, -1);
      gather(progress, "to the root", root, own, std::span(output), offsets, group);
      EXPECT_TRUE(rank != root || same_bits(output, whole));
    }
    barrier(progress, "meet", group);
    EXPECT_EQ(gather_numbers(progress, "ranks", rank, group), group.members);
    for (int other = 0; other < world.size(); ++other) {
      if (group.has(other)) continue;
      std::vector<float> data(3);
      EXPECT_THROW(broadcast(progress, "no root", other, std::span(data), group), OptionError);
    }
  }
}

TEST_P(GroupsOf, chunks_narrower_than_their_sum_widen_them_also_where_one_rank_is_alone) {
  Progress progress(world, patient());
  const auto partitions = partitions_of(world.size());
  for (std::size_t number = 0; number < partitions.size(); ++number) {
    const Group group =
        own_group("part " + std::to_string(number), partitions[number], world.rank());
    const auto offsets = even_offsets(n, group.size());
    const auto at = static_cast<std::size_t>(group.position_of(world.rank()));
    const std::vector<Bfloat16> input = inputs_of<Bfloat16>(world.rank(), n);
    std::vector<float> output(static_cast<std::size_t>(offsets[at + 1] - offsets[at]), -1);
    reduce_scatter(progress, "wide", std::span<const Bfloat16>(input), std::span(output), offsets,
                   group);
    std::vector<float> sum(output.size(), -1);
    for (const int member : group.members) {
      const std::vector<Bfloat16> chunk = inputs_of<Bfloat16>(member, n);
      for (std::size_t i = 0; i < sum.size(); ++i) {
        const float next = float(chunk[static_cast<std::size_t>(offsets[at]) + i]);
        sum[i] = member == group.members.front() ? next : sum[i] + next;
      }
    }
    EXPECT_TRUE(same_bits(output, sum));
  }
}

TEST_P(GroupsOf, the_trace_meet_in_messages_of_their_own) {
  trace::Sink sink(world.rank());
  std::uint64_t message = 0;
  const int rank = world.rank();
  std::vector<int> parts(static_cast<std::size_t>(world.size()));
  for (int other = 0; other < world.size(); ++other) {
    parts[static_cast<std::size_t>(other)] = other % 2;
  }
  const Group group = own_group("parity", parts, rank);
  {
    ProgressOptions options = patient();
    options.trace = &sink;
    Progress progress(world, options);
    std::vector<float> data(9, 1);
    all_reduce(progress, "sum", std::span(data), group);
    trace::Recording recording;
    for (const trace::Span& span : sink.collect(recording)) {
      if (span.role == trace::Role::meets) message = span.message;
    }
  }
  EXPECT_NE(message, 0U);
  Progress progress(world, patient());
  const auto messages = gather_numbers(progress, "messages", message);
  for (std::size_t other = 0; other < messages.size(); ++other) {
    EXPECT_EQ(messages[other] == message, group.has(static_cast<int>(other))) << other;
  }
}

TEST_P(GroupsOf, ranks_that_are_not_there_or_not_this_one_are_refused_before_anything_is_sent) {
  const int ranks = world.size();
  const int rank = world.rank();
  Progress progress(world, patient());
  std::vector<float> data(10, 1);
  const auto submit = [&](const Group& group) {
    AllReduceTask<float> task("sum", std::span(data), even_offsets(10, group.size()), group);
    progress.run(progress.queue("q"), task);
  };
  EXPECT_THROW(submit({"far", {rank, ranks}}), OptionError);
  EXPECT_THROW(submit({"others", {rank + 1}}), OptionError);
  if (rank > 0) {
    EXPECT_THROW(submit({"others", {rank - 1}}), OptionError);
  }
  EXPECT_THROW(submit({"", {rank}}), OptionError);
  EXPECT_THROW(submit({"none", {}}), OptionError);
  EXPECT_THROW(submit({"twice", {rank, rank}}), OptionError);
  const Group alone{"alone", {rank}};
  const auto make = [&](std::vector<std::int64_t> offsets) {
    return AllReduceTask<float>("bad", std::span(data), std::move(offsets), alone).name();
  };
  EXPECT_THROW(make({}), OptionError);
  EXPECT_THROW(make({0, 5, 10}), OptionError);
  EXPECT_THROW(make({0, 9}), OptionError);
  submit(alone);
  EXPECT_EQ(data, std::vector<float>(10, 1));
  barrier(progress, "goes on");
}

TEST_P(GroupsOf, one_name_on_one_queue_have_the_same_members_each_time) {
  if (world.size() == 1) GTEST_SKIP() << "one rank has one group";
  const int rank = world.rank();
  Progress progress(world, patient());
  std::vector<float> data(10, 1);
  const Group before{"part", {rank}};
  const Group after =
      own_group("part", std::vector<int>(static_cast<std::size_t>(world.size())), rank);
  AllReduceTask<float> first("sum", std::span(data), {0, 10}, before);
  AllReduceTask<float> second("sum", std::span(data), even_offsets(10, after.size()), after);
  Queue& queue = progress.queue("q");
  progress.run(queue, first);
  EXPECT_THROW(progress.run(queue, second), OptionError);
  progress.run(progress.queue("another"), second);
  EXPECT_EQ(data, std::vector<float>(10, static_cast<float>(world.size())));
  progress.run(queue, first);
}

TEST_P(GroupsOf, other_members_on_one_rank_are_refused_on_all) {
  if (world.size() < 3) GTEST_SKIP() << "two groups with rank 0 and another";
  Progress progress(world, patient());
  Group group{"stage 0", {0, 1}};
  std::vector<std::int64_t> offsets{0, n / 2, n};  // messages of the same sizes either way
  if (world.rank() != 0) {
    group.members.push_back(2);
    offsets.push_back(n);
  }
  std::vector<float> data(n, 1);
  AllReduceTask<float> task("sum", std::span(data), offsets, group);
  const std::string text = failure_of(progress, group.has(world.rank()) ? &task : nullptr);
  EXPECT_THAT(text, HasSubstr("do not do the same thing"));
  EXPECT_THAT(text, HasSubstr("all-reduce 'sum' of group 'stage 0' number 0"));
  EXPECT_THAT(text, HasSubstr("with other members of the group"));
  EXPECT_THROW(progress.throw_failure(), Error);
}

TEST_P(GroupsOf, another_order_on_one_member_is_refused_on_all_ranks) {
  if (world.size() < 2) GTEST_SKIP() << "one rank agrees with itself";
  Progress progress(world, patient());
  const Group group{"stage 0", {0, 1}};
  std::vector<float> data(n, 1);
  AllReduceTask<float> task(world.rank() == 0 ? "first" : "second", std::span(data),
                            even_offsets(n, 2), group);
  const std::string text = failure_of(progress, group.has(world.rank()) ? &task : nullptr);
  EXPECT_THAT(text, HasSubstr("do not do the same thing"));
  EXPECT_THAT(text, HasSubstr("all-reduce 'first'"));
  EXPECT_THAT(text, HasSubstr("all-reduce 'second'"));
  EXPECT_THAT(text, HasSubstr("of group 'stage 0'"));
}

TEST_P(GroupsOf, which_one_member_stays_away_name_it_and_nobody_else) {
  if (world.size() < 3) GTEST_SKIP() << "a group beside which there are others";
  ProgressOptions options = patient();
  options.operation_deadline = 1;
  Progress progress(world, options);
  const int last = world.size() - 1;
  const Group group{"stage 0", {0, last}};
  std::vector<float> data(n, 1);
  AllReduceTask<float> task("sum", std::span(data), even_offsets(n, 2), group);
  std::string text;
  if (world.rank() == 0) {
    text = failure_of(progress, &task);
    EXPECT_THAT(text,
                HasSubstr("waits at all-reduce 'sum' number 0 in queue 'q', group 'stage 0'"));
    EXPECT_THAT(text, HasSubstr(": rank " + std::to_string(last) + " did not arrive."));
  } else {
    // Whoever waits for nothing is told.
    const auto await_failure = [&] {
      while (true) {
        progress.throw_failure();
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    };
    EXPECT_THROW(await_failure(), PeerError);
  }
}

}  // namespace
