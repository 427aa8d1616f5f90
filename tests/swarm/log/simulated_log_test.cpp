#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <laws/decision_log.hpp>
#include <laws/presence.hpp>
#include <reef/swarm/log/simulated_log.hpp>

namespace reef::test {

struct SimulatedLogCase {
  swarm::DecisionLog& log() { return *first; }
  swarm::DecisionLog& other() { return *second; }
  swarm::Presence& presence() { return *first; }
  swarm::Presence& other_presence() { return *second; }
  void pass() { keepers.advance(keepers.next().value_or(keepers.now() + 0.1)); }
  void close() {
    first.reset();
    second.reset();
  }

  swarm::SimulatedKeepers keepers{{.seed = 1}};
  std::unique_ptr<swarm::SimulatedLog> first = std::make_unique<swarm::SimulatedLog>(keepers, 0);
  std::unique_ptr<swarm::SimulatedLog> second = std::make_unique<swarm::SimulatedLog>(keepers, 1);
};

INSTANTIATE_TYPED_TEST_SUITE_P(SimulatedLog, DecisionLogLaws, testing::Types<SimulatedLogCase>);
INSTANTIATE_TYPED_TEST_SUITE_P(SimulatedLog, PresenceLaws, testing::Types<SimulatedLogCase>);

namespace {

using swarm::SimulatedKeepers;
using swarm::SimulatedLog;
using swarm::SimulatedLogOptions;

/// What came of a run of several clients that each append at the end of one log, over a bad network.
struct SimulatedRun {
  std::vector<std::string> entries;
  std::vector<std::string> trace;  ///< of all callbacks, in order
  int unknown = 0;
  int landed_later = 0;  ///< entries that stand though their author was told `unknown`
  int never_landed = 0;
};

/// A peer that appends until it has won `wanted` times.
class SimulatedPeer {
public:
  SimulatedPeer(SimulatedKeepers& keepers, std::uint64_t number, int wanted, SimulatedRun& run)
      : log_(keepers, number), number_(number), wanted_(wanted), run_(run) {
    watch_ = log_.watch(0, [this](swarm::LogIndex at, std::string_view entry) {
      ASSERT_EQ(at, seen_.size()) << "a gap, or one twice";
      seen_.emplace_back(entry);
    });
    go_on();
  }
  SimulatedLog& log() { return log_; }
  [[nodiscard]] bool done() const { return wanted_ == 0; }
  [[nodiscard]] const std::vector<std::string>& seen() const { return seen_; }
  [[nodiscard]] const std::vector<std::pair<swarm::LogIndex, std::string>>& told() const { return told_; }
  [[nodiscard]] const std::vector<std::pair<swarm::LogIndex, std::string>>& in_doubt() const { return in_doubt_; }

private:
  void go_on() {
    if (wanted_ == 0) return;
    const std::string entry = std::to_string(number_) + "." + std::to_string(made_++);
    log_.append(at_, entry, [this, entry](const swarm::Appended& answer) {
      run_.trace.push_back(entry + " " + std::string(name_of(answer.outcome)) + " " + answer.other);
      switch (answer.outcome) {
        case AppendOutcome::won:
          told_.emplace_back(at_++, entry);
          --wanted_;
          break;
        case AppendOutcome::lost: told_.emplace_back(at_++, answer.other); break;
        case AppendOutcome::early: FAIL() << "an entry that was seen is gone"; break;
        case AppendOutcome::unknown:
          ++run_.unknown;
          in_doubt_.emplace_back(at_, entry);
          break;  // tries another entry there, which is what tells whether the first one landed
      }
      go_on();
    });
  }

