#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include <boost/asio/dispatch.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/socket_base.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>

#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/numbers.hpp>
#include <reef/core/text.hpp>
#include <reef/core/thread.hpp>
#include <reef/swarm/log/detail/http_client.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace detail {

REEF_INLINE HttpAddress parse_address(std::string_view text, std::string_view who) {
  const std::size_t colon = text.rfind(':');
  const auto port = parse_number<std::uint16_t>(colon == std::string_view::npos ? "" : text.substr(colon + 1));
  std::string_view host = text.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    host = {};  // an address of IPv6 without brackets: its end is not to be told from a port
  }
  if (!port || host.empty() || host.find_first_of(" /@") != std::string_view::npos) {
    throw OptionError(who, ": ", in_quotes(text), " is no address.\n  fix: ADDRESS:PORT, such as 127.0.0.1:4100.");
  }
  return {std::string(host), *port};
}

REEF_INLINE HttpAddress parse_http_url(std::string_view url, std::string_view who) {
  constexpr std::string_view scheme = "http://";
  if (!url.starts_with(scheme)) {
    throw OptionError(who, ": ", in_quotes(url), " is no URL of a log.\n  fix: http://127.0.0.1:PORT.");
  }
  url.remove_prefix(scheme.size());
  if (url.ends_with('/')) url.remove_suffix(1);
  return parse_address(url, who);
}

REEF_INLINE bool is_loopback(const std::string& host) {
  boost::system::error_code error;
  const auto address = boost::asio::ip::make_address(host, error);
  return error ? host == "localhost" : address.is_loopback();
}

REEF_INLINE std::string text_of(const HttpAddress& address) {
  const bool six = address.host.find(':') != std::string::npos;
  return concat(six ? "[" : "", address.host, six ? "]:" : ":", address.port);
}

namespace http = boost::beast::http;
using HttpTcp = boost::asio::ip::tcp;
using HttpError = boost::beast::error_code;
using HttpClock = std::chrono::steady_clock;

REEF_INLINE HttpClock::duration as_duration(Seconds time) {
  return std::chrono::duration_cast<HttpClock::duration>(std::chrono::duration<Seconds>(std::max(time, 0.0)));
}

/// Returns true for statuses that another attempt may not get: a time-out, too many requests, faults of the server.
inline bool is_of_the_moment(int status) { return status >= 500 || status == 408 || status == 429; }

/// A connection to one of the servers.
struct HttpConnection {
  explicit HttpConnection(boost::asio::io_context& context) : stream(context) {}
  boost::beast::tcp_stream stream;
  boost::beast::flat_buffer buffer;
  std::size_t server = 0;
  bool used = false;  ///< has answered before: the server may have closed it since
};

/// What all connections share. The thread alone touches it, but for posts.
struct HttpClient::State {
  struct Call;
  struct Stream;

  explicit State(std::vector<HttpAddress> all) : servers(std::move(all)), work(context.get_executor()) {}

  /// Returns where a server is. No name is resolved but "localhost": that could make the thread wait.
  [[nodiscard]] HttpTcp::endpoint endpoint(std::size_t of, HttpError& error) const {
    const HttpAddress& at = servers[of];
    return {boost::asio::ip::make_address(at.host == "localhost" ? "127.0.0.1" : at.host, error), at.port};
  }

  [[nodiscard]] http::request<http::string_body> message(const HttpRequest& from, std::size_t to) const {
    http::request<http::string_body> request{from.post ? http::verb::post : http::verb::get, from.target, 11};
    request.set(http::field::host, text_of(servers[to]));
    if (from.post) request.set(http::field::content_type, "application/json");
    request.body() = from.body;
    request.prepare_payload();
    return request;
  }

  std::vector<HttpAddress> servers;
  boost::asio::io_context context{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work;
  std::size_t server = 0;  ///< the one that answered last
  std::vector<std::unique_ptr<HttpConnection>> idle;
  std::set<std::shared_ptr<Call>> calls;
  bool closing = false;
  std::thread thread;
};

/// One request with its attempts.
struct HttpClient::State::Call : std::enable_shared_from_this<Call> {
  Call(State& of, HttpRequest what, std::function<void(HttpAnswer)> then)
      : state(of),
        request(std::move(what)),
        done(std::move(then)),
        timer(of.context),
        end(HttpClock::now() + as_duration(request.time)) {}

