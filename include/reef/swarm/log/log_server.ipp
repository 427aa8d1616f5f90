#pragma once

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <optional>
#include <ostream>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>

#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/numbers.hpp>
#include <reef/core/text.hpp>
#include <reef/core/thread.hpp>
#include <reef/io/json.hpp>
#include <reef/swarm/log/detail/http_client.hpp>
#include <reef/swarm/log/detail/presence_table.hpp>
#include <reef/swarm/log/local_log.hpp>
#include <reef/swarm/log/log_server.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace detail {

/// What a request is answered with.
struct ServedAnswer {
  int status = 200;
  io::Json body = io::Json::object();
};

inline ServedAnswer served_error(int status, std::string_view what, std::string_view fix) {
  return {status, {{"error", concat("reef::swarm: the log's server: ", what, ".\n  fix: ", fix)}}};
}

/// Returns the value of a number in the query of a target, such as from=7; nothing where it is no number.
template <class Number>
std::optional<Number> query_number(std::string_view target, std::string_view key, Number otherwise) {
  std::string_view rest = target.substr((std::min)(target.find('?'), target.size()));
  while (!rest.empty()) {
    rest.remove_prefix(1);  // ? or &
    const std::string_view pair = rest.substr(0, rest.find('&'));
    rest.remove_prefix(pair.size());
    const std::size_t equals = (std::min)(pair.find('='), pair.size());
    if (pair.substr(0, equals) == key)
      return parse_number<Number>(pair.substr((std::min)(equals + 1, pair.size())));
  }
  return otherwise;
}

inline io::Json json_of(const Appended& answer) {
  io::Json json{{"outcome", std::string(name_of(answer.outcome))}};
  if (answer.outcome == AppendOutcome::lost) json["other"] = answer.other;
  if (!answer.why.empty()) json["why"] = answer.why;
  return json;
}

}  // namespace detail

struct LogServer::State {
  using Tcp = boost::asio::ip::tcp;
  using Error = boost::beast::error_code;
  struct Session;

  explicit State(const LogServerOptions& with) : options(with), acceptor(context), local(bound(), options.patience) {
    watch = local.watch(local.size(), [this](LogIndex, std::string_view) {
      boost::asio::post(context, [this] { wake(); });
    });
    acceptor.listen();
    accept();
    thread = make_thread("reef::swarm: the log's server", [this] { context.run(); });
  }

  ~State() {
    watch.stop();
    context.stop();
    thread.join();
  }

  /// Binds the address, before the log is opened or made. Returns the log's folder.
  const std::filesystem::path& bound() {
    constexpr std::string_view who = "reef::swarm: the log's server";
    const detail::HttpAddress at = detail::parse_address(options.listen, who);
    if (!detail::is_loopback(at.host)) {
      throw OptionError(who, ": ", in_quotes(options.listen),
                        " is no address of this machine alone.\n  why: the server asks nobody who it is, and encrypts "
                        "nothing.\n  fix: 127.0.0.1:PORT; for several machines, keepers over TLS.");
    }
    Error error;
    const Tcp::endpoint end(boost::asio::ip::make_address(at.host == "localhost" ? "127.0.0.1" : at.host), at.port);
    acceptor.open(end.protocol(), error);
    if (!error) acceptor.set_option(Tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor.bind(end, error);
    if (error) {
      throw OptionError(who, ": cannot listen on ", detail::text_of(at), ": ", error.message(),
                        ".\n  fix: another port, or 0 for any that is free.");
    }
    address = {at.host, acceptor.local_endpoint().port()};
    return options.folder;
  }

  void accept();
  void wake();
  [[nodiscard]] Seconds now() const {
    return std::chrono::duration<Seconds>(std::chrono::steady_clock::now() - begin).count();
  }

  const LogServerOptions options;
  const std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
  boost::asio::io_context context{1};  // outlives the log, which posts to it
  Tcp::acceptor acceptor;
  detail::HttpAddress address;
  detail::PresenceTable presences;
  std::set<std::shared_ptr<Session>> sessions;
  LocalLog local;
  LogWatch watch;
  std::thread thread;
};

/// One connection: a request, its answer, and so on.
struct LogServer::State::Session : std::enable_shared_from_this<Session> {
  Session(State& of, Tcp::socket socket)
      : state(of), stream(std::move(socket)), timer(of.context) {}

