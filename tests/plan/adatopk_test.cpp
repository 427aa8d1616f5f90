// Ratios of compression by link, and the time of a pipeline whose links they shrink.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reef/core/error.hpp>
#include <reef/plan/adatopk.hpp>
#include <reef/plan/pipeline_time.hpp>

namespace reef::plan {
namespace {

using testing::DoubleEq;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<AdaTopKLink> random_links(std::mt19937_64& random) {
  const auto between = [&](double most) {
    return most * static_cast<double>(random() >> 11) * 0x1p-53;
  };
  std::vector<AdaTopKLink> links(1 + random() % 6);
  for (AdaTopKLink& link : links) link = {between(0.1), between(random() % 3 == 0 ? 20 : 0.5)};
  return links;
}

TEST(AdaTopK, no_link_is_slower_than_the_slowest_at_the_users_ratio) {
  std::mt19937_64 random(1);
  for (int run = 0; run < 500; ++run) {
    const std::vector<AdaTopKLink> links = random_links(random);
    const double ratio = 1 + static_cast<double>(random() % 1000) / 10;
    const int index_bytes = static_cast<int>(random() % 9);
    const AdaTopKRatios found = adatopk(links, {ratio, index_bytes, 0});
    const double coefficient = (4.0 + index_bytes) / 4;
    double bound = 0;
    for (const AdaTopKLink& link : links)
      bound = std::max(bound, link.latency + link.transfer / ratio);
    EXPECT_DOUBLE_EQ(found.target, bound);
    EXPECT_LE(found.bottleneck, bound * (1 + 1e-12));
    for (std::size_t p = 0; p < links.size(); ++p) {
      EXPECT_LE(found.ratios[p], coefficient * ratio * (1 + 1e-12))
          << "never more than was asked for";
      if (found.ratios[p] == 1) {
        EXPECT_EQ(found.times[p], links[p].time());
        continue;
      }
      EXPECT_GT(found.ratios[p], coefficient) << "else it would not shrink";
      EXPECT_NEAR(found.times[p], bound, 1e-12) << "and no faster than it need be";
      EXPECT_NEAR(found.times[p],
                  links[p].latency + links[p].transfer * coefficient / found.ratios[p], 1e-12);
    }
  }
}

TEST(AdaTopK, makes_no_link_faster_than_the_slowest_stage_computes) {
  // Compute bound: 0.5 s a stage, links of 0.1 and 0.2 s. The paper's rule compresses both by 10 and more.
  const std::vector<AdaTopKLink> links{{0, 0.1}, {0, 0.2}};
  EXPECT_THAT(adatopk(links, {10, 8, 0}).ratios, ElementsAre(DoubleEq(15), DoubleEq(30)));
  EXPECT_THAT(adatopk(links, {10, 8, 0.5}).ratios, ElementsAre(1, 1));
  // Between: as fast as the stage, not as fast as could be; latency stays what it is.
  const AdaTopKRatios found = adatopk({{0.1, 1}, {0, 0.3}}, {100, 8, 0.5});
  EXPECT_THAT(found.ratios, ElementsAre(DoubleEq(3 * 1 / 0.4), 1));
  EXPECT_DOUBLE_EQ(found.bottleneck, 0.5);
}

TEST(AdaTopK, no_ratio_compresses_latency_away) {
  const AdaTopKRatios found = adatopk({{0.2, 1}, {0, 2}}, {1e9, 8, 0});
  EXPECT_NEAR(found.target, 0.2, 1e-8);
  EXPECT_NEAR(found.times[0], 0.2, 1e-8);
  EXPECT_NEAR(found.times[1], 0.2, 1e-8);
  EXPECT_NEAR(found.ratios[1], 30, 1e-6) << "as much as makes it as fast as the other's latency";
}

TEST(AdaTopK, a_ratio_of_one_sends_everything_dense) {
  EXPECT_THAT(adatopk({{0, 1}, {0.5, 2}}, {1, 8, 0}).ratios, ElementsAre(1, 1));
  EXPECT_TRUE(adatopk({}, {5, 8, 0}).ratios.empty());
}

TEST(AdaTopK, refuses_what_cannot_be_and_names_it) {
  const auto refused = [](const std::string& text, const std::vector<AdaTopKLink>& links,
                          const AdaTopKOptions& options) {
    try {
      adatopk(links, options);
      ADD_FAILURE() << "no error for " << text;
    } catch (const OptionError& error) {
      EXPECT_THAT(error.what(), HasSubstr(text));
    }
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  refused("the ratio is 0.5", {{0, 1}}, {0.5, 8, 0});
  refused("the ratio is nan", {{0, 1}}, {nan, 8, 0});
  refused("index has -1 bytes", {{0, 1}}, {2, -1, 0});
  refused("computes for -1", {{0, 1}}, {2, 8, -1});
  refused("link 1 has a latency of 0 s and transfers for nan", {{0, 1}, {0, nan}}, {2, 8, 0});
}

TEST(AdaTopK, no_ratio_is_above_the_one_asked_for_though_latency_leaves_no_time) {
  const auto ratio_of = [](double latency, double transfer, double ratio) {
    return adatopk({{latency, transfer}}, {ratio, 8, 0}).ratios.at(0);
  };
  EXPECT_DOUBLE_EQ(ratio_of(0, 1e-3, 100), 300);
  EXPECT_EQ(ratio_of(1, 1e-5, 1e12), 3e12) << "the target is the latency, as numbers go";
  // What is left beside the latency of a second is a multiple of 2^-52 s, and less than a ratio of r would take.
  EXPECT_EQ(ratio_of(1, 1.6e-3, 1e12), 3e12);
  EXPECT_LE(ratio_of(1, 1e-3, 1e12), 3e12);
}

/// The makespan of a flow shop: links and devices are machines that each micro-batch passes in turn.
double makespan(const std::vector<double>& compute, const std::vector<double>& receive,
                std::int64_t micro_batches) {
  std::vector<double> free(2 * compute.size(), 0);
  double end = 0;
  for (std::int64_t j = 0; j < micro_batches; ++j) {
    double at = 0;
    for (std::size_t p = 0; p < compute.size(); ++p) {
      at = free[2 * p] = std::max(at, free[2 * p]) + receive[p];
      at = free[2 * p + 1] = std::max(at, free[2 * p + 1]) + compute[p];
    }
    end = at;
  }
  return end;
}

TEST(PipelineTime, is_the_makespan_of_a_flow_shop_of_links_and_devices) {
  std::mt19937_64 random(2);
  for (int run = 0; run < 1000; ++run) {
    const std::size_t stages = 1 + random() % 6;
    std::vector<double> compute(stages);
    std::vector<double> receive(stages);
    for (std::size_t p = 0; p < stages; ++p) {
      compute[p] = static_cast<double>(random() % 100);
      receive[p] = p == 0 ? 0 : static_cast<double>(random() % 100);
    }
    const auto micro_batches = static_cast<std::int64_t>(1 + random() % 9);
    const PipelineTime time = pipeline_time(compute, receive, micro_batches, 3);
    EXPECT_EQ(time.pipelined, makespan(compute, receive, micro_batches));
    EXPECT_EQ(time.latency, makespan(compute, receive, 1));
    if (time.pipelined == 0) continue;
    EXPECT_EQ(time.rate, 3 * static_cast<double>(micro_batches) / time.pipelined);
  }
}

TEST(PipelineTime, refuses_what_are_no_times_and_names_the_stage) {
  EXPECT_THROW(pipeline_time({}, {}, 1), OptionError);
  EXPECT_THROW(pipeline_time({1}, {0, 0}, 1), OptionError);
  EXPECT_THROW(pipeline_time({1}, {0}, 0), OptionError);
  EXPECT_THROW(pipeline_time({1}, {0}, 1, 0), OptionError);
  try {
    pipeline_time({1, -2}, {0, 3}, 1);
    ADD_FAILURE() << "no error";
  } catch (const OptionError& error) {
    EXPECT_THAT(error.what(), HasSubstr("stage 1 computes for -2 s and receives for 3 s"));
  }
}

}  // namespace
}  // namespace reef::plan
