// Peers that are strangers, expired, revoked, malformed, stalling or enormous, at an endpoint over TLS: such peers get
// nothing, and two others that exchange frames meanwhile notice nothing.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <reef/core/text.hpp>
#include <reef/io/checksum.hpp>
#include <reef/swarm/net/endpoint.hpp>
#include <reef/swarm/net/frame.hpp>
#include <reef/swarm/net/keys.hpp>

#include "recorded_peer.hpp"
#include "support/raw_tls.hpp"
#include "support/temporary_folder.hpp"

namespace {

using namespace reef;
using namespace std::chrono_literals;
using swarm::Frame;
using swarm::FrameHeader;
using swarm::FrameKind;
using swarm::Keys;
using test::RawTls;
using test::RecordedPeer;

std::uint16_t port_of(RecordedPeer& peer) {
  const std::string address = peer.address();
  return static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)));
}

std::vector<std::byte> bytes_of(const Frame& frame, std::uint32_t sequence) {
  std::vector<std::byte> bytes;
  swarm::append_frame(bytes, frame, sequence);
  return bytes;
}

/// Returns a header with its seal, of a payload that does not come.
std::vector<std::byte> header_of(FrameKind kind, std::uint32_t sequence, std::uint32_t bytes, std::uint32_t total) {
  FrameHeader header;
  header.kind = kind;
  header.sequence = sequence;
  header.bytes = bytes;
  header.total = total;
  header.seal = io::crc32c(std::as_bytes(std::span(&header, 1)).first(offsetof(FrameHeader, seal)));
  const auto plain = std::as_bytes(std::span(&header, 1));
  return {plain.begin(), plain.end()};
}

class HostilePeers : public testing::Test {
protected:
  HostilePeers() : keys_(Keys::make(folder_ / "keys", "job")) {
    for (const char* name : {"a", "good", "bad"}) keys_.issue("peer", name);
    a_ = std::make_unique<RecordedPeer>(options("a", true), [this](swarm::EndpointEvents& events) {
      events.on_frame = [this](const swarm::RemotePeer& peer, const Frame&) {
        if (peer.name == "good") ++beats_;
        else ++others_;
      };
    });
    good_ = std::make_unique<RecordedPeer>(options("good", false));
    good_->endpoint().connect(a_->address(), "a");
    a_->wait_connected();
    good_->wait_connected();
    good_->endpoint().post([this] { beat(); });
  }
  ~HostilePeers() override {
    good_->on_loop([this] { return beating_ = false; });
    good_->close();
    a_->close();
  }

  [[nodiscard]] swarm::EndpointOptions options(const std::string& name, bool listens) const {
    auto options = test::loopback_options("");
    options.job = {};
    options.plain_loopback = false;
    options.tls = keys_.files(name);
    options.times.hello = 2s;
    options.times.farewell = 1s;
    options.times.stall = 1s;
    if (!listens) options.listen = {};
    return options;
  }

  /// Sends a beat each millisecond.
  void beat() {
    if (!beating_) return;
    good_->endpoint().send("a", Frame::control(FrameKind::beat, "{}"));
    good_->endpoint().after(1ms, [this] { beat(); });
  }

  /// Expects that a hundred more beats arrive, and that the two have kept their connection.
  void expect_exchange(const std::string& beside) {
    const std::uint64_t goal = beats_ + 100;
    const auto begin = std::chrono::steady_clock::now();
    while (beats_ < goal && std::chrono::steady_clock::now() - begin < test::long_wait)
      std::this_thread::sleep_for(1ms);
    EXPECT_GE(beats_, goal) << beside;
    EXPECT_TRUE(good_->record().lost.empty()) << beside;
    for (const auto& [name, why] : a_->record().lost) EXPECT_NE(name, "good") << beside << ": " << why;
    EXPECT_EQ(others_, 0U) << beside;
  }

  [[nodiscard]] std::unique_ptr<RawTls> enter(const std::string& name) {
    auto client = std::make_unique<RawTls>(port_of(*a_), keys_.files(name));
    EXPECT_TRUE(client->shake_hands());
    EXPECT_NE(client->take(), "") << "the hello of the other side";
    return client;
  }
  static Frame hello(const std::string& name) {
    return Frame::control(FrameKind::hello, test::RawConnection::hello(name, 1, "job"));
  }

  test::TemporaryFolder folder_;
  Keys keys_;
  bool beating_ = true;  // on the loop of the good peer
  std::atomic<std::uint64_t> beats_ = 0;
  std::atomic<std::uint64_t> others_ = 0;
  std::unique_ptr<RecordedPeer> a_;
  std::unique_ptr<RecordedPeer> good_;
};

TEST_F(HostilePeers, who_shows_a_certificate_that_is_refused_reads_no_frame) {
  Keys foreign = Keys::make(folder_ / "foreign", "job");
  foreign.issue("peer", "bad");
  keys_.issue("peer", "old", {.begins = -std::chrono::hours(48), .lasts = std::chrono::hours(24)});
  keys_.issue("peer", "gone");
  a_->on_loop([this, serials = keys_.revoke("gone")] {
    a_->endpoint().set_revoked(serials);
    return 0;
  });
  swarm::TlsFiles stranger = foreign.files("bad");
  stranger.authority = keys_.files("a").authority;
  for (const swarm::TlsFiles& files : {stranger, keys_.files("old"), keys_.files("gone")}) {
    RawTls client(port_of(*a_), files);
    static_cast<void>(client.shake_hands());
    client.send(bytes_of(hello("bad"), 0));
    EXPECT_EQ(client.all(), "") << files.certificate;
  }
  a_->wait("refused", [](const auto& record) { return record.refused.size() == 3; });
  for (const std::string& why : a_->record().refused) {
    EXPECT_NE(why.find("its certificate is refused"), std::string::npos) << why;
  }
  expect_exchange("certificates that are refused");
}

