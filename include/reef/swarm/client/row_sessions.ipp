#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <future>
#include <map>
#include <mutex>
#include <utility>
#include <variant>

#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/swarm/client/detail/span_router.hpp>
#include <reef/swarm/client/row_sessions.hpp>
#include <reef/swarm/serve/detail/session_link.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {

/// Drives a core::SessionClient for each session, on the loop of a link; the caller waits for their answers.
class RowSessions::Implementation {
public:
  Implementation(RowSessionsOptions options, Presence& store) : options_(std::move(options)), router_(options_.avoid) {
    require_room(1);
    detail::SessionLinkEvents events;
    events.message = [this](const std::string& from, const SessionMessage& message) { receive(from, message); };
    events.lost = [this](const std::string& peer) {
      for (auto& [number, session] : sessions_) act(number, session.client.lost(peer, link_->now()));
    };
    events.servers = [this](const std::vector<ServedSpan>& all) { look(all); };
    events.tick = [this] {
      for (auto& [number, session] : sessions_) act(number, session.client.tick(link_->now()));
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
    link_.reset();
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
      sessions_.emplace(number, Session{core::SessionClient(session)});
      return number;
    });
  }

  void close(int number) {
    call([&] {
      const auto found = sessions_.find(number);
      if (found == sessions_.end()) return;
      act(number, found->second.client.close());
      closed_repairs_ += found->second.client.repairs();
      sessions_.erase(found);
    });
  }

  std::vector<Bulk> run(std::span<const Step> steps) {
    call([&] {
      for (const Step& step : steps) at(step.session);
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
  [[nodiscard]] std::vector<core::RouteHop> chain(int number) {
    return call([&] { return at(number).client.chain(); });
  }

private:
  struct Session {
    core::SessionClient client;
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
      if (std::holds_alternative<StepDone>(message)) router_.praise(from);
      return act(number, session.client.receive(from, message, link_->now()));
    }
  }

  void look(const std::vector<ServedSpan>& all) {
    std::vector<ServedSpan> own;
    others_ = 0;
    for (const ServedSpan& span : all) {
      if (span.model == options_.model && span.numerics == options_.numerics && span.blocks.last <= options_.blocks)
        own.push_back(span);
      else
        ++others_;
    }
    router_.set(std::move(own));
    found_ = true;
    for (auto& [number, blocks] : std::exchange(unrouted_, {})) route(number, blocks);
  }

  void route(int number, const BlockRange& blocks) {
    const auto found = sessions_.find(number);
    if (found == sessions_.end()) return;
    // Before the store is read for the first time nobody is known.
    if (!found_) {
      unrouted_.emplace_back(number, blocks);
      return;
    }
    const std::vector<core::RouteHop> hops = router_.route(blocks, link_->now());
    if (options_.report) {
      std::string text;
      for (const core::RouteHop& hop : hops)
        text += concat(text.empty() ? "" : ", ", "[", hop.blocks.first, ", ", hop.blocks.last, ") ", hop.server);
      if (hops.empty())
        text = concat("nobody has all of them yet", others_ > 0 ? concat("; ", others_, " serve something else") : "");
      options_.report(concat("session ", number, ": blocks [", blocks.first, ", ", blocks.last, "): ", text));
    }
    act(number, found->second.client.routed(blocks, hops, link_->now()));
  }

  void act(int number, std::vector<core::ask::Action> actions) {
    for (core::ask::Action& action : actions) {
      if (auto* const send = std::get_if<core::ask::Send>(&action)) {
        link_->send(send->to, send->message);
      } else if (auto* const wanted = std::get_if<core::ask::Route>(&action)) {
        if (!wanted->failed.empty()) avoid(number, *wanted);
        link_->post([this, number, blocks = wanted->blocks] { route(number, blocks); });
      } else {
        const std::lock_guard lock(mutex_);
        if (auto* const accepted = std::get_if<core::ask::Accepted>(&action)) results_[number].rows = accepted->rows;
        if (auto* const failed = std::get_if<core::ask::Failed>(&action)) results_[number].failed = failed->why;
        changed_.notify_all();
      }
    }
  }

  void avoid(int number, const core::ask::Route& wanted) {
    router_.avoid(wanted.failed, wanted.why, link_->now());
    static constexpr const char* reasons[] = {"is lost", "is silent", "sends damaged rows", "refuses"};
    if (options_.report)
      options_.report(concat("session ", number, ": ", wanted.failed, " ", reasons[static_cast<int>(wanted.why)]));
  }

  RowSessionsOptions options_;
  detail::SpanRouter router_;
  std::map<int, Session> sessions_{};
  std::vector<std::pair<int, BlockRange>> unrouted_{};
  bool found_ = false;
  std::size_t others_ = 0;
  int next_ = 1;
  std::int64_t closed_repairs_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<int, Result> results_{};
  std::string broken_{};
  std::unique_ptr<detail::SessionLink> link_;
};

REEF_INLINE RowSessions::RowSessions(RowSessionsOptions options, Presence& store)
    : implementation_(std::make_unique<Implementation>(std::move(options), store)) {}
REEF_INLINE RowSessions::~RowSessions() = default;
REEF_INLINE int RowSessions::open(std::int64_t batch) { return implementation_->open(batch); }
REEF_INLINE void RowSessions::close(int session) { implementation_->close(session); }
REEF_INLINE std::vector<Bulk> RowSessions::run(std::span<const Step> steps) { return implementation_->run(steps); }
REEF_INLINE std::int64_t RowSessions::length(int session) const { return implementation_->length(session); }
REEF_INLINE std::int64_t RowSessions::repairs() const { return implementation_->repairs(); }
REEF_INLINE std::vector<core::RouteHop> RowSessions::chain(int session) const {
  return implementation_->chain(session);
}

}  // namespace swarm
}  // namespace v0
}  // namespace reef
