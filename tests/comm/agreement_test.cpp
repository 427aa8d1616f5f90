#include <reef/comm/agreement.hpp>

#include <chrono>
#include <cstddef>
#include <exception>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reef/comm/call_task.hpp>
#include <reef/comm/communicator.hpp>
#include <reef/comm/progress.hpp>

namespace reef::test {

namespace {

class Agreement : public testing::TestWithParam<comm::Transport> {};

TEST_P(Agreement, that_fails_is_the_same_error_on_all_ranks_though_one_sees_the_numbers_last) {
  const comm::Communicator world;
  const int last = world.size() - 1;
  comm::ProgressOptions options;
  options.transport = GetParam();
  comm::CallTask never("never", [] {});
  std::string text;
  try {
    comm::Progress progress(world, options);
    if (world.rank() == last) {
      // Its progress thread comes to look at what the others sent every 20 ms only.
      progress.submit(progress.queue("slow"), never, [] {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        return false;
      });
    }
    comm::require_alike(progress, "reef::test", "options",
                        {{"options", world.rank() == last ? "1" : "2"}}, "agree.");
    ADD_FAILURE() << "no exception";
  } catch (const OptionError& error) {
    text = error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "no OptionError: " << error.what();
  }
  EXPECT_THAT(text, testing::HasSubstr("rank " + std::to_string(last) + " and rank 0 differ"));
}

TEST_P(Agreement, names_all_that_differs_on_all_ranks_and_nothing_else) {
  const comm::Communicator world;
  comm::ProgressOptions options;
  options.transport = GetParam();
  comm::Progress progress(world, options);
  const bool last = world.rank() == world.size() - 1;
  const auto difference = [&](const std::string& value, const std::string& shown = "") {
    return comm::difference(progress, "things", {{"equal", "1"}, {"other", value, shown}});
  };
  EXPECT_EQ(difference("a"), "");
  EXPECT_EQ(difference("a", last ? "b" : "c"), "") << "what is shown does not count";
  const std::string before = world.size() == 2   ? "rank 0"
                             : world.size() == 3 ? "ranks 0 and 1"
                                                 : "ranks 0 to 2";
  const std::string after = "rank " + std::to_string(world.size() - 1);
  EXPECT_EQ(difference(last ? "3:x" : "", last ? "" : "none"),
            after + " and rank 0 differ in their other: none on " + before + ", 3:x on " + after);
}

INSTANTIATE_TEST_SUITE_P(Transports, Agreement,
                         testing::Values(comm::Transport::messages, comm::Transport::window),
                         [](const auto& tested) {
                           return tested.param == comm::Transport::messages ? "messages" : "window";
                         });

using Lists = std::vector<std::vector<comm::SharedFact>>;

TEST(Differences, have_each_value_once_with_its_ranks) {
  const Lists all{{{"x", "1"}}, {{"x", "2"}}, {{"x", "1"}}, {{"x", "1"}},
                  {{"x", "1"}}, {{"x", "2"}}, {{"x", "3"}}, {}};
  EXPECT_EQ(comm::detail::describe_difference(all),
            "rank 1 and rank 0 differ in their x: 1 on ranks 0 and 2 to 4, 2 on ranks 1 and 5, "
            "3 on rank 6, nothing on rank 7");
}

TEST(Differences, of_many_things_and_long_values_stay_short) {
  Lists all(2);
  for (int i = 0; i < 11; ++i) {
    for (std::size_t rank = 0; rank < 2; ++rank) {
      all[rank].push_back({concat("n", i), concat(rank, std::string(1000, 'y'))});
    }
  }
  const std::string text = comm::detail::describe_difference(all);
  EXPECT_LT(text.size(), 5000U);
  EXPECT_THAT(text, testing::HasSubstr("differ in their n7: 0yyy"));
  EXPECT_THAT(text, testing::Not(testing::HasSubstr("n8")));
  EXPECT_THAT(text, testing::EndsWith("and in 3 more"));
}

TEST(Differences, travel_as_text_whatever_is_in_them_and_a_cut_text_is_no_more_than_that) {
  const std::vector<comm::SharedFact> all{
      {"", "", ""}, {"a:1", "3:x", std::string("n\0l", 3)}, {"b", "c"}};
  const std::string text = comm::detail::encode_alike(all);
  EXPECT_EQ(comm::detail::decode_alike(text), all);
  for (std::size_t size = 0; size < text.size(); ++size) {
    EXPECT_LT(comm::detail::decode_alike(text.substr(0, size)).size(), all.size());
  }
  for (const char* bad : {"x", "5", "5:", "99999999999999999999:", "-1:a", ":"}) {
    EXPECT_TRUE(comm::detail::decode_alike(bad).empty()) << bad;
  }
}

}  // namespace

}  // namespace reef::test
