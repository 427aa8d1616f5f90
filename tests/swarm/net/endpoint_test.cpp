#include <reef/swarm/net/endpoint.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <reef/comm/network_shape.hpp>
#include <reef/core/error.hpp>

#include "recorded_peer.hpp"

namespace {

using namespace reef;
using namespace std::chrono_literals;
using swarm::Frame;
using swarm::FrameKind;
using swarm::Sent;
using test::loopback_options;
using test::RawConnection;
using test::RecordedPeer;

std::vector<std::byte> bulk_message(std::uint64_t seed, std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>((seed * 131 + i * 7 + i / 251) & 255);
  return bytes;
}

Frame beat(int count) { return Frame::control(FrameKind::beat, "{\"count\": " + std::to_string(count) + "}"); }

/// Sends 200 beats, one after the other, whenever there is a connection. On the loop's thread.
void send_beats(RecordedPeer& from, const std::string& to, int count) {
  if (from.endpoint().send(to, beat(count)) == Sent::queued) ++count;
  if (count < 200) from.endpoint().after(100us, [&from, to, count] { send_beats(from, to, count); });
}

swarm::EndpointOptions silent_options(const std::string& name) {
  auto options = loopback_options(name);
  options.listen = {};
  return options;
}

TEST(SwarmEndpoint, carries_control_and_bulk_of_every_size_whole_and_in_order) {
  RecordedPeer a(loopback_options("a"));
  RecordedPeer b(silent_options("b"));
  b.endpoint().connect(a.address(), "a");
  a.wait_connected();
  b.wait_connected();
  EXPECT_EQ(a.record().connected[0].name, "b");
  EXPECT_EQ(a.record().connected[0].incarnation, b.endpoint().incarnation());
  const std::vector<std::size_t> sizes{1, 63, 65472, 65473, 200000, 4 << 20, 16 << 20};
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const swarm::FrameHead head{1, static_cast<std::uint32_t>(i), 5, 6, 7};
    EXPECT_EQ(a.send("b", Frame::bulk(head, bulk_message(i, sizes[i]))), Sent::queued);
    EXPECT_EQ(b.send("a", beat(static_cast<int>(i))), Sent::queued);
  }
  b.wait_frames(sizes.size());
  a.wait_frames(sizes.size());
  const auto bulk = b.record().frames;
  const auto beats = a.record().frames;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    EXPECT_EQ(bulk[i].first, "a");
    EXPECT_EQ(bulk[i].second.head, (swarm::FrameHead{1, static_cast<std::uint32_t>(i), 5, 6, 7}));
    EXPECT_TRUE(*bulk[i].second.bytes == bulk_message(i, sizes[i])) << sizes[i];
    EXPECT_EQ(beats[i].second.text, beat(static_cast<int>(i)).text);
  }
  const auto traffic = a.on_loop([&] { return a.endpoint().traffic("b"); });
  EXPECT_GT(traffic.sent, 20U << 20);
  EXPECT_EQ(traffic.queued, 0U);
  EXPECT_GT(b.endpoint().all_traffic().received, 20U << 20);
  EXPECT_GT(a.endpoint().all_traffic().received, 0U);
  b.close();
  a.wait_lost("b", "");
  EXPECT_GT(a.endpoint().all_traffic().sent, 20U << 20) << "what was sent over a connection that has ended";
}

TEST(SwarmEndpoint, sends_control_before_bulk_that_was_queued_first_and_streams_in_turn) {
  RecordedPeer a(loopback_options("a"));
  RecordedPeer b(silent_options("b"));
  b.endpoint().connect(a.address());
  b.wait_connected();
  b.on_loop([&] {
    for (std::uint32_t i = 0; i < 3; ++i) {
      b.endpoint().send("a", Frame::bulk({.stream = 1, .piece = i}, bulk_message(i, 4 << 20)));
    }
    b.endpoint().send("a", Frame::bulk({.stream = 2}, bulk_message(9, 100000)));
    b.endpoint().send("a", beat(1));
    return 0;
  });
  a.wait_frames(5);
  const auto frames = a.record().frames;
  EXPECT_EQ(frames[0].second.kind, FrameKind::beat);
  EXPECT_EQ(frames[1].second.head.stream, 2U) << "a short message of another stream waits for no long one";
  for (std::uint32_t i = 0; i < 3; ++i) EXPECT_EQ(frames[2 + i].second.head.piece, i);
}

