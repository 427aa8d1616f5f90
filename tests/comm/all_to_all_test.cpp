// What each rank has for each: laws over every way to part 1 to 4 ranks, against a scalar model.

#include <reef/comm/all_to_all.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <comm/groups.hpp>
#include <comm/printers.hpp>
#include <comm/reference.hpp>
#include <reef/comm/collectives.hpp>
#include <reef/comm/functions.hpp>
#include <reef/comm/progress.hpp>

namespace {

using namespace reef;
using namespace reef::comm;
using reef::test::options_of;
using reef::test::own_group;
using reef::test::partitions_of;
using reef::test::Travel;
using testing::HasSubstr;

/// The lengths of what each of P ranks, by position, has for each: row from, column to.
using Lengths = std::vector<std::vector<std::int64_t>>;

Lengths random_lengths(std::uint32_t seed, int ranks) {
  std::mt19937 random(seed);
  constexpr std::int64_t some[] = {0, 1, 8, 999, 1000, 1001, 2000, 54'321};
  Lengths lengths(static_cast<std::size_t>(ranks),
                  std::vector<std::int64_t>(static_cast<std::size_t>(ranks)));
  for (auto& row : lengths) {
    for (auto& length : row) length = some[random() % std::size(some)];
  }
  // Whole rows and columns without a byte, by turns.
  if (seed % 4 == 1) std::fill(lengths.front().begin(), lengths.front().end(), 0);
  if (seed % 4 == 2) {
    for (auto& row : lengths) row.back() = 0;
  }
  return lengths;
}

std::byte byte_of(int from, int to, std::int64_t i, std::uint32_t seed) {
  const auto ends = static_cast<std::uint64_t>(from * 64 + to);
  return static_cast<std::byte>(
      comm::detail::mix(static_cast<std::uint64_t>(i) * 4099 + ends * 7919 + seed));
}

/// One task with its memory, and what must become of it.
class Exchanged {
public:
  Exchanged(const std::string& name, const std::optional<Group>& group, const Communicator& world,
            std::uint32_t seed)
      : members_(group ? *group : comm::detail::all_of(world.size())) {
    const int own = members_.position_of(world.rank());
    const Lengths lengths = random_lengths(seed, members_.size());
    for (int other = 0; other < members_.size(); ++other) {
      const int rank = members_.members[static_cast<std::size_t>(other)];
      const std::int64_t out = lengths[at(own)][at(other)];
      const std::int64_t in = lengths[at(other)][at(own)];
      for (std::int64_t i = 0; i < out; ++i) input_.push_back(byte_of(world.rank(), rank, i, seed));
      for (std::int64_t i = 0; i < in; ++i) wanted_.push_back(byte_of(rank, world.rank(), i, seed));
      input_offsets_.push_back(std::ssize(input_));
      output_offsets_.push_back(std::ssize(wanted_));
    }
    output_.assign(wanted_.size(), std::byte{0xee});
    task_.emplace(name, std::span<const std::byte>(input_), input_offsets_, std::span(output_),
                  output_offsets_, group);
    cost_ = AllToAllTask::cost(members_.size(), own, input_offsets_, 1000);
  }
  Exchanged(const Exchanged&) = delete;
  Exchanged& operator=(const Exchanged&) = delete;

  AllToAllTask& task() { return *task_; }
  [[nodiscard]] testing::AssertionResult right() const {
    if (!task_->complete()) return testing::AssertionFailure() << "the task is not complete";
    return reef::test::same_bits(output_, wanted_);
  }
  [[nodiscard]] const Cost& cost() const { return cost_; }
  void clear() { std::fill(output_.begin(), output_.end(), std::byte{0xee}); }

private:
  static std::size_t at(int position) { return static_cast<std::size_t>(position); }

  Group members_;
  std::vector<std::int64_t> input_offsets_{0};
  std::vector<std::int64_t> output_offsets_{0};
  std::vector<std::byte> input_, output_, wanted_;
  std::optional<AllToAllTask> task_;
  Cost cost_;
};

struct AllToAll : testing::TestWithParam<Travel> {
  [[nodiscard]] ProgressOptions options() const {
    ProgressOptions options = options_of(GetParam(), 1000);
    options.heartbeat = 0.05;
    return options;
  }

  /// What an all-to-all says, and a barrier behind it, where this rank has so many bytes for each and awaits so
  /// many: by rank.
  static std::string failure_of(Progress& progress, const std::vector<std::int64_t>& out,
                                const std::vector<std::int64_t>& in) {
    const auto offsets_of_lengths = [](const std::vector<std::int64_t>& lengths) {
      std::vector<std::int64_t> offsets{0};
      for (const std::int64_t length : lengths) offsets.push_back(offsets.back() + length);
      return offsets;
    };
    const auto input_offsets = offsets_of_lengths(out);
    const auto output_offsets = offsets_of_lengths(in);
    const std::vector<std::byte> input(static_cast<std::size_t>(input_offsets.back()));
    std::vector<std::byte> output(static_cast<std::size_t>(output_offsets.back()) + 4000,
                                  std::byte{0xee});
    std::string text;
    try {
      all_to_all(progress, "tokens", input, input_offsets,
                 std::span(output).first(static_cast<std::size_t>(output_offsets.back())),
                 output_offsets);
      barrier(progress, "its news are here");
    } catch (const std::exception& error) {
      text = error.what();
    }
    EXPECT_TRUE(std::all_of(output.end() - 4000, output.end(),
                            [](std::byte byte) { return byte == std::byte{0xee}; }));
    return text;
  }

  Communicator world;
};

TEST_P(AllToAll, of_every_partition_of_the_ranks_gives_each_member_what_the_others_have_for_it) {
  Progress progress(world, options());
  Queue& queue = progress.queue("parts");
  const auto partitions = partitions_of(world.size());
  for (std::uint32_t round = 0; round < 4; ++round) {
    std::deque<Exchanged> all;  // all of them are in the queue at once
    for (std::size_t number = 0; number < partitions.size(); ++number) {
      const Group group =
          own_group("family " + std::to_string(number), partitions[number], world.rank());
      all.emplace_back("tokens", group, world, 100 * round + static_cast<std::uint32_t>(number));
      progress.submit(queue, all.back().task());
    }
    progress.wait_all();
    for (const Exchanged& one : all) EXPECT_TRUE(one.right());
  }
}

TEST_P(AllToAll, takes_turns_with_other_collectives_of_all_ranks_and_of_groups) {
  Progress progress(world, options());
  Queue& queue = progress.queue("turns");
  const auto partitions = partitions_of(world.size());
  const Group group = own_group("some", partitions[partitions.size() / 2], world.rank());
  std::deque<Exchanged> all;
  std::deque<std::vector<float>> data;
  std::deque<AllReduceTask<float>> sums;
  for (std::uint32_t round = 0; round < 6; ++round) {
    all.emplace_back("tokens", std::nullopt, world, round);
    progress.submit(queue, all.back().task());
    all.emplace_back("tokens", group, world, 50 + round);
    progress.submit(queue, all.back().task());
    for (const bool grouped : {true, false}) {
      data.emplace_back(round % 2 == 0 ? 30'000 : 20, 1.0F);
      const int ranks = grouped ? group.size() : world.size();
      sums.emplace_back("sum", std::span(data.back()), even_offsets(std::ssize(data.back()), ranks),
                        grouped ? std::optional(group) : std::nullopt);
      progress.submit(queue, sums.back());
    }
  }
  progress.wait_all();
  for (const Exchanged& one : all) EXPECT_TRUE(one.right());
  for (std::size_t i = 0; i < data.size(); ++i) {
    const int ranks = i % 2 == 0 ? group.size() : world.size();
    EXPECT_EQ(data[i], std::vector<float>(data[i].size(), static_cast<float>(ranks))) << i;
  }
}

TEST_P(AllToAll, is_on_several_queues_at_once) {
  Progress progress(world, options());
  const auto partitions = partitions_of(world.size());
  std::deque<Exchanged> all;
  for (std::uint32_t round = 0; round < 3; ++round) {
    for (std::size_t number = 0; number < std::min<std::size_t>(partitions.size(), 5); ++number) {
      // The same name, of other members on each queue.
      const Group group = own_group("part", partitions[number], world.rank());
      all.emplace_back("tokens", group, world, 10 * round + static_cast<std::uint32_t>(number));
      progress.submit(progress.queue("queue " + std::to_string(number)), all.back().task());
    }
  }
  progress.wait_all();
  for (const Exchanged& one : all) EXPECT_TRUE(one.right());
}

TEST_P(AllToAll, sends_what_cost_says_and_is_submitted_again) {
  Progress progress(world, options());
  for (std::uint32_t seed = 0; seed < 4; ++seed) {
    Exchanged one("again", std::nullopt, world, seed);
    for (int round = 0; round < 3; ++round) {
      const Meter before = progress.meter();
      one.clear();
      run(progress, one.task());
      EXPECT_TRUE(one.right());
      const Meter after = progress.meter();
      EXPECT_EQ(after.of(Kind::all_to_all) - before.of(Kind::all_to_all), one.cost());
      EXPECT_EQ(after.operations() - before.operations(), one.cost());
    }
  }
  // Two messages of 1000 and one of 5 bytes, and one that says that there are none.
  EXPECT_EQ(AllToAllTask::cost(3, 1, std::vector<std::int64_t>{0, 2005, 3000, 3000}, 1000),
            (Cost{4, 2005 + 4 * header_bytes, 0}));
}

TEST_P(AllToAll, by_other_memory_from_the_next_submission_on) {
  Progress progress(world, options());
  const auto ranks = static_cast<std::size_t>(world.size());
  std::vector<std::byte> first(ranks, std::byte{1}), second(ranks, std::byte{2});
  std::vector<std::byte> output(ranks), other(ranks);
  const auto offsets = even_offsets(world.size(), world.size());
  AllToAllTask task("bound", first, offsets, output, offsets);
  run(progress, task);
  EXPECT_EQ(output, first);
  task.bind(second, other);
  run(progress, task);
  EXPECT_EQ(output, first);
  EXPECT_EQ(other, second);
  EXPECT_THROW(task.bind(std::span(second).first(ranks - 1), other), OptionError);
  EXPECT_THROW(task.bind(second, std::span(other).first(ranks - 1)), OptionError);
}

/// Rank p has (p + 1) * round bytes of at most 40 for each; as one part for all, and as parts.
TEST_P(AllToAll, at_most_as_many_bytes_travel_as_each_rank_has) {
  Progress progress(world, options());
  const int ranks = world.size();
  constexpr std::int64_t most = 40;
  for (const Parts parts : {Parts::one, Parts::each}) {
    const bool one = parts == Parts::one;
    const auto input_offsets = even_offsets(most * (one ? 1 : ranks), one ? 1 : ranks);
    const auto output_offsets = even_offsets(most * ranks, ranks);
    const std::vector<std::byte> input(static_cast<std::size_t>(input_offsets.back()),
                                       static_cast<std::byte>(world.rank() + 1));
    std::vector<std::byte> output(static_cast<std::size_t>(output_offsets.back()));
    AllToAllTask task(one ? "to all" : "to each", input, input_offsets, output, output_offsets, std::nullopt, parts);
    EXPECT_THROW(task.set_used(0, 1), OptionError);
    task.set_length(Length::at_most);
    EXPECT_THROW(task.set_used(0, most + 1), OptionError);
    for (const int round : {0, 1, 10}) {
      output.assign(output.size(), std::byte{0});
      for (int p = 0; p < ranks; ++p) task.set_used(p, static_cast<Bytes>((world.rank() + 1) * round));
      const Meter before = progress.meter();
      run(progress, task);
      const auto others = static_cast<Bytes>(ranks - 1);
      const Cost cost{others, others * (header_bytes + static_cast<Bytes>((world.rank() + 1) * round)), 0};
      EXPECT_EQ(progress.meter().of(Kind::all_to_all) - before.of(Kind::all_to_all), cost);
      for (int p = 0; p < ranks; ++p) {
        for (std::int64_t i = 0; i < most; ++i) {
          const auto expected = i < (p + 1) * round ? static_cast<std::byte>(p + 1) : std::byte{0};
          ASSERT_EQ(output[static_cast<std::size_t>(p * most + i)], expected) << p << " " << i;
        }
      }
    }
  }
}

TEST_P(AllToAll, offsets_that_are_not_of_its_buffers_and_ranks_are_refused) {
  Progress progress(world, options());
  const auto ranks = static_cast<std::size_t>(world.size());
  std::vector<std::byte> input(ranks), output(ranks);
  const auto good = even_offsets(world.size(), world.size());
  const auto refused = [&](std::vector<std::int64_t> in, std::vector<std::int64_t> out,
                           std::optional<Group> group = {}) {
    EXPECT_THROW(AllToAllTask("x", input, std::move(in), output, std::move(out), std::move(group)),
                 OptionError);
  };
  auto bad = good;
  bad.back() += 1;  // too long
  refused(bad, good);
  refused(good, bad);
  bad = good;
  bad.front() = 1;
  refused(bad, good);
  bad = good;
  bad.insert(bad.begin(), 0);  // for a rank more on one side
  refused(bad, good);
  refused(good, bad);
  refused({}, {});
  refused(good, good, Group{"more", {0, 1, 2, 3, 4}});
  refused(good, good, Group{"", {0}});
  // Of another number of ranks than there are, and of a group without this one.
  AllToAllTask five("five", input, {0, 0, 0, 0, 0, std::ssize(input)}, output,
                    {0, 0, 0, 0, 0, std::ssize(output)});
  EXPECT_THAT(
      [&] {
        Progress other(world, options());
        run(other, five);
      },
      testing::Throws<std::exception>(
          testing::Property(&std::exception::what, HasSubstr("has shards for 5 ranks"))));
  const int stranger = world.rank() == 0 ? 1 : 0;
  AllToAllTask others("others", input, {0, std::ssize(input)}, output, {0, std::ssize(output)},
                      Group{"others", {stranger}});
  EXPECT_THROW(progress.submit(progress.queue("q"), others), OptionError);
}

TEST_P(AllToAll, own_parts_of_two_lengths_are_an_error_that_all_ranks_hear_of) {
  Progress progress(world, options());
  const auto ranks = static_cast<std::size_t>(world.size());
  std::vector<std::int64_t> in(ranks, 4);
  if (world.rank() == 0) in[0] = 5;
  EXPECT_THAT(failure_of(progress, std::vector<std::int64_t>(ranks, 4), in),
              HasSubstr("keeps 4 bytes of its input, but has 5"));
}

TEST_P(AllToAll, lengths_that_differ_between_two_ranks_are_an_error_at_once) {
  if (world.size() == 1) GTEST_SKIP() << "one rank agrees with itself";
  const auto ranks = static_cast<std::size_t>(world.size());
  // What rank 1 has for rank 0, and what that awaits.
  const std::pair<std::int64_t, std::int64_t> cases[] = {
      {10, 11},     {11, 10}, {0, 7},       {7, 0},       {1000, 2000},
      {2000, 1000}, {0, 999}, {3000, 1000}, {2500, 2400}, {1000, 1001}};
  for (const auto& [sent, awaited] : cases) {
    Progress progress(world, options());
    std::vector<std::int64_t> out(ranks, 20);
    std::vector<std::int64_t> in(ranks, 20);
    if (world.rank() == 1) out[0] = sent;
    if (world.rank() == 0) in[1] = awaited;
    const std::string text = failure_of(progress, out, in);
    EXPECT_THAT(text, HasSubstr("rank 0 is at all-to-all 'tokens' number 0"))
        << sent << " for " << awaited;
    // MPICH throws away the header of what is longer than its buffer.
    EXPECT_THAT(text, testing::AnyOf(HasSubstr("rank 1 sent all-to-all 'tokens' number 0"),
                                     HasSubstr("rank 1 sent a longer message")));
  }
}

TEST_P(AllToAll, a_member_that_stays_away_is_named_and_nobody_else) {
  if (world.size() < 3) GTEST_SKIP() << "nobody else";
  ProgressOptions soon = options();
  soon.operation_deadline = 3;  // which the others must not miss: they leave the barrier together
  soon.abort_on_deadline = false;
  Progress progress(world, soon);
  barrier(progress, "together");
  const auto ranks = static_cast<std::size_t>(world.size());
  const std::vector<std::int64_t> lengths(ranks, 3000);
  std::string text;
  if (world.rank() != 1) {
    text = failure_of(progress, lengths, lengths);
  } else {
    try {
      std::vector<float> data(1);
      receive(progress, "never", 0, std::span(data));
    } catch (const std::exception& error) {
      text = error.what();
    }
  }
  EXPECT_THAT(text,
              testing::AnyOf(HasSubstr("all-to-all 'tokens' number 0 in queue 'default', since"),
                             HasSubstr("receive 'never'")));
  EXPECT_THAT(text, testing::AnyOf(HasSubstr(": rank 1 did not arrive."),
                                   HasSubstr(": rank 0 did not arrive.")));
}

INSTANTIATE_TEST_SUITE_P(By, AllToAll, testing::Values(Travel::messages, Travel::reads),
                         [](const auto& way) {
                           return way.param == Travel::messages ? "messages" : "reads";
                         });

}  // namespace
