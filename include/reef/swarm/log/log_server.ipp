#pragma once

#include <algorithm>
#include <chrono>
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
#include <reef/core/text.hpp>
#include <reef/core/thread.hpp>
#include <reef/io/json.hpp>
#include <reef/swarm/log/detail/append_gate.hpp>
#include <reef/swarm/log/detail/asio_stream.hpp>
#include <reef/swarm/log/detail/end_signals.hpp>
#include <reef/swarm/log/detail/http_client.hpp>
#include <reef/swarm/log/detail/log_cutter.hpp>
#include <reef/swarm/log/detail/log_rules.hpp>
#include <reef/swarm/log/detail/presence_table.hpp>
#include <reef/swarm/log/local_log.hpp>
#include <reef/swarm/log/log_server.hpp>
#include <reef/swarm/net/detail/host_and_port.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
struct LogServer::State {
  using Tcp = boost::asio::ip::tcp;
  using Error = boost::beast::error_code;
  struct Session;

  State(const LogServerOptions& with, DecisionLog* shared_log, Presence* shared_presence)
      : options(with), rate(options.rate), acceptor(context), shared(shared_presence) {
    bind();
    log = shared_log == nullptr ? &local.emplace(options.folder, options.patience) : shared_log;
    end = local ? local->size() : 0;
    if (options.cut) cutter.emplace(*log);
    if (tls && !options.any_text) appends.emplace(options.tls, *log);
    watch = log->watch(end, [this](LogIndex at, std::string_view text) {
      if (appends) appends->note(at, text);
      boost::asio::post(context, [this, at] {
        end = at + 1;
        wake();
      });
    });
    acceptor.listen();
    accept();
    thread = make_thread("reef::swarm: the log's server", [this] { context.run(); });
  }

  ~State() {
    watch.stop();
    context.stop();
    thread.join();
    gate->close();
  }

  /// Binds the address, before the log is opened or made.
  void bind() {
    constexpr std::string_view who = "reef::swarm: the log's server";
    const detail::HttpAddress at = detail::parse_address(options.listen, who);
    if (!options.tls.authority.empty()) {
      tls.emplace(options.tls);
      if (const Identity own = tls->keys.identity(); own.role != "keeper") {
        throw OptionError(who, ": the certificate is that of ", own.uri(),
                          ".\n  why: peers send what they decide to keepers alone.\n  fix: a certificate of the role "
                          "keeper, by `reef-swarm keys issue --role keeper`.");
      }
    } else if (!detail::is_loopback(at.host)) {
      throw OptionError(who, ": ", in_quotes(options.listen),
                        " is no address of this machine alone.\n  why: the server asks nobody who it is, and encrypts "
                        "nothing.\n  fix: 127.0.0.1:PORT; for several machines, keepers over TLS.");
    }
    Error error;
    const auto ip = boost::asio::ip::make_address(at.host == "localhost" ? "127.0.0.1" : at.host, error);
    const Tcp::endpoint place(ip, at.port);
    if (!error) acceptor.open(place.protocol(), error);
    if (!error) detail::close_on_exec(acceptor.native_handle());
    if (!error) acceptor.set_option(Tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor.bind(place, error);
    if (error) {
      throw OptionError(who, ": cannot listen on ", detail::text_of(at), ": ", error.message(),
                        ".\n  fix: another port, or 0 for any that is free.");
    }
    address = {at.host, acceptor.local_endpoint().port(), tls.has_value()};
  }

  void accept();
  void wake();
  [[nodiscard]] Seconds now() const {
    return std::chrono::duration<Seconds>(std::chrono::steady_clock::now() - begin).count();
  }

  const LogServerOptions options;
  const std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
  std::optional<detail::AsioTls> tls;
  detail::RequestRate rate;
  boost::asio::io_context context{1};  // outlives the log, which posts to it
  const std::shared_ptr<detail::AsioGate> gate = std::make_shared<detail::AsioGate>(context);
  Tcp::acceptor acceptor;
  detail::HttpAddress address;
  std::set<std::shared_ptr<Session>> sessions;
  detail::Places unknown{options.connections / 2};  ///< by address, of sessions whose certificate was not seen yet
  detail::Places known{options.connections};        ///< by the certificate's name
  Presence* shared;         ///< null: `presences` are those of this server
  detail::PresenceTable presences;
  std::optional<LocalLog> local;
  DecisionLog* log = nullptr;
  LogIndex end = 0;  ///< the entries that the watch has seen
  std::optional<detail::LogCutter> cutter;
  std::optional<detail::AppendGate> appends;  ///< with TLS, unless any text is taken
  LogWatch watch;
  std::thread thread;
};

/// One connection: a request, its answer, and so on.
struct LogServer::State::Session : std::enable_shared_from_this<Session> {
  Session(State& of, Tcp::socket socket)
      : state(of), stream(std::move(socket)), timer(of.context) {}

