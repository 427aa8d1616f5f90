#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <fstream>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include <reef/comm/stop_request.hpp>
#include <reef/core/error.hpp>
#include <reef/core/text.hpp>
#include <reef/io/json.hpp>
#include <reef/swarm/elastic/peer_exchange.hpp>
#include <reef/swarm/net/text_page.hpp>

#include "../support/output_places.hpp"
#include "../support/progress.hpp"
#include "data.hpp"
#include "job.hpp"
#include "log.hpp"
#include "options.hpp"
#include "report.hpp"

namespace reef_examples {

/// A peer's part in a job, from its first round to its last.
template <class TrainerType>
class Train {
  using Clock = std::chrono::steady_clock;

public:
  Train(const PeerOptions& options, const reef::comm::StopRequest& stop)
      : options_(options),
        stop_(stop),
        page_(page_of(options)),
        job_((require_outputs(options), options.job), exchange_),
        log_(options.job.place, options.archive_folder()),
        peer_(exchange_, job_.trainer(), averaging_options(), log_.entries(), log_.presence()) {}

  ~Train() { show(nullptr); }
  Train(const Train&) = delete;
  Train& operator=(const Train&) = delete;

  /// Returns an exit status. Tells a report also where it throws.
  int run() {
    show(&peer_);
    try {
      return run_to_end();
    } catch (const std::exception& error) {
      try {
        tell_report(error.what());
      } catch (const std::exception& second) {
        say(second.what());
      }
      throw;
    }
  }

private:
  /// Lets the page for Prometheus tell of a peer; null: of none.
  void show(reef::swarm::TrainerPeer* peer) {
    const std::scoped_lock lock(shown_lock_);
    shown_ = peer;
  }
  [[nodiscard]] std::string page_text() {
    const std::scoped_lock lock(shown_lock_);
    return shown_ == nullptr ? std::string() : reef::swarm::to_prometheus((*shown_)->report());
  }
  /// Listens for Prometheus, where it is to, before the peer is in the job.
  [[nodiscard]] std::unique_ptr<reef::swarm::TextPage> page_of(const PeerOptions& options) {
    if (options.prometheus.empty()) return nullptr;
    return std::make_unique<reef::swarm::TextPage>(reef::swarm::TextPageOptions{.listen = options.prometheus},
                                                   [this] { return page_text(); });
  }

  int run_to_end() {
    say(reef::concat(name(), " listens on ", peer_->address(), ", and takes part in ", options_.job_name));
    if (page_) say(reef::concat(name(), " tells Prometheus at ", page_->url()));
    std::jthread watch([this](const std::stop_token& ends) { look_after(ends); });
    try {
      take_part();
    } catch (const reef::Error&) {
      if (!stop_.asked()) throw;
    }
    if (!done_) {
      if (!stop_.asked()) {
        throw reef::Error(name(), " is out of the job: ", peer_->why_gone(),
                          ".\n  fix: start it again, so that it gets the weights of the others.");
      }
      watch.join();
      say(reef::concat(name(), " has left ", options_.job_name, " after a signal; nothing is exported"));
      tell_report();
      return 0;
    }
    if (const std::string told = job_.export_weights(); !told.empty()) say(told);
    peer_->leave("all rounds are done");
    tell_report();
    return 0;
  }

  static void require_outputs(const PeerOptions& options) {
    static_cast<void>(options.network());
    static_cast<void>(options.deadlines());
    static_cast<void>(options.checkpoint_folder());
    if (!options.job.export_file.empty()) require_room_in_file(options.job.export_file);
    if (!options.metrics.empty()) require_room_in_file(options.metrics);
    if (!options.report.empty()) require_room_in_file(options.report);
  }

  [[nodiscard]] const std::string& name() const { return options_.job.place.name; }

  [[nodiscard]] reef::swarm::AveragingOptions averaging_options() {
    reef::swarm::AveragingOptions result;
    result.genesis = genesis_of(options_.job, options_.job_name, job_.data(), job_.trainer());
    result.state = job_.state(result.genesis.piece);
    result.checkpoints = options_.checkpoint_folder();
    result.shards = shards_of(options_);
    result.net = options_.network();
    result.advertise = options_.advertise;
    result.first_members = options_.members;
    result.deadlines = options_.deadlines();
    result.report = [this](const std::string& line) {
      if (!line.starts_with("round")) say(line);
    };
    return result;
  }

