#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <deque>
#include <exception>
#include <future>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <thread>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/core/thread.hpp>
#include <reef/swarm/core/round_trips.hpp>
#include <reef/swarm/core/session_server.hpp>
#include <reef/swarm/serve/block_server.hpp>
#include <reef/swarm/serve/detail/server_pace.hpp>
#include <reef/swarm/serve/detail/session_link.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {

/// Drives a core::SessionServer: messages come on the loop of the link; another thread does what concerns the caches,
/// in the order in which the loop asks for it.
class BlockServer::Implementation {
public:
  Implementation(BlockServerOptions options, std::unique_ptr<SessionBlocks> blocks, Presence& store)
      : options_(std::move(options)),
        blocks_(std::move(blocks)),
        server_({.model = options_.model,
                 .blocks = options_.blocks,
                 .row = options_.row,
                 .positions = options_.positions,
                 .longest = options_.longest,
                 .idle = options_.idle}),
        pace_(static_cast<std::int64_t>(options_.rows)) {
    detail::SessionLinkEvents events;
    events.message = [this](const std::string& from, const SessionMessage& message) {
      act(server_.receive(from, message, link_->now()));
    };
    events.lost = [](const std::string& /*peer*/) {};  // a client that is back finds its sessions
    events.servers = [this](const std::vector<ServedSpan>& all) { ping_next(all); };
    events.pinged = [this](const std::string& peer, Seconds seconds) {
      trips_.measured(peer, seconds, link_->now());
    };
    events.tick = [this] { tick(); };
    events.error = [this](const std::string& what) { fail(what); };
    link_ = std::make_unique<detail::SessionLink>(options_.net, store, std::move(events));
    address_ = options_.advertise.empty() ? link_->address() : options_.advertise;
    span_ = {link_->id(), address_, options_.model, options_.blocks, options_.numerics, options_.positions};
    thread_ = make_thread("reef::swarm::BlockServer: the thread that computes", [this] { compute(); });
    link_->start();
  }

