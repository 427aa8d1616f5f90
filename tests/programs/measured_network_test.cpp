// What reef-measure makes of its times: rounds, lines, names, and the case that is written.

#include <cmath>
#include <cstddef>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reef/comm/network_file.hpp>
#include <reef/core/error.hpp>
#include <reef/core/random.hpp>
#include <reef/io/json.hpp>
#include <reef/plan/allocation_json.hpp>
#include <reef/plan/clusters_json.hpp>
#include <reef/plan/pipeline_problem_json.hpp>
#include <reef/profile/network_json.hpp>

#include "../../examples/reef_measure/case_text.hpp"
#include "../../examples/reef_measure/link_fit.hpp"
#include "../../examples/reef_measure/rounds.hpp"
#include "../support/temporary_folder.hpp"

namespace {

using namespace reef_examples;
using testing::ElementsAre;

TEST(RoundsOfPairs, every_two_ranks_meet_once_and_nobody_is_in_two_pairs) {
  for (int ranks = 1; ranks <= 33; ++ranks) {
    std::set<std::pair<int, int>> met;
    for (int round = 0; round < round_count(ranks); ++round) {
      for (int rank = 0; rank < ranks; ++rank) {
        const int other = opponent(ranks, round, rank);
        ASSERT_GE(other, 0);
        ASSERT_LT(other, ranks);
        ASSERT_EQ(opponent(ranks, round, other), rank) << ranks << " ranks, round " << round;
        if (rank < other) {
          EXPECT_TRUE(met.emplace(rank, other).second);
        }
      }
    }
    EXPECT_EQ(met.size(), static_cast<std::size_t>(ranks * (ranks - 1) / 2));
  }
  EXPECT_EQ(round_count(8), 7);
  EXPECT_EQ(round_count(7), 7);
}

std::vector<LinkSample> samples(double alpha, double beta, double error = 0) {
  std::vector<LinkSample> all;
  for (double bytes = 1024; bytes < 1e7; bytes *= 4) {
    const auto draw = static_cast<double>(reef::uniform(reef::DrawKey{1, 0, 0, 0}, all.size()));
    all.push_back({bytes, (alpha + beta * bytes) * (1 + error * (2 * draw - 1))});
  }
  return all;
}

TEST(LinkFit, finds_the_line_that_is_there_and_is_near_it_where_times_are_not_exact) {
  const LinkFit exact = fit_link(samples(5e-3, 1e-8));
  EXPECT_NEAR(exact.alpha, 5e-3, 1e-9);
  EXPECT_NEAR(exact.beta, 1e-8, 1e-15);
  const LinkFit near = fit_link(samples(5e-3, 1e-8, 0.02));
  EXPECT_NEAR(near.alpha, 5e-3, 0.03 * 5e-3);
  EXPECT_NEAR(near.beta, 1e-8, 0.03 * 1e-8);
}

TEST(LinkFit, a_link_is_possible_whatever_was_measured) {
  const LinkFit below = fit_link(std::vector<LinkSample>{{1000, 1e-6}, {2000, 3e-6}});
  EXPECT_EQ(below.alpha, 0);
  EXPECT_GT(below.beta, 0);
  const LinkFit flat = fit_link(std::vector<LinkSample>{{1000, 3e-6}, {2000, 1e-6}});
  EXPECT_GT(flat.alpha, 0);
  EXPECT_GT(flat.beta, 0);
}

TEST(LinkFit, two_clocks_say_what_bytes_take_each_way_and_the_latency_of_both_together) {
  std::vector<LinkSample> there = samples(5e-3, 1e-8);
  std::vector<LinkSample> back = samples(15e-3, 4e-8);
  const auto [known_there, known_back] = fit_both(there, back, true);
  EXPECT_NEAR(known_there.alpha, 5e-3, 1e-9);
  EXPECT_NEAR(known_back.alpha, 15e-3, 1e-9);
  for (LinkSample& sample : there) sample.time -= 1234.5;
  for (LinkSample& sample : back) sample.time += 1234.5;
  const auto [first, second] = fit_both(there, back, false);
  EXPECT_NEAR(first.alpha, 10e-3, 1e-6);
  EXPECT_NEAR(second.alpha, 10e-3, 1e-6);
  EXPECT_NEAR(first.beta, 1e-8, 1e-12);
  EXPECT_NEAR(second.beta, 4e-8, 1e-12);
}

TEST(MeasuredCase, gives_every_device_a_name_of_its_own) {
  EXPECT_THAT(unique_names({"a", "b", "a", "a.0"}), ElementsAre("a.1", "b", "a.2", "a.0"));
  EXPECT_THAT(unique_names({"a", "b"}), ElementsAre("a", "b"));
  EXPECT_THAT(unique_names({"a", "a"}), ElementsAre("a.0", "a.1"));
}

TEST(MeasuredCase, is_a_network_to_planners_and_known_again_by_its_beginning) {
  MeasuredCase measured;
  measured.note = "a \"note\"";
  measured.names = {"one", "two \\"};
  measured.matrices = {{"latency_ms", {0, 0.0123456, 0.001, 0}, 1e-3},
                       {"bandwidth_gbps", {0, 125e6, 1e6 / 3, 0}, 1e9 / 8}};
  measured.matrices.push_back({"reciprocal_gbps", measured.matrices[1].values, 1e9 / 8});
  measured.lists = {{"device_flops", {1e9, 2.5e12}}, {"device_memory_gbps", {1e9, 2e9}, 1e9}, {"model_flops", {1e9, 2e9}}};
  const std::string text = case_text(measured);
  const reef::io::Json json = reef::io::parse_json(text, "case");
  const auto network = reef::profile::network_from_json(json, "case");
  EXPECT_EQ(network.names, measured.names);
  EXPECT_NEAR(network.latency(0, 1), 0.0123456, 1e-12);
  EXPECT_NEAR(network.rate(1, 0), 1e6 / 3, 1);
  EXPECT_EQ(json["device_flops"][1], 2.5e12);
  const auto links = reef::comm::links_from_json({{"network", json}}, "network", "case", 2);
  EXPECT_NEAR(links.latencies[1], 0.0123456, 1e-12);
  EXPECT_NEAR(links.rates[2], 1e6 / 3, 1);

  const auto with = [&](const char* more) {
    reef::io::Json test = json;
    test.update(reef::io::parse_json(more, "more"));
    return test;
  };
  const auto allocation = reef::plan::allocation_from_json(
      with(R"({"D_PP": 2, "D_DP": 1, "c_pp_bytes": 1, "c_dp_bytes": 1, "stage_flops": 1e9})"),
      "case");
  EXPECT_EQ(allocation.network, network);
  EXPECT_THAT(allocation.speeds, ElementsAre(1e9, 2.5e12));
  const reef::io::Json chain =
      with(R"({"flops": [1, 1], "mem": [1, 1], "cut": [0, 1, 0], "cap": [1, 1], "n_b": 1})");
  const auto pipeline = reef::plan::pipeline_problem_from_json(chain, "case");
  EXPECT_EQ(pipeline.links, network);
  EXPECT_THAT(pipeline.speed, ElementsAre(1e9, 2.5e12));
  const auto clusters = reef::plan::clusters_from_json(json, "case");
  EXPECT_EQ(clusters.devices, 2);
  EXPECT_EQ(clusters.unit, "Gbit/s");
  EXPECT_NEAR(clusters.bandwidths[1], 1, 1e-9);
  EXPECT_NEAR(clusters.bandwidths[2], 8e-3 / 3, 1e-7);

  using reef::DecodeError;
  reef::io::Json both = chain;
  both["beta"] = {{0, 1}, {1, 0}};
  EXPECT_THROW(static_cast<void>(reef::plan::pipeline_problem_from_json(both, "case")),
               DecodeError);
  both = chain;
  both["speed"] = {1, 2};
  EXPECT_THAT(reef::plan::pipeline_problem_from_json(both, "case").speed, ElementsAre(1, 2));
  both["speed"] = {1, 2, 3};
  EXPECT_THROW(static_cast<void>(reef::plan::pipeline_problem_from_json(both, "case")),
               DecodeError);
  both = json;
  both["bandwidth"] = {{0, 1}, {1, 0}};
  EXPECT_THROW(static_cast<void>(reef::plan::clusters_from_json(both, "case")), DecodeError);

  const reef::test::TemporaryFolder folder;
  reef::test::write_file(folder / "measured.json", text);
  reef::test::write_file(folder / "other.json", R"({"latency_ms": [[0]]})");
  EXPECT_FALSE(in_the_way(Output::network, folder / "measured.json"));
  EXPECT_FALSE(in_the_way(Output::network, folder / "none.json"));
  EXPECT_TRUE(in_the_way(Output::network, folder / "other.json"));
}

}  // namespace