  /// Begins with the handshake of TLS, if there is any, and reads requests.
  void start() {
    if (!state.tls) return read();
    constexpr Seconds longest = 5;
    stream.tcp().expires_after(detail::as_duration((std::min)(longest, state.options.request_time)));
    stream.shake_hands(*state.tls, false, [self = shared_from_this()](Error error) {
      self->state.unknown.leave(self->address);
      const Identity other = error ? Identity{} : self->stream.identity();
      if (error || !self->state.known.take(other.name)) return self->close();
      self->who = other;
      self->read();
    });
  }

  void read() {
    parser.emplace();
    parser->body_limit(std::uint64_t{512_KiB});
    parser->header_limit(8 * 1024);
    stream.tcp().expires_after(detail::as_duration(state.options.request_time));
    boost::beast::http::async_read(stream, buffer, *parser, [self = shared_from_this()](Error error, std::size_t) {
      self->taken(error);
    });
  }

  void taken(Error error) {
    namespace http = boost::beast::http;
    if (!error) return serve();
    keep = false;
    if (error == http::error::body_limit || error == http::error::header_limit)
      return respond(detail::served_error(413, "the request is too large", "entries have 64 KiB at most."));
    // Whoever ends a connection, or takes too long, is told nothing; who sends what is no HTTP is told so.
    const bool sent = error.category() == http::make_error_code(http::error::bad_method).category();
    if (error == http::error::end_of_stream || error == http::error::partial_message || !sent) return close();
    respond(detail::served_error(400, concat("the request is no HTTP: ", error.message()), "use RemoteLog."));
  }

  void serve() {
    keep = parser->get().keep_alive();
    if (state.tls && state.tls->keys.is_revoked(stream.serial())) return close();
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
    if (state.tls) {
      if (!state.rate.take(who.name, state.now()))
        return detail::served_error(429, concat(in_quotes(who.name), " asks too often"), "wait a second.");
    } else if (!detail::is_loopback(detail::host_of_header(std::string(request[http::field::host]))))
      return detail::served_error(403, "the request is for another host", "name 127.0.0.1 in the URL.");
    const bool post = request.method() == http::verb::post;
    if (!post && request.method() != http::verb::get)
      return detail::served_error(405, "the method is neither GET nor POST", "use RemoteLog.");
    if (post && request[http::field::content_type] != "application/json")
      return detail::served_error(415, "the request is no JSON", "Content-Type: application/json.");
    if (!post && path == "/v1/entries") return entries(target);
    if (!post && path == "/v1/presences") return presences();
    if (!post || (path != "/v1/append" && path != "/v1/present" && path != "/v1/absent"))
      return detail::served_error(404, concat("there is no ", in_quotes(path)), "use RemoteLog of the same version.");
    const io::JsonSource source("the request", "use RemoteLog.");
    const io::Json json = io::parse_json(request.body(), source, {.bytes = 512_KiB, .depth = 4});
    if (path == "/v1/append")
      return append(io::require<LogIndex>(json, "at", source), io::require<std::string>(json, "entry", source));
    const auto key = io::require<std::string>(json, "key", source);
    if (state.tls && !state.options.any_text) {
      if (const std::string why = detail::why_not_present(who, key); !why.empty())
        return detail::served_error(403, why, "the name of the own certificate.");
    }
    const auto written = [gate = state.gate, self = weak_from_this()](std::string_view why) {
      send(gate, self, why.empty() ? detail::ServedAnswer{} : detail::ServedAnswer{503, {{"error", why}}});
    };
    if (path == "/v1/absent") {
      detail::require_presence(key, {}, 1);
      if (state.shared != nullptr) {
        state.shared->absent(key, written);
        return std::nullopt;
      }
      state.presences.absent(key);
      return detail::ServedAnswer{};
    }
    auto value = io::require<std::string>(json, "value", source);
    const auto ttl = io::require<Seconds>(json, "ttl", source);
    detail::require_presence(key, value, ttl);
    if (state.shared != nullptr) {
      state.shared->present(key, std::move(value), ttl, written);
      return std::nullopt;
    }
    if (!state.presences.present(key, std::move(value), ttl, state.now()))
      return detail::served_error(503, "too many presences", "wait until the leases of others have ended.");
    return detail::ServedAnswer{};
  }

  std::optional<detail::ServedAnswer> append(LogIndex at, std::string entry) {
    const auto answer = [gate = state.gate, self = weak_from_this()](const detail::ServedAnswer& given) {
      send(gate, self, given);
    };
    if (state.appends) state.appends->append({who, stream.serial()}, at, std::move(entry), answer);
    else state.log->append(at, std::move(entry), [answer](const Appended& a) { answer(detail::served_append(a)); });
    return std::nullopt;
  }

