#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <reef/comm/await_task.hpp>
#include <reef/core/error.hpp>
#include <reef/core/text.hpp>
#include <reef/optim/decision.hpp>
#include <reef/optim/own_decision.hpp>
#include <reef/optim/update.hpp>
#include <reef/run/rank_context.hpp>
#include <reef/swarm/elastic/detail/averaged_step.hpp>
#include <reef/swarm/elastic/detail/rounds.hpp>
#include <reef/swarm/elastic/kinds.hpp>
#include <reef/swarm/elastic/round_exchange.hpp>

namespace reef {
inline namespace v0 {
namespace swarm::detail {

/// The memory of all trained weights' sums, of which the values are the buckets' parts.
template <class RankContext, class Values>
std::span<float> flat_memory(const RankContext& context, const Values& parts) {
  const run::StepPlan& plan = context.plan();
  const std::vector<std::size_t>& buckets = context.builder.stage_buckets();
  float* const first = context.at(parts[0]) - plan.buckets[buckets[0]].begin;
  for (std::size_t k = 0; k < parts.size(); ++k) {
    if (context.at(parts[k]) == first + plan.buckets[buckets[k]].begin) continue;
    throw ScheduleError("reef::swarm: the sums of bucket ", buckets[k],
                        " do not lie where the flat layout has them.\n"
                        "  fix: parts of one storage, which no pass replaces.");
  }
  return {first, static_cast<std::size_t>(plan.layout.trained_elements)};
}

/// Adds the code of BeginRound, Clear, Contribute, Offer, Result and DecideRound.
template <class Handlers, class RankContext>
void add_round_code(Handlers& handlers, const RankContext& context, RoundExchange& exchange,
                    optim::UpdateOptions options) {
  using Lane = typename Handlers::Lane;
  using Code = typename Handlers::Code;
  using Communication = typename Handlers::Communication;
  using schedule::Instruction;
  const auto rounds = std::make_shared<Rounds>(exchange);

  handlers.on_wire(kinds::begin_round, [&context, rounds](const Instruction&) -> Communication {
    Communication begin =
        context.call("begin round", [&context, rounds] { rounds->exchange().begin(context.state.committed); });
    begin.ends = [&context, rounds] {
      const std::optional<std::uint64_t> number = rounds->next();
      if (number) context.give(0, *number);
      return !number;
    };
    return begin;
  });

  handlers.on_lane(kinds::clear, [&context](const Instruction& i) -> Code {
    std::vector<std::span<std::byte>> sums;
    for (const run::Value sum : ClearView(context.builder, i).sums) {
      sums.push_back(context.template span<std::byte>(sum));
    }
    return [sums](Lane& lane) {
      for (const std::span<std::byte> sum : sums) lane.fill_zero(sum.data(), sum.size());
    };
  });

  handlers.on_lane(kinds::contribute, [&context](const Instruction& i) -> Code {
    const optim::HandOverView view(context.builder, i);
    const run::Value from = view.gradient.front();
    const run::Value to = view.sum.front();
    return [copy = context.memory.copy({to.storage}, {from.storage}, context.storage(from).bytes),
            add_uses = context.adds_uses(i.index, to, view.uses.values())](Lane& lane) {
      copy(lane);
      add_uses(lane);
    };
  });

  handlers.on_wire(kinds::offer, [&context, rounds](const Instruction& i) -> Communication {
    const RoundView view(context.builder, i);
    const std::span<const float> gradient = flat_memory(context, view.contribution);
    const auto* const counts = context.template at<const double>(view.counts.front());
    return context.call("offer", [&context, rounds, gradient, counts] {
      Contribution contribution{gradient, counts[0], counts[1], {}};
      for (const std::uint64_t number : context.given()) {
        contribution.micro_batches.push_back(static_cast<std::int64_t>(number));
      }
      rounds->exchange().offer(contribution);
    });
  });

  handlers.on_wire(kinds::result, [&context, rounds](const Instruction& i) -> Communication {
    const RoundView view(context.builder, i);
    auto task = std::make_shared<comm::AwaitTask>("result of the round");
    return {task, [rounds, sum = flat_memory(context, view.sum),
                   scalars = context.template at<RoundScalars>(view.scalars.front()), completion = task->completion()] {
              rounds->await(sum, scalars, completion);
            }};
  });

  handlers.on_wire(kinds::decide_round, [&context, options](const Instruction& i) -> Communication {
    const DecideRoundView view(context.builder, i);
    const auto* const scalars = context.template at<const RoundScalars>(view.scalars.front());
    std::vector<std::span<const double>> sums;
    for (const run::Value value : view.sums) sums.push_back(context.template span<double>(value));
    auto* const verdict = context.template at<optim::Verdict>(view.verdict.front());
    return context.call("decide", [scalars, sums, verdict, options] {
      double squares = 0;
      for (const std::span<const double> blocks : sums) {
        for (const double sum : blocks) squares += sum;
      }
      if (scalars->squares_known) squares = scalars->squares;
      *verdict = optim::judge(scalars->weight, scalars->weighted_loss, squares, options);
      verdict->micro_batches = scalars->micro_batches;
      if (!scalars->applies) verdict->finite = verdict->commit = false;
    });
  });
}

}  // namespace swarm::detail
}  // namespace v0
}  // namespace reef
