// Ratios by link: of links as they were, as they are by then, and as a log has them.

#include <reef/compress/ada_top_k.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <reef/profile/network.hpp>
#include <reef/compress/replan.hpp>
#include <reef/optim/adamw.hpp>
#include <reef/optim/zero1.hpp>
#include <reef/pipeline/one_f_one_b.hpp>
#include <reef/trainer/checkpoint.hpp>

#include "../support/same_bits.hpp"
#include "../support/small_gpt.hpp"

namespace reef::test {
namespace {

using Tested = Trainer<pipeline::OneFOneB<>, optim::Zero1<optim::AdamW>, compress::AdaTopK>;
using Log = std::vector<run::EdgeRatios>;

/// Links of 1 GB/s, but that from a stage to the next of a hundredth.
profile::Network with_slow_link(int from) {
  auto network = profile::Network::uniform(world_size(), 0, 1e9);
  network.rates[static_cast<std::size_t>(from * world_size() + from + 1)] = 1e7;
  return network;
}

Tested::Options adapted_options() {
  auto options = small_options<Tested>();
  options.topology = run::Topology(1, world_size());
  options.micro_batches = {4};
  options.compress.activation.ratio = 8;
  options.network = with_slow_link(world_size() - 2);
  return options;
}

int stage_of(const run::StepPlan& plan, int segment) { return plan.stage_of_segment[static_cast<std::size_t>(segment)]; }

/// The largest ratio of what a stage sends the next.
double ratio_behind(const run::StepPlan& plan, const std::vector<double>& by_edge, int stage) {
  double largest = 0;
  for (std::size_t e = 0; e < by_edge.size(); ++e) {
    const graph::RemoteEdge& edge = plan.remote_edges[e];
    if (edge.gradient || stage_of(plan, edge.from) != stage || stage_of(plan, edge.to) != stage + 1) continue;
    largest = std::max(largest, by_edge[e]);
  }
  return largest;
}

/// What a run was told, that of all ranks the same.
struct Told {
  explicit Told(Tested::Options& options) {
    options.compress.replan.told = [this](const run::EdgeRatios& ratios) { log.push_back(ratios); };
  }
  Log log{};
};

/// By step, the ratios of the edges.
std::vector<std::pair<std::int64_t, std::vector<double>>> entries_of(const Log& log) {
  std::vector<std::pair<std::int64_t, std::vector<double>>> entries;
  for (const run::EdgeRatios& ratios : log) entries.emplace_back(ratios.step, ratios.by_edge);
  return entries;
}

/// The ratios of the network that adapted_options() have, and from step 3 on one in 2 of all edges forward.
Log changing_log() {
  auto options = adapted_options();
  options.compress.replan.every = 1000;
  Told told(options);
  train<Tested>(options, 1);
  Log log = told.log;
  log.push_back({3, log.front().by_edge});
  for (double& ratio : log.back().by_edge) ratio = ratio == 0 ? 0 : 2;
  return log;
}

/// Of a pipeline whose last link is a hundred times slower than the others: only that is shrunk, and by as much as is asked.
TEST(AdaTopK, shrinks_slow_links_and_leaves_fast_ones_as_they_are) {
  if (world_size() < 3) GTEST_SKIP() << "one link is the slowest";
  auto options = adapted_options();
  options.network.reset();
  const auto model = nn::gpt<device::Host, float>(small_config(), 1);
  EXPECT_THROW(Tested::planned(model, options, world_size()), OptionError) << "without a network";
  const int last = world_size() - 1;
  options.network = with_slow_link(last - 1);
  const comm::Communicator world;
  auto trainer = small_trainer<Tested>(options, world);
  const run::StepPlan& plan = trainer.plan();
  int shrunk = 0;
  for (std::size_t e = 0; e < plan.remote_edges.size(); ++e) {
    const graph::RemoteEdge& edge = plan.remote_edges[e];
    const auto traffic = edge.gradient ? schedule::Traffic::activation_gradient : schedule::Traffic::activation;
    const double ratio = plan.wire_of(traffic).ratio(static_cast<int>(e));
    const bool slow = stage_of(plan, edge.from) == last - 1 && stage_of(plan, edge.to) == last && !edge.gradient;
    if (slow) {
      EXPECT_GE(ratio, 8);
      ++shrunk;
    } else if (!edge.gradient) {
      EXPECT_EQ(ratio, 1) << "what takes a hundredth is no slower as it is";
    }
  }
  EXPECT_GT(shrunk, 0);
  EXPECT_TRUE(std::isfinite(trainer.step().loss));
}

/// A network that is given for the order of messages makes no ratios by itself.
TEST(Channels, adapt_ratios_to_links_where_they_are_told_to) {
  if (world_size() < 3) GTEST_SKIP() << "one link is the slowest";
  using Selecting = Trainer<pipeline::OneFOneB<>, optim::Zero1<optim::AdamW>, compress::Channels<compress::Activation<codec::TopK>>>;
  auto options = small_options<Selecting>();
  options.topology = run::Topology(1, world_size());
  options.micro_batches = {4};
  options.compress.activation.ratio = 8;
  options.network = with_slow_link(world_size() - 2);
  const comm::Communicator world;
  const auto ratios = [&] { return small_trainer<Selecting>(options, world).plan().wire_of(schedule::Traffic::activation).ratios; };
  EXPECT_TRUE(ratios().empty());
  options.compress.adapt = true;
  const std::vector<double> adapted = ratios();
  EXPECT_GE(*std::max_element(adapted.begin(), adapted.end()), 8);
  EXPECT_EQ(std::count(adapted.begin(), adapted.end(), 1), std::count_if(adapted.begin(), adapted.end(), [](double ratio) { return ratio > 0 && ratio < 8; }));
  options.network.reset();
  try {
    static_cast<void>(ratios());
    ADD_FAILURE() << "without a network";
  } catch (const Error& error) {  // its own, or that another rank has reported it first
    EXPECT_NE(std::string(error.what()).find("there is no network"), std::string::npos) << error.what();
  }
}

TEST(Replan, of_links_that_stay_changes_no_bit) {
  if (world_size() == 1) GTEST_SKIP() << "one stage has no edges";
  auto options = adapted_options();
  const auto plain = train<Tested>(options, 4);
  options.compress.replan.every = 1000;
  Told told(options);
  EXPECT_TRUE(same_bits(train<Tested>(options, 4), plain));
  ASSERT_EQ(told.log.size(), 1U) << "before the first step";
  EXPECT_EQ(told.log.front().step, 0);
}

TEST(Replan, in_a_log_is_in_force_from_its_step_on) {
  if (world_size() == 1) GTEST_SKIP() << "one stage has no edges";
  const comm::Communicator world;
  auto options = adapted_options();
  const auto plain = train<Tested>(options, 3);
  options.compress.replan.replay = changing_log();
  Told told(options);
  auto trainer = small_trainer<Tested>(options, world);
  EXPECT_TRUE(same_bits(outcome_of(trainer, 3), plain));
  const auto wire = [&] { return trainer.links().of(schedule::Traffic::activation).wire(); };
  const auto raw = [&] { return trainer.links().of(schedule::Traffic::activation).raw; };
  const Bytes wire_before = wire();
  const Bytes raw_before = raw();
  trainer.step();
  if (world.rank() == world.size() - 2) {
    const double ratio = static_cast<double>(raw() - raw_before) / static_cast<double>(wire() - wire_before);
    EXPECT_LT(ratio, 2);
    EXPECT_GT(ratio, 1.6) << "half of the numbers, a bit for each, and heads";
  }
  EXPECT_EQ(entries_of(told.log), entries_of(options.compress.replan.replay));
}

TEST(Replan, in_a_log_gives_the_same_bits_by_any_transport_and_behind_a_resume) {
  if (world_size() == 1) GTEST_SKIP() << "one stage has no edges";
  const comm::Communicator world;
  const SharedFolder folder("replan");
  auto options = adapted_options();
  options.compress.replan.replay = changing_log();
  const auto undisturbed = train<Tested>(options, 6);
  auto behind_a_link = options;
  behind_a_link.communication.piece_bytes = 512;
  behind_a_link.device.memory_bytes = Bytes{64} << 20;
  behind_a_link.device.link_bytes_per_second = 4e9;
  EXPECT_TRUE(same_bits(train<Tested>(behind_a_link, 6), undisturbed));
  for (const int saved_at : {2, 4}) {
    auto trainer = small_trainer<Tested>(options, world);
    for (int step = 0; step < saved_at; ++step) trainer.step();
    checkpoint::save(trainer, folder.path() / std::to_string(saved_at));
    const double loss = trainer.evaluate(1);
    auto resumed = small_trainer<Tested>(options, world);
    checkpoint::resume(resumed, folder.path() / std::to_string(saved_at));
    EXPECT_EQ(resumed.evaluate(1), loss);
    EXPECT_TRUE(same_bits(outcome_of(resumed, 6 - saved_at).weights, undisturbed.weights))
        << saved_at;
  }
}

/// It was the last link that was slow when training began, and is the first by now.
TEST(Replan, follows_links_as_they_are_and_its_log_has_its_bits) {
  if (world_size() < 3) GTEST_SKIP() << "one link is the slowest";
  auto options = adapted_options();
  options.compress.replan = {.every = 2, .probe = {.bytes = Bytes{64} << 10}};
  const auto cells = static_cast<std::size_t>(world_size() * world_size());
  std::vector<double> bandwidth(cells, 1e12);
  bandwidth[1] = 5e5;  // from rank 0 to rank 1
  options.communication.network = profile::Network{.devices = world_size(), .latencies = std::vector<Seconds>(cells, 0), .rates = bandwidth};
  Told told(options);
  const comm::Communicator world;
  double held_out = 0;
  const auto measured = [&] {
    auto slow = small_trainer<Tested>(options, world);
    auto outcome = outcome_of(slow, 6);
    held_out = slow.evaluate(1);
    return outcome;
  }();
  ASSERT_GE(told.log.size(), 2U);
  auto again = adapted_options();
  again.network.reset();
  again.compress.replan.replay = told.log;
  auto trainer = small_trainer<Tested>(again, world);
  EXPECT_TRUE(same_bits(outcome_of(trainer, 6), measured));
  EXPECT_EQ(trainer.evaluate(1), held_out) << "by the ratios of the last step";
  const int last = world_size() - 2;
  const auto ratio = [&](std::size_t at, int stage) { return ratio_behind(trainer.plan(), told.log[at].by_edge, stage); };
  EXPECT_EQ(told.log[0].step, 0);
  EXPECT_GT(ratio(0, last), ratio(0, 0));
  EXPECT_EQ(told.log[1].step, 2);
  EXPECT_LT(ratio(1, last), ratio(1, 0));
}

/// Before the first entry of a log the codec has its own ratio, and behind a resume the log is what counts.
TEST(Replan, in_a_log_stands_above_a_checkpoint_and_leaves_codecs_their_own_before_it) {
  if (world_size() == 1) GTEST_SKIP() << "one stage has no edges";
  const comm::Communicator world;
  const SharedFolder folder("replan-log");
  auto options = adapted_options();
  options.compress.activation.ratio = 1.01;
  const Log log = changing_log();
  options.compress.replan.replay = {log.back()};
  auto trainer = small_trainer<Tested>(options, world);
  for (int step = 0; step < 4; ++step) trainer.step();
  checkpoint::save(trainer, folder.path());
  options.compress.replan.replay = {log.front()};
  Told told(options);
  auto resumed = small_trainer<Tested>(options, world);
  checkpoint::resume(resumed, folder.path());
  resumed.step();
  EXPECT_EQ(entries_of(told.log), entries_of({log.front()}));
}

TEST(Replan, by_a_function_of_edge_and_step_is_what_a_log_of_it_is) {
  if (world_size() == 1) GTEST_SKIP() << "one stage has no edges";
  auto options = adapted_options();
  options.compress.replan.replay = changing_log();
  const auto of_log = train<Tested>(options, 5);
  const Log log = options.compress.replan.replay;
  options.compress.replan = {};
  options.compress.choose = [&log](const compress::CodedMessages& messages, std::int64_t step) -> std::optional<double> {
    const double ratio = log[step < 3 ? 0 : 1].by_edge[static_cast<std::size_t>(messages.index)];
    return ratio == 0 ? std::nullopt : std::optional(ratio);
  };
  EXPECT_TRUE(same_bits(train<Tested>(options, 5), of_log));
  const comm::Communicator world;
  options.compress.choose = [](const compress::CodedMessages&, std::int64_t step) { return step < 1 ? 4 : 0.5; };
  auto trainer = small_trainer<Tested>(options, world);
  trainer.step();
  EXPECT_THROW(trainer.step(), OptionError);
}

TEST(Replan, is_refused_where_nothing_follows_from_it_or_a_log_is_anothers) {
  if (world_size() == 1) GTEST_SKIP() << "one stage has no edges";
  const auto model = nn::gpt<device::Host, float>(small_config(), 1);
  const auto planned = [&](const compress::Replan& replan) {
    auto options = adapted_options();
    options.compress.replan = replan;
    return Tested::planned(model, options, world_size());
  };
  const Log log = changing_log();
  EXPECT_NO_THROW(planned({.replay = log}));
  EXPECT_THROW(planned({.every = -1}), OptionError);
  EXPECT_THROW(planned({.replay = {log[1], log[0]}}), OptionError) << "not by step";
  EXPECT_THROW(planned({.replay = {{0, {8}}}}), OptionError) << "of another plan";
  Log less = log;
  less.front().by_edge.assign(less.front().by_edge.size(), 1.2);
  EXPECT_THROW(planned({.replay = less}), OptionError) << "for which there may be no room";
  less.front().by_edge.assign(less.front().by_edge.size(), 1e13);
  EXPECT_THROW(planned({.replay = less}), OptionError) << "which no codec has";
  EXPECT_THROW(planned({.every = 2, .probe = {.repeats = 0}}), OptionError);
  EXPECT_THROW(planned({.every = 2, .replay = log}), OptionError) << "one of them would do nothing";
  auto options = adapted_options();
  options.compress.replan.every = 10;
  options.compress.choose = [](const compress::CodedMessages& messages) {
    return messages.traffic == schedule::Traffic::activation ? std::optional(1.0) : std::nullopt;
  };
  EXPECT_NO_THROW(Tested::planned(model, options, world_size())) << "each is chosen";
}

}  // namespace
}  // namespace reef::test
