#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/numbers.hpp>
#include <reef/core/text.hpp>
#include <reef/io/json.hpp>
#include <reef/swarm/log/detail/base64.hpp>
#include <reef/swarm/log/detail/http_client.hpp>
#include <reef/swarm/log/etcd_log.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace detail {

inline constexpr std::string_view etcd_fix = "ask keepers of etcd 3.4 or later, of this job alone.";

[[noreturn]] inline void refuse_etcd(std::string_view what) {
  throw DecodeError("reef::swarm: etcd's answer: ", what, ".\n  fix: ", etcd_fix);
}

inline io::Json parse_etcd(std::string_view body) {
  io::Json json = io::parse_json(body, {"etcd's answer", etcd_fix}, {.bytes = 64_MiB, .depth = 16});
  io::require_object(json, "", {"etcd's answer", etcd_fix});
  return json;
}

/// Returns the key of an entry: indices of 20 digits are in the order of their keys.
inline std::string etcd_key(std::string_view prefix, LogIndex at) {
  const std::string digits = std::to_string(at);
  constexpr std::size_t width = 20;
  return concat(prefix, std::string(width - digits.size(), '0'), digits);
}

/// Returns the end of the range of all keys that begin with a prefix, which ends with a slash.
inline std::string etcd_end(std::string prefix) {
  prefix.back() = static_cast<char>(prefix.back() + 1);
  return prefix;
}

/// Returns keys without `prefix` and their values, of an answer to a range.
inline std::vector<PresentKey> etcd_pairs(const io::Json& range, std::string_view prefix) {
  const io::JsonSource source("etcd's answer", etcd_fix);
  std::vector<PresentKey> pairs;
  for (const io::Json& one : io::value_or<std::vector<io::Json>>(range, "kvs", {}, source)) {
    const auto key = bytes_of_base64(io::require<std::string>(one, "key", source));
    const auto value = bytes_of_base64(io::value_or<std::string>(one, "value", {}, source));
    if (!key || !value) refuse_etcd("a key or a value is no base64");
    if (!key->starts_with(prefix)) refuse_etcd(concat("the key ", in_quotes(*key), " was not asked for"));
    pairs.push_back({key->substr(prefix.size()), *value});
  }
  return pairs;
}

/// Returns a value of etcd as all readers are given it: one that no log takes as an entry (require_entry) is told of.
inline std::string etcd_entry(LogIndex at, std::string value) {
  try {
    require_entry(at, value);
  } catch (const OptionError&) {
    return R"({"kind":"unreadable","why":"etcd has a value there that is no UTF-8, empty or too long"})";
  }
  return value;
}

REEF_INLINE Appended decode_etcd_append(std::string_view body, LogIndex at, std::string_view entry) {
  const io::JsonSource source("etcd's answer", etcd_fix);
  const io::Json json = parse_etcd(body);
  if (io::value_or<bool>(json, "succeeded", false, source)) return {AppendOutcome::won, {}, {}};
  const std::vector<PresentKey> there =
      etcd_pairs(io::require<io::Json>(json, "responses.0.response_range", source), {});
  if (there.empty()) {
    if (at == 0) refuse_etcd("an append was refused, and nothing stands there");
    return {AppendOutcome::early, {}, concat("no entry stands at ", at - 1, " yet.")};
  }
  if (there.front().value == entry) return {AppendOutcome::won, {}, {}};
  return {AppendOutcome::lost, etcd_entry(at, there.front().value), {}};
}

