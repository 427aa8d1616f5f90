// Purpose  A pipeline policy of one's own: GPipe. Two replicas of a model, each cut into two stages, one
//          rank for each; activations and gradients go from stage to stage by four kinds of instruction.
// Command  mpiexec -n 4 build/release/examples/own-pipeline
// Output   step 10: loss 2.1171
//          weights on this rank: 6624 of 10128
//          bits of one process that stands for both replicas: yes
// links: reef::compiled
// ranks: 4
// prints: bits of one process that stands for both replicas: yes
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include <reef/comm/environment.hpp>
#include <reef/nn/cross_entropy.hpp>
#include <reef/nn/dropout.hpp>
#include <reef/nn/embedding.hpp>
#include <reef/nn/gelu.hpp>
#include <reef/nn/linear.hpp>
#include <reef/optim/adamw.hpp>
#include <reef/optim/zero1.hpp>
#include <reef/run/instructions.hpp>
#include <reef/trainer/trainer.hpp>

using namespace reef;

/// All forwards of a stage, then all backwards, both in ascending order of micro-batches. Each tensor that
/// crosses a bound between stages is read by the next stage alone.
struct GPipe {
  using policy_tag = PipelineTag;
  static constexpr bool spans_stages = true;

  /// Throws OptionError for stages that are no runs of segments, one after the other.
  static void plan(run::StepPlan& plan, const NoOptions& /*none*/) {
    if (std::is_sorted(plan.stage_of_segment.begin(), plan.stage_of_segment.end())) return;
    throw OptionError("GPipe: the stages of segments do not ascend.\n  why: each sends to the next.\n"
                      "  fix: Topology::stage_of_segment in ascending order, or empty.");
  }

  /// The way of a message; with the tensor it numbers channels.
  enum Way : std::uint32_t { forward, backward };

  static void add(run::StepBuilder& builder) {
    const run::StepPlan& plan = builder.plan;
    const int first = run::add_micro_batches(builder);
    const int replica = plan.topology.replica_of(builder.rank());
    const int count = builder.micro_batches_of(replica);
    const std::vector<int>& segments = builder.segments();
    const int stage = builder.stage();
    const std::vector<int> in = crossing(plan, segments.front());
    const std::vector<int> out = crossing(plan, segments.back() + 1);
    for (int j = first; j < first + count; ++j) {
      for (const int t : in) transfer(builder, "ReceiveActivation", t, j, stage - 1, forward);
      for (const int s : segments) run::add_forward(builder, s, j);
      for (const int t : out) transfer(builder, "SendActivation", t, j, stage + 1, forward);
    }
    if (!builder.trains()) return;
    for (int j = first; j < first + count; ++j) {
      for (const int t : out) transfer(builder, "ReceiveGradient", t, j, stage + 1, backward);
      for (auto s = segments.rbegin(); s != segments.rend(); ++s) {
        run::add_backward(builder, *s, j, 0, j == first);
      }
      for (const int t : in) transfer(builder, "SendGradient", t, j, stage - 1, backward);
    }
    run::add_folds(builder, 0);
  }

  template <class Handlers, class RankContext>
  static void add_code(Handlers& handlers, const RankContext& context, const NoOptions& /*none*/) {
    using Communication = typename Handlers::Communication;
    for (const char* kind : {"SendActivation", "SendGradient"}) {
      handlers.on_wire(kind, [&context](const schedule::Instruction& i) -> Communication {
        return context.send(name_of(i), i);
      });
    }
    for (const char* kind : {"ReceiveActivation", "ReceiveGradient"}) {
      handlers.on_wire(kind, [&context](const schedule::Instruction& i) -> Communication {
        return context.receive(name_of(i), i);
      });
    }
  }

private:
  /// The tensors with a gradient that are made before a segment and read in it.
  static std::vector<int> crossing(const run::StepPlan& plan, int segment) {
    std::vector<int> tensors;
    if (segment == 0 || segment == static_cast<int>(plan.segments.size())) return tensors;
    for (const int t : plan.segments[static_cast<std::size_t>(segment)].boundary_inputs) {
      if (plan.dag->tensor_at(t).producer >= 0) tensors.push_back(t);
    }
    return tensors;
  }

