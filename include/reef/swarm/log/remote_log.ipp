#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/io/json.hpp>
#include <reef/swarm/log/detail/http_client.hpp>
#include <reef/swarm/log/remote_log.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace detail {

/// Parses an answer of a log's server, as one of our own makes it.
inline io::Json parse_answer(std::string_view body) {
  const io::JsonSource source("the answer of the log's server", "ask a server of the same version.");
  return io::parse_json(body, source, {.bytes = 16_MiB, .depth = 16});
}

template <class T>
T answer_value(const io::Json& json, std::string_view path) {
  return io::require<T>(json, path, {"the answer of the log's server", "ask a server of the same version."});
}

REEF_INLINE Appended decode_appended(std::string_view body) {
  const io::Json json = parse_answer(body);
  const auto outcome = answer_value<std::string>(json, "outcome");
  Appended answer;
  for (const AppendOutcome one :
       {AppendOutcome::won, AppendOutcome::lost, AppendOutcome::early, AppendOutcome::unknown}) {
    if (name_of(one) != outcome) continue;
    answer.outcome = one;
    if (one == AppendOutcome::lost) answer.other = answer_value<std::string>(json, "other");
    if (one == AppendOutcome::early || one == AppendOutcome::unknown)
      answer.why = answer_value<std::string>(json, "why");
    return answer;
  }
  throw DecodeError("reef::swarm: the log's server answers ", in_quotes(outcome),
                    " to an append.\n  fix: ask a server of the same version.");
}

REEF_INLINE LogPage decode_page(std::string_view body, LogIndex from) {
  const io::Json json = parse_answer(body);
  auto entries = answer_value<std::vector<std::string>>(json, "entries");
  const auto first = answer_value<LogIndex>(json, "from");
  // Further entries than were asked for: those before were dropped.
  if (first < from || (first > from && entries.empty())) {
    throw DecodeError("reef::swarm: the log's server answers with entries of another index than ", from,
                      ".\n  fix: ask a server of the same version.");
  }
  return {.from = first, .entries = std::move(entries), .answered = true, .why = {}};
}

REEF_INLINE Presences decode_presences(std::string_view body) {
  Presences result;
  const io::Json json = parse_answer(body);
  for (const auto& one : answer_value<std::vector<io::Json>>(json, "presences"))
    result.keys.push_back({answer_value<std::string>(one, "key"), answer_value<std::string>(one, "value")});
  result.answered = true;
  return result;
}

}  // namespace detail

struct RemoteLog::State {
  State(std::vector<detail::HttpAddress> servers, const RemoteLogOptions& options)
      : time(options.time), several(servers.size() > 1), client(std::move(servers), options.tls) {}

  static constexpr Seconds time_of_attempt = 2;  ///< where there are several servers

  [[nodiscard]] detail::HttpRequest get(std::string target) const {
    detail::HttpRequest request;
    request.target = std::move(target);
    request.time = time;
    request.attempt = several ? (std::min)(time, time_of_attempt) : time;
    return request;
  }

  [[nodiscard]] detail::HttpRequest post(std::string target, const io::Json& body) const {
    detail::HttpRequest request = get(std::move(target));
    request.post = true;
    request.body = body.dump();
    return request;
  }

  /// Returns why an answer is none that says what was asked for; empty where it does.
  static std::string refusal(const detail::HttpAnswer& answer) {
    if (answer.status == 200) return {};
    if (answer.status == 0) return answer.why;
    return concat("reef::swarm: the log's server refuses with status ", answer.status, ": ",
                  in_quotes(answer.body, 400), ".\n  fix: what it says.");
  }

  /// Asks for entries again and again: each time the server answers when there is one more.
  void follow(const std::shared_ptr<detail::Watcher>& watcher, Seconds pause) {
    if (watcher->stopped()) return;
    const Seconds wait = several ? 3 : 20;  // a keeper that hangs is given up soon
    const LogIndex from = watcher->next();
    detail::HttpRequest request = get(concat("/v1/entries?from=", from, "&wait=", wait));
    request.time = request.attempt = wait + request.attempt;
    client.request(std::move(request), [this, watcher, from, pause](const detail::HttpAnswer& answer) {
      constexpr Seconds least = 0.02;
      try {
        if (answer.status == 200) {
          watcher->give(detail::decode_page(answer.body, from));
          return follow(watcher, least);
        }
      } catch (const Error&) {  // no server of ours, for the time being
      }
      client.after(pause, [this, watcher, pause] {
        constexpr Seconds most = 5;
        follow(watcher, (std::min)(2 * pause, most));
      });
    });
  }

