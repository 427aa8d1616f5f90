// What travels says what it is encoded by, and who expects something else refuses it.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <comm/groups.hpp>
#include <comm/reference.hpp>
#include <reef/comm/collectives.hpp>
#include <reef/comm/functions.hpp>
#include <reef/comm/point_to_point.hpp>

namespace {

using namespace reef;
using namespace reef::comm;
using reef::test::inputs_of;
using reef::test::options_of;
using reef::test::Travel;
using testing::HasSubstr;

struct Codecs : testing::TestWithParam<Travel> {
  [[nodiscard]] int next() const { return (world.rank() + 1) % world.size(); }
  [[nodiscard]] int previous() const { return (world.rank() + world.size() - 1) % world.size(); }
  [[nodiscard]] ProgressOptions options() const {
    ProgressOptions options = options_of(GetParam(), 1000);
    options.heartbeat = 0.05;
    return options;
  }
  static std::string failure_of(Progress& progress, Task& task) {
    try {
      progress.run(progress.queue("q"), task);
      // Its part may be done before the news of another's comes.
      std::vector<float> data(1);
      AllReduceTask<float> after("after", std::span(data), progress.size());
      progress.run(progress.queue("after"), after);
      // A send may be in flight while the peer has what it carried.
      progress.wait_all();
    } catch (const std::exception& error) {
      return error.what();
    }
    return "";
  }

  Communicator world;
};

TEST_P(Codecs, or_none_may_do_without_checksums_where_both_ends_do) {
  for (const bool alike : {true, false}) {
    ProgressOptions mine = options();
    mine.checksums = !alike && world.rank() == 0;
    Progress progress(world, mine);
    const std::vector<float> sent = inputs_of<float>(world.rank(), 700);
    std::vector<float> received(sent.size());
    SendTask send("x", next(), std::span(sent));
    ReceiveTask receive("x", previous(), std::span(received));
    progress.submit(progress.queue("send"), send);
    const std::string failure = failure_of(progress, receive);
    if (alike) {
      EXPECT_EQ(failure, "");
      EXPECT_EQ(received, inputs_of<float>(previous(), 700));
    } else {
      EXPECT_THAT(failure, HasSubstr("a payload whose checksum does not match"));
    }
  }
}

TEST_P(Codecs, of_every_number_travel_where_both_ends_say_the_same) {
  Progress progress(world, options());
  for (const int codec : {0, 1, 3, 128, 255}) {
    const std::vector<float> sent = inputs_of<float>(world.rank(), 700);
    std::vector<float> received(sent.size());
    SendTask send("x", next(), std::span(sent));
    ReceiveTask receive("x", previous(), std::span(received));
    std::vector<float> whole(static_cast<std::size_t>(world.size()));
    AllGatherTask<float> gather("y", std::span(sent).first(1), std::span(whole),
                                even_offsets(world.size(), world.size()));
    for (Task* const task :
         {static_cast<Task*>(&send), static_cast<Task*>(&receive), static_cast<Task*>(&gather)}) {
      task->set_codec(static_cast<std::uint8_t>(codec));
      EXPECT_EQ(task->codec(), codec);
    }
    progress.submit(progress.queue("send"), send);
    progress.submit(progress.queue("receive"), receive);
    progress.submit(progress.queue("gather"), gather);
    progress.wait_all();
    EXPECT_EQ(received, inputs_of<float>(previous(), 700));
    for (int rank = 0; rank < world.size(); ++rank) {
      EXPECT_EQ(whole[static_cast<std::size_t>(rank)], inputs_of<float>(rank, 1)[0]);
    }
  }
}

TEST_P(Codecs, that_differ_between_the_ends_of_a_transfer_are_named_with_both_numbers) {
  for (const std::size_t bytes : {std::size_t{500}, std::size_t{2500}}) {
    Progress progress(world, options());
    std::vector<std::byte> data(bytes);
    std::shared_ptr<Task> task;
    if (world.rank() == 1) {
      task = std::make_shared<SendTask>("activation", 0, std::span(data));
      task->set_codec(3);
    } else {
      task = std::make_shared<ReceiveTask>(world.rank() == 0 ? "activation" : "never",
                                           world.rank() == 0 ? 1 : 0, std::span(data));
    }
    const std::string text = failure_of(progress, *task);
    EXPECT_THAT(text, HasSubstr("rank 0 is at transfer 'activation' number 0, piece 0, "));
    EXPECT_THAT(text, HasSubstr("bytes, encoded by codec 0;"));
    EXPECT_THAT(text, HasSubstr("rank 1 sent transfer 'activation' number 0, piece 0, "));
    EXPECT_THAT(text, HasSubstr("bytes, encoded by codec 3.\n  fix: the same codec"));
  }
}

TEST_P(Codecs, that_differ_in_a_collective_are_refused) {
  Progress progress(world, options());
  const std::int64_t n = 40'000;
  std::vector<std::uint8_t> whole(static_cast<std::size_t>(n * world.size()));
  const std::vector<std::uint8_t> own(static_cast<std::size_t>(n), 7);
  AllGatherTask<std::uint8_t> task("gradients", std::span(own), std::span(whole),
                                   even_offsets(n * world.size(), world.size()));
  task.set_codec(world.rank() == 0 ? 9 : 2);
  const std::string text = failure_of(progress, task);
  EXPECT_THAT(text, HasSubstr("all-gather 'gradients' number 0"));
  EXPECT_THAT(text, HasSubstr("encoded by codec 9"));
  EXPECT_THAT(text, HasSubstr("encoded by codec 2"));
}

TEST_P(Codecs, that_are_alike_say_nothing_where_something_else_differs) {
  Progress progress(world, options());
  std::vector<float> data(static_cast<std::size_t>(100 + world.rank()));
  AllReduceTask<float> task("loss", std::span(data), world.size());
  task.set_codec(4);
  EXPECT_THAT(failure_of(progress, task), testing::AllOf(HasSubstr("all-reduce 'loss' number 0"),
                                                         testing::Not(HasSubstr("encoded by"))));
}

INSTANTIATE_TEST_SUITE_P(By, Codecs,
                         testing::Values(Travel::messages, Travel::slots, Travel::reads),
                         [](const auto& way) {
                           return way.param == Travel::messages ? "messages"
                                  : way.param == Travel::slots  ? "slots"
                                                                : "reads";
                         });

}  // namespace