  ~Implementation() {
    const auto withdrawn = std::make_shared<std::promise<void>>();
    link_->post([this, withdrawn] {
      is_withdrawn_ = true;
      link_->withdraw();
      withdrawn->set_value();
    });
    withdrawn->get_future().wait_for(std::chrono::seconds(1));
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  void drain() {
    link_->post([this] {
      server_.drain();
      span_.draining = true;
      if (is_announced_) link_->announce(span_);
      act({});
    });
  }

  [[nodiscard]] bool announced() const { return is_announced_; }
  [[nodiscard]] bool drained() const { return drained_; }
  [[nodiscard]] std::string address() const { return address_; }
  [[nodiscard]] std::size_t sessions() const { return sessions_; }
  [[nodiscard]] std::string failed() const {
    const std::lock_guard lock(mutex_);
    return failed_;
  }

private:
  using CacheWork =
      std::variant<core::serve::OpenCache, core::serve::Run, core::serve::CutCache, core::serve::CloseCache>;

  void tell(const std::string& line) const {
    if (options_.report) options_.report(line);
  }

  void fail(const std::string& what) {
    const std::lock_guard lock(mutex_);
    if (failed_.empty()) failed_ = what;
    ends_ = true;
    changed_.notify_all();
  }

  /// Measures the way to servers that may be the next one of a chain.
  void ping_next(const std::vector<ServedSpan>& all) {
    constexpr std::size_t most = 8;
    std::set<std::string> next;
    for (const ServedSpan& span : all) {
      const bool follows = span.blocks.first <= options_.blocks.last && options_.blocks.last < span.blocks.last;
      if (follows && span.model == options_.model && span.id != link_->id() && next.size() < most)
        next.insert(to_text(span.id));
    }
    if (next == next_) return;
    next_ = next;
    link_->ping(next_);
  }

  void tick() {
    constexpr double share = 0.1;  // of a tick in the mean: that of half a second
    act(server_.tick(link_->now()));
    core::ServerLoad& load = span_.load;
    queue_ = (1 - share) * queue_ + share * static_cast<double>(rows_here_);
    load.rate = pace_.rate();
    load.batch = pace_.batch();
    load.queue = std::round(1000 * queue_) / 1000;
    load.room = server_.room();
    load.pings.clear();
    for (const std::string& peer : next_) {
      const std::optional<Seconds> trip = trips_.find(peer, link_->now());
      if (trip && std::isfinite(*trip)) load.pings[peer] = *trip;
    }
    if (is_announced_) link_->change(span_);
  }

  /// Measures passes of 1, 4, 16, ... rows of zeros, as long as they are quick.
  void measure() {
    using Clock = std::chrono::steady_clock;
    constexpr Seconds enough = 0.05;
    const std::string name = "the measurement of the speed";
    const std::int64_t most =
        (std::min)({static_cast<std::int64_t>(options_.rows), options_.longest, options_.positions});
    blocks_->open({name, options_.blocks, 1, most});
    const auto shortest = [&](std::int64_t rows) {
      constexpr int tries = 10;
      const core::serve::Run step{name, {0, {}, rows},
                                  std::make_shared<const std::vector<std::byte>>(static_cast<Bytes>(rows) *
                                                                                 options_.row)};
      Seconds least = std::numeric_limits<Seconds>::infinity();
      Seconds sum = 0;
      for (int i = 0; i < tries && sum < enough; ++i) {
        const Clock::time_point begin = Clock::now();
        blocks_->run(std::span(&step, 1));
        const Seconds taken = std::chrono::duration<double>(Clock::now() - begin).count();
        least = (std::min)(least, taken);
        sum += taken;
      }
      return least / static_cast<double>(rows * options_.blocks.count());
    };
    shortest(1);  // what is read for the first time is slow
    const Seconds row = shortest(1);
    Seconds of_many = row;
    for (std::int64_t rows = 4; rows <= most; rows *= 4) {
      const Seconds each = shortest(rows);
      of_many = (std::min)(of_many, each);
      if (each * static_cast<double>(rows * options_.blocks.count()) > 4 * enough) break;
    }
    pace_.set(row, of_many);
    blocks_->close(name);
    link_->post([this, row, of_many] {
      tell(concat("one row takes ", format_seconds(row), " a block, one of many ", format_seconds(of_many)));
    });
  }

  void act(std::vector<core::serve::Action> actions) {
    for (core::serve::Action& action : actions) {
      if (const auto* const send = std::get_if<core::serve::Send>(&action)) {
        link_->send(send->to, send->message);
        continue;
      }
      if (const auto* const open = std::get_if<core::serve::OpenCache>(&action)) {
        tell(concat("session ", open->session, " opens blocks [", open->blocks.first, ", ", open->blocks.last, ")"));
      } else if (const auto* const close = std::get_if<core::serve::CloseCache>(&action)) {
        tell(concat("session ", close->session, " closes"));
      } else if (const auto* const run = std::get_if<core::serve::Run>(&action)) {
        rows_here_ += rows_of(*run);
      }
      const std::lock_guard lock(mutex_);
      std::visit(
          [&]([[maybe_unused]] auto& what) {
            if constexpr (!std::is_same_v<std::decay_t<decltype(what)>, core::serve::Send>)
              work_.push_back(std::move(what));
          },
          action);
      changed_.notify_all();
    }
    sessions_ = server_.sessions();
    drained_ = span_.draining && sessions_ == 0;
  }

  [[nodiscard]] std::int64_t rows_of(const core::serve::Run& run) const {
    return static_cast<std::int64_t>(run.bytes->size() / options_.row);
  }

  /// Takes what is to be done next: steps that wait one behind the other as long as they are not too many rows, or one
  /// thing else. Returns nothing at the end.
  std::vector<CacheWork> take() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return ends_ || !work_.empty(); });
    std::vector<CacheWork> taken;
    std::size_t rows = 0;
    while (!ends_ && !work_.empty()) {
      const auto* const run = std::get_if<core::serve::Run>(&work_.front());
      const bool is_step = run != nullptr;
      const std::size_t own = is_step ? static_cast<std::size_t>(rows_of(*run)) : 0;
      if (!taken.empty() && (!is_step || rows + own > options_.rows)) break;
      rows += own;
      taken.push_back(std::move(work_.front()));
      work_.pop_front();
      if (!is_step) break;
    }
    return taken;
  }

  void compute() {
    try {
      measure();
      link_->post([this] {
        if (is_withdrawn_) return;
        tick();
        link_->announce(span_);
        is_announced_ = true;
      });
      for (std::vector<CacheWork> work = take(); !work.empty(); work = take()) {
        if (const auto* const open = std::get_if<core::serve::OpenCache>(&work.front())) {
          block_counts_[open->session] = open->blocks.count();
          blocks_->open(*open);
        } else if (const auto* const cut = std::get_if<core::serve::CutCache>(&work.front())) {
          blocks_->cut(cut->session, cut->length);
        } else if (const auto* const close = std::get_if<core::serve::CloseCache>(&work.front())) {
          block_counts_.erase(close->session);
          blocks_->close(close->session);
        } else {
          run(work);
        }
      }
    } catch (const std::exception& error) {
      fail(error.what());
    }
  }

  void run(std::vector<CacheWork>& work) {
    std::vector<core::serve::Run> steps;
    for (CacheWork& one : work) steps.push_back(std::move(std::get<core::serve::Run>(one)));
    std::int64_t all = 0;
    std::int64_t row_blocks = 0;
    for (const core::serve::Run& step : steps) {
      all += rows_of(step);
      row_blocks += rows_of(step) * block_counts_[step.session];
    }
    const auto begin = std::chrono::steady_clock::now();
    std::vector<Bulk> rows = blocks_->run(steps);
    const Seconds taken = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    pace_.passed(all, row_blocks, taken);
    for (std::size_t i = 0; i < steps.size(); ++i) {
      link_->post([this, session = steps[i].session, own = std::move(rows[i]), done = rows_of(steps[i])] {
        rows_here_ -= done;
        act(server_.computed(session, own, link_->now()));
      });
    }
  }

  BlockServerOptions options_;
  std::unique_ptr<SessionBlocks> blocks_;
  core::SessionServer server_;
  detail::ServerPace pace_;
  std::string address_{};
  std::map<std::string, std::int64_t> block_counts_{};  // of sessions; of the thread that computes
  // Of the loop's thread.
  ServedSpan span_{};
  core::RoundTrips trips_{};
  std::set<std::string> next_{};  // servers whose round-trip times are announced
  bool is_withdrawn_ = false;
  std::int64_t rows_here_ = 0;  // rows that wait or are computed
  double queue_ = 0;
  std::atomic<std::size_t> sessions_ = 0;
  std::atomic<bool> is_announced_ = false;
  std::atomic<bool> drained_ = false;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<CacheWork> work_{};
  bool ends_ = false;
  std::string failed_{};
  std::thread thread_;
  std::unique_ptr<detail::SessionLink> link_;  // the first to go: until then its loop uses all of the above
};

REEF_INLINE BlockServer::BlockServer(BlockServerOptions options, std::unique_ptr<SessionBlocks> blocks, Presence& store)
    : implementation_(std::make_unique<Implementation>(std::move(options), std::move(blocks), store)) {}
REEF_INLINE BlockServer::~BlockServer() = default;
REEF_INLINE void BlockServer::drain() { implementation_->drain(); }
REEF_INLINE bool BlockServer::announced() const { return implementation_->announced(); }
REEF_INLINE bool BlockServer::drained() const { return implementation_->drained(); }
REEF_INLINE std::string BlockServer::address() const { return implementation_->address(); }
REEF_INLINE std::size_t BlockServer::sessions() const { return implementation_->sessions(); }
REEF_INLINE std::string BlockServer::failed() const { return implementation_->failed(); }

}  // namespace swarm
}  // namespace v0
}  // namespace reef
