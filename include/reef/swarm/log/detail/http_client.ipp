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
#include <reef/core/text.hpp>
#include <reef/core/thread.hpp>
#include <reef/swarm/log/detail/asio_stream.hpp>
#include <reef/swarm/log/detail/http_client.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace detail {

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
  AsioStream stream;
  boost::beast::flat_buffer buffer;
  std::size_t server = 0;
  bool used = false;  ///< has answered before: the server may have closed it since
};

/// What all connections share. The thread alone touches it, but for posts.
struct HttpClient::State {
  struct Call;
  struct Stream;

  State(std::vector<HttpAddress> all, const TlsFiles& files)
      : servers(std::move(all)), work(context.get_executor()) {
    if (!files.authority.empty()) tls.emplace(files);
  }

  /// Connects, with TLS where the server's URL says so, and calls `done` with why that failed, or an empty text. `held`
  /// keeps the connection until then.
  void connect(const std::shared_ptr<HttpConnection>& held, const std::function<void(const std::string&)>& done) {
    HttpError error;
    const HttpTcp::endpoint to = endpoint(held->server, error);
    if (error) return done(error.message());
    held->stream.tcp().async_connect(to, [this, held, done](HttpError refused) {
      if (refused) return done(refused.message());
      held->stream.prepare();
      if (!servers[held->server].tls) return done({});
      held->stream.shake_hands(*tls, true, [this, held, done](HttpError failed) {
        if (failed) return done(held->stream.why(failed));
        const Identity who = held->stream.identity();
        const bool keeper = who.role == "keeper" && who.job == tls->keys.identity().job;
        done(keeper ? std::string() : concat("its certificate is that of ", who.uri(), ", no keeper of this job"));
      });
    });
  }

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
  std::optional<AsioTls> tls;
  boost::asio::io_context context{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work;
  std::size_t server = 0;  ///< the one that answered last
  std::vector<std::shared_ptr<HttpConnection>> idle;
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
    connection = std::make_shared<HttpConnection>(state.context);
    connection->server = server;
    arm();
    state.connect(connection, [self = shared_from_this()](const std::string& refused) {
      if (self->finished) return;
      if (!refused.empty()) return self->failed(refused);
      self->write();
    });
  }

  void arm() const {
    connection->stream.tcp().expires_at((std::min)(end, HttpClock::now() + as_duration(request.attempt)));
  }

  void write() {
    message = state.message(request, server);
    const auto sent = [self = shared_from_this(), held = connection](HttpError error, std::size_t) {
      if (self->finished) return;
      if (error) return self->failed(held->stream.why(error), error == boost::beast::error::timeout);
      self->read();
    };
    http::async_write(connection->stream, *message, sent);
  }

  void read() {
    parser.emplace();
    parser->body_limit(request.limit);
    parser->header_limit(16 * 1024);
    const auto got = [self = shared_from_this(), held = connection](HttpError error, std::size_t) {
      if (self->finished) return;
      if (error) return self->failed(held->stream.why(error), error == boost::beast::error::timeout);
      self->answered();
    };
    http::async_read(connection->stream, connection->buffer, *parser, got);
  }

  /// Closes the connection. Handlers that are open hold it until they have run.
  void drop() {
    if (connection) connection->stream.close();
    connection.reset();
  }

  void answered() {
    auto response = parser->release();
    if (response.keep_alive()) {
      connection->used = true;
      connection->stream.tcp().expires_never();
      constexpr std::size_t most_idle = 8;
      if (state.idle.size() < most_idle) state.idle.push_back(std::exchange(connection, nullptr));
    }
    drop();
    answer.status = static_cast<int>(response.result_int());
    answer.body = std::move(response.body());
    if (is_of_the_moment(answer.status) && HttpClock::now() < end) return again();
    finish();
  }

  void failed(const std::string& error, bool late = false) {
    const bool used = connection->used;
    drop();
    const bool tls = state.servers[server].tls;
    answer.why = concat("reef::swarm: ", url_of(state.servers[server]), " does not answer: ", error, ".\n  fix: start ",
                        tls ? "a keeper there, or see why it is slow; certificates of one CA, not expired, not revoked."
                            : "the log's server there, or see why it is slow.");
    if (used && !late) return attempt();  // closed while nobody used it
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
    drop();
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
  std::shared_ptr<HttpConnection> connection;
  std::optional<http::request<http::string_body>> message;
  std::optional<http::response_parser<http::string_body>> parser;
  HttpAnswer answer;
  bool finished = false;
};

/// One answer without an end.
struct HttpClient::State::Stream : std::enable_shared_from_this<Stream> {
  Stream(State& of, std::function<bool(std::string_view)> with, std::function<void()> then)
      : state(of), bytes(std::move(with)), end(std::move(then)), held(std::make_shared<HttpConnection>(of.context)) {}

  void start(const HttpRequest& what) {
    connection.server = state.server;
    message = state.message(what, connection.server);
    connection.stream.tcp().expires_after(as_duration(what.attempt));
    state.connect(held, [self = shared_from_this()](const std::string& refused) {
      if (!refused.empty()) return self->ended();
      HttpError ignored;
      self->connection.stream.tcp().socket().set_option(boost::asio::socket_base::keep_alive(true), ignored);
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
                              self->connection.stream.tcp().expires_never();
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
    connection.stream.close();
    if (state.closing) return;
    if (!connection.used && state.server == connection.server) state.server = (state.server + 1) % state.servers.size();
    end();
  }

  State& state;
  std::function<bool(std::string_view)> bytes;
  std::function<void()> end;
  std::shared_ptr<HttpConnection> held;
  HttpConnection& connection = *held;
  std::optional<http::request<http::string_body>> message;
  http::response_parser<http::buffer_body> parser;
  std::string piece = std::string(16 * 1024, '\0');
};

REEF_INLINE HttpClient::HttpClient(std::vector<HttpAddress> servers, const TlsFiles& tls)
    : state_(std::make_unique<State>(std::move(servers), tls)) {
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
