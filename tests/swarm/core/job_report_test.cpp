#include <reef/swarm/core/job_report.hpp>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reef/swarm/core/job_state.hpp>
#include <reef/swarm/core/wait_cause.hpp>

namespace reef::swarm::core {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

const PeerId a{"a", 1};
const PeerId b{"b", 1};
const PeerId later_b{"b", 2};

/// A job whose log is written entry by entry, and read by who makes a report of it.
class ReportedJob {
public:
  ReportedJob() {
    Genesis genesis;
    genesis.job = "job";
    genesis.global_batch = 4;
    genesis.parameters = 10;
    genesis.piece = 4;
    append(a, genesis);
  }

  void append(const PeerId& author, Entry::What what) {
    EXPECT_THAT(apply(state, {author, 0, std::move(what)}), IsEmpty());
    note_members(stays, state);
  }
  void view(const std::vector<PeerId>& ids) {
    ViewEntry view{state.epoch + 1, {}, ""};
    for (const PeerId& id : ids) view.members.push_back({id, "127.0.0.1:1", 0, 0});
    append(a, view);
  }
  /// Commits a round in which member i computes this many micro-batches. `finite`: of the shares of members.
  void commit(const std::vector<std::int64_t>& counts, const std::vector<bool>& finite) {
    Commit commit;
    commit.epoch = state.epoch;
    commit.round = state.round();
    commit.holders = state.member_ids();
    commit.verdict.finite = false;
    for (std::size_t i = 0; i < counts.size(); ++i) {
      std::vector<std::int64_t> indices;
      const PeerId id = state.members[i].id;
      for (std::int64_t k = 0; k < counts[i]; ++k) indices.push_back(*state.dealing.index_of(id, k));
      const double weight = finite[i] ? static_cast<double>(counts[i]) : 0;
      commit.shares.push_back({id, runs_of(indices), weight, {}, finite[i]});
      commit.verdict.finite = commit.verdict.finite || weight > 0;
    }
    append(a, commit);
  }
  [[nodiscard]] JobReport report() const { return report_of(state, stays); }

  JobState state{};
  std::vector<Stay> stays{};
};

TEST(JobReport, tells_who_came_and_went_and_counts_micro_batches_by_peer) {
  ReportedJob job;
  job.view({a, b});
  job.commit({3, 2}, {true, true});
  job.commit({2, 2}, {true, true});
  job.view({a});
  job.commit({4}, {true});
  job.view({a, later_b});
  job.commit({1, 0}, {true, true});
  const JobReport report = job.report();
  EXPECT_EQ(report.job, "job");
  EXPECT_EQ(report.rounds, 4);
  EXPECT_EQ(report.skipped, 0);
  EXPECT_EQ(report.epoch, 3);
  EXPECT_EQ(report.members, 2);
  EXPECT_EQ(report.committed, 14);
  EXPECT_EQ(report.rollbacks, 0);
  const Stay of_a{a, {1, 0}, std::nullopt};
  const Stay of_b{b, {1, 0}, LogTime{2, 2}};
  const Stay of_later{later_b, {3, 3}, std::nullopt};
  EXPECT_THAT(report.peers, ElementsAre(JobReport::Peer{a, {of_a}, 4, 10}, JobReport::Peer{b, {of_b}, 2, 4},
                                        JobReport::Peer{later_b, {of_later}, 0, 0}));
}

TEST(JobReport, counts_what_is_not_finite_for_nobody) {
  ReportedJob job;
  job.view({a, b});
  job.commit({2, 2}, {true, false});
  job.commit({1, 1}, {false, false});
  const JobReport report = job.report();
  EXPECT_EQ(report.rounds, 2);
  EXPECT_EQ(report.skipped, 1);
  EXPECT_EQ(report.committed, 2);
  EXPECT_EQ(report.holes + report.quarantined + report.committed, job.state.ledger.end());
  EXPECT_EQ(report.peers.at(0).micro_batches, 2);
  EXPECT_EQ(report.peers.at(0).rounds, 1);
  EXPECT_EQ(report.peers.at(1).micro_batches, 0);
  EXPECT_EQ(report.peers.at(1).rounds, 0);
}

TEST(JobReport, ends_all_stays_with_a_rollback_and_begins_others_with_the_next_view) {
  ReportedJob job;
  job.view({a, b});
  job.commit({3, 2}, {true, true});
  job.commit({3, 2}, {true, true});
  job.append({"operator", 1}, Rollback{1, ""});
  EXPECT_EQ(job.report().members, 0);
  job.view({a});
  const JobReport report = job.report();
  EXPECT_EQ(report.rounds, 1);
  EXPECT_EQ(report.rollbacks, 1);
  EXPECT_EQ(report.committed, 5);
  const Stay before{a, {1, 0}, LogTime{2, 1}};
  const Stay after{a, {3, 1}, std::nullopt};
  EXPECT_THAT(report.peers.at(0).stays, ElementsAre(before, after));
  EXPECT_EQ(report.peers.at(0).micro_batches, 3);
}

TEST(JobReport, of_a_log_without_entries_is_empty) {
  EXPECT_EQ(report_of(JobState{}, {}), JobReport{});
  EXPECT_EQ(name_of(WaitCause::membership), "membership");
  EXPECT_EQ(name_of(WaitCause::log), "log");
}

}  // namespace
}  // namespace reef::swarm::core
