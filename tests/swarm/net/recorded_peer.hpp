#pragma once

#include <gtest/gtest.h>

#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <reef/swarm/net/endpoint.hpp>

#include "support/loopback_socket.hpp"

namespace reef::test {

/// The longest that a test waits for what must come: for what hangs.
inline constexpr std::chrono::seconds long_wait(120);

/// Settings of an endpoint on loopback without TLS, with short waits between attempts.
inline swarm::EndpointOptions loopback_options(const std::string& name) {
  swarm::EndpointOptions options;
  options.job = "test";
  options.name = name;
  options.listen = "127.0.0.1:0";
  options.plain_loopback = true;
  options.times.hello = std::chrono::seconds(60);
  options.times.farewell = std::chrono::seconds(60);
  options.times.first_retry = std::chrono::milliseconds(20);
  options.times.last_retry = std::chrono::milliseconds(200);
  options.times.unacknowledged = std::chrono::seconds(60);
  return options;
}

/// An endpoint that records what its events say.
class RecordedPeer {
public:
  struct Record {
    std::vector<std::pair<std::string, swarm::Frame>> frames{};  ///< with the sender's name
    std::vector<swarm::RemotePeer> connected{};
    std::vector<std::pair<std::string, std::string>> lost{};     ///< name, why
    std::vector<std::string> refused{};                          ///< why
    std::vector<std::string> errors{};
  };
  using Look = std::function<bool(const Record&)>;

  explicit RecordedPeer(swarm::EndpointOptions options, std::function<void(swarm::EndpointEvents&)> change = {}) {
    swarm::EndpointEvents events;
    events.on_frame = [this](const swarm::RemotePeer& peer, swarm::Frame frame) {
      note([&](Record& record) { record.frames.emplace_back(peer.name, std::move(frame)); });
    };
    events.on_connected = [this](const swarm::RemotePeer& peer) {
      note([&](Record& record) { record.connected.push_back(peer); });
    };
    events.on_lost = [this](const swarm::RemotePeer& peer, const std::string& why) {
      note([&](Record& record) { record.lost.emplace_back(peer.name, why); });
    };
    events.on_refused = [this](const std::string&, const std::string& why) {
      note([&](Record& record) { record.refused.push_back(why); });
    };
    events.on_error = [this](const std::string& what) {
      note([&](Record& record) { record.errors.push_back(what); });
    };
    if (change) change(events);
    endpoint_ = std::make_unique<swarm::Endpoint>(std::move(options), std::move(events));
    endpoint_->start();
  }

  swarm::Endpoint& endpoint() { return *endpoint_; }
  std::string address() { return endpoint_->address(); }
  void close() { endpoint_.reset(); }

  /// Waits until the record looks as wanted; fails the test if that does not come.
  void wait(const std::string& what, const Look& look) {
    std::unique_lock lock(mutex_);
    if (changed_.wait_for(lock, long_wait, [&] { return look(record_); })) return;
    std::string text = what + ": " + std::to_string(record_.frames.size()) + " frames, " +
                       std::to_string(record_.connected.size()) + " connected";
    for (const auto& [name, why] : record_.lost) text += "\n  lost " + name + ": " + why;
    for (const auto& why : record_.refused) text += "\n  refused: " + why;
    for (const auto& why : record_.errors) text += "\n  error: " + why;
    ADD_FAILURE() << text;
  }

  void wait_connected(std::size_t count = 1) {
    wait("connected", [&](const Record& record) { return record.connected.size() >= count; });
  }
  void wait_frames(std::size_t count) {
    wait("frames", [&](const Record& record) { return record.frames.size() >= count; });
  }
  void wait_lost(const std::string& name, const std::string& why) {
    wait("lost " + name + ", " + why, [&](const Record& record) {
      return std::any_of(record.lost.begin(), record.lost.end(), [&](const auto& one) {
        return one.first == name && one.second.find(why) != std::string::npos;
      });
    });
  }
  void wait_refused(const std::string& why) {
    wait("refused " + why, [&](const Record& record) {
      return std::any_of(record.refused.begin(), record.refused.end(),
                         [&](const auto& one) { return one.find(why) != std::string::npos; });
    });
  }

