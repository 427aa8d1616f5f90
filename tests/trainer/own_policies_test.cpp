// What an author of a policy gets wrong is refused when the Trainer is made, with the instruction's name.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <reef/nn/cross_entropy.hpp>
#include <reef/nn/embedding.hpp>
#include <reef/nn/linear.hpp>
#include <reef/optim/acco.hpp>
#include <reef/optim/sgd.hpp>
#include <reef/optim/zero1.hpp>
#include <reef/trainer/trainer.hpp>

namespace reef::test {

using optim::StateRange;
using run::StepBuilder;
using schedule::Instruction;
using testing::AllOf;
using testing::HasSubstr;

graph::Graph<device::Host, float> small_model() {
  graph::Graph<device::Host, float> g(1);
  const int tokens = g.input("tokens", {{2, 4}, Element::int32});
  const int targets = g.input("targets", {{2, 4}, Element::int32});
  int x = g.add("embedding", nn::Embedding{9, 4, 20}, {tokens})[0];
  x = g.add("middle", nn::Linear{20, true}, {x})[0];
  x = g.add("head", nn::Linear{9, false}, {x})[0];
  g.loss(g.add("loss", nn::CrossEntropy{}, {x, targets})[0]);
  return g;
}

double ones(std::uint64_t /*first*/, std::span<const AnyView> inputs) {
  for (const AnyView& input : inputs) {
    for (std::int32_t& token : input.as<std::int32_t>().span()) token = 1;
  }
  return 1;
}

enum class Mistake {
  none,
  workspace_first,
  no_workspace,
  one_write_more,
  nothing_read,
  tensor_too_small,
  no_decision,
  verdict_on_device,
  no_messages,
  two_sizes,
  unread_reduction
};

/// The compositions differ by a mistake that is made while the program is written.
Mistake mistake = Mistake::none;

Instruction* first_of(StepBuilder& builder, std::string_view kind) {
  for (Instruction& i : builder.program.round) {
    if (i.kind == kind) return &i;
  }
  return nullptr;
}

/// A compressor, since it sees all that the others have written.
struct Careless {
  using policy_tag = CompressTag;
  static constexpr bool lossless = true;
  static constexpr Payload payload = Payload::dense;

  static void add(StepBuilder& builder) {
    Instruction* const forward = first_of(builder, "Forward");
    Instruction* const backward = first_of(builder, "Backward");
    switch (mistake) {
      case Mistake::workspace_first:
        if (backward != nullptr) std::swap(backward->writes.front(), backward->writes.back());
        break;
      case Mistake::no_workspace: forward->writes.pop_back(); break;
      case Mistake::one_write_more:
        forward->writes.push_back(
            {builder.program.add_storage("one more", 64, schedule::Place::device), 0});
        break;
      case Mistake::nothing_read: forward->reads.front() = {run::no_storage, 0}; break;
      case Mistake::tensor_too_small:
        forward->writes.front() = {
            builder.program.add_storage("a crumb", 4, schedule::Place::device), 0};
        break;
      default: break;
    }
  }
};

struct Alone {
  using policy_tag = OptimTag;
  using Rule = optim::Sgd;
  static constexpr std::string_view name = "alone";
  static constexpr bool sharded = false;
  static constexpr Payload accepts = Payload::dense;
  static constexpr bool needs_scalars = true;