REEF_INLINE LogPage decode_etcd_range(std::string_view body, LogIndex from, std::string_view prefix) {
  LogPage page{.from = from, .entries = {}, .answered = true, .why = {}};
  const io::Json json = parse_etcd(body);
  LogIndex at = from;
  Bytes bytes = 0;
  for (PresentKey& pair : etcd_pairs(json, prefix)) {
    if (pair.key.size() != etcd_key({}, 0).size() || !parse_number<LogIndex>(pair.key))
      refuse_etcd(concat("the key ", in_quotes(pair.key), " is no index"));
    if (pair.key != etcd_key({}, at++)) {
      const std::string why = concat("reef::swarm: etcd's answer: the entry ", at - 1,
                                     " is not there, but a later one is.\n  fix: ", etcd_fix);
      return {.from = from, .entries = {}, .answered = false, .why = why, .damaged = true};
    }
    bytes += pair.value.size();
    page.entries.push_back(etcd_entry(at - 1, std::move(pair.value)));
    if (bytes >= log_page_bytes) break;
  }
  return page;
}

REEF_INLINE Presences decode_etcd_presences(std::string_view body, std::string_view prefix) {
  return {.keys = etcd_pairs(parse_etcd(body), prefix), .answered = true, .why = {}};
}

}  // namespace detail

struct EtcdLog::State {
  static constexpr Seconds least_pause = 0.05;
  static constexpr Seconds most_pause = 5;

  /// A watch, which reads on whenever it is woken.
  struct Follower {
    std::shared_ptr<detail::Watcher> watcher;
    bool reading = false;
    bool again = false;  ///< woken while it was reading
    Seconds pause = least_pause;
  };

  /// The lease under which a key is written.
  struct Lease {
    std::string id;
    std::string value;
    Seconds ttl = 0;
  };

  State(std::vector<detail::HttpAddress> keepers, const EtcdLogOptions& options)
      : log(concat("/reef/", options.job, "/log/")),
        presence(concat("/reef/", options.job, "/presence/")),
        time(options.time),
        client(std::move(keepers), options.tls) {}

  [[nodiscard]] detail::HttpRequest post(std::string target, const io::Json& body) const {
    detail::HttpRequest request;
    request.post = true;
    request.target = std::move(target);
    request.body = body.dump();
    request.time = time;
    request.limit = 64_MiB;
    return request;
  }

  [[nodiscard]] detail::HttpRequest range(const std::string& key, const std::string& end, int limit) const {
    return post("/v3/kv/range",
                {{"key", detail::base64_of(key)}, {"range_end", detail::base64_of(end)}, {"limit", limit}});
  }

  /// Asks etcd, and calls `use` with the body of a good answer, or `fail` with why there is none.
  template <class Use, class Fail>
  void ask(detail::HttpRequest request, Use use, Fail fail) {
    const auto take = [use = std::move(use), fail = std::move(fail)](const detail::HttpAnswer& answer) {
      std::string why = answer.status == 200 ? std::string() : answer.why;
      if (answer.status != 0 && answer.status != 200) {
        why = concat("reef::swarm: etcd refuses with status ", answer.status, ": ", in_quotes(answer.body, 200),
                     ".\n  fix: see that a majority of the keepers runs, and has space.");
      }
      try {
        if (why.empty()) use(answer);
      } catch (const Error& error) {
        why = error.what();
      }
      if (!why.empty()) fail(why);
    };
    client.request(std::move(request), take);
  }

  void wake(const std::shared_ptr<Follower>& one) {
    if (one->watcher->stopped()) return;
    if (one->reading) {
      one->again = true;
      return;
    }
    one->reading = true;
    one->again = false;
    const LogIndex from = one->watcher->next();
    const auto page = std::make_shared<LogPage>();
    ask(
        entries(from),
        [this, one, from, page](const detail::HttpAnswer& answer) {
          *page = detail::decode_etcd_range(answer.body, from, log);
          one->watcher->give(*page);
          one->reading = false;
          one->pause = least_pause;
          if (!page->entries.empty() || one->again) wake(one);
        },
        [this, one](const std::string&) {
          client.after(one->pause, [this, one] {
            one->reading = false;
            wake(one);
          });
          one->pause = (std::min)(2 * one->pause, most_pause);
        });
  }

  [[nodiscard]] detail::HttpRequest entries(LogIndex from) const {
    constexpr int page = 32;
    return range(detail::etcd_key(log, from), detail::etcd_end(log), page);
  }

