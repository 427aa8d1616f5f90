#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/swarm/net/endpoint.hpp>
#include <reef/swarm/net/keys.hpp>

#include "recorded_peer.hpp"
#include "support/temporary_folder.hpp"

namespace {

using namespace reef;
using swarm::Frame;
using swarm::FrameKind;
using swarm::Keys;
using swarm::Sent;
using test::RawConnection;
using test::RecordedPeer;

swarm::EndpointOptions tls_options(const Keys& keys, const std::string& name, bool listens) {
  auto options = test::loopback_options("");
  options.job = {};
  options.plain_loopback = false;
  options.tls = keys.files(name);
  if (!listens) options.listen = {};
  return options;
}

class SwarmTls : public testing::Test {
protected:
  SwarmTls() : keys_(Keys::make(folder_ / "keys", "job")) {
    keys_.issue("peer", "a");
    keys_.issue("peer", "b");
  }

  test::TemporaryFolder folder_;
  Keys keys_;
};

TEST_F(SwarmTls, peers_of_one_authority_know_each_other_by_their_certificates) {
  RecordedPeer a(tls_options(keys_, "a", true));
  RecordedPeer b(tls_options(keys_, "b", false));
  b.endpoint().connect(a.address(), "a");
  a.wait_connected();
  b.wait_connected();
  EXPECT_EQ(a.record().connected[0].name, "b");
  EXPECT_EQ(b.record().connected[0].name, "a");
  std::vector<std::byte> bytes(5'000'000);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 37 >> 3 & 255);
  for (std::uint32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(a.send("b", Frame::bulk({.stream = 1, .piece = i}, bytes)), Sent::queued);
    EXPECT_EQ(b.send("a", Frame::bulk({.stream = 1, .piece = i}, bytes)), Sent::queued);
    EXPECT_EQ(b.send("a", Frame::control(FrameKind::beat, "{}")), Sent::queued);
  }
  b.wait_frames(3);
  a.wait_frames(6);
  for (std::uint32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(b.record().frames[i].second.head.piece, i);
    EXPECT_TRUE(*b.record().frames[i].second.bytes == bytes);
  }
  a.close();
  b.wait_lost("a", "goodbye");
}

TEST_F(SwarmTls, strangers_get_nothing_and_the_others_notice_nothing) {
  Keys other = Keys::make(folder_ / "other", "job");
  other.issue("peer", "b");
  keys_.issue("peer", "expired", {.begins = -std::chrono::hours(48), .lasts = std::chrono::hours(24)});
  keys_.issue("peer", "early", {.begins = std::chrono::hours(24)});
  keys_.issue("peer", "revoked");
  keys_.issue("client", "client");
  keys_.revoke("revoked");
  RecordedPeer a(tls_options(keys_, "a", true));
  RecordedPeer good(tls_options(keys_, "b", false));
  good.endpoint().connect(a.address());
  a.wait_connected();

  auto options = tls_options(other, "b", false);
  options.tls.authority = keys_.files("a").authority;  // trusts the job, and has a certificate of another CA
  RecordedPeer stranger(options);
  stranger.endpoint().connect(a.address());
  a.wait_refused("its certificate is refused");

  RecordedPeer expired(tls_options(keys_, "expired", false));
  expired.endpoint().connect(a.address());
  a.wait_refused("certificate has expired");
  RecordedPeer early(tls_options(keys_, "early", false));
  early.endpoint().connect(a.address());
  a.wait_refused("not yet valid");
  RecordedPeer revoked(tls_options(keys_, "revoked", false));
  revoked.endpoint().connect(a.address());
  a.wait_refused("certificate revoked");
  {
    RawConnection plain(a.address());
    plain.send(Frame::control(FrameKind::hello, RawConnection::hello("b", 1, "job")));
    a.wait_refused("TLS: wrong version number");
  }
  // A client's certificate is none of a server: whoever connects to it is warned.
  RecordedPeer client(tls_options(keys_, "client", true));
  good.endpoint().connect(client.address());
  good.wait_refused("its certificate is refused: ");
  client.endpoint().connect(a.address());
  a.wait_connected(2);
  EXPECT_EQ(a.record().connected[1].role, "client");

  for (RecordedPeer* peer : {&stranger, &expired, &early, &revoked}) {
    peer->wait("refused", [](const auto& record) { return !record.refused.empty(); });
    EXPECT_TRUE(peer->record().connected.empty());
  }
  EXPECT_EQ(a.record().connected.size(), 2U);
  EXPECT_EQ(good.send("a", Frame::control(FrameKind::beat, "{}")), Sent::queued);
  a.wait_frames(1);
  EXPECT_TRUE(good.record().lost.empty());
}

TEST_F(SwarmTls, a_server_of_another_authority_is_not_talked_to) {
  Keys other = Keys::make(folder_ / "other", "job");
  other.issue("peer", "a");
  RecordedPeer impostor(tls_options(other, "a", true));
  RecordedPeer b(tls_options(keys_, "b", false));
  b.endpoint().connect(impostor.address(), "a");
  b.wait_refused("its certificate is refused");
  EXPECT_TRUE(impostor.record().connected.empty());
}

TEST_F(SwarmTls, who_is_revoked_later_is_closed_and_does_not_come_back) {
  RecordedPeer a(tls_options(keys_, "a", true));
  RecordedPeer b(tls_options(keys_, "b", false));
  b.endpoint().connect(a.address());
  a.wait_connected();
  const auto serials = keys_.revoke("b");
  a.on_loop([&] {
    a.endpoint().set_revoked(serials);
    return 0;
  });
  a.wait_lost("b", "its certificate is revoked");
  a.wait_refused("certificate revoked");
  EXPECT_EQ(a.record().connected.size(), 1U);
}

TEST_F(SwarmTls, keys_that_do_not_fit_are_named) {
  const auto text_of = [](const swarm::EndpointOptions& options) {
    try {
      swarm::Endpoint endpoint(options, {});
    } catch (const OptionError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  auto options = tls_options(keys_, "a", true);
  options.tls.key = keys_.files("b").key;
  EXPECT_NE(text_of(options).find("private key in"), std::string::npos) << text_of(options);
  options = tls_options(keys_, "nobody", true);
  EXPECT_NE(text_of(options).find("nobody.pem"), std::string::npos);
  options = tls_options(keys_, "a", true);
  options.tls.certificate = options.tls.authority;
  options.tls.key = folder_ / "keys" / "ca.key";
  EXPECT_NE(text_of(options).find("says no identity"), std::string::npos) << text_of(options);
  options = tls_options(keys_, "a", true);
  options.name = "b";
  EXPECT_NE(text_of(options).find("not those of the certificate, reef://job/peer/a"), std::string::npos);
  options = tls_options(keys_, "a", true);
  options.plain_loopback = true;
  EXPECT_NE(text_of(options).find("both keys and plain_loopback"), std::string::npos);
}

}  // namespace