  Record record() {
    const std::lock_guard lock(mutex_);
    return record_;
  }

  /// Calls a function on the loop's thread, and returns what it gives.
  template <class Function>
  auto on_loop(Function function) {
    std::promise<decltype(function())> promise;
    endpoint_->post([&] { promise.set_value(function()); });
    return promise.get_future().get();
  }

  swarm::Sent send(const std::string& peer, const swarm::Frame& frame) {
    return on_loop([&] { return endpoint_->send(peer, frame); });
  }

  void note(const std::function<void(Record&)>& change) {
    const std::lock_guard lock(mutex_);
    change(record_);
    changed_.notify_all();
  }

private:
  std::mutex mutex_;
  std::condition_variable changed_;
  Record record_;
  std::unique_ptr<swarm::Endpoint> endpoint_;
};

/// A TCP connection that a test speaks over byte by byte.
class RawConnection {
public:
  explicit RawConnection(const std::string& address)
      : socket_(static_cast<std::uint16_t>(std::atoi(address.substr(address.rfind(':') + 1).c_str()))) {
    if (!socket_.connected()) ADD_FAILURE() << "cannot connect";
  }

  bool send(const std::vector<std::byte>& bytes) {
    std::size_t sent = 0;
    while (sent < bytes.size()) {
      const auto now = ::send(socket_.handle(), bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
      if (now <= 0) return false;
      sent += static_cast<std::size_t>(now);
    }
    return true;
  }

  bool send(const swarm::Frame& frame) {
    std::vector<std::byte> bytes;
    swarm::append_frame(bytes, frame, sequence_++);
    return send(bytes);
  }

  /// Returns the next frame, or nothing at the end of the connection.
  std::optional<swarm::Frame> receive() {
    while (!decoder_.has_frame()) {
      if (left_.empty()) {
        left_.resize(65536);
        const auto size = ::recv(socket_.handle(), left_.data(), left_.size(), 0);
        left_.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
        if (size <= 0) return std::nullopt;
      }
      const std::size_t used = decoder_.read(left_);
      left_.erase(left_.begin(), left_.begin() + static_cast<std::ptrdiff_t>(used));
      if (decoder_.fault() != swarm::FrameFault::none) {
        ADD_FAILURE() << decoder_.why();
        return std::nullopt;
      }
    }
    return decoder_.take();
  }

  /// Reads to the end of the connection, and returns the text of the last refuse.
  std::string refusal() {
    std::string text;
    while (const auto frame = receive()) {
      if (frame->kind == swarm::FrameKind::refuse) text = frame->text;
    }
    return text;
  }

  static std::string hello(const std::string& name, std::uint64_t incarnation, const std::string& job = "test") {
    return R"({"version": 1, "job": ")" + job + R"(", "name": ")" + name +
           R"(", "role": "peer", "incarnation": )" + std::to_string(incarnation) +
           R"(, "message": 16777216, "credit": 33554432, "streams": 16, "greeting": {}})";
  }

  /// Says hello and welcome as a peer does.
  void enter(const std::string& name, std::uint64_t incarnation) {
    send(swarm::Frame::control(swarm::FrameKind::hello, hello(name, incarnation)));
    const auto first = receive();
    EXPECT_TRUE(first && first->kind == swarm::FrameKind::hello);
    send(swarm::Frame::control(swarm::FrameKind::welcome, "{}"));
    const auto second = receive();
    EXPECT_TRUE(second && second->kind == swarm::FrameKind::welcome);
  }

  std::uint32_t take_number() { return sequence_++; }

private:
  LoopbackSocket socket_;
  std::uint32_t sequence_ = 0;
  swarm::FrameDecoder decoder_{};
  std::vector<std::byte> left_{};
};

}  // namespace reef::test
