#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <future>
#include <mutex>
#include <thread>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/core/thread.hpp>
#include <reef/swarm/core/session_server.hpp>
#include <reef/swarm/serve/block_server.hpp>
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
                 .idle = options_.idle}) {
    detail::SessionLinkEvents events;
    events.message = [this](const std::string& from, const SessionMessage& message) {
      act(server_.receive(from, message, link_->now()));
    };
    events.lost = [](const std::string& /*peer*/) {};  // a client that is back finds its sessions
    events.servers = [](const std::vector<ServedSpan>& /*all*/) {};
    events.tick = [this] { act(server_.tick(link_->now())); };
    events.error = [this](const std::string& what) { fail(what); };
    link_ = std::make_unique<detail::SessionLink>(options_.net, store, std::move(events));
    span_ = {link_->id(), options_.advertise.empty() ? link_->address() : options_.advertise, options_.model,
             options_.blocks, options_.numerics, options_.positions};
    thread_ = make_thread("reef::swarm::BlockServer: the thread that computes", [this] { compute(); });
    link_->post([this] { link_->announce(span_); });
    link_->start();
  }

  ~Implementation() {
    const auto withdrawn = std::make_shared<std::promise<void>>();
    link_->post([this, withdrawn] {
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
    link_.reset();
  }

  [[nodiscard]] std::string address() const { return span_.address; }
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
      const std::size_t own = is_step ? run->bytes->size() / options_.row : 0;
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
      for (std::vector<CacheWork> work = take(); !work.empty(); work = take()) {
        if (const auto* const open = std::get_if<core::serve::OpenCache>(&work.front())) {
          blocks_->open(*open);
        } else if (const auto* const cut = std::get_if<core::serve::CutCache>(&work.front())) {
          blocks_->cut(cut->session, cut->length);
        } else if (const auto* const close = std::get_if<core::serve::CloseCache>(&work.front())) {
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
    std::vector<Bulk> rows = blocks_->run(steps);
    for (std::size_t i = 0; i < steps.size(); ++i) {
      link_->post([this, session = steps[i].session, own = std::move(rows[i])] {
        act(server_.computed(session, own, link_->now()));
      });
    }
  }

  BlockServerOptions options_;
  std::unique_ptr<SessionBlocks> blocks_;
  core::SessionServer server_;
  ServedSpan span_{};
  std::atomic<std::size_t> sessions_ = 0;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<CacheWork> work_{};
  bool ends_ = false;
  std::string failed_{};
  std::unique_ptr<detail::SessionLink> link_;
  std::thread thread_;
};

REEF_INLINE BlockServer::BlockServer(BlockServerOptions options, std::unique_ptr<SessionBlocks> blocks, Presence& store)
    : implementation_(std::make_unique<Implementation>(std::move(options), std::move(blocks), store)) {}
REEF_INLINE BlockServer::~BlockServer() = default;
REEF_INLINE std::string BlockServer::address() const { return implementation_->address(); }
REEF_INLINE std::size_t BlockServer::sessions() const { return implementation_->sessions(); }
REEF_INLINE std::string BlockServer::failed() const { return implementation_->failed(); }

}  // namespace swarm
}  // namespace v0
}  // namespace reef
