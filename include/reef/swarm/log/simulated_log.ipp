#pragma once

#include <algorithm>
#include <map>
#include <utility>

#include <reef/core/inline.hpp>
#include <reef/core/random.hpp>
#include <reef/core/text.hpp>
#include <reef/swarm/log/detail/presence_table.hpp>
#include <reef/swarm/log/simulated_log.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {

struct SimulatedKeepers::State {
  void at(Seconds time, std::function<void()> what) {
    events.emplace(std::pair((std::max)(time, now), made++), std::move(what));
  }

  Appended append(LogIndex index_of, const std::string& entry) {
    if (index_of > entries.size())
      return {AppendOutcome::early, {}, concat("no entry stands at ", index_of - 1, " yet.")};
    if (index_of < entries.size()) {
      const std::string& there = entries[index_of];
      return there == entry ? Appended{AppendOutcome::won, {}, {}} : Appended{AppendOutcome::lost, there, {}};
    }
    entries.push_back(entry);
    return {AppendOutcome::won, {}, {}};
  }

  [[nodiscard]] LogPage page(LogIndex from) const {
    LogPage page{.from = from, .entries = {}, .answered = true, .why = {}};
    Bytes bytes = 0;
    for (LogIndex i = from; i < entries.size() && bytes < log_page_bytes; ++i) {
      page.entries.push_back(entries[i]);
      bytes += entries[i].size();
    }
    return page;
  }

  SimulatedLogOptions options;
  Seconds now = 0;
  std::uint64_t made = 0;  ///< the number of events made so far
  std::map<std::pair<Seconds, std::uint64_t>, std::function<void()>> events;
  std::vector<std::string> entries;
  detail::PresenceTable presences;
  std::vector<std::weak_ptr<SimulatedLog::Client>> clients;
  bool away = false;
};

struct SimulatedLog::Client : std::enable_shared_from_this<Client> {
  using Keepers = SimulatedKeepers::State;

  /// A watch: `idle` while it has seen all, and waits to be told of more.
  struct Follower {
    std::shared_ptr<detail::Watcher> watcher;
    bool idle = false;
  };

  Client(std::shared_ptr<Keepers> of, std::uint64_t number)
      : keepers(std::move(of)), stream(DrawKey{.seed = keepers->options.seed, .sample = number}) {}

  /// Draws from [0, 1).
  double draw() { return static_cast<double>(stream.bits(drawn++)) * 0x1p-32; }
  Seconds delay() { return 2 * keepers->options.delay * (1 - draw()); }

  /// Sends a request: `carry_out` runs at the keepers, and returns what is to run here when the answer arrives. Runs
  /// `fail` instead after the time of a call.
  void call(const std::function<std::function<void()>()>& carry_out, const std::function<void()>& fail,
            bool may_be_late) {
    const SimulatedLogOptions& options = keepers->options;
    const std::uint64_t id = calls++;
    open[id] = fail;
    keepers->at(keepers->now + options.time, [self = shared_from_this(), id] {
      if (const auto found = self->open.find(id); found != self->open.end()) self->close(id, found->second);
    });
    // Draws all numbers, whatever comes of them: one chance more or less leaves the other draws as they were.
    const bool late = draw() < options.late && may_be_late;
    const Seconds lateness = options.time + draw() * (std::max)(options.latest - options.time, 0.0);
    const Seconds there = late ? lateness : delay();
    const Seconds back = delay();
    const bool arrives = draw() >= options.lost_request && !cut_off;
    const bool answered = draw() >= options.lost_answer;
    if (!arrives) return;
    keepers->at(keepers->now + there, [self = shared_from_this(), id, carry_out, back, answered] {
      if (self->keepers->away || (self->cut_off && !self->ended)) return;
      const std::function<void()> answer = carry_out();
      if (!answered) return;
      self->keepers->at(self->keepers->now + back, [self, id, answer] {
        if (!self->cut_off && !self->keepers->away) self->close(id, answer);
      });
    });
  }

  void close(std::uint64_t id, const std::function<void()>& answer) {
    const std::function<void()> last = answer;  // may be the one that is erased
    if (open.erase(id) != 0) last();
  }

  /// Asks for what comes next of a watch, again and again until it has seen all.
  void follow(const std::shared_ptr<Follower>& one) {
    if (one->watcher->stopped() || ended) return;
    one->idle = false;
    const LogIndex from = one->watcher->next();
    const auto pause = keepers->options.time;
    call(
        [self = shared_from_this(), one, from] {
          return [self, one, page = self->keepers->page(from)] {
            one->watcher->give(page);
            // What was appended while the page was under way has found the watch not idle.
            if (one->watcher->next() < self->keepers->entries.size()) return self->follow(one);
            one->idle = true;
          };
        },
        [self = shared_from_this(), one, pause] {
          if (self->ended) return;
          // A client that reaches nobody waits until it does.
          if (self->cut_off || self->keepers->away) one->idle = true;
          else self->keepers->at(self->keepers->now + pause, [self, one] { self->follow(one); });
        },
        false);
  }

  /// Tells the idle watches that there is more, or may be: one that is told in vain asks once.
  void wake() {
    std::erase_if(followers, [](const auto& one) { return one->watcher->stopped(); });
    for (const auto& one : followers) {
      if (!one->idle) continue;
      keepers->at(keepers->now + delay(), [self = shared_from_this(), one] {
        if (one->idle && !self->cut_off && !self->keepers->away) self->follow(one);
      });
    }
  }

