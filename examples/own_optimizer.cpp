// Purpose  An optimizer policy from scratch: OneShot<Rule> sums gradients in one exchange, not two.
//          Each rank sends its whole gradient to all others, and each folds all of them: more bytes
//          than Ddp, and fewer latencies, for small models on slow links. Two kinds of its own.
// Command  mpiexec -n 2 build/release/examples/own-optimizer
// Output   bits of Ddp: yes
//          4 ranks 50 ms apart, predicted: Ddp 0.15 s a step, OneShot 0.10 s
// links: reef::compiled
// ranks: 2
// prints: bits of Ddp: yes
// prints: 4 ranks 50 ms apart, predicted: Ddp 0.15 s a step, OneShot 0.10 s
#include <cstdio>
#include <exception>
#include <string_view>
#include <vector>

#include <reef/comm/environment.hpp>
#include <reef/nn/gpt.hpp>
#include <reef/nn/host.hpp>
#include <reef/nn/kernels.hpp>
#include <reef/optim/adamw.hpp>
#include <reef/optim/ddp.hpp>
#include <reef/optim/decision.hpp>
#include <reef/optim/update.hpp>
#include <reef/schedule/simulate.hpp>
#include <reef/trainer/trainer.hpp>

using namespace reef;

/// Each bucket b, last first: Share(b), Fold(b). Then Norms, Scalars, Decide; then each Update(b).
template <optim::update_rule UpdateRule>
struct OneShot {
  using policy_tag = OptimTag;
  using Rule = UpdateRule;
  static constexpr std::string_view name = "one-shot";
  static constexpr bool sharded = false;  // every rank keeps all of the rule's state
  static constexpr Payload accepts = Payload::dense;
  static constexpr bool needs_scalars = true;

  static void reserve(run::StepBuilder& builder) {
    optim::reserve_states(builder, Rule::states, sharded);
  }
  static std::vector<optim::StateRange> state(const run::StepBuilder& builder) {
    return optim::state_ranges(builder, Rule::states, sharded);
  }

  /// Rank r's copy of bucket b's gradient is [offsets[r], offsets[r + 1]) of all (P, n).
  static std::vector<std::int64_t> copies(const run::StepPlan& plan, std::size_t b) {
    std::vector<std::int64_t> offsets;
    const run::Bucket& bucket = plan.buckets[b];
    for (int r = 0; r <= bucket.group.size(); ++r) offsets.push_back(r * bucket.size());
    return offsets;
  }

  static void add(run::StepBuilder& builder, const run::Pass& model) {
    model(builder);
    const run::StepPlan& plan = builder.plan;
    std::uint32_t channel = run::first_optimizer_channel;
    const auto held = builder.trains() ? builder.stage_buckets() : std::vector<std::size_t>{};
    for (auto at = held.rbegin(); at != held.rend(); ++at) {
      const std::size_t b = *at;
      const auto offsets = copies(plan, b);
      const run::Value gradient{builder.reduced[b], 0};
      const Bytes bytes = static_cast<Bytes>(offsets.back()) * plan.sum_bytes();
      const run::Value all{builder.program.add_storage("all gradients", bytes, run::Place::device)};

      auto& share = builder.program.add("Share", run::Lane::reduce, static_cast<int>(b));
      share.reads = {gradient};
      share.writes = {all};
      share.traffic = schedule::Traffic::gradient;
      run::add_all_gather_messages(share, builder, plan.sum_bytes(), channel++,
                                   plan.buckets[b].group, offsets);

      auto& fold = builder.program.add("Fold", run::Lane::compute, static_cast<int>(b));
      fold.reads = {all};
      fold.writes = {gradient};
      fold.cost.bytes = 3 * bytes;
    }
    optim::add_decision(builder, run::first_scalars_channel, builder.reduced);
    for (const std::size_t b : held) {
      optim::add_update(builder, b, {builder.reduced[b], 0}, builder.weights[b], Rule::states);
    }
  }

  template <class Handlers, class RankContext>
  static void add_code(Handlers& handlers, const RankContext& context, const auto& options) {
    using T = typename RankContext::sum_type;
    using Kernels = nn::Kernels<typename RankContext::device_type>;
    handlers.on_wire("Share", [&context](const schedule::Instruction& i) {
      return context.template all_gather<T>(i.text(), i);
    });
    handlers.on_lane("Fold", [&context](const schedule::Instruction& i) {
      return [all = context.at(i.reads[0]), sum = context.at(i.writes[0]),
              n = context.elements(i.writes[0]),
              P = context.plan().buckets[static_cast<std::size_t>(i.index)].group.size()](auto& lane) {
        for (int r = 0; r < P; ++r)
          Kernels::template copy_or_add<T>(lane, sum, all + r * n, n, r > 0);
      };
    });
    optim::add_decision_code(handlers, context, options.update);
    optim::add_update_code(handlers, context, options.rule);
  }
};

using OneShotAdamW = OneShot<optim::AdamW>;
using DdpAdamW = optim::Ddp<optim::AdamW>;
static_assert(optim::OptimizerPolicy<OneShotAdamW> && composable<OneShotAdamW>);

const nn::GptConfig config{
    .layers = 1, .heads = 2, .channels = 24, .vocabulary = 24, .context = 16, .batch = 8};

template <class Optim>
std::vector<double> losses() {
  const auto source = [](std::uint64_t first, std::span<const AnyView> inputs) {
    for (const AnyView& input : inputs) {  // every token is its own target
      auto token = static_cast<std::int32_t>(first % 1000);
      for (std::int32_t& at : input.as<std::int32_t>().span()) at = token++ % 24;
    }
    return 1.0;
  };
  Trainer<Optim> trainer(nn::gpt<device::Host, float>(config), source);
  std::vector<double> result;
  for (int step = 0; step < 20; ++step) result.push_back(trainer.step().loss);
  return result;
}

/// Seconds a step on 4 ranks of 1 Tflop/s, with 100 Mbit/s and 50 ms between any two.
template <class Optim>
Seconds predicted(const graph::Graph<device::Host, float>& model) {
  typename Trainer<Optim>::Options options;
  options.bucket_bytes = 1 << 20;
  const auto programs = Trainer<Optim>::programs(model, options, 4);
  schedule::verify(programs);
  return schedule::simulate(programs, schedule::World::uniform(4, {1e12}, {50e-3, 12.5e6})).step;
}

int main(int argc, char** argv) try {
  const comm::Environment mpi(argc, argv);
  const bool equal = losses<OneShotAdamW>() == losses<DdpAdamW>();
  if (comm::Communicator().rank() == 0) {
    const auto gpt = nn::gpt<device::Host, float>(config);
    std::printf("bits of Ddp: %s\n", equal ? "yes" : "NO");
    std::printf("4 ranks 50 ms apart, predicted: Ddp %.2f s a step, OneShot %.2f s\n",
                predicted<DdpAdamW>(gpt), predicted<OneShotAdamW>(gpt));
  }
  return equal ? 0 : 1;
} catch (const std::exception& error) {
  return comm::report_failure("own-optimizer", error);
}
