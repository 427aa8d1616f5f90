#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <reef/core/units.hpp>
#include <reef/swarm/log/detail/http_address.hpp>
#include <reef/swarm/net/endpoint_options.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace detail {

/// Returns seconds as a duration of the clock of deadlines; negative ones as 0.
std::chrono::steady_clock::duration as_duration(Seconds time);

/// The answer to a request. One with a status of 500 or more, 408 or 429 is asked for again, until the time is over.
struct HttpAnswer {
  int status = 0;  ///< 0: nobody answered
  std::string body;
  std::string why;   ///< the reason, with the fix, where nobody answered
  int attempts = 0;  ///< more than 1: an earlier one may have been carried out, or be carried out later
};

/// A request, which is tried at one server after the other until it is answered or its time is over.
struct HttpRequest {
  bool post = false;
  std::string target;
  std::string body;        ///< JSON, of `post` alone
  Seconds time = 5;        ///< for all attempts together
  Seconds attempt = 2;     ///< for one attempt
  Bytes limit = 16_MiB;    ///< of an answer's body
};

/// A client of one or several equal HTTP servers, with a thread of its own, on which all its functions are called.
/// With TLS a server must show a certificate of a keeper of the client's job.
///
/// Failed attempts are made again after 20 ms, then twice as long each time, up to 5 s.
class HttpClient {
public:
  explicit HttpClient(std::vector<HttpAddress> servers, const TlsFiles& tls = {});

  /// Ends the thread; requests that are open are answered with status 0, timers and streams are not called any more.
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  /// Runs a function on the thread.
  void post(std::function<void()> job);

  /// Runs a function on the thread after `time` seconds.
  void after(Seconds time, std::function<void()> job);

  /// Returns true when the destructor runs: what is asked for now is dropped. On the thread alone.
  [[nodiscard]] bool ends() const;

  void request(HttpRequest request, std::function<void(HttpAnswer)> done);

  /// Posts `body` once, and calls `bytes` with each piece of an answer that has no end. Calls `end` when the connection
  /// ends or cannot be made, or where a piece made `bytes` return false.
  void stream(std::string target, std::string body, std::function<bool(std::string_view)> bytes,
              std::function<void()> end);

  struct State;

private:
  std::unique_ptr<State> state_;
};

}  // namespace detail
}  // namespace swarm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swarm/log/detail/http_client.ipp>
#endif