  std::optional<detail::ServedAnswer> presences() {
    const auto answer_of = [](const std::vector<PresentKey>& keys) {
      io::Json all = io::Json::array();
      for (const auto& [key, value] : keys) all.push_back({{"key", key}, {"value", value}});
      return detail::ServedAnswer{200, {{"presences", std::move(all)}}};
    };
    if (state.shared == nullptr) return answer_of(state.presences.keys(state.now()));
    state.shared->presences([gate = state.gate, self = weak_from_this(), answer_of](const Presences& now) {
      const detail::ServedAnswer answer =
          now.answered ? answer_of(now.keys) : detail::ServedAnswer{503, {{"error", now.why}}};
      send(gate, self, answer);
    });
    return std::nullopt;
  }

  std::optional<detail::ServedAnswer> entries(std::string_view target) {
    const auto from = detail::query_number<LogIndex>(target, "from", 0);
    const auto wait = detail::query_number<Seconds>(target, "wait", 0);
    if (!from || !wait || !(*wait >= 0))
      return detail::served_error(400, "`from` or `wait` is no number", "use RemoteLog.");
    waits_for = *from;
    if (*wait > 0 && state.end <= *from) {
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
    state.log->read(waits_for, [gate = state.gate, self = weak_from_this()](const LogPage& page) {
      send(gate, self, detail::served_page(page));
    });
  }

  /// Responds on the thread of the server, from any other, unless one of the two has ended.
  static void send(const std::shared_ptr<detail::AsioGate>& gate, const std::weak_ptr<Session>& to,
                   detail::ServedAnswer answer) {
    gate->post([to, answer = std::move(answer)] {
      if (const auto session = to.lock()) session->respond(answer);
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
    stream.tcp().expires_after(detail::as_duration(state.options.request_time));
    http::async_write(stream, response, [self = shared_from_this()](Error error, std::size_t) {
      if (error) return self->close();
      if (self->keep) return self->read();
      Error ignored;
      self->stream.tcp().socket().shutdown(Tcp::socket::shutdown_send, ignored);
      self->drain(1_MiB);
    });
  }

  /// Takes what a client still sends, for a moment: an end at once would reset the connection, and lose the answer.
  void drain(Bytes most) {
    buffer.clear();
    if (most == 1_MiB) stream.tcp().expires_after(std::chrono::seconds(1));
    stream.async_read_some(buffer.prepare(16_KiB), [self = shared_from_this(), most](Error error, std::size_t got) {
      if (error || got >= most) return self->close();
      self->drain(most - got);
    });
  }

  void close() {
    stream.close();
    state.known.leave(std::exchange(who, {}).name);
    state.sessions.erase(shared_from_this());
  }

  State& state;
  Identity who;  ///< with TLS, while the session has a place among those that are known
  detail::AsioStream stream;
  const std::string address = stream.address();
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
    const auto session = std::make_shared<Session>(*this, std::move(socket));
    const std::size_t most = options.connections;
    if (tls) {
      if (sessions.size() < most && unknown.take(session->address)) {
        sessions.insert(session);
        session->start();
      }
    } else if (sessions.size() < 2 * most) {  // above, not even a refusal is written
      sessions.insert(session);
      if (sessions.size() <= most) session->start();
      else session->respond(detail::served_error(503, "too many connections", "end some of them, or ask later."));
    }
    accept();
  });
}

inline void LogServer::State::wake() {
  for (const auto& session : std::set(sessions))
    if (session->waiting && session->waits_for < end) session->page();
}

REEF_INLINE LogServer::LogServer(const LogServerOptions& options)
    : state_(std::make_unique<State>(options, nullptr, nullptr)) {}

REEF_INLINE LogServer::LogServer(const LogServerOptions& options, DecisionLog& log, Presence& presence)
    : state_(std::make_unique<State>(options, &log, &presence)) {}

REEF_INLINE LogServer::~LogServer() = default;

REEF_INLINE std::uint16_t LogServer::port() const { return state_->address.port; }

REEF_INLINE std::string LogServer::url() const { return detail::url_of(state_->address); }

REEF_INLINE void LogServer::set_revoked(std::vector<std::string> serials) {
  boost::asio::post(state_->context, [state = state_.get(), serials = std::move(serials)] {
    if (!state->tls) return;
    state->tls->keys.set_revoked(serials);
    for (const auto& session : std::set(state->sessions))
      if (state->tls->keys.is_revoked(session->stream.serial())) session->close();
  });
}

REEF_INLINE int serve_log(const LogServerOptions& options, std::ostream& out) {
  const detail::EndSignals ends;
  const LogServer server(options);
  out << server.port() << std::endl;
  while (!ends.wait(3600)) continue;
  return 0;
}

}  // namespace swarm
}  // namespace v0
}  // namespace reef