  void read() {
    parser.emplace();
    constexpr std::uint64_t most_bytes = 512_KiB;
    parser->body_limit(most_bytes);
    parser->header_limit(8 * 1024);
    stream.expires_after(detail::as_duration(state.options.request_time));
    boost::beast::http::async_read(stream, buffer, *parser, [self = shared_from_this()](Error error, std::size_t) {
      self->taken(error);
    });
  }

  void taken(Error error) {
    namespace http = boost::beast::http;
    if (!error) return serve();
    keep = false;
    if (error == http::error::body_limit || error == http::error::header_limit) {
      return respond(detail::served_error(413, "the request is too large", "entries have 64 KiB at most."));
    }
    // Whoever ends a connection, or takes too long, is told nothing; who sends what is no HTTP is told so.
    const bool sent = error.category() == http::make_error_code(http::error::bad_method).category();
    if (error == http::error::end_of_stream || error == http::error::partial_message || !sent) return close();
    respond(detail::served_error(400, concat("the request is no HTTP: ", error.message()), "use RemoteLog."));
  }

  void serve() {
    keep = parser->get().keep_alive();
    try {
      if (const std::optional<detail::ServedAnswer> answer = route()) respond(*answer);
    } catch (const reef::Error& wrong) {
      respond({400, {{"error", wrong.what()}}});
    }
  }

  /// Answers a request, or sees to it that it is answered later, and returns nothing.
  std::optional<detail::ServedAnswer> route() {
    namespace http = boost::beast::http;
    const auto& request = parser->get();
    const std::string target(request.target());
    const std::string_view path = std::string_view(target).substr(0, target.find('?'));
    const std::string host(request[http::field::host]);
    const bool six = host.starts_with('[');
    if (!detail::is_loopback(six ? host.substr(1, host.find(']') - 1) : host.substr(0, host.find(':'))))
      return detail::served_error(403, "the request is for another host", "name 127.0.0.1 in the URL.");
    const bool post = request.method() == http::verb::post;
    if (!post && request.method() != http::verb::get)
      return detail::served_error(405, "the method is neither GET nor POST", "use RemoteLog.");
    if (post && request[http::field::content_type] != "application/json")
      return detail::served_error(415, "the request is no JSON", "Content-Type: application/json.");
    if (!post && path == "/v1/entries") return entries(target);
    if (!post && path == "/v1/presences") {
      io::Json all = io::Json::array();
      for (auto& [key, value] : state.presences.keys(state.now())) all.push_back({{"key", key}, {"value", value}});
      return detail::ServedAnswer{200, {{"presences", std::move(all)}}};
    }
    if (!post || (path != "/v1/append" && path != "/v1/present" && path != "/v1/absent"))
      return detail::served_error(404, concat("there is no ", in_quotes(path)), "use RemoteLog of the same version.");
    const io::JsonSource source("the request", "use RemoteLog.");
    const io::Json json = io::parse_json(request.body(), source, {.bytes = 512_KiB, .depth = 4});
    if (path == "/v1/append") {
      append(io::require<LogIndex>(json, "at", source), io::require<std::string>(json, "entry", source));
      return std::nullopt;
    }
    const auto key = io::require<std::string>(json, "key", source);
    if (path == "/v1/absent") {
      state.presences.absent(key);
      return detail::ServedAnswer{};
    }
    auto value = io::require<std::string>(json, "value", source);
    const auto ttl = io::require<Seconds>(json, "ttl", source);
    detail::require_presence(key, value, ttl);
    if (!state.presences.present(key, std::move(value), ttl, state.now()))
      return detail::served_error(503, "too many presences", "wait until the leases of others have ended.");
    return detail::ServedAnswer{};
  }

  void append(LogIndex at, std::string entry) {
    state.local.append(at, std::move(entry), [self = shared_from_this()](const Appended& answer) {
      boost::asio::post(self->state.context, [self, answer] { self->respond({200, detail::json_of(answer)}); });
    });
  }

  std::optional<detail::ServedAnswer> entries(std::string_view target) {
    const auto from = detail::query_number<LogIndex>(target, "from", 0);
    const auto wait = detail::query_number<Seconds>(target, "wait", 0);
    if (!from || !wait || !(*wait >= 0))
      return detail::served_error(400, "`from` or `wait` is no number", "use RemoteLog.");
    waits_for = *from;
    if (*wait > 0 && state.local.size() <= *from) {
      constexpr Seconds longest = 25;
      waiting = true;
      timer.expires_after(detail::as_duration((std::min)(*wait, longest)));
      // A wake in between has cleared `waiting`, and cancelled the timer.
      timer.async_wait([self = shared_from_this()](Error error) {
        if (!error && self->waiting) self->page();
      });
    } else {
      page();
    }
    return std::nullopt;
  }