  /// Takes steps until all rounds are committed, or the peer has left.
  void take_part() {
    std::ofstream metrics;
    if (!options_.metrics.empty()) metrics.open(options_.metrics);
    const Clock::time_point began = Clock::now();
    Clock::time_point told = began;
    std::int64_t computed = 0;  // by all, since `told`
    while (const std::optional<std::int64_t> rounds = peer_->enter()) {
      if (*rounds >= options_.job.rounds) {
        done_ = true;
        return;
      }
      const reef::StepResult result = job_.step();
      const reef::swarm::RoundSum& sum = exchange_.last();
      computed += sum.micro_batches;
      const Clock::time_point now = Clock::now();
      const double seconds = seconds_of(now - told);
      const bool last = sum.round + 1 == options_.job.rounds;
      if (metrics.is_open() && sum.micro_batches > 0) {
        metrics << json_of(result, sum, seconds_of(now - began)).dump() << std::endl;
      }
      if (!result.committed || (seconds < 5 && !last && sum.round > 0)) continue;
      say(reef::concat("round ", sum.round + 1, "/", options_.job.rounds, ": loss ", result.loss, ", ",
                       sum.contributors.size(), " contributors, ", static_cast<double>(computed) / seconds,
                       " micro-batches/s"));
      told = now;
      computed = 0;
    }
  }

  [[nodiscard]] static double seconds_of(Clock::duration time) { return std::chrono::duration<double>(time).count(); }

  [[nodiscard]] static reef::io::Json json_of(const reef::StepResult& result, const reef::swarm::RoundSum& sum,
                                              double seconds) {
    reef::io::Json names = reef::io::Json::array();
    for (const reef::swarm::PeerId& id : sum.contributors) names.push_back(id.name);
    return {{"round", sum.round},
            {"committed", result.committed},
            {"loss", result.loss},
            {"gradient_norm", result.gradient_norm},
            {"contributors", std::move(names)},
            {"micro_batches", sum.micro_batches},
            {"learning_rate", result.learning_rate},
            {"seconds", seconds}};
  }

  /// Tells what is waited for where that takes long, and lets the peer leave when a signal comes.
  void look_after(const std::stop_token& ends) {
    constexpr auto long_wait = std::chrono::seconds(10);
    std::string waits;
    std::string archive_failure;
    Clock::time_point since = Clock::now();
    while (!ends.stop_requested()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      if (stop_.asked()) {
        peer_->leave("a signal");
        peer_->interrupt();
        return;
      }
      if (const std::string why = log_.entries().archive_failure(); why != std::exchange(archive_failure, why))
        say("the archive lacks entries: " + why);
      const std::string now = peer_->waits_for();
      if (now != std::exchange(waits, now) || now.empty()) {
        since = Clock::now();
      } else if (Clock::now() - since > long_wait) {
        say("waits " + now);
        since = Clock::now();
      }
    }
  }

  /// Tells what came of the job and of this peer's part in it. `error`: by which the part ends, or an empty text.
  void tell_report(const std::string& error = {}) {
    const reef::swarm::PeerReport report = peer_->report();
    if (error.empty()) say(text_of(report));
    if (!options_.report.empty()) write_report(report, error, options_.report);
  }

  /// Tells a line. Any thread.
  void say(const std::string& text) {
    const std::scoped_lock lock(told_);
    bar_.say(text);
  }

  const PeerOptions& options_;
  const reef::comm::StopRequest& stop_;
  std::mutex told_;
  Progress bar_{stderr, false};  // under told_
  std::atomic<bool> done_{false};
  std::mutex shown_lock_;
  reef::swarm::TrainerPeer* shown_ = nullptr;  // under shown_lock_
  std::unique_ptr<reef::swarm::TextPage> page_;
  reef::swarm::PeerExchange exchange_;
  JobTrainer<TrainerType> job_;
  JobLog log_;
  reef::swarm::TrainerPeer peer_;
};

}  // namespace reef_examples
