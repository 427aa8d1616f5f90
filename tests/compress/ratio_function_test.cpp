// Ratios that a function says for each step, of all that is carried.

#include <reef/compress/ratio_function.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <reef/codec/bf16.hpp>
#include <reef/codec/top_k.hpp>
#include <reef/optim/adamw.hpp>
#include <reef/optim/diloco.hpp>
#include <reef/optim/sgd.hpp>
#include <reef/optim/zero1.hpp>
#include <reef/pipeline/one_f_one_b.hpp>
#include <reef/trainer/checkpoint.hpp>

#include "skipped.hpp"

namespace reef::test {
namespace {

using namespace skipped;
using schedule::Traffic;

using Staged = Trainer<pipeline::OneFOneB<>, optim::Zero1<optim::AdamW>, Coded>;
using Alone = Trainer<pipeline::OneFOneB<>, optim::DiLoCo<optim::AdamW, optim::Sgd>, Coded>;

/// One codec with a ratio for all that goes between stages, or between replicas; weights have one without.
template <class TrainerType>
typename TrainerType::Options options_of(const run::Topology& topology, const std::string& codec) {
  auto options = options_with<TrainerType>(topology);
  auto& compress = options.compress;
  if (topology.stages > 1) compress.activation = compress.activation_gradient = Chosen::of(codec);
  if constexpr (std::is_same_v<TrainerType, Alone>) {
    options.optim.every = 2;
    options.optim.fragments = 2;
    compress.pseudo_gradient = Chosen::of(codec);
  } else if (topology.replicas > 1) {
    compress.gradient = Chosen::of(codec);
    compress.parameter = Chosen::of("bf16");
  }
  return options;
}

template <class TrainerType>
TrainerType trainer_of(const typename TrainerType::Options& options,
                       const comm::Communicator& world, Spoils spoils = Spoils::none) {
  const auto each = static_cast<std::uint64_t>(options.topology->replicas) * of_replica;
  return TrainerType(model(), source(spoils, {.each = each, .spoilt = each - of_replica}), options,
                     {}, world);
}

template <class TrainerType>
Left trained(const typename TrainerType::Options& options, int steps = 6) {
  const comm::Communicator world;
  TrainerType trainer = trainer_of<TrainerType>(options, world);
  return left_by(trainer, steps, steps, true);
}

/// f(trainer's options, what they are) for stages, replicas, and ranks that step on their own.
template <class F>
void each_way(const F& f) {
  if (world_size() == 1) return;
  f(options_of<Staged>(run::Topology(1, world_size()), "ef+top-k:9"), "stages");
  f(options_of<Staged>(run::Topology(world_size()), "ef+top-k:9"), "replicas");
  f(options_of<Alone>(run::Topology(world_size()), "ef+top-k:9"), "on their own");
}

template <class Options>
struct TrainerOf {
  using type = std::conditional_t<std::is_same_v<Options, Staged::Options>, Staged, Alone>;
};
template <class Options>
using trainer_with = typename TrainerOf<Options>::type;

TEST(RatioFunction, of_one_ratio_in_all_steps_is_a_codec_with_that_ratio) {
  each_way([]<class Options>(Options options, const std::string& what) {
    using Tested = trainer_with<Options>;
    const Left expected = trained<Tested>(options_of<Tested>(*options.topology, "ef+top-k:3"));
    options.compress.choose = [](const compress::CodedMessages&, std::int64_t) { return 3; };
    EXPECT_EQ(trained<Tested>(options).difference(expected), "") << what;
    options.compress.choose.least = 3;
    EXPECT_EQ(trained<Tested>(options).difference(expected), "")
        << what << ", with no more room than that";
    options.compress.choose = [](const compress::CodedMessages&, std::int64_t) {
      return std::optional<double>();
    };
    EXPECT_EQ(trained<Tested>(options).difference(
                  trained<Tested>(options_of<Tested>(*options.topology, "ef+top-k:9"))),
              "")
        << what;
  });
}

/// Near 1 a message of fewer numbers takes as much as one of all.
double ratio_of_step(std::int64_t step) {
  return std::array{1.0, 1.01, 1.5, 4.0, 30.0, 1e9}[static_cast<std::size_t>(step % 6)];
}

TEST(RatioFunction,
     that_changes_from_step_to_step_is_known_to_both_ends_and_to_a_training_that_goes_on) {
  each_way([]<class Options>(Options options, const std::string& what) {
    SCOPED_TRACE(what);
    using Tested = trainer_with<Options>;
    options.compress.choose = [](const compress::CodedMessages& messages, std::int64_t step) {
      return ratio_of_step(step + messages.index % 2);
    };
    const Left undisturbed = trained<Tested>(options, 8);
    EXPECT_NE(undisturbed.difference(
                  trained<Tested>(options_of<Tested>(*options.topology, "ef+top-k:9"), 8)),
              "");
    const comm::Communicator world;
    const SharedFolder folder("choice");
    {
      Tested trainer = trainer_of<Tested>(options, world);
      for (int step = 0; step < 3; ++step) trainer.step();
      checkpoint::save(trainer, folder.path());
    }
    Tested resumed = trainer_of<Tested>(options, world);
    ASSERT_TRUE(checkpoint::resume(resumed, folder.path()));
    Left rest = left_by(resumed, 5, 5, true);
    rest.losses.insert(rest.losses.begin(), undisturbed.losses.begin(),
                       undisturbed.losses.begin() + 3);
    rest.norms.insert(rest.norms.begin(), undisturbed.norms.begin(), undisturbed.norms.begin() + 3);
    EXPECT_EQ(undisturbed.difference(rest), "") << "resumed";
  });
}

TEST(RatioFunction, has_room_for_its_longest_messages_and_sends_the_shorter_ones_as_they_are) {
  each_way([]<class Options>(Options options, const std::string& what) {
    SCOPED_TRACE(what);
    using Tested = trainer_with<Options>;
    options.compress.choose = [](const compress::CodedMessages&, std::int64_t step) {
      return step < 4 ? 1.0 : 50.0;
    };
    const comm::Communicator world;
    Tested trainer = trainer_of<Tested>(options, world);
    const auto sent_by_two_steps = [&] {
      const Bytes before = trainer.progress().meter().operations().bytes;
      trainer.step();
      trainer.step();
      return trainer.progress().meter().operations().bytes - before;
    };
    sent_by_two_steps();  // ranks compare their programs, too
    const Bytes all = sent_by_two_steps();
    EXPECT_LT(sent_by_two_steps(), all) << "at 50 less is sent than at 1";
  });
}

TEST(RatioFunction,
     is_asked_of_all_that_a_codec_with_a_ratio_carries_and_again_of_a_step_that_did_not_count) {
  if (world_size() == 1) GTEST_SKIP() << "one rank carries nothing";
  const auto asked_by = []<class Options>(Options options) {
    std::map<Traffic, std::map<std::int64_t, int>> asked;  // by traffic and step, how often
    std::set<std::string> names;
    options.compress.choose = [&](const compress::CodedMessages& messages, std::int64_t step) {
      ++asked[messages.traffic][step];
      EXPECT_GT(messages.numbers, 0);
      for (const std::string_view name : messages.names) names.emplace(name);
      return 2;
    };
    const comm::Communicator world;
    auto trainer = trainer_of<trainer_with<Options>>(options, world, Spoils::spoilt);
    for (int step = 0; step < 4; ++step) trainer.step();
    EXPECT_FALSE(names.empty());
    return asked;
  };
  using Asked = std::map<Traffic, std::map<std::int64_t, int>>;
  const auto expect = [](const Asked& asked, std::vector<Traffic> of, bool again) {
    EXPECT_EQ(asked.size(), of.size());
    for (const Traffic traffic : of) {
      const auto found = asked.find(traffic);
      ASSERT_NE(found, asked.end()) << schedule::name_of(traffic);
      const auto& steps = found->second;
      ASSERT_EQ(steps.size(), again ? 3 : 4);
      EXPECT_EQ(steps.at(2), (again ? 2 : 1) * steps.at(0)) << "step 2 did not count";
    }
  };
  expect(asked_by(options_of<Staged>(run::Topology(1, world_size()), "top-k:9")),
         {Traffic::activation, Traffic::activation_gradient}, true);
  expect(asked_by(options_of<Staged>(run::Topology(world_size()), "top-k:9")), {Traffic::gradient},
         true);
  expect(asked_by(options_of<Alone>(run::Topology(world_size()), "top-k:9")),
         {Traffic::pseudo_gradient}, false);
}

TEST(RatioFunction, that_cannot_be_is_refused_before_anything_of_a_step_has_run) {
  if (world_size() == 1) GTEST_SKIP() << "one rank carries nothing";
  auto options = options_of<Staged>(run::Topology(world_size()), "top-k:9");
  options.compress.choose = [](const compress::CodedMessages&, std::int64_t step) {
    return step == 1 ? 3.0 : 8.0;
  };
  options.compress.choose.least = 4;
  const comm::Communicator world;
  Staged trainer = trainer_of<Staged>(options, world);
  EXPECT_TRUE(trainer.step().committed);
  try {
    trainer.step();
    ADD_FAILURE() << "no OptionError";
  } catch (const OptionError& error) {
    EXPECT_THAT(
        error.what(),
        testing::HasSubstr("in the step after 1 committed ones gradient 0 is to have the ratio 3"));
    EXPECT_THAT(error.what(), testing::HasSubstr("nothing of that step has run"));
  }
  const auto refused = [&](const Staged::Options& with, const std::string& text) {
    try {
      static_cast<void>(Staged::planned(model(), with, world_size()));
      ADD_FAILURE() << "no OptionError: " << text;
    } catch (const OptionError& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr(text));
    }
  };
  options.compress.choose.least = 0.5;
  refused(options, "the least ratio is 0.5");
  options = options_of<Staged>(run::Topology(world_size()), "blockwise8");
  options.compress.choose = [](const compress::CodedMessages&, std::int64_t) { return 3; };
  refused(options, "no codec has one");
}

}  // namespace
}  // namespace reef::test