  void page() {
    waiting = false;
    timer.cancel();
    state.local.read(waits_for, [self = shared_from_this()](const LogPage& page) {
      detail::ServedAnswer answer{200, {{"from", page.from}, {"entries", page.entries}}};
      if (!page.answered) answer = {500, {{"error", page.why}}};
      boost::asio::post(self->state.context, [self, answer = std::move(answer)] { self->respond(answer); });
    });
  }

  void respond(const detail::ServedAnswer& answer) {
    namespace http = boost::beast::http;
    response = {};
    response.version(11);
    response.result(static_cast<unsigned>(answer.status));
    response.set(http::field::content_type, "application/json");
    response.keep_alive(keep);
    response.body() = answer.body.dump(-1, ' ', false, io::Json::error_handler_t::replace);
    response.prepare_payload();
    stream.expires_after(detail::as_duration(state.options.request_time));
    http::async_write(stream, response, [self = shared_from_this()](Error error, std::size_t) {
      if (error) return self->close();
      if (self->keep) return self->read();
      Error ignored;
      self->stream.socket().shutdown(Tcp::socket::shutdown_send, ignored);
      self->drain(1_MiB);
    });
  }

  /// Takes what a client still sends, for a moment: an end at once would reset the connection, and lose the answer.
  void drain(Bytes most) {
    buffer.clear();
    if (most == 1_MiB) stream.expires_after(std::chrono::seconds(1));
    constexpr std::size_t piece = 16 * 1024;
    stream.async_read_some(buffer.prepare(piece), [self = shared_from_this(), most](Error error, std::size_t got) {
      if (error || got >= most) return self->close();
      self->drain(most - got);
    });
  }

  void close() {
    Error ignored;
    stream.socket().close(ignored);
    state.sessions.erase(shared_from_this());
  }

  State& state;
  boost::beast::tcp_stream stream;
  boost::beast::flat_buffer buffer;
  std::optional<boost::beast::http::request_parser<boost::beast::http::string_body>> parser;
  boost::beast::http::response<boost::beast::http::string_body> response;
  boost::asio::steady_timer timer;
  LogIndex waits_for = 0;
  bool waiting = false;
  bool keep = false;
};

inline void LogServer::State::accept() {
  acceptor.async_accept([this](Error error, Tcp::socket socket) {
    if (error == boost::asio::error::operation_aborted) return;
    if (error) {  // no more files, for instance: others end meanwhile
      const auto pause = std::make_shared<boost::asio::steady_timer>(context, std::chrono::milliseconds(100));
      pause->async_wait([this, pause](Error) { accept(); });
      return;
    }
    Error ignored;
    socket.set_option(Tcp::no_delay(true), ignored);
    const auto session = std::make_shared<Session>(*this, std::move(socket));
    const std::size_t most = options.connections;
    if (sessions.size() < 2 * most) {  // above, not even a refusal is written
      sessions.insert(session);
      if (sessions.size() <= most) session->read();
      else session->respond(detail::served_error(503, "too many connections", "end some of them, or ask later."));
    }
    accept();
  });
}

inline void LogServer::State::wake() {
  for (const auto& session : std::set(sessions))
    if (session->waiting && session->waits_for < local.size()) session->page();
}

REEF_INLINE LogServer::LogServer(const LogServerOptions& options) : state_(std::make_unique<State>(options)) {}

REEF_INLINE LogServer::~LogServer() = default;

REEF_INLINE std::uint16_t LogServer::port() const { return state_->address.port; }

REEF_INLINE std::string LogServer::url() const { return "http://" + detail::text_of(state_->address); }

REEF_INLINE int serve_log(const LogServerOptions& options, std::ostream& out) {
  ::sigset_t ends;
  ::sigemptyset(&ends);
  ::sigaddset(&ends, SIGINT);
  ::sigaddset(&ends, SIGTERM);
  ::sigset_t before;
  ::pthread_sigmask(SIG_BLOCK, &ends, &before);
  {
    const LogServer server(options);
    out << server.port() << std::endl;
    int came = 0;
    ::sigwait(&ends, &came);
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return 0;
}

}  // namespace swarm
}  // namespace v0
}  // namespace reef