  void wake_all() {
    std::erase_if(followers, [](const auto& one) { return one->watcher->stopped(); });
    for (const auto& one : std::vector(followers)) wake(one);
  }

  /// Begins etcd's watch, which says that something is new, and again when it ends.
  void listen() {
    const io::Json create{{"key", detail::base64_of(log)}, {"range_end", detail::base64_of(detail::etcd_end(log))}};
    client.stream(
        "/v3/watch", io::Json{{"create_request", create}}.dump(),
        [this](std::string_view bytes) {
          listen_pause = least_pause;
          wake_all();
          return bytes.find("\"canceled\":true") == std::string_view::npos;
        },
        [this] {
          client.after(listen_pause, [this] { listen(); });
          listen_pause = (std::min)(2 * listen_pause, most_pause);
        });
  }

  void look() {
    constexpr Seconds pause = 2;
    wake_all();
    client.after(pause, [this] { look(); });
  }

  void write(const std::string& key, const Lease& lease, const PresenceDone& done, bool again) {
    const io::Json put{
        {"key", detail::base64_of(presence + key)}, {"value", detail::base64_of(lease.value)}, {"lease", lease.id}};
    ask(
        post("/v3/kv/put", put),
        [this, key, lease, done](const detail::HttpAnswer&) {
          leases[key] = lease;
          done({});
        },
        [this, key, lease, done, again](const std::string& why) {
          leases.erase(key);
          if (again && !client.ends()) return grant(key, lease, done);  // the lease has ended meanwhile
          done(why);
        });
  }

  void grant(const std::string& key, Lease lease, const PresenceDone& done) {
    const auto seconds = static_cast<std::int64_t>(std::ceil((std::max)(lease.ttl, shortest_presence)));
    ask(
        post("/v3/lease/grant", {{"TTL", seconds}}),
        [this, key, lease, done](const detail::HttpAnswer& answer) {
          Lease granted = lease;
          granted.id = io::require<std::string>(detail::parse_etcd(answer.body), "ID", "etcd's answer");
          write(key, granted, done, false);
        },
        [done](const std::string& why) { done(why); });
  }

  void renew(const std::string& key, const Lease& wanted, const PresenceDone& done) {
    const auto found = leases.find(key);
    if (found == leases.end() || found->second.ttl != wanted.ttl) return grant(key, wanted, done);
    Lease lease = wanted;
    lease.id = found->second.id;
    ask(
        post("/v3/lease/keepalive", {{"ID", lease.id}}),
        [this, key, lease, done](const detail::HttpAnswer& answer) {
          const io::Json json = detail::parse_etcd(answer.body);
          const auto left = io::value_or<std::string>(json, "result.TTL", "0", "etcd's answer");
          if (parse_number<std::int64_t>(left).value_or(0) <= 0) return grant(key, lease, done);
          // Another keeper, or an earlier call that came late, may have written the key with another value or lease.
          write(key, lease, done, true);
        },
        [done](const std::string& why) { done(why); });
  }

  const std::string log;
  const std::string presence;
  const Seconds time;
  std::vector<std::shared_ptr<Follower>> followers;
  std::map<std::string, Lease> leases;
  bool listening = false;
  Seconds listen_pause = least_pause;
  detail::HttpClient client;  // last: the others are used until its thread has ended
};

REEF_INLINE EtcdLog::EtcdLog(const EtcdLogOptions& options) {
  constexpr std::string_view who = "reef::swarm: a log kept by etcd";
  constexpr std::string_view letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
  constexpr std::size_t longest = 64;
  if (options.job.empty() || options.job.size() > longest ||
      options.job.find_first_not_of(letters) != std::string::npos) {
    throw OptionError(who, ": ", in_quotes(options.job),
                      " is no name of a job.\n  fix: 1 to 64 letters, digits, '.', '_' or '-'.");
  }
  std::vector<detail::HttpAddress> keepers;
  for (const std::string& url : options.keepers) {
    keepers.push_back(detail::parse_http_url(url, who));
    detail::require_safe(keepers.back(), !options.tls.authority.empty(), who, "keepers on 127.0.0.1.");
  }
  if (keepers.empty()) throw OptionError(who, ": there is no keeper.\n  fix: name one, such as http://127.0.0.1:2379.");
  state_ = std::make_unique<State>(std::move(keepers), options);
}