  static void reserve(StepBuilder& builder) {
    optim::reserve_states(builder, Rule::states, sharded);
  }
  static std::vector<StateRange> state(const StepBuilder& builder) {
    return optim::state_ranges(builder, Rule::states, sharded);
  }
  static void add(StepBuilder& builder, const run::Pass& model) {
    model(builder);
    if (mistake == Mistake::no_decision) return;
    optim::add_decision(builder, run::first_scalars_channel, builder.reduced);
    if (mistake == Mistake::verdict_on_device) {
      builder.verdict = builder.program.add_storage("verdict", 64, schedule::Place::device);
    }
    if (!builder.trains()) return;
    for (const std::size_t b : builder.stage_buckets()) {
      run::StorageId gradient = builder.reduced[b];
      if (mistake == Mistake::two_sizes) {
        gradient = builder.program.add_part("half a gradient", gradient, 0,
                                            builder.program.storages[gradient].bytes / 2);
      }
      optim::add_update(builder, b, {gradient, 0}, builder.weights[b], Rule::states);
    }
    if (mistake == Mistake::no_messages) {
      Instruction& sum = builder.program.add("Sum", run::Lane::reduce, 0);
      sum.reads = {{builder.reduced[builder.stage_buckets()[0]], 0}};
      sum.writes = {
          {builder.program.add_storage("sum", builder.sum_bytes(0), schedule::Place::device), 0}};
    }
    if (mistake == Mistake::unread_reduction) {
      Instruction& late = builder.program.add("Update", run::Lane::compute, 0);
      late.reads = {{builder.reduced[0], 7}, {builder.verdict, 0}, {builder.weights[0], 1}};
      late.writes = {{builder.weights[0], 2}};
    }
  }
  template <class Handlers, class RankContext>
  static void add_code(Handlers& handlers, const RankContext& context,
                       const auto& options) {
    optim::add_decision_code(handlers, context, options.update);
    optim::add_update_code(handlers, context, options.rule);
    handlers.on_wire("Sum", [&context](const Instruction& i) {
      return context.template all_gather<float>("sum", i);
    });
  }
};

std::string refusal_of(Mistake made) {
  mistake = made;
  using Tested = Trainer<Alone, Careless>;
  typename Tested::Options options;
  options.cuts = {1, 2};
  options.device.threads = 1;
  try {
    Tested trainer(small_model(), ones, options);
    trainer.step();
  } catch (const ScheduleError& error) {
    return error.what();
  }
  return "none";
}

TEST(OwnPolicies, work_where_they_are_right) { EXPECT_EQ(refusal_of(Mistake::none), "none"); }

TEST(OwnPolicies, an_operand_in_a_wrong_place_is_refused) {
  EXPECT_THAT(refusal_of(Mistake::workspace_first),
              AllOf(HasSubstr("Backward("), HasSubstr("and should have")));
  EXPECT_THAT(refusal_of(Mistake::no_workspace),
              AllOf(HasSubstr("Forward(0, micro-batch 0) writes"), HasSubstr("needs more")));
  EXPECT_THAT(refusal_of(Mistake::one_write_more),
              AllOf(HasSubstr("Forward(0, micro-batch 0) writes"), HasSubstr("has a use for")));
  EXPECT_THAT(refusal_of(Mistake::nothing_read),
              AllOf(HasSubstr("Forward(0, micro-batch 0)"), HasSubstr("which does not exist")));
  EXPECT_THAT(refusal_of(Mistake::tensor_too_small), HasSubstr("Forward("));
}

TEST(OwnPolicies, a_step_without_a_decision_is_refused) {
  EXPECT_THAT(refusal_of(Mistake::no_decision),
              AllOf(HasSubstr("'alone'"), HasSubstr("builder.verdict is not set")));
  EXPECT_THAT(refusal_of(Mistake::verdict_on_device), HasSubstr("64 bytes of device memory"));
}

TEST(OwnPolicies, a_collective_that_states_no_messages_is_refused) {
  EXPECT_THAT(refusal_of(Mistake::no_messages),
              AllOf(HasSubstr("Sum(0)"), HasSubstr("run::add_all_gather_messages")));
}

/// A policy that would span stages, and writes nothing of the kind.
struct Spanning {
  using policy_tag = PipelineTag;
  static constexpr bool spans_stages = true;
  static void add(StepBuilder& builder) { pipeline::Single::add(builder); }
};

TEST(OwnPolicies, a_topology_that_cannot_be_is_refused_before_anything_starts) {
  const auto refused = [](auto tested, run::Topology topology) -> std::string {
    using Tested = typename decltype(tested)::type;
    typename Tested::Options options;
    options.device.threads = 1;
    options.topology = std::move(topology);
    try {
      Tested(small_model(), ones, options);
    } catch (const OptionError& error) {
      return error.what();
    }
    return "none";
  };
  const std::type_identity<Trainer<optim::Zero1<optim::Sgd>>> whole;
  EXPECT_EQ(refused(whole, run::Topology(1)), "none");
  EXPECT_THAT(refused(whole, run::Topology(2, 2)), HasSubstr("2 replicas of 2 stages"));
  EXPECT_THAT(refused(whole, run::Topology(-1, -1)), HasSubstr("-1 replicas"));
  run::Topology unnamed(1);
  unnamed.rank_at = {7};
  EXPECT_THAT(refused(whole, unnamed), HasSubstr("a permutation of 0 to 0"));
  // On more ranks, before there are any.
  const auto foreseen = [](auto tested, int ranks) -> std::string {
    using Tested = typename decltype(tested)::type;
    typename Tested::Options options;
    options.topology = run::Topology(1, ranks);
    try {
      static_cast<void>(Tested::estimate(small_model(), options, ranks));
    } catch (const OptionError& error) {
      return error.what();
    }
    return "none";
  };
  EXPECT_THAT(foreseen(whole, 2), HasSubstr("a pipeline policy that spans stages"));
}

TEST(OwnPolicies, an_update_of_two_sizes_is_refused) {
  EXPECT_THAT(refusal_of(Mistake::two_sizes), HasSubstr("'half a gradient'"));
}

TEST(OwnPolicies, a_read_of_what_nobody_has_written_is_refused) {
  EXPECT_THAT(refusal_of(Mistake::unread_reduction), HasSubstr("Update(0)"));
}

}  // namespace reef::test
