#include <reef/trainer/detail/agreement.hpp>

#include <chrono>
#include <exception>
#include <string>
#include <thread>

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
    reef::detail::require_agreement(progress, "options", world.rank() == last ? 1 : 2, "agree.");
    ADD_FAILURE() << "no exception";
  } catch (const OptionError& error) {
    text = error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "no OptionError: " << error.what();
  }
  EXPECT_THAT(text, testing::HasSubstr("rank " + std::to_string(last) + " and rank 0 differ"));
}

INSTANTIATE_TEST_SUITE_P(Transports, Agreement,
                         testing::Values(comm::Transport::messages, comm::Transport::window),
                         [](const auto& tested) {
                           return tested.param == comm::Transport::messages ? "messages" : "window";
                         });

}  // namespace

}  // namespace reef::test
