#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <future>
#include <map>
#include <mutex>
#include <set>
#include <utility>
#include <variant>

#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/swarm/client/row_sessions.hpp>
#include <reef/swarm/core/chain_watch.hpp>
#include <reef/swarm/core/session_router.hpp>
#include <reef/swarm/serve/detail/session_link.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {

/// Drives a core::SessionClient for each session, on the loop of a link; the caller waits for their answers.
class RowSessions::Implementation {
public:
  Implementation(RowSessionsOptions options, Presence& store)
      : options_(std::move(options)),
        router_({.blocks = options_.blocks,
                 .numerics = options_.numerics,
                 .same_bits = options_.same_bits,
                 .ban = options_.avoid}) {
    require_room(1);
    detail::SessionLinkEvents events;
    events.message = [this](const std::string& from, const SessionMessage& message) { receive(from, message); };
    events.lost = [this](const std::string& peer) {
      for (auto& [number, session] : sessions_) act(number, session.client.lost(peer, link_->now()));
    };
    events.servers = [this](const std::vector<ServedSpan>& all) { look(all); };
    events.pinged = [this](const std::string& peer, Seconds seconds) {
      router_.measured(peer, seconds, link_->now());
      unmeasured_.erase(peer);
    };
    events.tick = [this] {
      for (auto& [number, session] : sessions_) act(number, session.client.tick(link_->now()));
      if (may_route()) {
        for (auto& [number, blocks] : std::exchange(unrouted_, {})) route(number, blocks);
      }
    };
    events.error = [this](const std::string& what) {
      const std::lock_guard lock(mutex_);
      broken_ = what;
      changed_.notify_all();
    };
    link_ = std::make_unique<detail::SessionLink>(options_.net, store, std::move(events));
    link_->start();
  }

  ~Implementation() {
    call([this] {
      for (auto& [number, session] : sessions_) act(number, session.client.close());
    });
  }

  int open(std::int64_t batch) {
    require_room(batch);
    return call([this, batch] {
      const int number = next_++;
      core::SessionClientOptions session;
      session.session = concat(to_text(link_->id()), ".", number);
      session.model = options_.model;
      session.blocks = options_.blocks;
      session.batch = batch;
      session.max_length = options_.max_length;
      session.row = options_.row;
      session.answer = options_.answer;
      session.step = options_.step;
      session.attempts = options_.attempts;
      sessions_.emplace(number, Session{core::SessionClient(session), batch, {}});
      return number;
    });
  }

  void close(int number) {
    call([&] {
      const auto found = sessions_.find(number);
      if (found == sessions_.end()) return;
      act(number, found->second.client.close());
      closed_repairs_ += found->second.client.repairs();
      closed_moves_ += found->second.client.moves();
      sessions_.erase(found);
    });
  }

  std::vector<Bulk> run(std::span<const Step> steps) {
    call([&] {
      // All are looked at before the first begins: where one cannot be, nothing has happened.
      std::set<int> own;
      for (const Step& step : steps) {
        if (!own.insert(step.session).second) {
          throw OptionError("reef::swarm::RowSessions: session ", step.session,
                            " is to do two steps at once.\n  fix: one step of each session.");
        }
        at(step.session).client.require_step(step.keep, step.reorder, step.rows, step.bytes);
      }
      for (const Step& step : steps) {
        Session& session = at(step.session);
        {
          const std::lock_guard lock(mutex_);
          results_[step.session] = {};
        }
        act(step.session, session.client.begin(step.keep, step.reorder, step.rows, step.bytes, link_->now()));
      }
    });
    std::unique_lock lock(mutex_);
    const auto is_over = [&](const Step& step) {
      const Result& result = results_[step.session];
      return result.rows != nullptr || !result.failed.empty();
    };
    changed_.wait(lock, [&] { return !broken_.empty() || std::all_of(steps.begin(), steps.end(), is_over); });
    if (!broken_.empty()) throw Error("reef::swarm::RowSessions: ", broken_);
    std::vector<Bulk> rows;
    for (const Step& step : steps) {
      Result& result = results_[step.session];
      if (!result.failed.empty()) {
        throw Error("reef::swarm::RowSessions: a session fails: ", result.failed,
                    ".\n  fix: servers of the model's blocks; reef-swarm serve.");
      }
      rows.push_back(std::move(result.rows));
    }
    return rows;
  }