TEST(SwarmEndpoint, two_that_connect_to_each_other_keep_one_connection_and_lose_nothing) {
  for (int round = 0; round < 8; ++round) {
    RecordedPeer a(loopback_options("a"));
    RecordedPeer b(loopback_options("b"));
    a.endpoint().post([&] { send_beats(a, "b", 0); });
    b.endpoint().post([&] { send_beats(b, "a", 0); });
    a.endpoint().connect(b.address());
    b.endpoint().connect(a.address());
    a.wait_frames(200);
    b.wait_frames(200);
    for (RecordedPeer* peer : {&a, &b}) {
      EXPECT_EQ(peer->record().connected.size(), 1U);
      EXPECT_TRUE(peer->record().lost.empty());
      EXPECT_EQ(peer->record().frames.size(), 200U);
      EXPECT_EQ(peer->on_loop([&] { return peer->endpoint().peers().size(); }), 1U);
    }
  }
}

TEST(SwarmEndpoint, a_later_incarnation_takes_the_place_and_an_older_one_is_refused) {
  RecordedPeer a(loopback_options("a"));
  RawConnection first(a.address());
  first.enter("b", 10);
  a.wait_connected(1);
  RawConnection second(a.address());
  second.enter("b", 11);
  a.wait_connected(2);
  EXPECT_EQ(a.record().lost.size(), 1U);
  EXPECT_EQ(a.record().connected[1].incarnation, 11U);
  EXPECT_NE(first.refusal().find("later incarnation"), std::string::npos);
  RawConnection late(a.address());
  late.send(Frame::control(FrameKind::hello, RawConnection::hello("b", 10)));
  EXPECT_NE(late.refusal().find("later incarnation"), std::string::npos);
  a.wait_refused("b is known by a later incarnation than 10");
  EXPECT_EQ(a.send("b", beat(1)), Sent::queued);
  const auto frame = second.receive();
  ASSERT_TRUE(frame);
  EXPECT_EQ(frame->text, beat(1).text);
}

TEST(SwarmEndpoint, refuses_by_name_who_is_of_another_job_or_not_who_was_expected) {
  RecordedPeer a(loopback_options("a"), [](swarm::EndpointEvents& events) {
    events.on_greeting = [](const swarm::RemotePeer& peer) {
      return peer.name == "z" ? "is of another update class" : "";
    };
  });
  auto other_job = silent_options("b");
  other_job.job = "another";
  RecordedPeer b(other_job);
  b.endpoint().connect(a.address());
  a.wait_refused("is of job another, here is test");
  b.wait_refused("is of job test, here is another");
  RecordedPeer c(silent_options("c"));
  c.endpoint().connect(a.address(), "x");
  c.wait_refused("is a, where x was to answer");
  RecordedPeer same(silent_options("a"));
  same.endpoint().connect(a.address());
  a.wait_refused("has the name a");
  RecordedPeer z(silent_options("z"));
  z.endpoint().connect(a.address());
  z.wait_refused("is of another update class");
  EXPECT_TRUE(a.record().connected.empty());
}

TEST(SwarmEndpoint, closes_malformed_peers_by_name_and_the_others_notice_nothing) {
  RecordedPeer a(loopback_options("a"));
  RecordedPeer good(silent_options("good"));
  good.endpoint().connect(a.address());
  a.wait_connected(1);
  {
    RawConnection noise(a.address());
    noise.send(std::vector<std::byte>(1000, std::byte{'G'}));
    EXPECT_NE(noise.refusal().find("malformed, foreign"), std::string::npos);
  }
  {
    RawConnection early(a.address());
    early.send(beat(1));
    EXPECT_NE(early.refusal().find("a beat before the hello"), std::string::npos);
  }
  {
    RawConnection twice(a.address());
    twice.enter("twice", 1);
    twice.send(Frame::control(FrameKind::hello, RawConnection::hello("twice", 1)));
    EXPECT_NE(twice.refusal().find("a second hello"), std::string::npos);
    a.wait_lost("twice", "a second hello");
  }
  {
    RawConnection enormous(a.address());
    enormous.enter("enormous", 1);
    std::vector<std::byte> bytes;
    swarm::append_slice(bytes, Frame::bulk({}, bulk_message(1, (16 << 20) + 1)), enormous.take_number(), 0);
    enormous.send(bytes);
    a.wait_lost("enormous", "total");
  }
  {
    RawConnection credit(a.address());
    credit.enter("credit", 1);
    std::vector<std::byte> bytes;
    swarm::append_frame(bytes, Frame{FrameKind::credit, {.stream = 3}, {}, {}}, credit.take_number(), 5);
    credit.send(bytes);
    a.wait_lost("credit", "grants 5 bytes of stream 3");
  }
  {
    RawConnection damaged(a.address());
    damaged.enter("damaged", 1);
    std::vector<std::byte> bytes;
    swarm::append_frame(bytes, beat(1), damaged.take_number());
    bytes.back() ^= std::byte{1};
    damaged.send(bytes);
    a.wait_lost("damaged", "payload");
  }
  {
    RawConnection goodbye(a.address());
    goodbye.enter("goodbye", 1);
    goodbye.send(Frame::control(FrameKind::goodbye, "{\"why\": 5}"));
    EXPECT_NE(goodbye.refusal().find("why"), std::string::npos);
    a.wait_lost("goodbye", "malformed");
  }
  for (const std::string& hello :
       {std::string("{}"), RawConnection::hello("../x", 1), RawConnection::hello("", 1), std::string("[1]")}) {
    RawConnection bad(a.address());
    bad.send(Frame::control(FrameKind::hello, hello));
    EXPECT_NE(bad.refusal(), "") << hello;
  }
  EXPECT_EQ(good.send("a", beat(7)), Sent::queued);
  a.wait_frames(1);
  EXPECT_EQ(a.record().frames[0].first, "good");
  EXPECT_TRUE(good.record().lost.empty());
}

