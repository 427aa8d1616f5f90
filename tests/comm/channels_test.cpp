#include <reef/comm/detail/channels.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reef/comm/functions.hpp>
#include <reef/core/text.hpp>

namespace reef::test {

namespace {

using namespace comm;
using comm::detail::ChannelNumbers;
using testing::HasSubstr;

TEST(ChannelNumbers, give_each_of_a_hundred_thousand_channels_a_tag_of_its_own) {
  constexpr int count = 100'000;
  ChannelNumbers numbers;
  const int largest = ChannelNumbers::first + count - 1;
  std::set<int> tags;
  const auto channel = [](int i) { return operation_id(Kind::send, concat("name ", i)); };
  for (int i = 0; i < count; ++i) {
    const auto [tag, is_new] = numbers.of(channel(i), largest);
    EXPECT_TRUE(is_new) << i;
    EXPECT_LE(tag, largest);
    tags.insert(tag);
  }
  EXPECT_EQ(tags.size(), static_cast<std::size_t>(count));
  for (const int i : {0, 1, count - 1}) EXPECT_FALSE(numbers.of(channel(i), largest).is_new) << i;
}

TEST(ChannelNumbers, that_are_used_up_are_an_error_that_says_what_to_do) {
  ChannelNumbers numbers;
  const int largest = ChannelNumbers::first + 1;
  EXPECT_EQ(numbers.of(7, largest).tag, ChannelNumbers::first);
  EXPECT_EQ(numbers.of(8, largest).tag, largest);
  try {
    numbers.of(9, largest);
    FAIL() << "no error";
  } catch (const OptionError& error) {
    EXPECT_THAT(error.what(), HasSubstr("more than 2 names"));
    EXPECT_THAT(error.what(), HasSubstr("fix: use names again"));
  }
  EXPECT_EQ(numbers.of(8, largest).tag, largest);
}

constexpr int of_names = 100'000;

/// Moves data[i] between the ranks under the name of number first + i, for all i: in ascending order where it is sent, in
/// descending order where it is received, all at once.
template <class TransferTask>
void move_all(Progress& progress, int first, std::span<int> data, bool ascending) {
  const int peer = 1 - progress.rank();
  const auto count = static_cast<int>(data.size());
  std::vector<std::unique_ptr<TransferTask>> tasks;
  for (int k = 0; k < count; ++k) {
    const int i = ascending ? k : count - 1 - k;
    tasks.push_back(std::make_unique<TransferTask>(concat("name ", first + i), peer,
                                                   data.subspan(static_cast<std::size_t>(i), 1)));
    tasks.back()->set_completion(Completion::posted);
    progress.submit(progress.queue("names"), *tasks.back());
  }
  for (const auto& task : tasks) progress.wait(*task);
}

/// Many more than a hash of 30 bits tells apart.
TEST(Names, a_hundred_thousand_of_two_ranks_meet_their_own_in_any_order) {
  const Communicator world;
  if (world.size() == 1) GTEST_SKIP() << "nobody to send to";
  ProgressOptions options;
  options.deadline = 300;
  options.transport = Transport::messages;
  Progress progress(world, options);
  std::vector<int> data(500, -1);
  for (int first = 0; first < of_names && world.rank() < 2;
       first += static_cast<int>(data.size())) {
    if (world.rank() == 0) {
      std::iota(data.begin(), data.end(), first);
      move_all<SendTask>(progress, first, data, true);
      continue;
    }
    std::fill(data.begin(), data.end(), -1);
    move_all<ReceiveTask>(progress, first, data, false);
    std::vector<int> expected(data.size());
    std::iota(expected.begin(), expected.end(), first);
    EXPECT_EQ(data, expected);
  }
  barrier(progress, "end");
}

TEST(Names, are_the_same_for_a_send_a_receive_and_collectives_of_any_queue) {
  const Communicator world;
  if (world.size() == 1) GTEST_SKIP() << "nobody to send to";
  Progress progress(world);
  const int rank = world.rank();
  const int ranks = world.size();
  std::vector<float> one(1, static_cast<float>(rank));
  std::vector<float> other(1, -1);
  SendTask out("same", (rank + 1) % ranks, std::span<const float>(one));
  ReceiveTask in("same", (rank + ranks - 1) % ranks, std::span(other));
  progress.submit(progress.queue("in"), in);
  progress.submit(progress.queue("out"), out);
  std::vector<float> sum(1, 1);
  AllReduceTask<float> first("same", std::span(sum), ranks);
  progress.run(progress.queue("a"), first);
  AllReduceTask<float> second("same", std::span(sum), ranks);
  progress.run(progress.queue("b"), second);
  progress.wait(in);
  progress.wait(out);
  EXPECT_EQ(other[0], static_cast<float>((rank + ranks - 1) % ranks));
  EXPECT_EQ(sum[0], static_cast<float>(ranks * ranks));
}

}  // namespace

}  // namespace reef::test
