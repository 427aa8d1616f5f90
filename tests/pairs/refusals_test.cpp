// What is refused when a Trainer is made, and called necessary in docs/rules.md: what would break.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include <reef/codec/message.hpp>
#include <reef/codec/top_k.hpp>
#include <reef/compress/detail/channel_rules.hpp>
#include <reef/compress/detail/memories.hpp>
#include <reef/core/kinds.hpp>
#include <reef/optim/acco.hpp>
#include <reef/optim/adamw.hpp>
#include <reef/optim/diloco.hpp>
#include <reef/optim/kinds.hpp>
#include <reef/optim/zero1.hpp>
#include <reef/pipeline/kinds.hpp>
#include <reef/pipeline/single.hpp>
#include <reef/schedule/simulate.hpp>
#include <reef/schedule/verify.hpp>

#include "../support/overlapping_trainers.hpp"
#include "../support/small_gpt.hpp"
#include "any_policies.hpp"

namespace reef::test {
namespace {

namespace refusals {

using namespace test::pairs;
using Staged = Trainer<AnyPipeline, AnyCompress, optim::Zero1<optim::AdamW>>;
using schedule::Instruction;
using schedule::Program;

Staged::Options staged_options(const std::string& pipeline, int micro_batches) {
  auto options = small_options<Staged>();
  options.topology = run::Topology(1, 2);
  options.pipeline.name = pipeline;
  options.micro_batches = {micro_batches};
  return options;
}

template <class TrainerType>
std::vector<Program> programs(const typename TrainerType::Options& options, int ranks = 2) {
  return TrainerType::programs(nn::gpt<device::Host, float>(small_config(), 1), options, ranks);
}

template <class TrainerType>
std::string refusal(const typename TrainerType::Options& options, int ranks = 2) {
  try {
    static_cast<void>(programs<TrainerType>(options, ranks));
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing is refused";
}

using testing::HasSubstr;

/// Single, were it allowed on stages.
struct Lonely {
  using policy_tag = PipelineTag;
  static constexpr bool spans_stages = true;
  static void add(run::StepBuilder& builder) { pipeline::Single::add(builder); }
};

TEST(Refusals, of_stages_without_a_pipeline_nobody_sends_activations) {
  using Whole = Trainer<optim::Zero1<optim::AdamW>>;
  auto whole = small_options<Whole>();
  whole.topology = run::Topology(1, 2);
  EXPECT_THAT(refusal<Whole>(whole), HasSubstr("this pipeline policy runs the whole model on every rank"));

  using Allowed = Trainer<Lonely, optim::Zero1<optim::AdamW>>;
  auto options = small_options<Allowed>();
  options.topology = run::Topology(1, 2);
  const auto proved = [&] { schedule::verify(programs<Allowed>(options)); };
  EXPECT_THROW(proved(), Error);
}

/// Where each rank stands still for ever that runs one instruction after another, as they are written; empty if none does. A
/// message is through when its receiver asks for it, as MPI may have it.
std::vector<std::string> stuck_one_at_a_time(const std::vector<Program>& programs) {
  using Line = std::tuple<int, int, std::uint32_t>;  // from, to, channel
  std::map<Line, int> sent, asked;
  std::vector<std::size_t> next(programs.size(), 0);
  std::vector<char> begun(programs.size(), 0);
  const auto all = [](const std::vector<schedule::Message>& messages, const auto& f) {
    return std::all_of(messages.begin(), messages.end(), f);
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t r = 0; r < programs.size(); ++r) {
      const auto rank = static_cast<int>(r);
      while (next[r] < programs[r].round.size()) {
        const Instruction& i = programs[r].round[next[r]];
        if (begun[r] == 0) {
          for (const schedule::Message& m : i.sends) ++sent[{rank, m.peer, m.channel}];
          for (const schedule::Message& m : i.receives) ++asked[{m.peer, rank, m.channel}];
          begun[r] = 1;
          moved = true;
        }
        const auto heard = [&](const schedule::Message& m) {
          const Line line{rank, m.peer, m.channel};
          return asked[line] >= sent[line];
        };
        const auto has_come = [&](const schedule::Message& m) {
          const Line line{m.peer, rank, m.channel};
          return sent[line] >= asked[line];
        };
        if (!all(i.sends, heard) || !all(i.receives, has_come)) break;
        ++next[r];
        begun[r] = 0;
        moved = true;
      }
    }
  }
  std::vector<std::string> stuck;
  for (std::size_t r = 0; r < programs.size(); ++r) {
    if (next[r] < programs[r].round.size()) stuck.push_back(programs[r].round[next[r]].text());
  }
  return stuck;
}

TEST(Refusals, of_stages_one_instruction_at_a_time_each_waits_until_the_other_receives) {
  auto options = staged_options("OneFOneB", 3);
  EXPECT_THAT(stuck_one_at_a_time(programs<Staged>(options)),
              testing::ElementsAre("Send(0, micro-batch 1)", "Send(1, micro-batch 0)"));
  options.serial = true;
  EXPECT_THAT(refusal<Staged>(options), HasSubstr("but one instruction is to run at a time (serial)"));
  options.serial = false;
  options.pipeline.name = "GPipe";
  EXPECT_TRUE(stuck_one_at_a_time(programs<Staged>(options)).empty()) << "all forwards first";
}

TEST(Refusals, of_virtual_ranks_no_phase_has_a_message_to_end_it) {
  using Virtual = Trainer<optim::Acco<optim::AdamW>>;
  auto options = small_options<Virtual>();
  options.virtual_ranks = 2;
  for (const Instruction& i : programs<Virtual>(options, 1).front().round) {
    EXPECT_TRUE(i.sends.empty() && i.receives.empty()) << i.text();
  }
  options.accumulation = Accumulation::adaptive();
  EXPECT_THAT(refusal<Virtual>(options, 1), HasSubstr("accumulation adapts on virtual ranks"));
}

/// Without what waits for a norm, or the options are refused.
Staged::Options within_options(const std::string& pipeline, int micro_batches) {
  auto options = staged_options(pipeline, micro_batches);
  options.non_finite = optim::NonFinite::ignore;
  options.clip_norm = 0;
  return options;
}

TEST(Refusals, when_the_last_stage_updates_within_a_step_the_first_has_no_gradient_to_take_a_norm_of) {
  for (const char* const pipeline : {"PipeDream", "TwoBw"}) {
    auto options = within_options(pipeline, 4);
    const auto of_stages = programs<Staged>(options);
    const auto world = schedule::World::uniform(2, {.flops_per_second = 1e9}, {.latency = 1, .bytes_per_second = 1e9});
    const int last = pipeline == std::string_view("TwoBw") ? 1 : 0;  // of the micro-batches of an update
    std::optional<Seconds> updated, went_back;
    for (const schedule::SimulatedSpan& span : schedule::simulate(of_stages, world, 1).spans) {
      const Instruction& i = of_stages[static_cast<std::size_t>(span.rank)].round[span.instruction];
      if (span.rank == 1 && i.kind == optim::kinds::update && !updated) updated = span.end;
      if (span.rank == 0 && i.kind == kinds::backward && i.micro_batch == last && !went_back) went_back = span.begin;
    }
    ASSERT_TRUE(updated && went_back);
    EXPECT_LT(*updated, *went_back) << pipeline;
    options.clip_norm = 1;
    options.non_finite = optim::NonFinite::stop;
    EXPECT_THAT(refusal<Staged>(options), HasSubstr("updates wait for the norm of all gradients"));
  }
}

/// The weights that a rank's forwards of its first segment read, by micro-batch.
std::vector<std::vector<schedule::Value>> read_by_forwards(const Program& program) {
  std::vector<std::vector<schedule::Value>> read;
  int segment = -1;
  for (const Instruction& i : program.round) {
    if (i.kind != kinds::forward) continue;
    if (segment < 0) segment = i.index;
    if (i.index == segment) read.push_back(i.reads);
  }
  return read;
}

TEST(Refusals, two_micro_batches_of_a_unit_have_other_weights_under_pipedream_and_so_have_those_of_a_round) {
  const auto last = programs<Staged>(within_options("PipeDream", 4)).back();
  std::vector<schedule::Value> weights;
  for (const auto& reads : read_by_forwards(last)) {
    // Of what a forward reads the weights are where an update has written.
    for (const Instruction& i : last.round) {
      if (i.kind != optim::kinds::update) continue;
      for (const schedule::Value& value : reads) {
        const auto is_there = [&](const schedule::Value& w) { return w.storage == value.storage; };
        const bool written = std::any_of(i.writes.begin(), i.writes.end(), is_there);
        if (written && (weights.empty() || weights.back() != value)) weights.push_back(value);
      }
    }
  }
  EXPECT_GE(weights.size(), 4U) << "each of four has its own";
  auto options = within_options("PipeDream", 4);
  options.pipeline.unit = 2;
  EXPECT_THAT(refusal<Staged>(options), HasSubstr("its units are of 2 micro-batches"));

  using Rounds = Trainer<AnyPipeline, AnyCompress, optim::Acco<optim::AdamW>>;
  auto rounds = small_options<Rounds>();
  rounds.topology = run::Topology(1, 2);
  rounds.pipeline.name = "PipeDream";
  EXPECT_THAT(refusal<Rounds>(rounds), HasSubstr("this pipeline updates within a step, but this optimizer does not"));
}

TEST(Refusals, ranks_that_step_on_their_own_send_no_gradients_that_a_codec_could_be_asked_for) {
  using Outer = Trainer<AnyPipeline, AnyCompress, optim::DiLoCo<optim::AdamW>>;
  auto options = small_options<Outer>();
  options.optim.every = 1;
  for (const Program& program : programs<Outer>(options, 2)) {
    for (const Instruction& i : program.round) {
      EXPECT_TRUE(i.traffic != schedule::Traffic::gradient || i.sends.empty()) << i.text();
    }
  }
  options.compress.gradient = Chosen::of("top-k:4");
  EXPECT_THAT(refusal<Outer>(options), HasSubstr("this optimizer sends none of that"));
}

TEST(Refusals, of_weights_what_a_codec_leaves_out_is_0_where_it_arrives) {
  const std::vector<float> weights(64, 0.5F);
  std::vector<float> arrived(weights.size(), 1);
  const codec::TopK format{4};
  std::vector<std::byte> message(static_cast<std::size_t>(format.encoded_bytes(64)));
  codec::encode(format, std::span<const float>(weights), {}, {}, message);
  codec::decode(format, codec::message_in(message), {}, {}, arrived);
  EXPECT_EQ(std::count(arrived.begin(), arrived.end(), 0.0F), 48);
  auto options = staged_options("OneFOneB", 2);
  options.compress.parameter = Chosen::of("top-k:4");
  EXPECT_THAT(refusal<Staged>(options), HasSubstr("one that is not sent would be 0"));
}

/// Nothing stands against these but that they are not written.
TEST(Refusals, so_far_are_named_too) {
  auto options = staged_options("OneFOneB", 2);
  options.activations = {Activations::stash};
  EXPECT_THAT(refusal<Staged>(options), HasSubstr("activations are to be stashed, but nothing is swapped"));

  const auto thrown = [](const auto& check) -> std::string {
    try {
      check();
    } catch (const OptionError& error) {
      return error.what();
    }
    return "nothing is refused";
  };
  run::StepPlan plan;
  plan.phases_per_step = 2;
  EXPECT_THAT(thrown([&] { compress::detail::require_period(plan, schedule::Traffic::activation, 3, "delta"); }),
              HasSubstr("this optimizer takes samples in several phases of a step"));
  plan.adapts = true;
  EXPECT_THAT(thrown([&] { compress::detail::require_period(plan, schedule::Traffic::activation, 3, "delta"); }),
              HasSubstr("the clock decides which samples a step has"));
  const auto model = nn::gpt<device::Host, float>(small_config(), 1);
  graph::Dag dag = model.dag();
  plan.dag = &dag;
  plan.wire[static_cast<std::size_t>(schedule::Traffic::gradient)].bytes = [](int, std::int64_t n) { return static_cast<Bytes>(n); };
  plan.gradient = Element::bfloat16;
  EXPECT_THAT(thrown([&] { compress::detail::require_floats(plan); }), HasSubstr("what the one has lost the other does not know"));
  plan.gradient = dag.element = Element::float64;
  EXPECT_THAT(thrown([&] { compress::detail::require_floats(plan); }), HasSubstr("codecs are of fp32"));
}

}  // namespace refusals

}  // namespace
}  // namespace reef::test