TEST(SwarmEndpoint, who_says_no_hello_or_takes_no_bytes_is_closed_after_its_time) {
  auto impatient = loopback_options("impatient");
  impatient.times.hello = 300ms;
  RecordedPeer first(impatient);
  RawConnection silent(first.address());
  first.wait_refused("no hello and welcome within 300 ms");
  auto options = loopback_options("a");
  options.times.stall = 300ms;
  RecordedPeer a(options);
  RawConnection stalls(a.address());
  stalls.enter("stalls", 1);
  a.wait_connected();
  // More than the buffers of both sockets hold.
  for (int i = 0; i < 6; ++i) {
    a.send("stalls", Frame::bulk({.stream = static_cast<std::uint32_t>(i)}, bulk_message(1, 16 << 20)));
  }
  a.wait_lost("stalls", "stalled: it has taken no byte for 300 ms");
}

TEST(SwarmEndpoint, held_credit_stops_its_stream_and_no_other) {
  std::vector<std::shared_ptr<void>> held;
  swarm::Endpoint* endpoint = nullptr;
  auto options = loopback_options("a");
  options.limits.message = 1 << 20;
  options.limits.credit = 4 << 20;
  RecordedPeer* recorder = nullptr;
  RecordedPeer a(options, [&](swarm::EndpointEvents& events) {
    events.on_frame = [&](const swarm::RemotePeer& peer, Frame frame) {
      if (frame.head.stream == 1) held.push_back(endpoint->hold());
      recorder->note([&](RecordedPeer::Record& record) { record.frames.emplace_back(peer.name, std::move(frame)); });
    };
  });
  a.on_loop([&] {
    endpoint = &a.endpoint();
    recorder = &a;
    return 0;
  });
  RecordedPeer b(silent_options("b"));
  b.endpoint().connect(a.address());
  b.wait_connected();
  EXPECT_EQ(b.send("a", Frame::bulk({.stream = 1}, bulk_message(1, (1 << 20) + 1))), Sent::refused);
  for (std::uint32_t i = 0; i < 6; ++i) {
    EXPECT_EQ(b.send("a", Frame::bulk({.stream = 1, .piece = i}, bulk_message(i, 1 << 20))), Sent::queued);
  }
  a.wait_frames(4);
  for (std::uint32_t i = 0; i < 12; ++i) b.send("a", Frame::bulk({.stream = 2, .piece = i}, bulk_message(i, 1 << 20)));
  a.wait_frames(16);
  const auto of_first = [&](const RecordedPeer::Record& record) {
    return std::count_if(record.frames.begin(), record.frames.end(),
                         [](const auto& one) { return one.second.head.stream == 1; });
  };
  EXPECT_EQ(of_first(a.record()), 4) << "the credit of four messages is held";
  a.on_loop([&] {
    held.clear();
    return 0;
  });
  a.wait_frames(18);
  EXPECT_EQ(of_first(a.record()), 6);
  a.on_loop([&] {
    held.clear();
    return 0;
  });
}