REEF_INLINE EtcdLog::~EtcdLog() = default;

REEF_INLINE void EtcdLog::append(LogIndex at, std::string entry, AppendDone done) {
  detail::require_entry(at, entry);
  const std::string key = detail::base64_of(detail::etcd_key(state_->log, at));
  io::Json compare = io::Json::array({{{"target", "VERSION"}, {"key", key}, {"result", "EQUAL"}, {"version", "0"}}});
  if (at > 0) {
    const std::string before = detail::base64_of(detail::etcd_key(state_->log, at - 1));
    compare.push_back({{"target", "VERSION"}, {"key", before}, {"result", "GREATER"}, {"version", "0"}});
  }
  const io::Json put{{"request_put", {{"key", key}, {"value", detail::base64_of(entry)}}}};
  const io::Json get{{"request_range", {{"key", key}}}};
  const io::Json transaction{
      {"compare", compare}, {"success", io::Json::array({put})}, {"failure", io::Json::array({get})}};
  state_->ask(
      state_->post("/v3/kv/txn", transaction),
      [at, entry, done](const detail::HttpAnswer& answer) {
        Appended appended = detail::decode_etcd_append(answer.body, at, entry);
        if (appended.outcome == AppendOutcome::early && answer.attempts > 1) appended.outcome = AppendOutcome::unknown;
        done(std::move(appended));
      },
      [done](const std::string& why) { done({AppendOutcome::unknown, {}, why}); });
}

REEF_INLINE void EtcdLog::read(LogIndex from, ReadDone done) {
  state_->ask(
      state_->entries(from),
      [from, done, log = state_->log](const detail::HttpAnswer& answer) {
        done(detail::decode_etcd_range(answer.body, from, log));
      },
      [from, done](const std::string& why) {
        done({.from = from, .entries = {}, .answered = false, .why = why});
      });
}

REEF_INLINE LogWatch EtcdLog::watch(LogIndex from, EntryFound found) {
  const auto follower = std::make_shared<State::Follower>();
  follower->watcher = std::make_shared<detail::Watcher>(from, std::move(found));
  state_->client.post([state = state_.get(), follower] {
    state->followers.push_back(follower);
    state->wake(follower);
    if (std::exchange(state->listening, true)) return;
    state->listen();
    state->look();
  });
  return LogWatch(follower->watcher);
}

REEF_INLINE void EtcdLog::present(std::string key, std::string value, Seconds ttl, PresenceDone done) {
  detail::require_presence(key, value, ttl);
  state_->client.post([state = state_.get(), key = std::move(key), done = std::move(done),
                       lease = State::Lease{{}, std::move(value), ttl}] { state->renew(key, lease, done); });
}

REEF_INLINE void EtcdLog::absent(std::string key, PresenceDone done) {
  detail::require_presence(key, {}, 1);
  state_->client.post([state = state_.get(), key = std::move(key), done = std::move(done)] {
    state->leases.erase(key);
    state->ask(
        state->post("/v3/kv/deleterange", {{"key", detail::base64_of(state->presence + key)}}),
        [done](const detail::HttpAnswer&) { done({}); }, [done](const std::string& why) { done(why); });
  });
}

REEF_INLINE void EtcdLog::presences(std::function<void(Presences)> done) {
  constexpr int most = 1024;
  state_->ask(
      state_->range(state_->presence, detail::etcd_end(state_->presence), most),
      [done, prefix = state_->presence](const detail::HttpAnswer& answer) {
        done(detail::decode_etcd_presences(answer.body, prefix));
      },
      [done](const std::string& why) { done({.keys = {}, .answered = false, .why = why}); });
}

}  // namespace swarm
}  // namespace v0
}  // namespace reef