  static void transfer(run::StepBuilder& builder, const char* kind, int tensor, int j, int stage,
                       Way way) {
    const run::Topology& topology = builder.plan.topology;
    const run::StepBuilder::MicroBatch& storages =
        builder.micro_batches[static_cast<std::size_t>(j)];
    const bool sends = kind[0] == 'S';
    const run::StorageId storage =
        (way == forward ? storages.tensors : storages.gradients)[static_cast<std::size_t>(tensor)];
    const comm::Cost cost =
        comm::message_cost(builder.program.storages[storage].bytes, builder.plan.piece_bytes);
    auto& i = builder.program.add(kind, sends ? run::Lane::send : run::Lane::receive, tensor, j);
    i.traffic =
        way == forward ? schedule::Traffic::activation : schedule::Traffic::activation_gradient;
    (sends ? i.reads : i.writes) = {{storage, 0}};
    (sends ? i.sends : i.receives) = {{topology.rank(topology.replica_of(builder.rank()), stage),
                                       cost.bytes, 2 * static_cast<std::uint32_t>(tensor) + way,
                                       cost.messages}};
  }

  /// The n-th send of a name meets its n-th receive.
  static std::string name_of(const schedule::Instruction& i) {
    return concat(schedule::name_of(i.traffic), " ", i.index);
  }
};

constexpr std::int64_t vocabulary = 24, length = 16, channels = 48;

graph::Graph<device::Host, float> model() {
  graph::Graph<device::Host, float> g(1);
  const int tokens = g.input("tokens", {{4, length}, Element::int32});
  const int targets = g.input("targets", {{4, length}, Element::int32});
  int x = g.add("embedding", nn::Embedding{vocabulary, length, channels}, {tokens})[0];
  for (const char* layer : {"layer0", "layer1", "layer2"}) {
    x = g.add(layer, nn::Linear{channels, true}, {x})[0];
    x = g.add(std::string(layer) + ".act", nn::Gelu{}, {x})[0];
    x = g.add(std::string(layer) + ".drop", nn::Dropout{0.1F}, {x})[0];
  }
  x = g.add("head", nn::Linear{vocabulary, false}, {x})[0];
  g.loss(g.add("loss", nn::CrossEntropy{}, {x, targets})[0]);
  return g;
}

/// Equal calls give equal tokens.
double fill(std::uint64_t first, std::span<const AnyView> inputs) {
  for (const AnyView& input : inputs) {
    std::uint64_t number = 7 * first;
    for (std::int32_t& token : input.as<std::int32_t>().span()) {
      token = static_cast<std::int32_t>(number++ % vocabulary);
    }
  }
  return 1.0 + static_cast<double>(first % 3);
}

template <class Tested, class... Ranks>
std::vector<double> losses(typename Tested::Options options, const Ranks&... ranks) {
  options.micro_batches = {3};
  options.cuts = {4, 7, 10};
  options.learning_rate = {.peak = 0.02, .warmup = 0};
  options.device.threads = 1;
  Tested trainer(model(), fill, options, run::Source{}, ranks...);
  std::vector<double> result;
  for (int step = 0; step < 10; ++step) result.push_back(trainer.step().loss);
  const run::StepPlan& plan = trainer.plan();
  std::int64_t held = 0;
  for (const std::size_t b : plan.buckets_of(plan.topology.stage_of(trainer.rank()))) {
    held += plan.buckets[b].size();
  }
  if (trainer.rank() == 0 && trainer.ranks() > 1) {
    std::printf("step 10: loss %.4f\nweights on this rank: %lld of %lld\n", result.back(),
                static_cast<long long>(held),
                static_cast<long long>(plan.layout.parameter_elements));
  }
  return result;
}

int main(int argc, char** argv) try {
  const comm::Environment mpi(argc, argv);
  using Optim = optim::Zero1<optim::AdamW>;
  using Piped = Trainer<GPipe, Optim>;
  using Whole = Trainer<Optim>;
  const comm::Communicator world;
  typename Piped::Options piped;
  piped.topology = run::Topology(world.size() / 2, 2);
  typename Whole::Options whole;
  whole.virtual_ranks = world.size() / 2;
  const comm::Communicator self = world.split(world.rank(), 0, "self");
  const bool equal = losses<Piped>(piped) == losses<Whole>(whole, self);
  if (world.rank() == 0) {
    std::printf("bits of one process that stands for both replicas: %s\n", equal ? "yes" : "NO");
  }
  return equal ? 0 : 1;
} catch (const std::exception& error) {
  return comm::report_failure("own-pipeline", error);
}