  const Seconds time;
  const bool several;
  detail::HttpClient client;
};

REEF_INLINE RemoteLog::RemoteLog(std::string_view url, Seconds time)
    : RemoteLog(RemoteLogOptions{.servers = {std::string(url)}, .tls = {}, .time = time}) {}

REEF_INLINE RemoteLog::RemoteLog(const RemoteLogOptions& options) {
  constexpr std::string_view who = "reef::swarm: a remote log";
  std::vector<detail::HttpAddress> servers;
  for (const std::string& url : options.servers) {
    servers.push_back(detail::parse_http_url(url, who));
    detail::require_safe(servers.back(), !options.tls.authority.empty(), who,
                         "http://127.0.0.1:PORT; for several machines, keepers over TLS.");
  }
  if (servers.empty()) throw OptionError(who, ": there is no server.\n  fix: the URL of one.");
  state_ = std::make_unique<State>(std::move(servers), options);
}

REEF_INLINE RemoteLog::~RemoteLog() = default;

REEF_INLINE void RemoteLog::append(LogIndex at, std::string entry, AppendDone done) {
  detail::require_entry(at, entry);
  detail::HttpRequest request = state_->post("/v1/append", {{"at", at}, {"entry", std::move(entry)}});
  state_->client.request(std::move(request), [done = std::move(done)](const detail::HttpAnswer& answer) {
    Appended appended;
    appended.why = State::refusal(answer);
    try {
      if (appended.why.empty()) appended = detail::decode_appended(answer.body);
      if (appended.outcome == AppendOutcome::early && answer.attempts > 1) appended.outcome = AppendOutcome::unknown;
    } catch (const Error& error) {
      appended.why = error.what();
    }
    done(std::move(appended));
  });
}

REEF_INLINE void RemoteLog::read(LogIndex from, ReadDone done) {
  state_->client.request(state_->get(concat("/v1/entries?from=", from)),
                         [from, done = std::move(done)](const detail::HttpAnswer& answer) {
                           LogPage page;
                           page.from = from;
                           page.why = State::refusal(answer);
                           page.damaged = answer.status == 410;
                           try {
                             if (page.why.empty()) page = detail::decode_page(answer.body, from);
                           } catch (const Error& error) {
                             page.why = error.what();
                           }
                           done(std::move(page));
                         });
}

REEF_INLINE LogWatch RemoteLog::watch(LogIndex from, EntryFound found) {
  const auto watcher = std::make_shared<detail::Watcher>(from, std::move(found));
  constexpr Seconds pause = 0.02;
  state_->follow(watcher, pause);
  return LogWatch(watcher);
}

REEF_INLINE void RemoteLog::present(std::string key, std::string value, Seconds ttl, PresenceDone done) {
  detail::require_presence(key, value, ttl);
  state_->client.request(
      state_->post("/v1/present", {{"key", std::move(key)}, {"value", std::move(value)}, {"ttl", ttl}}),
      [done = std::move(done)](const detail::HttpAnswer& answer) { done(State::refusal(answer)); });
}

REEF_INLINE void RemoteLog::absent(std::string key, PresenceDone done) {
  detail::require_presence(key, {}, 1);
  state_->client.request(state_->post("/v1/absent", {{"key", std::move(key)}}),
                         [done = std::move(done)](const detail::HttpAnswer& answer) { done(State::refusal(answer)); });
}

REEF_INLINE void RemoteLog::presences(std::function<void(Presences)> done) {
  state_->client.request(state_->get("/v1/presences"), [done = std::move(done)](const detail::HttpAnswer& answer) {
    Presences presences;
    presences.why = State::refusal(answer);
    try {
      if (presences.why.empty()) presences = detail::decode_presences(answer.body);
    } catch (const Error& error) {
      presences.why = error.what();
    }
    done(std::move(presences));
  });
}

}  // namespace swarm
}  // namespace v0
}  // namespace reef