  [[nodiscard]] std::int64_t length(int number) {
    return call([&] { return at(number).client.length(); });
  }
  [[nodiscard]] std::int64_t repairs() {
    return call([&] {
      std::int64_t sum = closed_repairs_;
      for (const auto& [number, session] : sessions_) sum += session.client.repairs();
      return sum;
    });
  }
  [[nodiscard]] std::int64_t moves() {
    return call([&] {
      std::int64_t sum = closed_moves_;
      for (const auto& [number, session] : sessions_) sum += session.client.moves();
      return sum;
    });
  }
  [[nodiscard]] std::vector<core::RouteHop> chain(int number) {
    return call([&] { return at(number).client.chain(); });
  }

private:
  struct Session {
    core::SessionClient client;
    std::int64_t batch = 1;
    core::ChainWatch watch{};
  };

  /// Throws OptionError where a replay of so many sequences is too long for a message.
  void require_room(std::int64_t batch) const {
    constexpr Bytes most = detail::SessionLink::most_bytes - 256_KiB;  // the rest is of text
    const bool fits = options_.max_length >= 1 && options_.row >= 1 && batch >= 1 &&
                      static_cast<Bytes>(options_.max_length) <= most / options_.row / static_cast<Bytes>(batch);
    if (fits) return;
    throw OptionError("reef::swarm::RowSessions: ", options_.max_length, " positions of rows of ", options_.row,
                      " bytes", batch == 1 ? "" : concat(", of ", batch, " sequences"),
                      ".\n  why: a replay is one message, of ", format_bytes(detail::SessionLink::most_bytes),
                      " at most.\n  fix: fewer positions", batch == 1 ? "." : ", or fewer sequences.");
  }

  struct Result {
    Bulk rows{};
    std::string failed{};
  };

  /// Runs a function on the loop, and returns or throws what it does.
  template <class F>
  auto call(F function) -> decltype(function()) {
    const auto task = std::make_shared<std::packaged_task<decltype(function())()>>(std::move(function));
    auto future = task->get_future();
    link_->post([task] { (*task)(); });
    return future.get();
  }

  Session& at(int number) {
    const auto found = sessions_.find(number);
    if (found == sessions_.end()) {
      throw OptionError("reef::swarm::RowSessions: session ", number,
                        " is not open.\n  fix: a number that open() gave.");
    }
    return found->second;
  }

  void receive(const std::string& from, const SessionMessage& message) {
    const std::string& name = std::visit([](const auto& m) -> const std::string& { return m.session; }, message);
    // NAME/INCARNATION.SESSION.NUMBER: the session's number stands between the last two dots.
    for (auto& [number, session] : sessions_) {
      if (!name.starts_with(concat(to_text(link_->id()), ".", number, "."))) continue;
      return act(number, session.client.receive(from, message, link_->now()));
    }
  }

  void look(const std::vector<ServedSpan>& all) {
    constexpr std::size_t most_pings = 32;
    std::vector<core::KnownServer> own;
    std::set<std::string> pinged;
    others_ = 0;
    for (const ServedSpan& span : all) {
      const bool fits = span.model == options_.model && span.blocks.last <= options_.blocks;
      if (!fits || (options_.same_bits && span.numerics != options_.numerics)) {
        ++others_;
        continue;
      }
      const std::string name = to_text(span.id);
      own.push_back({name, span.blocks, span.numerics, span.load, span.draining});
      if (pinged.size() < most_pings) pinged.insert(name);
    }
    router_.set(std::move(own));
    if (pinged != pinged_) {
      if (!found_) unmeasured_ = pinged;
      pinged_ = std::move(pinged);
      link_->ping(pinged_);
    }
    if (!found_) found_at_ = link_->now();
    found_ = true;
    for (auto& [number, session] : sessions_) consider(number, session);
  }

  /// Before the store is read for the first time nobody is known; then there is a second to measure the ways.
  [[nodiscard]] bool may_route() const {
    constexpr Seconds to_measure = 1;
    return found_ && (unmeasured_.empty() || link_->now() - found_at_ > to_measure);
  }

  static std::string text_of(const std::vector<core::RouteHop>& hops) {
    std::string text;
    for (const core::RouteHop& hop : hops)
      text += concat(text.empty() ? "" : ", ", "[", hop.blocks.first, ", ", hop.blocks.last, ") ", hop.server);
    return text;
  }

  [[nodiscard]] core::RouteWish wish(const Session& session, const BlockRange& blocks) const {
    constexpr std::int64_t page = 64;
    return {blocks, session.batch * ((options_.max_length + page - 1) / page * page), session.client.chain()};
  }

