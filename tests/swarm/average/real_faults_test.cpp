// Processes that are killed, stopped, started again and kept from their log, and keepers of the log that are killed, by
// drawn plans: all who end have the bits of a replay from the ledger.

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reef/core/random.hpp>
#include <reef/core/text.hpp>
#include <reef/swarm/log/log_server.hpp>
#include <reef/swarm/log/remote_log.hpp>
#include <reef/swarm/net/sha256.hpp>
#include <support/keeper_process.hpp>
#include <support/temporary_folder.hpp>
#include <swarm/average/averaging_process.hpp>

namespace reef::swarm {
namespace {

using test::AveragingProcess;

constexpr int rounds = 36;
constexpr std::int64_t first_members = 3;

/// Something that happens once a round is committed.
struct RealFault {
  enum class Kind : std::uint8_t { kill, restart, start, stop, log_away, keeper_restart, keeper_kill };
  std::int64_t round;
  Kind kind;
  int peer;  ///< of those that run, in the order of their names; of keepers, the number
};

std::vector<RealFault> drawn_faults(std::uint64_t seed) {
  using Kind = RealFault::Kind;
  std::vector<RealFault> faults;
  std::uint64_t at = 0;
  const auto draw = [&](std::uint32_t below) { return random_bits({seed, 17, 0, 0}, at++) % below; };
  std::int64_t round = 2;
  for (std::uint32_t left = 2 + draw(3); left > 0; --left) {
    constexpr Kind kinds[] = {Kind::kill, Kind::restart, Kind::start, Kind::stop, Kind::log_away};
    faults.push_back({round, kinds[draw(5)], static_cast<int>(draw(3))});
    round += draw(4);
  }
  return faults;
}

/// Returns faults of peers, and among them one of a keeper before each, as often as not.
std::vector<RealFault> drawn_faults_with_keepers(std::uint64_t seed) {
  using Kind = RealFault::Kind;
  std::vector<RealFault> faults;
  std::uint64_t at = 0;
  const auto draw = [&](std::uint32_t below) { return random_bits({seed, 18, 0, 0}, at++) % below; };
  for (RealFault fault : drawn_faults(seed)) {
    const auto keeper = static_cast<int>(draw(3));
    const Kind kind = draw(2) == 0 ? Kind::keeper_restart : Kind::keeper_kill;
    if (faults.empty() || draw(2) == 0) faults.push_back({fault.round, kind, keeper});
    if (fault.kind == Kind::log_away) fault = {fault.round, Kind::keeper_restart, static_cast<int>(draw(3))};
    faults.push_back(fault);
  }
  return faults;
}

std::string text_of(const std::vector<RealFault>& faults) {
  constexpr const char* names[] = {"kill", "restart", "start", "stop", "log_away", "keeper_restart", "keeper_kill"};
  std::string text;
  for (const RealFault& fault : faults) {
    text += concat(" ", names[static_cast<std::size_t>(fault.kind)], " ", fault.peer, " at ", fault.round, ";");
  }
  return text;
}

/// Returns the digest of the weights that swarm-average has after the rounds of a ledger, computed alone.
std::string replayed(const Ledger& ledger) {
  constexpr std::size_t numbers = 100'000;
  std::vector<float> weights(numbers);
  for (const Ledger::Round& round : ledger.rounds()) {
    std::vector<float> sum(numbers);
    std::vector<Share> shares = round.shares;
    std::sort(shares.begin(), shares.end(), [](const Share& a, const Share& b) { return a.id < b.id; });
    for (std::size_t s = 0; s < shares.size(); ++s) {
      std::vector<float> part(numbers);
      for (const IndexRun& run : shares[s].indices) {
        for (std::int64_t k = 0; k < run.count; ++k) {
          const std::int64_t index = run.first + k * run.stride;
          for (std::size_t i = 0; i < numbers; ++i) {
            part[i] += 1e-3F * static_cast<float>((index * 31 + static_cast<std::int64_t>(i)) % 97 - 48);
          }
        }
      }
      for (std::size_t i = 0; i < numbers; ++i) sum[i] = s == 0 ? part[i] : sum[i] + part[i];
    }
    if (!round.applied) continue;
    for (std::size_t i = 0; i < numbers; ++i) weights[i] -= sum[i] / static_cast<float>(round.micro_batches());
  }
  return concat("has weights ", to_hex(sha256(std::as_bytes(std::span(weights)))).substr(0, 16));
}

class RealFaults {
public:
  explicit RealFaults(std::uint64_t seed) : faults_(drawn_faults(seed)) {
    listen("127.0.0.1:0");
    start_members();
  }
  RealFaults(std::uint64_t seed, reef::test::KeeperProcesses& keepers)
      : faults_(drawn_faults_with_keepers(seed)), keepers_(&keepers), log_(log_of(keepers.urls())) {
    for (const std::string& url : log_.servers) urls_ += (urls_.empty() ? "" : ",") + url;
    start_members();
  }