  std::shared_ptr<Keepers> keepers;
  RandomStream stream;
  std::uint64_t drawn = 0;
  std::uint64_t calls = 0;
  std::map<std::uint64_t, std::function<void()>> open;  ///< what to run when the time of a call is over
  std::vector<std::shared_ptr<Follower>> followers;
  bool cut_off = false;
  bool ended = false;
};

namespace detail {

inline void wake_clients(const std::vector<std::weak_ptr<SimulatedLog::Client>>& clients) {
  for (const auto& one : clients)
    if (const auto client = one.lock()) client->wake();
}

inline constexpr std::string_view no_keepers =
    "reef::swarm: no keeper answers in time.\n  fix: wait until they can be reached; then read what stands.";

}  // namespace detail

REEF_INLINE SimulatedKeepers::SimulatedKeepers(const SimulatedLogOptions& options) : state_(std::make_shared<State>()) {
  state_->options = options;
}

REEF_INLINE SimulatedKeepers::~SimulatedKeepers() {
  state_->events.clear();  // they hold clients, which hold the keepers
}

REEF_INLINE void SimulatedKeepers::advance(Seconds now) {
  auto& events = state_->events;
  while (!events.empty() && events.begin()->first.first <= now) {
    const auto event = events.extract(events.begin());
    state_->now = event.key().first;
    event.mapped()();
  }
  state_->now = (std::max)(state_->now, now);
}

REEF_INLINE std::optional<Seconds> SimulatedKeepers::next() const {
  if (state_->events.empty()) return std::nullopt;
  return state_->events.begin()->first.first;
}

REEF_INLINE Seconds SimulatedKeepers::now() const { return state_->now; }

REEF_INLINE void SimulatedKeepers::set_away(bool away) {
  state_->away = away;
  if (!away) detail::wake_clients(state_->clients);
}

REEF_INLINE std::vector<std::string> SimulatedKeepers::entries() const { return state_->entries; }

REEF_INLINE SimulatedLog::SimulatedLog(SimulatedKeepers& keepers, std::uint64_t client)
    : client_(std::make_shared<Client>(keepers.state_, client)) {
  auto& clients = keepers.state_->clients;
  std::erase_if(clients, [](const auto& one) { return one.expired(); });
  clients.push_back(client_);
}

REEF_INLINE SimulatedLog::~SimulatedLog() {
  client_->ended = true;
  client_->followers.clear();
  const auto open = std::exchange(client_->open, {});
  for (const auto& [id, fail] : open) fail();
  client_->open.clear();
}

REEF_INLINE void SimulatedLog::append(LogIndex at, std::string entry, AppendDone done) {
  detail::require_entry(at, entry);
  client_->call(
      [client = client_, at, entry = std::move(entry), done] {
        auto& keepers = *client->keepers;
        const std::size_t before = keepers.entries.size();
        Appended answer = keepers.append(at, entry);
        if (keepers.entries.size() > before) detail::wake_clients(keepers.clients);
        return [answer = std::move(answer), done] { done(answer); };
      },
      [done] { done({AppendOutcome::unknown, {}, std::string(detail::no_keepers)}); }, true);
}

REEF_INLINE void SimulatedLog::read(LogIndex from, ReadDone done) {
  client_->call(
      [client = client_, from, done] { return [page = client->keepers->page(from), done] { done(page); }; },
      [from, done] {
        done({.from = from, .entries = {}, .answered = false, .why = std::string(detail::no_keepers)});
      },
      false);
}

REEF_INLINE LogWatch SimulatedLog::watch(LogIndex from, EntryFound found) {
  const auto follower = std::make_shared<Client::Follower>();
  follower->watcher = std::make_shared<detail::Watcher>(from, std::move(found));
  client_->followers.push_back(follower);
  client_->follow(follower);
  return LogWatch(follower->watcher);
}

REEF_INLINE void SimulatedLog::present(std::string key, std::string value, Seconds ttl, PresenceDone done) {
  detail::require_presence(key, value, ttl);
  client_->call(
      [client = client_, key = std::move(key), value = std::move(value), ttl, done] {
        auto& keepers = *client->keepers;
        const bool written = keepers.presences.present(key, value, ttl, keepers.now);
        return [written, done] { done(written ? "" : "too many presences"); };
      },
      [done] { done(detail::no_keepers); }, false);
}

REEF_INLINE void SimulatedLog::absent(std::string key, PresenceDone done) {
  detail::require_presence(key, {}, 1);
  client_->call(
      [client = client_, key = std::move(key), done] {
        client->keepers->presences.absent(key);
        return [done] { done({}); };
      },
      [done] { done(detail::no_keepers); }, false);
}

REEF_INLINE void SimulatedLog::presences(std::function<void(Presences)> done) {
  client_->call(
      [client = client_, done] {
        Presences now{.keys = client->keepers->presences.keys(client->keepers->now), .answered = true, .why = {}};
        return [now = std::move(now), done] { done(now); };
      },
      [done] { done({.keys = {}, .answered = false, .why = std::string(detail::no_keepers)}); }, false);
}

REEF_INLINE void SimulatedLog::set_cut_off(bool cut_off) {
  client_->cut_off = cut_off;
  if (!cut_off) client_->wake();
}

}  // namespace swarm
}  // namespace v0
}  // namespace reef