  void route(int number, const BlockRange& blocks) {
    const auto found = sessions_.find(number);
    if (found == sessions_.end()) return;
    if (!may_route()) {
      unrouted_.emplace_back(number, blocks);
      return;
    }
    const core::FoundRoute route = router_.route(wish(found->second, blocks), link_->now());
    if (options_.report) {
      std::string text = text_of(route.hops);
      if (route.other_bits) text += "; of another numerics class: bits may differ";
      if (route.hops.empty())
        text = concat("nobody has all of them yet", others_ > 0 ? concat("; ", others_, " serve something else") : "");
      options_.report(concat("session ", number, ": blocks [", blocks.first, ", ", blocks.last, "): ", text));
    }
    act(number, found->second.client.routed(blocks, route.hops, link_->now()));
  }

  /// Moves a session between two steps, if servers of its chain end soon, or others are quicker.
  void consider(int number, Session& session) {
    if (!session.client.can_move()) return;
    const core::RouteWish own = wish(session, {0, options_.blocks});
    const std::int64_t length = session.client.length();
    const core::SessionAge age{session.batch * length, session.client.steps(), options_.max_length - length};
    const std::vector<core::RouteHop> chain = session.watch.look(router_, own, age, link_->now()).hops;
    if (chain.empty()) return;
    if (options_.report) {
      const auto ends = std::find_if(own.own.begin(), own.own.end(), [this](const core::RouteHop& hop) {
        return router_.is_draining(hop.server);
      });
      options_.report(concat("session ", number, " moves, since ",
                             ends != own.own.end() ? concat(ends->server, " ends soon") : "others are quicker", ": ",
                             text_of(chain)));
    }
    act(number, session.client.move(chain, link_->now()));
  }

  void act(int number, std::vector<core::ask::Action> actions) {
    for (core::ask::Action& action : actions) {
      if (auto* const send = std::get_if<core::ask::Send>(&action)) {
        link_->send(send->to, send->message);
      } else if (auto* const wanted = std::get_if<core::ask::Route>(&action)) {
        if (!wanted->failed.empty()) avoid(number, *wanted);
        link_->post([this, number, blocks = wanted->blocks] { route(number, blocks); });
      } else {
        const auto session = sessions_.find(number);
        const bool is_accepted = std::holds_alternative<core::ask::Accepted>(action) && session != sessions_.end();
        if (is_accepted) {
          for (const core::RouteHop& hop : session->second.client.chain()) router_.answered(hop.server);
        }
        set_result(number, action);
        if (is_accepted) consider(number, session->second);
      }
    }
  }

  void set_result(int number, const core::ask::Action& action) {
    const std::lock_guard lock(mutex_);
    if (const auto* const accepted = std::get_if<core::ask::Accepted>(&action)) results_[number].rows = accepted->rows;
    if (const auto* const failed = std::get_if<core::ask::Failed>(&action)) results_[number].failed = failed->why;
    changed_.notify_all();
  }

  void avoid(int number, const core::ask::Route& wanted) {
    router_.failed(wanted.failed, wanted.why, link_->now());
    if (options_.report)
      options_.report(concat("session ", number, ": ", wanted.failed, " ", core::name_of(wanted.why)));
  }

  RowSessionsOptions options_;
  core::SessionRouter router_;
  std::map<int, Session> sessions_{};
  std::vector<std::pair<int, BlockRange>> unrouted_{};
  bool found_ = false;
  Seconds found_at_ = 0;
  std::set<std::string> pinged_{};      // servers whose round-trip times are measured
  std::set<std::string> unmeasured_{};  // of the first ones, those that have not answered
  std::size_t others_ = 0;
  int next_ = 1;
  std::int64_t closed_repairs_ = 0;
  std::int64_t closed_moves_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<int, Result> results_{};
  std::string broken_{};
  std::unique_ptr<detail::SessionLink> link_;  // the first to go: until then its loop uses all of the above
};

REEF_INLINE RowSessions::RowSessions(RowSessionsOptions options, Presence& store)
    : implementation_(std::make_unique<Implementation>(std::move(options), store)) {}
REEF_INLINE RowSessions::~RowSessions() = default;
REEF_INLINE int RowSessions::open(std::int64_t batch) { return implementation_->open(batch); }
REEF_INLINE void RowSessions::close(int session) { implementation_->close(session); }
REEF_INLINE std::vector<Bulk> RowSessions::run(std::span<const Step> steps) { return implementation_->run(steps); }
REEF_INLINE std::int64_t RowSessions::length(int session) const { return implementation_->length(session); }
REEF_INLINE std::int64_t RowSessions::repairs() const { return implementation_->repairs(); }
REEF_INLINE std::int64_t RowSessions::moves() const { return implementation_->moves(); }
REEF_INLINE std::vector<core::RouteHop> RowSessions::chain(int session) const {
  return implementation_->chain(session);
}

}  // namespace swarm
}  // namespace v0
}  // namespace reef