  void run() {
    SCOPED_TRACE(text_of(faults_));
    for (const RealFault& fault : faults_) {
      test::wait_for_round(log_, fault.round);
      happen(fault);
    }
    std::set<std::string> ends;
    // Who comes back after the last round, when nobody is left who has its weights, waits for ever.
    auto last = std::chrono::steady_clock::now();
    while (!running_.empty() && std::chrono::steady_clock::now() - last < std::chrono::seconds(20)) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      for (auto at = running_.begin(); at != running_.end();) {
        const std::optional<int> status = at->second->poll();
        if (!status) {
          ++at;
          continue;
        }
        EXPECT_EQ(*status, 0) << at->first;
        ends.insert(at->second->weights());
        at = running_.erase(at);
      }
      if (!job_is_over()) last = std::chrono::steady_clock::now();
    }
    const core::JobState state = test::state_of(log_);
    EXPECT_GE(state.round(), rounds);
    EXPECT_EQ(state.ignored, 0);
    const Ledger& ledger = state.ledger;
    EXPECT_EQ(ledger.committed().count() + ledger.quarantined().count() +
                  static_cast<std::int64_t>(ledger.holes().size()),
              ledger.end());
    EXPECT_THAT(ends, testing::ElementsAre(replayed(ledger)));
  }

private:
  /// Returns true if all rounds are done, and none of the processes that run is a member.
  [[nodiscard]] bool job_is_over() const {
    const core::JobState state = test::state_of(log_);
    return state.round() >= rounds && std::none_of(state.members.begin(), state.members.end(), [&](const Member& one) {
             return running_.contains(one.id.name) && !dead_.contains(one.id);
           });
  }

  void listen(const std::string& address) {
    server_ = std::make_unique<LogServer>(LogServerOptions{.listen = address, .folder = folder_.path() / "log"});
    urls_ = server_->url();
    log_ = {.servers = {urls_}, .tls = {}};
  }

  [[nodiscard]] RemoteLogOptions log_of(std::vector<std::string> urls) const {
    return {.servers = std::move(urls), .tls = keepers_->keys.files("operator"), .time = 60};
  }

  void start_members() {
    for (int i = 0; i < static_cast<int>(first_members); ++i) start(concat("p", i));
  }

  void start(const std::string& name) {
    const std::string keys = keepers_ == nullptr ? std::string() : keepers_->keys_folder().string();
    running_[name] =
        std::make_unique<AveragingProcess>(folder_.path(), urls_, name, rounds, first_members, "fp32", keys);
  }

  /// Starts keepers that were killed, and waits until each has what the others decided: so one more may be killed.
  void start_keepers() const {
    for (std::size_t i = 0; i < keepers_->size(); ++i) {
      if (!keepers_->runs(i)) keepers_->start(i);
      static_cast<void>(test::state_of(log_of({keepers_->url(i)})));
    }
  }