TEST(SwarmEndpoint, bytes_that_are_lent_and_dropped_before_their_turn_are_not_sent) {
  std::vector<std::shared_ptr<void>> held;
  RecordedPeer* recorder = nullptr;
  auto options = loopback_options("a");
  options.limits.message = 1 << 20;
  options.limits.credit = 2 << 20;
  RecordedPeer a(options, [&](swarm::EndpointEvents& events) {
    events.on_frame = [&](const swarm::RemotePeer& peer, Frame frame) {
      if (frame.head.piece < 2) held.push_back(recorder->endpoint().hold());
      recorder->note([&](RecordedPeer::Record& record) { record.frames.emplace_back(peer.name, std::move(frame)); });
    };
  });
  a.on_loop([&] {
    recorder = &a;
    return 0;
  });
  RecordedPeer b(silent_options("b"));
  b.endpoint().connect(a.address());
  b.wait_connected();
  std::vector<swarm::SharedBytes> lent;
  const auto lend = [&](std::uint32_t piece) {
    lent.push_back(std::make_shared<const std::vector<std::byte>>(bulk_message(piece, 1 << 20)));
    Frame frame = Frame::bulk({.stream = 1, .piece = piece}, lent.back());
    frame.lent = true;
    EXPECT_EQ(b.send("a", std::move(frame)), Sent::queued);
  };
  for (std::uint32_t piece = 0; piece < 2; ++piece) lend(piece);
  a.wait_frames(2);
  // Their credit is held, so that what follows waits.
  for (std::uint32_t piece = 2; piece < 5; ++piece) lend(piece);
  std::vector<std::weak_ptr<const std::vector<std::byte>>> dropped(lent.begin() + 2, lent.begin() + 4);
  b.on_loop([&] {
    lent[2] = lent[3] = nullptr;
    return 0;
  });
  for (const auto& bytes : dropped) EXPECT_TRUE(bytes.expired());
  a.on_loop([&] {
    held.clear();
    return 0;
  });
  a.wait_frames(3);
  EXPECT_EQ(a.record().frames.back().second.head.piece, 4U);
  EXPECT_EQ(*a.record().frames.back().second.bytes, bulk_message(4, 1 << 20));
  EXPECT_EQ(b.on_loop([&] { return b.endpoint().traffic("a").queued; }), 0U);
}

TEST(SwarmEndpoint, what_waits_to_be_sent_is_bounded) {
  RecordedPeer a(loopback_options("a"));
  RawConnection reads_nothing(a.address());
  reads_nothing.enter("b", 1);
  a.wait_connected();
  EXPECT_EQ(a.send("c", beat(1)), Sent::absent);
  EXPECT_EQ(a.send("b", Frame::control(FrameKind::beat, std::string(5000, ' '))), Sent::refused);
  EXPECT_EQ(a.send("b", Frame::bulk({}, std::vector<std::byte>())), Sent::refused);
  const auto message = std::make_shared<const std::vector<std::byte>>(bulk_message(1, 16 << 20));
  int queued = 0;
  while (queued < 100 && a.send("b", Frame::bulk({.stream = 1}, message)) == Sent::queued) ++queued;
  EXPECT_GE(queued, 16);
  EXPECT_LT(queued, 20) << "256 MiB are the bound";
  for (std::uint32_t stream = 2; stream <= 16; ++stream) {
    EXPECT_EQ(a.send("b", Frame::bulk({.stream = stream}, bulk_message(1, 1))), Sent::queued) << stream;
  }
  EXPECT_EQ(a.send("b", Frame::bulk({.stream = 17}, bulk_message(1, 1))), Sent::refused) << "it takes 16 streams";
}

TEST(SwarmEndpoint, connects_again_after_a_loss_and_says_goodbye_when_it_leaves) {
  RecordedPeer b(silent_options("b"));
  auto options = loopback_options("a");
  {
    RecordedPeer a(options);
    options.listen = a.address();
    b.endpoint().connect(options.listen);
    a.wait_connected();
    for (int i = 0; i < 100; ++i) a.send("b", beat(i));
    a.send("b", Frame::bulk({}, bulk_message(1, 4 << 20)));
  }
  b.wait_frames(101);
  b.wait_lost("a", "the other side said goodbye");
  RecordedPeer a(options);
  b.wait_connected(2);
  a.wait_connected();
  EXPECT_EQ(b.send("a", beat(1)), Sent::queued);
  a.wait_frames(1);
  b.on_loop([&] {
    b.endpoint().disconnect("a", "a test");
    return 0;
  });
  a.wait_lost("b", "a test");
  b.wait_connected(3);
  b.endpoint().forget(options.listen);
}

TEST(SwarmEndpoint, a_decode_error_of_the_user_closes_that_peer_and_other_errors_do_not) {
  RecordedPeer a(loopback_options("a"), [](swarm::EndpointEvents& events) {
    events.on_frame = [](const swarm::RemotePeer& peer, const Frame&) {
      if (peer.name == "b") throw DecodeError("its count is no number");
      throw OptionError("a mistake of this side");
    };
  });
  RawConnection b(a.address());
  b.enter("b", 1);
  b.send(beat(1));
  EXPECT_NE(b.refusal().find("its count is no number"), std::string::npos);
  a.wait_lost("b", "its count is no number");
  RawConnection c(a.address());
  c.enter("c", 1);
  c.send(beat(1));
  c.send(beat(2));
  a.wait("errors", [](const auto& record) { return record.errors.size() == 2; });
  EXPECT_EQ(a.record().lost.size(), 1U);
}

