#include <reef/comm/point_to_point.hpp>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <comm/reference.hpp>
#include <reef/comm/functions.hpp>

namespace {

using namespace reef;
using namespace reef::comm;
using reef::test::inputs_of;
using reef::test::same_bits;

struct PointToPoint : testing::Test {
  PointToPoint() : progress(world, options()) {}
  static ProgressOptions options() {
    ProgressOptions options;
    options.deadline = 40;
    options.piece_bytes = 1000;
    return options;
  }
  [[nodiscard]] int next() const { return (world.rank() + 1) % world.size(); }
  [[nodiscard]] int previous() const { return (world.rank() + world.size() - 1) % world.size(); }

  Communicator world;
  Progress progress;
};

TEST_F(PointToPoint, a_ring_passes_arrays_of_any_size_on) {
  for (const std::int64_t n : {0, 1, 249, 250, 251, 100'003}) {
    const std::vector<float> sent = inputs_of<float>(world.rank(), n);
    std::vector<float> received(static_cast<std::size_t>(n), -1);
    SendTask send("ring", next(), std::span(sent));
    ReceiveTask receive("ring", previous(), std::span(received));
    progress.submit(progress.queue("send"), send);
    progress.submit(progress.queue("receive"), receive);
    progress.wait(send);
    progress.wait(receive);
    EXPECT_TRUE(same_bits(received, inputs_of<float>(previous(), n))) << "n = " << n;
  }
}

/// Of a communicator that was split off, too: with the 32767 tags that every MPI has, two of these would share one.
TEST_F(PointToPoint, as_many_names_as_a_long_step_has_do_not_meet) {
  const Communicator split = world.split(0, world.rank(), "split");
  Progress own(split, options());
  const std::vector<float> sent{1};
  std::vector<float> received{0};
  for (int i = 0; i < 2000; ++i) {
    const std::string name = "name " + std::to_string(i);
    SendTask send(name, next(), std::span(sent));
    ReceiveTask receive(name, previous(), std::span(received));
    own.submit(own.queue("send"), send);
    own.submit(own.queue("receive"), receive);
    own.wait(send);
    own.wait(receive);
  }
  EXPECT_EQ(received, sent);
}

TEST_F(PointToPoint, messages_meet_by_name_whatever_the_order) {
  constexpr int count = 8;
  std::vector<std::vector<double>> sent;
  std::vector<std::vector<double>> received(count, std::vector<double>(300));
  std::vector<std::unique_ptr<SendTask>> sends;
  std::vector<std::unique_ptr<ReceiveTask>> receives;
  for (std::uint64_t i = 0; i < count; ++i) {
    sent.push_back(inputs_of<double>(world.rank(), 300, i));
  }
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t back = count - 1 - i;
    sends.push_back(
        std::make_unique<SendTask>("micro" + std::to_string(i), next(), std::span(sent[i])));
    receives.push_back(std::make_unique<ReceiveTask>("micro" + std::to_string(back), previous(),
                                                     std::span(received[back])));
    progress.submit(progress.queue("send"), *sends.back());
    // A queue each: in one they would wait for each other in the wrong order.
    progress.submit(progress.queue("receive" + std::to_string(back)), *receives.back());
  }
  progress.wait_all();
  for (std::size_t i = 0; i < count; ++i) {
    EXPECT_TRUE(same_bits(received[i], inputs_of<double>(previous(), 300, i)));
  }
}

TEST_F(PointToPoint, a_task_is_used_again_with_other_memory) {
  std::vector<int> sent(500);
  std::vector<int> first(500);
  std::vector<int> second(500);
  SendTask send("again", next(), std::span(sent));
  ReceiveTask receive("again", previous(), std::span(first));
  for (int round = 0; round < 6; ++round) {
    sent.assign(sent.size(), 10 * world.rank() + round);
    auto& target = round % 2 == 0 ? first : second;
    receive.bind(std::span(target));
    progress.submit(progress.queue("send"), send);
    progress.submit(progress.queue("receive"), receive);
    progress.wait(receive);
    progress.wait(send);
    EXPECT_EQ(target, std::vector<int>(500, 10 * previous() + round));
  }
}

TEST_F(PointToPoint, at_most_as_many_bytes_travel_as_the_sender_has) {
  constexpr Bytes most = 3500;  // 4 messages
  const std::vector<float> sent = inputs_of<float>(world.rank(), most / sizeof(float));
  std::vector<float> received(sent.size());
  SendTask send("at most", next(), std::span(sent));
  ReceiveTask receive("at most", previous(), std::span(received));
  EXPECT_THROW(send.set_used(most - 1), OptionError);  // lengths are exact
  send.set_length(Length::at_most);
  receive.set_length(Length::at_most);
  EXPECT_THROW(send.set_used(most + 1), OptionError);
  for (const Bytes used : {most, Bytes{0}, Bytes{4}, Bytes{1000}, Bytes{2004}, most - 4}) {
    received.assign(sent.size(), -1);
    send.set_used(used);
    const Meter before = progress.meter();
    progress.submit(progress.queue("send"), send);
    progress.submit(progress.queue("receive"), receive);
    progress.wait(send);
    progress.wait(receive);
    EXPECT_EQ(receive.used(), used);
    const auto counted = progress.meter().of(Kind::send) - before.of(Kind::send);
    EXPECT_EQ(counted.messages, 4U);
    EXPECT_EQ(counted.bytes, used + 4 * header_bytes);
    std::vector<float> expected = inputs_of<float>(previous(), std::ssize(sent));
    for (std::size_t i = used / sizeof(float); i < expected.size(); ++i) expected[i] = -1;
    EXPECT_TRUE(same_bits(received, expected)) << used;
  }
}

TEST_F(PointToPoint, the_meter_counts_what_cost_says) {
  for (const Bytes bytes : {Bytes{0}, Bytes{1}, Bytes{1000}, Bytes{1001}, Bytes{54'321}}) {
    const Meter before = progress.meter();
    std::vector<char> sent(bytes, 'x');
    std::vector<char> received(bytes);
    SendTask send("cost", next(), std::span(sent));
    ReceiveTask receive("cost", previous(), std::span(received));
    progress.submit(progress.queue("send"), send);
    progress.submit(progress.queue("receive"), receive);
    progress.wait_all();
    EXPECT_EQ(received, sent);
    EXPECT_EQ(progress.meter().of(Kind::send) - before.of(Kind::send),
              SendTask::cost(bytes, progress.piece_bytes()));
    EXPECT_EQ(progress.meter().of(Kind::receive), Cost{});
  }
}

TEST_F(PointToPoint, a_peer_that_is_not_there_is_refused) {
  std::vector<float> data(3);
  for (const int peer : {-1, world.rank(), world.size()}) {
    SendTask send("nowhere", peer, std::span(data));
    EXPECT_THROW(progress.submit(progress.queue("send"), send), OptionError) << peer;
  }
}

}  // namespace