  SimulatedLog log_;
  std::uint64_t number_;
  int wanted_;
  SimulatedRun& run_;
  swarm::LogIndex at_ = 0;
  int made_ = 0;
  std::vector<std::string> seen_;
  std::vector<std::pair<swarm::LogIndex, std::string>> told_;
  std::vector<std::pair<swarm::LogIndex, std::string>> in_doubt_;
  swarm::LogWatch watch_;
};

SimulatedRun run_simulation(const SimulatedLogOptions& options, bool breaks) {
  SimulatedRun run;
  SimulatedKeepers keepers(options);
  std::vector<std::unique_ptr<SimulatedPeer>> peers;
  for (std::uint64_t i = 0; i < 3; ++i) peers.push_back(std::make_unique<SimulatedPeer>(keepers, i, 10, run));
  if (breaks) {
    keepers.advance(0.05);
    keepers.set_away(true);
    keepers.advance(3);
    keepers.set_away(false);
    peers[0]->log().set_cut_off(true);
    keepers.advance(6);
    peers[0]->log().set_cut_off(false);
  }
  for (int i = 0; i < 100000 && keepers.next(); ++i) keepers.advance(*keepers.next());
  EXPECT_FALSE(keepers.next()) << "not at rest";
  run.entries = keepers.entries();
  for (const auto& peer : peers) {
    EXPECT_TRUE(peer->done());
    EXPECT_EQ(peer->seen(), run.entries);
    for (const auto& [at, entry] : peer->told()) EXPECT_EQ(run.entries.at(at), entry) << "told another than stands";
    for (const auto& [at, entry] : peer->in_doubt()) {
      if (run.entries.at(at) == entry) ++run.landed_later;
      else ++run.never_landed;
    }
  }
  return run;
}

TEST(SimulatedLog, keeps_the_laws_over_a_network_that_loses_and_delays) {
  int unknown = 0;
  int landed_later = 0;
  int never_landed = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const SimulatedRun run = run_simulation(
        {.seed = seed, .delay = 0.02, .lost_request = 0.1, .lost_answer = 0.1, .late = 0.1}, seed % 2 == 0);
    ASSERT_FALSE(testing::Test::HasFailure()) << "seed " << seed;
    unknown += run.unknown;
    landed_later += run.landed_later;
    never_landed += run.never_landed;
  }
  EXPECT_GT(landed_later, 100);
  EXPECT_GT(never_landed, 100);
  EXPECT_EQ(landed_later + never_landed, unknown);
}

TEST(SimulatedLog, is_the_same_for_equal_seeds_and_another_for_others) {
  const SimulatedLogOptions options{.seed = 5, .lost_request = 0.1, .lost_answer = 0.1, .late = 0.1};
  const SimulatedRun run = run_simulation(options, true);
  EXPECT_EQ(run.trace, run_simulation(options, true).trace);
  SimulatedLogOptions other = options;
  other.seed = 6;
  EXPECT_NE(run.trace, run_simulation(other, true).trace);
}

TEST(SimulatedLog, that_is_late_lands_after_its_author_was_told_unknown) {
  SimulatedKeepers keepers({.seed = 2, .time = 1, .late = 1, .latest = 5});
  SimulatedLog log(keepers, 0);
  swarm::Appended answer{AppendOutcome::won, {}, {}};
  log.append(0, "\"e\"", [&](const swarm::Appended& one) { answer = one; });
  keepers.advance(1);
  EXPECT_EQ(answer.outcome, AppendOutcome::unknown);
  EXPECT_NE(answer.why.find("fix: "), std::string::npos);
  EXPECT_TRUE(keepers.entries().empty());
  keepers.advance(5);
  EXPECT_EQ(keepers.entries(), std::vector<std::string>{"\"e\""});
}

TEST(SimulatedLog, of_which_a_client_has_ended_still_lands_what_it_sent) {
  SimulatedKeepers keepers({.seed = 2});
  auto log = std::make_unique<SimulatedLog>(keepers, 0);
  int answers = 0;
  log->append(0, "\"e\"", [&](const swarm::Appended& one) {
    ++answers;
    EXPECT_EQ(one.outcome, AppendOutcome::unknown);
  });
  log.reset();
  EXPECT_EQ(answers, 1);
  keepers.advance(10);
  EXPECT_EQ(answers, 1);
  EXPECT_EQ(keepers.entries().size(), 1U);
}

TEST(SimulatedLog, is_at_rest_when_all_is_seen) {
  SimulatedKeepers keepers;
  SimulatedLog log(keepers, 0);
  WatchedEntries watched;
  const swarm::LogWatch watch = log.watch(0, watched.found());
  while (keepers.next()) keepers.advance(*keepers.next());
  log.append(0, "\"e\"", [](const swarm::Appended&) {});
  while (keepers.next()) keepers.advance(*keepers.next());
  EXPECT_EQ(watched.seen().size(), 1U);
  EXPECT_LT(keepers.now(), 10);
}

}  // namespace
}  // namespace reef::test
