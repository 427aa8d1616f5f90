#include <reef/comm/detail/wire.hpp>

#include <array>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include <reef/comm/communicator.hpp>

namespace reef::comm::detail {
namespace {

struct Counter final : Receiver {
  void delivered(std::uint64_t) override { ++messages; }
  int messages = 0;
};

Header head_of(std::uint32_t piece, Bytes bytes) {
  return Header::of(operation_id(Kind::send, "x"), 0, bytes, piece);
}

/// Two ranks; messages take long enough to be looked at while they are on their way.
struct ShapedWire : testing::Test {
  void SetUp() override {
    if (world.size() < 2) GTEST_SKIP() << "no link";
  }

  Communicator world;
  LiveMeter meter;
  Wire wire{world.handle(), world.rank(), world.size(),
            profile::Network::uniform(world.size(), 20.0, 1e6), meter};
};

TEST_F(ShapedWire, what_is_here_says_when_the_last_of_it_may_be_seen) {
  constexpr std::uint32_t pieces = 3;
  constexpr Bytes bytes = 1000;
  std::array<std::vector<std::byte>, pieces> data;
  std::array<Header, pieces> headers;
  for (auto& piece : data) piece.resize(bytes);
  Counter mine;
  Counter other;
  if (world.rank() == 0) {
    for (std::uint32_t i = 0; i < pieces; ++i) {
      headers[i] = head_of(i, bytes);
      wire.send(mine, i, 1, 7, Kind::send, headers[i], data[i].data());
    }
    wire.cancel(to_ns(10));
  } else if (world.rank() == 1) {
    for (std::uint32_t i = 0; i < pieces; ++i) {
      wire.receive(i < 2 ? mine : other, i, 0, 7, Kind::receive, head_of(i, bytes), headers[i],
                   data[i].data());
    }
    EXPECT_EQ(wire.last_arrival(mine, 2), never_ns);
    while (wire.last_arrival(other, 1) == never_ns) wire.poll();
    EXPECT_EQ(mine.messages + other.messages, 0) << "this machine stood still for 20 s";
    EXPECT_EQ(wire.next_arrival(0), headers[0].arrival);
    EXPECT_EQ(wire.next_arrival(headers[1].arrival - headers[0].arrival), headers[1].arrival);
    EXPECT_EQ(wire.next_arrival(to_ns(1)), headers[2].arrival);
    EXPECT_EQ(wire.last_arrival(mine, 2), headers[1].arrival);
    EXPECT_EQ(wire.last_arrival(other, 1), headers[2].arrival);
    EXPECT_LT(headers[0].arrival, headers[1].arrival);
    EXPECT_EQ(wire.last_arrival(mine, 3), never_ns) << "one of its messages is not here";
    EXPECT_EQ(wire.last_arrival(other, 2), never_ns);
    EXPECT_EQ(wire.last_arrival(mine, 0), never_ns);
    wire.cancel(to_ns(10));
  }
}

TEST_F(ShapedWire, it_is_looked_at_as_often_as_a_message_needs_within_its_time) {
  EXPECT_EQ(wire.quiet(), to_ns(4e-3)) << "nothing is on its way";
  if (world.rank() != 1) return;
  Counter mine;
  std::vector<std::byte> data(64 << 10);
  Header large;
  Header small;
  wire.receive(mine, 0, 0, 8, Kind::receive, head_of(0, data.size()), large, data.data());
  EXPECT_EQ(wire.quiet(), to_ns(1e-3)) << "20 s leave time";
  Wire fast(world.handle(), 1, world.size(), profile::Network::uniform(world.size(), 100e-6, 1e9),
            meter);
  fast.receive(mine, 0, 0, 9, Kind::receive, head_of(0, 1000), small, data.data());
  // 101 us: three looks for the handshake and one for its only fragment.
  EXPECT_EQ(fast.quiet(), to_ns(101e-6 / 4));
  Wire real(world.handle(), 1, world.size(), {}, meter);
  real.receive(mine, 0, 0, 10, Kind::receive, head_of(0, 1000), small, data.data());
  EXPECT_EQ(real.quiet(), 0) << "nobody knows when it comes";
  for (Wire* const each : {&wire, &fast, &real}) each->cancel(to_ns(10));
}

TEST_F(ShapedWire, messages_share_the_uplink_of_who_sends_and_the_downlink_of_who_receives) {
  constexpr std::uint32_t pieces = 3;
  constexpr Bytes bytes = 100'000 - header_bytes;
  const double slow = 1e4;  // 10 s for each
  const double fast = 1e12;
  // 0: the links are slow; 1: the uplink of rank 0; 2: the downlink of rank 1.
  for (const int tag : {0, 1, 2}) {
    const auto ranks = static_cast<std::size_t>(world.size());
    const std::vector<double> none(ranks, fast);
    const profile::Network links = profile::Network::uniform(world.size(), 0, tag == 0 ? slow : fast);
    const profile::Network shape =
        links.with_uplinks(std::vector<double>(ranks, tag == 1 ? slow : fast),
                           std::vector<double>(ranks, tag == 2 ? slow : fast));
    Wire one(world.handle(), world.rank(), world.size(), shape, meter);
    std::array<std::vector<std::byte>, pieces> data;
    std::array<Header, pieces> headers;
    for (auto& piece : data) piece.resize(bytes);
    Counter mine;
    if (world.rank() == 0) {
      for (std::uint32_t i = 0; i < pieces; ++i) {
        headers[i] = head_of(i, bytes);
        one.send(mine, i, 1, 20 + tag, Kind::send, headers[i], data[i].data());
      }
      one.cancel(to_ns(10));
    } else if (world.rank() == 1) {
      for (std::uint32_t i = 0; i < pieces; ++i) {
        one.receive(mine, i, 0, 20 + tag, Kind::receive, head_of(i, bytes), headers[i],
                    data[i].data());
      }
      const std::int64_t gap = to_ns(100'000 / slow);
      const auto expect_two_gaps = [&](std::int64_t first, std::int64_t last) {
        EXPECT_NEAR(static_cast<double>(last - first), static_cast<double>(2 * gap), 10) << tag;
      };
      while (headers[2].arrival == 0) one.poll();
      if (tag < 2) {
        expect_two_gaps(headers[0].arrival, headers[2].arrival);
      } else {
        // They have left and travelled long before they are through the downlink.
        EXPECT_LT(headers[2].arrival - headers[0].arrival, gap);
        while (one.last_arrival(mine, pieces) == never_ns) one.poll();
        expect_two_gaps(one.next_arrival(0), one.last_arrival(mine, pieces));
      }
      EXPECT_EQ(mine.messages, 0) << "this machine stood still for 10 s";
      one.cancel(to_ns(10));  // what has not moved yet still writes to these buffers
    }
  }
}

}  // namespace
}  // namespace reef::comm::detail