  void attempt() {
    if (finished) return;
    ++answer.attempts;
    server = state.server;
    const auto reusable = std::find_if(state.idle.begin(), state.idle.end(),
                                       [&](const auto& one) { return one->server == server; });
    if (reusable != state.idle.end()) {
      connection = std::move(*reusable);
      state.idle.erase(reusable);
      arm();
      write();
      return;
    }
    connection = std::make_unique<HttpConnection>(state.context);
    connection->server = server;
    HttpError error;
    const HttpTcp::endpoint to = state.endpoint(server, error);
    if (error) return failed(error);
    arm();
    connection->stream.async_connect(to, [self = shared_from_this()](HttpError refused) {
      if (self->finished) return;
      if (refused) return self->failed(refused);
      HttpError ignored;
      self->connection->stream.socket().set_option(HttpTcp::no_delay(true), ignored);
      self->write();
    });
  }

  void arm() const { connection->stream.expires_at((std::min)(end, HttpClock::now() + as_duration(request.attempt))); }

  void write() {
    message = state.message(request, server);
    http::async_write(connection->stream, *message, [self = shared_from_this()](HttpError error, std::size_t) {
      if (self->finished) return;
      if (error) return self->failed(error);
      self->read();
    });
  }

  void read() {
    parser.emplace();
    parser->body_limit(request.limit);
    parser->header_limit(16 * 1024);
    http::async_read(connection->stream, connection->buffer, *parser,
                     [self = shared_from_this()](HttpError error, std::size_t) {
                       if (self->finished) return;
                       if (error) return self->failed(error);
                       self->answered();
                     });
  }

  void answered() {
    auto response = parser->release();
    if (response.keep_alive()) {
      connection->used = true;
      connection->stream.expires_never();
      constexpr std::size_t most_idle = 8;
      if (state.idle.size() < most_idle) state.idle.push_back(std::move(connection));
    }
    connection.reset();
    answer.status = static_cast<int>(response.result_int());
    answer.body = std::move(response.body());
    if (is_of_the_moment(answer.status) && HttpClock::now() < end) return again();
    finish();
  }

  void failed(HttpError error) {
    const bool used = connection->used;
    connection.reset();
    answer.why = concat("reef::swarm: http://", text_of(state.servers[server]), " does not answer: ", error.message(),
                        ".\n  fix: start the log's server there, or see why it is slow.");
    if (used && error != boost::beast::error::timeout) return attempt();  // closed while nobody used it
    again();
  }

  void again() {
    if (HttpClock::now() >= end) return finish();
    state.server = (server + 1) % state.servers.size();
    timer.expires_at((std::min)(end, HttpClock::now() + as_duration(pause)));
    constexpr Seconds longest = 5;
    pause = (std::min)(2 * pause, longest);
    timer.async_wait([self = shared_from_this()](HttpError) {
      if (self->finished) return;
      if (HttpClock::now() >= self->end) return self->finish();
      self->attempt();
    });
  }

  void finish() {
    if (finished) return;
    finished = true;
    timer.cancel();
    connection.reset();
    const auto self = shared_from_this();
    state.calls.erase(self);
    done(std::move(answer));
  }

  State& state;
  HttpRequest request;
  std::function<void(HttpAnswer)> done;
  boost::asio::steady_timer timer;
  HttpClock::time_point end;
  Seconds pause = 0.02;
  std::size_t server = 0;
  std::unique_ptr<HttpConnection> connection;
  std::optional<http::request<http::string_body>> message;
  std::optional<http::response_parser<http::string_body>> parser;
  HttpAnswer answer;
  bool finished = false;
};

/// One answer without an end.
struct HttpClient::State::Stream : std::enable_shared_from_this<Stream> {
  Stream(State& of, std::function<bool(std::string_view)> with, std::function<void()> then)
      : state(of), bytes(std::move(with)), end(std::move(then)), connection(of.context) {}