  /// Waits until two members that run have what is committed, so that one more may crash and nothing is lost. Returns
  /// false if the job ends before.
  [[nodiscard]] bool others_have_all() const {
    for (;; std::this_thread::sleep_for(std::chrono::milliseconds(20))) {
      const core::JobState state = test::state_of(log_);
      if (state.round() >= rounds) return false;
      const auto is_dead = [&](const Member& member) { return dead_.contains(member.id); };
      if (state.members.size() >= 2 && std::none_of(state.members.begin(), state.members.end(), is_dead)) return true;
    }
  }

  void kill(const std::string& name) {
    running_.at(name)->kill();
    for (const Member& member : test::state_of(log_).members) {
      if (member.id.name == name) dead_.insert(member.id);
    }
  }

  void happen(const RealFault& fault) {
    const auto at = std::next(running_.begin(), fault.peer % static_cast<int>(running_.size()));
    const std::string name = at->first;
    switch (fault.kind) {
      case RealFault::Kind::kill:
        if (running_.size() == 1 || !others_have_all()) return;
        kill(name);
        running_.erase(name);
        return;
      case RealFault::Kind::restart:
        if (running_.size() == 1 || !others_have_all()) return;
        kill(name);
        start(name);
        return;
      case RealFault::Kind::start: start(concat("q", started_++)); return;
      case RealFault::Kind::stop:
        // Longer than the others take to suspect it.
        at->second->signal(SIGSTOP);
        std::this_thread::sleep_for(std::chrono::milliseconds(3500));
        at->second->signal(SIGCONT);
        return;
      case RealFault::Kind::log_away: {
        const std::string address = urls_.substr(std::string("http://").size());
        server_.reset();
        std::this_thread::sleep_for(std::chrono::milliseconds(700));
        listen(address);
        return;
      }
      case RealFault::Kind::keeper_kill:
      case RealFault::Kind::keeper_restart: {
        start_keepers();
        keepers_->kill(static_cast<std::size_t>(fault.peer));
        if (fault.kind == RealFault::Kind::keeper_kill) return;  // it stays away until the next
        std::this_thread::sleep_for(std::chrono::milliseconds(300));
        return keepers_->start(static_cast<std::size_t>(fault.peer));
      }
    }
  }

  const std::vector<RealFault> faults_;
  const reef::test::TemporaryFolder folder_;
  reef::test::KeeperProcesses* const keepers_ = nullptr;
  std::unique_ptr<LogServer> server_;
  RemoteLogOptions log_{};
  std::string urls_;  // of the log, as a peer is told
  std::map<std::string, std::unique_ptr<AveragingProcess>> running_;
  std::set<PeerId> dead_;  // members when they were killed
  int started_ = 0;
};

/// Calls a function with the seeds of as many plans as the test is to run.
template <class Run>
void for_each_plan(const Run& run) {
  const char* const given = std::getenv("REEF_SWARM_REAL_PLANS");
  const char* const from = std::getenv("REEF_SWARM_REAL_FROM");
  const std::uint64_t first = from == nullptr ? 1 : std::strtoull(from, nullptr, 10);
  const std::uint64_t plans = given == nullptr ? 6 : std::strtoull(given, nullptr, 10);
  for (std::uint64_t seed = first; seed < first + plans; ++seed) {
    SCOPED_TRACE(seed);
    run(seed);
  }
}

TEST(RealFaults, leave_the_bits_of_a_replay_and_a_ledger_that_adds_up) {
  for_each_plan([](std::uint64_t seed) { RealFaults(seed).run(); });
}

TEST(RealFaults, of_keepers_too_leave_the_bits_of_a_replay_and_a_ledger_that_adds_up) {
  if (!reef::test::why_no_etcd().empty()) GTEST_SKIP() << reef::test::why_no_etcd();
  for_each_plan([](std::uint64_t seed) {
    reef::test::KeeperProcesses keepers(3, "average", {"p0", "p1", "p2", "q0", "q1", "q2", "q3"});
    RealFaults(seed, keepers).run();
  });
}

}  // namespace
}  // namespace reef::swarm