TEST_F(HostilePeers, who_is_known_and_malformed_is_closed_alone) {
  const auto closes = [this](const std::vector<std::byte>& first, const std::string& why) {
    const auto client = enter("bad");
    client->send(first);
    a_->wait_refused(why);
    static_cast<void>(client->all());
  };
  closes(std::vector<std::byte>(1000, std::byte{'G'}), "malformed, foreign");
  closes(bytes_of(hello("good"), 0), "its certificate");
  closes(bytes_of(Frame::control(FrameKind::beat, "{}"), 0), "before the hello");
  closes(bytes_of(hello("bad"), 1), "doubled, lost or reordered");
  closes(bytes_of(Frame::control(FrameKind::hello, "{\"version\": 1}"), 0), "malformed: ");
  const auto damaged = enter("bad");
  damaged->put(std::vector<std::byte>(1000, std::byte{23}));
  a_->wait_refused("TLS: ");
  expect_exchange("peers that are malformed");
}

TEST_F(HostilePeers, who_announces_gigabytes_is_closed_before_they_come) {
  constexpr std::uint32_t most = 0xFFFFFFFF;
  for (const FrameKind kind : {FrameKind::hello, FrameKind::bulk, FrameKind::control}) {
    const auto client = enter("bad");
    client->send(header_of(kind, 0, most, kind == FrameKind::bulk ? most : 0));
    EXPECT_EQ(client->all().find("welcome"), std::string::npos);
  }
  a_->wait_refused(concat("a hello of ", most, " bytes"));
  a_->wait_refused(concat("a bulk of ", most, " bytes"));
  // Who says so slice by slice is told at the first.
  const auto sliced = enter("bad");
  std::vector<std::byte> bytes = bytes_of(hello("bad"), 0);
  const auto welcome = bytes_of(Frame::control(FrameKind::welcome, "{}"), 1);
  bytes.insert(bytes.end(), welcome.begin(), welcome.end());
  const auto head = header_of(FrameKind::bulk, 2, 65536 - sizeof(FrameHeader), most);
  bytes.insert(bytes.end(), head.begin(), head.end());
  sliced->send(bytes);
  a_->wait("the total is refused", [](const auto& record) {
    const auto says = [](const std::string& why) { return why.find("a bulk message of ") != std::string::npos; };
    return std::ranges::any_of(record.refused, says) ||
           std::ranges::any_of(record.lost, [&](const auto& one) { return says(one.second); });
  });
  expect_exchange("peers that announce gigabytes");
}

TEST_F(HostilePeers, who_comes_byte_by_byte_or_not_at_all_is_closed_after_the_time_of_a_hello) {
  const std::uint16_t port = port_of(*a_);
  RawTls silent(port, keys_.files("bad"));
  std::atomic<bool> stop = false;
  // One byte each 100 ms, so that something always comes, and never enough.
  std::thread slow([&] {
    RawTls loris(port, keys_.files("bad"));
    const std::vector<std::byte> first = loris.first_bytes();
    for (std::size_t i = 0; i < first.size() && !stop; ++i) {
      if (!loris.put(std::span(first).subspan(i, 1))) break;
      std::this_thread::sleep_for(100ms);
    }
    static_cast<void>(loris.all());
  });
  const auto known = enter("bad");  // says half of a hello
  known->send(std::span<const std::byte>(bytes_of(hello("bad"), 0)).first(70));
  a_->wait("refused", [](const auto& record) { return record.refused.size() == 3; });
  for (const std::string& why : a_->record().refused) {
    EXPECT_NE(why.find("no hello and welcome within 2000 ms"), std::string::npos) << why;
  }
  stop = true;
  slow.join();
  EXPECT_EQ(silent.all(), "");
  expect_exchange("peers that stall");
}

TEST_F(HostilePeers, who_floods_from_one_address_is_closed_and_others_find_a_place_when_it_ends) {
  const std::string address = a_->address();
  std::vector<std::unique_ptr<test::RawConnection>> open;
  for (int i = 0; i < 3000; ++i) {
    if (open.size() >= 300) open.erase(open.begin());
    open.push_back(std::make_unique<test::RawConnection>(address));
    if (i % 1000 == 999) expect_exchange("a flood of connections");
  }
  a_->wait_refused("too many connections");
  open.clear();
  RecordedPeer late(options("bad", false));
  late.endpoint().connect(address, "a");
  late.wait_connected();
  expect_exchange("a flood that has ended");
}

TEST_F(HostilePeers, who_says_hello_and_never_welcome_has_no_more_places_than_strangers) {
  keys_.issue("peer", "few");
  auto few = options("few", true);
  few.limits.unknown_each = 3;
  few.times.hello = 60s;
  RecordedPeer small(few);
  std::vector<std::unique_ptr<RawTls>> half;
  for (int i = 0; i < 3; ++i) {
    half.push_back(std::make_unique<RawTls>(port_of(small), keys_.files("bad")));
    ASSERT_TRUE(half.back()->shake_hands());
    EXPECT_NE(half.back()->take(), "") << "the hello of the other side";
    half.back()->send(bytes_of(hello("bad"), 0));
    EXPECT_NE(half.back()->take(), "") << "its welcome";
  }
  RawTls above(port_of(small), keys_.files("bad"));
  static_cast<void>(above.shake_hands());
  small.wait_refused("too many connections");
}

}  // namespace