  void start(const HttpRequest& what) {
    HttpError error;
    connection.server = state.server;
    const HttpTcp::endpoint to = state.endpoint(connection.server, error);
    if (error) return ended();
    message = state.message(what, connection.server);
    connection.stream.expires_after(as_duration(what.attempt));
    connection.stream.async_connect(to, [self = shared_from_this()](HttpError refused) {
      if (refused) return self->ended();
      HttpError ignored;
      self->connection.stream.socket().set_option(boost::asio::socket_base::keep_alive(true), ignored);
      http::async_write(self->connection.stream, *self->message, [self](HttpError failed, std::size_t) {
        if (failed) return self->ended();
        self->read_head();
      });
    });
  }

  void read_head() {
    parser.body_limit(boost::none);
    http::async_read_header(connection.stream, connection.buffer, parser,
                            [self = shared_from_this()](HttpError failed, std::size_t) {
                              if (failed || self->parser.get().result() != http::status::ok) return self->ended();
                              self->connection.stream.expires_never();
                              self->read_on();
                            });
  }

  void read_on() {
    parser.get().body().data = piece.data();
    parser.get().body().size = piece.size();
    http::async_read_some(connection.stream, connection.buffer, parser,
                          [self = shared_from_this()](HttpError failed, std::size_t) {
                            if (failed == http::error::need_buffer) failed = {};
                            const std::size_t got = self->piece.size() - self->parser.get().body().size;
                            if (failed || self->state.closing) return self->ended();
                            self->connection.used = true;
                            if (got > 0 && !self->bytes({self->piece.data(), got})) return self->ended();
                            if (self->parser.is_done()) return self->ended();
                            self->read_on();
                          });
  }

  void ended() {
    HttpError ignored;
    connection.stream.socket().close(ignored);
    if (state.closing) return;
    if (!connection.used && state.server == connection.server) state.server = (state.server + 1) % state.servers.size();
    end();
  }

  State& state;
  std::function<bool(std::string_view)> bytes;
  std::function<void()> end;
  HttpConnection connection;
  std::optional<http::request<http::string_body>> message;
  http::response_parser<http::buffer_body> parser;
  std::string piece = std::string(16 * 1024, '\0');
};

REEF_INLINE HttpClient::HttpClient(std::vector<HttpAddress> servers)
    : state_(std::make_unique<State>(std::move(servers))) {
  state_->thread = make_thread("reef::swarm: the log's client", [state = state_.get()] { state->context.run(); });
}

REEF_INLINE HttpClient::~HttpClient() {
  post([state = state_.get()] {
    state->closing = true;
    for (const auto& call : std::set(state->calls)) {
      call->answer.status = 0;
      call->answer.why = "reef::swarm: the log's client has ended meanwhile.\n  fix: read what stands.";
      call->finish();
    }
    state->context.stop();
  });
  state_->thread.join();
}

REEF_INLINE bool HttpClient::ends() const { return state_->closing; }

REEF_INLINE void HttpClient::post(std::function<void()> job) { boost::asio::post(state_->context, std::move(job)); }

REEF_INLINE void HttpClient::after(Seconds time, std::function<void()> job) {
  post([state = state_.get(), time, job = std::move(job)] {
    const auto timer = std::make_shared<boost::asio::steady_timer>(state->context, as_duration(time));
    timer->async_wait([state, timer, job](HttpError error) {
      if (!error && !state->closing) job();
    });
  });
}

REEF_INLINE void HttpClient::request(HttpRequest request, std::function<void(HttpAnswer)> done) {
  const auto call = std::make_shared<State::Call>(*state_, std::move(request), std::move(done));
  // Starts at once on the thread itself: a request of a callback before the end would be dropped behind the end.
  boost::asio::dispatch(state_->context, [state = state_.get(), call] {
    if (state->closing) return;
    state->calls.insert(call);
    call->attempt();
  });
}

REEF_INLINE void HttpClient::stream(std::string target, std::string body, std::function<bool(std::string_view)> bytes,
                                    std::function<void()> end) {
  const auto stream = std::make_shared<State::Stream>(*state_, std::move(bytes), std::move(end));
  HttpRequest what;
  what.post = true;
  what.target = std::move(target);
  what.body = std::move(body);
  post([stream, what = std::move(what)] { stream->start(what); });
}

}  // namespace detail
}  // namespace swarm
}  // namespace v0
}  // namespace reef
