#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <reef/core/units.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace detail {

/// An event loop with a thread of its own: functions, timers and sockets, one at a time.
class Loop {
public:
  struct Context;
  using Function = std::function<void()>;

  /// Starts the thread. `on_error` is given what a function throws; without it the program ends.
  explicit Loop(std::function<void(const std::string&)> on_error);

  /// Ends the thread; functions that wait are dropped. Not on the loop's thread.
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  void post(Function function);
  std::uint64_t after(std::chrono::nanoseconds wait, Function function);
  void cancel(std::uint64_t timer);

  /// Returns `post` for threads that may outlive the loop: then it does nothing.
  [[nodiscard]] std::function<void(Function)> poster();

  /// Returns true on the loop's thread.
  [[nodiscard]] bool is_here() const;

  /// Returns the bytes that all sockets of the loop have handed to the system so far. Any thread.
  [[nodiscard]] Bytes bytes_sent() const;
  /// Returns the bytes that all sockets of the loop have received so far. Any thread.
  [[nodiscard]] Bytes bytes_received() const;

  /// Ends the thread. Nothing runs afterwards. Not on the loop's thread.
  void stop();

  /// Calls a function of the user as the loop does: what it throws goes to on_error.
  void call(const Function& function) noexcept;

  [[nodiscard]] Context& context() const& { return *context_; }
  Context& context() const&& = delete;

private:
  void arm(std::uint64_t timer, std::chrono::nanoseconds wait);

  std::function<void(const std::string&)> on_error_;
  std::shared_ptr<Context> context_;
};

/// A connected TCP socket of a loop; used on the loop's thread alone.
///
/// | on_bytes   | bytes have come; they are gone after the call                             |
/// | on_written | what `write` was given has been handed to the system                      |
/// | on_end     | the other side has ended, or an error: once, and nothing is called after  |
/// | on_half    | the other side sends no more, and may still read. Empty: that is an end   |
class Socket {
public:
  struct State;

  explicit Socket(std::shared_ptr<State> state) : state_(std::move(state)) {}
  ~Socket() { close(); }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  std::function<void(std::span<const std::byte>)> on_bytes{};
  std::function<void()> on_written{};
  std::function<void(const std::string& why)> on_end{};
  std::function<void()> on_half{};

  /// Begins to read.
  void start();

  /// Sends bytes, which it takes; none may be on their way.
  void write(std::vector<std::byte>&& bytes);

  /// Returns the buffer that was written last, empty, to be filled again.
  [[nodiscard]] std::vector<std::byte> spare();

  /// Ends the sending side: the other side reads an end.
  void end_writing();

  /// Closes the socket; nothing is called afterwards.
  void close();

  [[nodiscard]] std::string remote() const;
  [[nodiscard]] std::string remote_host() const;  ///< without the port

private:
  std::shared_ptr<State> state_;
};

using OnSocket = std::function<void(std::unique_ptr<Socket>)>;

/// The settings of each socket of an endpoint.
struct SocketOptions {
  std::chrono::milliseconds unacknowledged{10000};
  bool loopback_only = false;
};

/// A listening socket of a loop. `on_socket` is called on the loop's thread.
class Listener {
public:
  /// Throws OptionError for an address that is none, or is not allowed; Error where the system refuses it.
  Listener(Loop& loop, const std::string& address, SocketOptions options, OnSocket on_socket);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  [[nodiscard]] std::string address() const;
  void start();  ///< begins to accept, on the loop's thread
  void close();  ///< on the loop's thread

private:
  struct State;
  std::shared_ptr<State> state_;
};

/// An attempt to connect to "HOST:PORT". Calls its end once, on the loop's thread, with a socket or with what failed.
/// Destroying it ends the attempt silently.
class Connecting {
public:
  using OnEnd = std::function<void(std::unique_ptr<Socket>, const std::string& why)>;

  Connecting(Loop& loop, const std::string& address, SocketOptions options, OnEnd on_end);
  ~Connecting();
  Connecting(const Connecting&) = delete;
  Connecting& operator=(const Connecting&) = delete;

private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace detail
}  // namespace swarm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swarm/net/detail/loop.ipp>
#endif