TEST(SwarmEndpoint, is_not_made_without_keys_but_on_loopback) {
  const auto make = [](swarm::EndpointOptions options) { swarm::Endpoint endpoint(std::move(options), {}); };
  auto options = loopback_options("a");
  options.plain_loopback = false;
  EXPECT_THROW(make(options), OptionError);
  options.plain_loopback = true;
  for (const std::string listen :
       {"0.0.0.0:0", "[::]:0", "10.0.0.1:0", "localhost:0", "127.0.0.1", "127.0.0.1:99999", ":1"}) {
    options.listen = listen;
    EXPECT_THROW(make(options), OptionError) << listen;
  }
  options.listen = "127.0.0.1:0";
  for (const std::string name : {"", "../a", "a b", ".a"}) {
    options.name = name;
    EXPECT_THROW(make(options), OptionError) << name;
  }
  options.name = "a";
  options.limits.credit = options.limits.message;
  EXPECT_THROW(make(options), OptionError);
  RecordedPeer a(loopback_options("a"));
  auto taken = loopback_options("b");
  taken.listen = a.address();
  EXPECT_THROW(make(taken), Error);
  a.endpoint().connect("192.0.2.1:1");
  a.wait_refused("is no loopback address");
  EXPECT_THROW(a.endpoint().connect("nonsense"), OptionError);
  EXPECT_THROW(a.endpoint().send("b", beat(1)), OptionError) << "on another thread";
}

TEST(SwarmEndpoint, too_many_connections_are_closed_when_they_come) {
  auto options = loopback_options("a");
  options.limits.unknown_each = 3;
  RecordedPeer a(options);
  std::vector<std::unique_ptr<RawConnection>> silent;
  for (int i = 0; i < 6; ++i) silent.push_back(std::make_unique<RawConnection>(a.address()));
  a.wait("refused", [](const auto& record) { return record.refused.size() == 3; });
  for (const auto& why : a.record().refused) EXPECT_NE(why.find("too many connections"), std::string::npos) << why;
}

TEST(SwarmEndpoint, timers_run_in_order_on_the_loop_unless_they_are_cancelled) {
  RecordedPeer a(silent_options("a"));
  std::vector<int> order;
  std::promise<void> done;
  a.on_loop([&] {
    swarm::Endpoint& endpoint = a.endpoint();
    endpoint.after(20ms, [&] {
      order.push_back(2);
      done.set_value();
    });
    endpoint.after(10ms, [&] { order.push_back(1); });
    const auto cancelled = endpoint.after(5ms, [&] { order.push_back(3); });
    endpoint.cancel(cancelled);
    return 0;
  });
  done.get_future().get();
  EXPECT_EQ(order, (std::vector{1, 2}));
  std::atomic<int> calls = 0;
  std::vector<swarm::Endpoint::Timer> timers;
  for (int i = 0; i < 100; ++i) timers.push_back(a.endpoint().after(std::chrono::hours(1), [&] { ++calls; }));
  for (const auto timer : timers) a.endpoint().cancel(timer);
  a.on_loop([] { return 0; });
  EXPECT_EQ(calls, 0);
}

TEST(SwarmEndpoint, a_shaped_link_is_no_faster_than_its_shape) {
  const auto shape = comm::NetworkShape::uniform(2, 0.05, 8e6);
  auto options = silent_options("b");
  options.shape = [&](const std::string& peer) {
    EXPECT_EQ(peer, "a");
    return swarm::ShapedLink::of(shape, 0, 1);
  };
  RecordedPeer a(loopback_options("a"));
  RecordedPeer b(options);
  b.endpoint().connect(a.address());
  b.wait_connected();
  const auto begin = std::chrono::steady_clock::now();
  b.send("a", Frame::bulk({}, bulk_message(1, 4'000'000)));
  b.send("a", beat(1));
  a.wait_frames(1);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, 50ms) << "the latency";
  a.wait_frames(2);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, 540ms) << "half a second of bytes, and the latency";
  EXPECT_EQ(a.record().frames[0].second.kind, FrameKind::beat);
  EXPECT_TRUE(*a.record().frames[1].second.bytes == bulk_message(1, 4'000'000));
}

}  // namespace
