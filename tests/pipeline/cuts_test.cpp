// Models that are cut anywhere and spread over stages, run in any order, train to the bits of one process: random
// models with skips, ties and values without gradient, random cuts, placements, schedules and replicas.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <reef/comm/communicator.hpp>
#include <reef/core/random.hpp>
#include <reef/core/text.hpp>
#include <reef/graph/remote_messages.hpp>
#include <reef/nn/add.hpp>
#include <reef/nn/cross_entropy.hpp>
#include <reef/nn/dropout.hpp>
#include <reef/nn/embedding.hpp>
#include <reef/nn/gelu.hpp>
#include <reef/nn/layer_norm.hpp>
#include <reef/nn/linear.hpp>
#include <reef/optim/acco.hpp>
#include <reef/optim/adamw.hpp>
#include <reef/optim/ddp.hpp>
#include <reef/optim/zero1.hpp>
#include <reef/pipeline/ordered.hpp>
#include <reef/trainer/checkpoint.hpp>
#include <reef/trainer/trainer.hpp>

#include "../support/ranks.hpp"
#include "../support/small_gpt.hpp"
#include "../support/trainers.hpp"

namespace reef::test {
namespace {

using Zero1 = optim::Zero1<optim::AdamW>;
using Acco = optim::Acco<optim::AdamW>;
template <class Optim>
using Piped = Trainer<pipeline::Ordered, Optim>;
using Model = graph::Graph<device::Host, float>;
using plan::PipelineTaskKind;

/// Draws of one instance, the same on all ranks.
class Draws {
public:
  explicit Draws(std::uint64_t seed) : seed_(seed) {}
  int below(int n) {
    return static_cast<int>(random_bits({seed_, 0, 7, 0}, next_++) % static_cast<std::uint32_t>(n));
  }
  bool one_in(int n) { return below(n) == 0; }
  template <class T>
  const T& of(const std::vector<T>& all) {
    return all[static_cast<std::size_t>(below(static_cast<int>(all.size())))];
  }

private:
  std::uint64_t seed_;
  std::uint64_t next_ = 0;
};

constexpr std::int64_t batch = 2, length = 4, channels = 20, vocabulary = 12;

/// An embedding, operators that read whatever is there, a head that may be the embedding's, and a loss to which all leads.
Model random_model(std::uint64_t seed) {
  Draws draws(seed);
  Model g(1);
  const int tokens = g.input("tokens", {{batch, length}, Element::int32});
  const int angles = g.input("angles", {{batch, length, channels}, Element::float32});
  const int targets = g.input("targets", {{batch, length}, Element::int32});
  std::vector<int> values{g.add("embedding", nn::Embedding{vocabulary, length, channels}, {tokens})[0]};
  std::vector<std::string> linears;
  const auto add = [&](auto op, std::vector<int> inputs, std::vector<std::string> names = {}) {
    return g.add(concat("node", g.dag().node_count()), op, std::move(inputs), std::move(names))[0];
  };
  std::vector<int> fixed{add(nn::Gelu{}, {angles})};  // no gradient leads to them
  const int nodes = 6 + draws.below(9);
  const bool everywhere = !draws.one_in(3);  // the embedding is read all over the model
  for (int n = 0; n < nodes; ++n) {
    const int x = draws.one_in(3) ? draws.of(values) : values.back();
    if (everywhere && draws.one_in(2)) {
      values.push_back(add(nn::Add{}, {x, values.front()}));
      continue;
    }
    switch (draws.below(7)) {
      case 0: values.push_back(add(nn::Gelu{}, {x})); break;
      case 1: values.push_back(add(nn::LayerNorm{}, {x})); break;
      case 2: values.push_back(add(nn::Dropout{0.2F}, {x})); break;
      case 3: values.push_back(add(nn::Add{}, {x, draws.of(values)})); break;
      case 4: values.push_back(add(nn::Add{}, {x, draws.of(fixed)})); break;
      default:
        if (!linears.empty() && draws.one_in(3)) {
          values.push_back(add(nn::Linear{channels, false}, {x}, {draws.of(linears)}));
        } else {
          linears.push_back(concat("w", linears.size()));
          values.push_back(add(nn::Linear{channels, false}, {x}, {linears.back()}));
        }
    }
  }
  int x = values.back();
  for (const int value : values) {
    if (value != x && g.dag().tensor_at(value).consumers.empty()) x = add(nn::Add{}, {x, value});
  }
  std::vector<std::string> head;
  if (draws.one_in(2)) head = {g.dag().parameters[0].name};
  x = g.add("head", nn::Linear{vocabulary, false, nn::Transpose::yes}, {x}, head)[0];
  g.loss(g.add("loss", nn::CrossEntropy{}, {x, targets})[0]);
  return g;
}

double fill(std::uint64_t first, std::span<const AnyView> inputs) {
  std::uint64_t number = 7 * first;
  for (const AnyView& input : inputs) {
    if (input.element() == Element::float32) {
      for (float& value : input.as<float>().span()) value = static_cast<float>(number++ % 5) * 0.25F;
    } else {
      for (std::int32_t& token : input.as<std::int32_t>().span()) {
        token = static_cast<std::int32_t>(number++ % vocabulary);
      }
    }
  }
  return 1.0 + static_cast<double>(first % 3);
}

/// Tasks in some order in which one process could run them; of a chunk and kind micro-batches ascend. Backwards run
/// whole, in halves, or as each falls.
plan::PipelineOrder random_order(Draws& draws, const std::vector<int>& rank_of_chunk, int ranks, int m) {
  plan::PipelineOrder order{m, rank_of_chunk, {}};
  order.tasks.resize(static_cast<std::size_t>(ranks));
  const auto chunks = static_cast<int>(rank_of_chunk.size());
  const int splits = draws.below(3);  // never, always, half of them
  std::vector<int> forwards(rank_of_chunk.size()), backwards(rank_of_chunk.size()), weights(rank_of_chunk.size());
  for (int left = 3 * chunks * m; left > 0;) {
    const auto c = static_cast<std::size_t>(draws.below(chunks));
    const auto add = [&](PipelineTaskKind kind, int j) {
      order.tasks[static_cast<std::size_t>(rank_of_chunk[c])].push_back({kind, static_cast<int>(c), j});
      --left;
    };
    const bool last = c + 1 == rank_of_chunk.size();
    switch (draws.below(3)) {
      case 0:
        if (forwards[c] < m && (c == 0 || forwards[c] < forwards[c - 1])) {
          add(PipelineTaskKind::forward, forwards[c]++);
        }
        break;
      case 1: {
        const bool ready = backwards[c] < forwards[c] && (last || backwards[c] < backwards[c + 1]);
        if (!ready) break;
        const bool half = splits == 1 || (splits == 2 && draws.one_in(2)) || weights[c] < backwards[c];
        add(half ? PipelineTaskKind::input_backward : PipelineTaskKind::backward, backwards[c]++);
        if (half) break;
        ++weights[c];
        --left;
        break;
      }
      default:
        if (weights[c] < backwards[c]) add(PipelineTaskKind::weight_backward, weights[c]++);
    }
  }
  return order;
}

struct Instance {
  int replicas = 1;
  int stages = 1;
  int micro_batches = 1;
  int unit = 1;
  std::vector<int> cuts{};
  std::vector<int> stage_of_segment{};
  bool a_segment_is_a_chunk = false;  ///< else runs of segments of one stage are
  bool recomputes = false;
  std::string optimizer{};
  std::string schedule{};
  plan::PipelineOrder order{};
  std::string text{};
};

/// The stages of runs of segments.
std::vector<int> chunks_of(const std::vector<int>& stage_of_segment) {
  std::vector<int> chunks = stage_of_segment;
  chunks.erase(std::unique(chunks.begin(), chunks.end()), chunks.end());
  return chunks;
}

Instance random_instance(std::uint64_t seed, const graph::Dag& dag, int ranks) {
  Draws draws(seed + 1'000'000);
  Instance one;
  std::vector<int> divisors;
  for (int stages = 2; stages <= ranks; ++stages) {
    if (ranks % stages == 0) divisors.push_back(stages);
  }
  one.stages = draws.of(divisors);
  one.replicas = ranks / one.stages;
  one.micro_batches = 1 + draws.below(9);
  one.recomputes = draws.one_in(3);
  one.optimizer = draws.of<std::string>({"zero1", "acco", "ddp"});

  const int nodes = dag.node_count();
  const auto cut = [&](int segments) {
    std::set<int> cuts;
    while (static_cast<int>(cuts.size()) < segments - 1) cuts.insert(1 + draws.below(nodes - 1));
    one.cuts.assign(cuts.begin(), cuts.end());
  };
  const int p = one.stages;
  one.unit = Draws(seed + 2'000'000).below(4);  // 0: all
  const int unit = one.unit == 0 ? one.micro_batches : one.unit;
  const int m = (one.micro_batches + unit - 1) / unit;  // what the order counts
  const auto looped = [&](int chunks, bool folded) {
    cut(chunks);
    for (int c = 0; c < chunks; ++c) {
      one.stage_of_segment.push_back(folded && c >= p ? 2 * p - 1 - c : c % p);
    }
  };
  const std::vector<std::string> names{"gpipe",  "1f1b",           "1f1b-eager", "interleaved", "looped-bfs",
                                       "zb-h1",  "interleaved-zb", "zb-v",       "v-half",      "dualpipe-v",
                                       "zb-h2",  "v-min"};
  std::string name = draws.one_in(2) ? "random" : draws.of(names);
  if (2 * p > nodes) name = "random";  // too few operators for two chunks on each stage
  one.schedule = name;
  if (name == "random") {
    const int segments = std::min(nodes, p + draws.below(6));
    cut(segments);
    const bool ascends = draws.one_in(3);
    for (int s = 0; s < segments; ++s) {
      one.stage_of_segment.push_back(ascends ? s * p / segments : s < p ? s : draws.below(p));
    }
    one.order = random_order(draws, chunks_of(one.stage_of_segment), p, m);
  } else {
    const bool folded = name == "zb-v" || name == "v-half" || name == "v-min" || name == "dualpipe-v";
    const bool two = folded || name == "interleaved" || name == "looped-bfs" || name == "interleaved-zb";
    one.a_segment_is_a_chunk = true;
    looped(two ? 2 * p : p, folded);
    one.order = plan::pipeline_order_of(name, p, m, two ? 2 : 1);
  }
  one.text = concat("seed ", seed, ": ", name, ", ", one.optimizer, ", ", one.replicas, " replicas of ", p, " stages, ",
                    one.micro_batches, " micro-batches in units of ", one.unit, one.recomputes ? ", recomputed" : "", ", stages of segments");
  for (const int stage : one.stage_of_segment) one.text += concat(" ", stage);
  one.text += concat("\n", plan::text_of(one.order));
  return one;
}

/// What instances had: so that the seeds are seen to reach what the law is about.
class Histogram {
public:
  void add(const graph::Dag& dag, const Instance& one) {
    const auto stage_of = [&](int node) {
      const auto behind = std::upper_bound(one.cuts.begin(), one.cuts.end(), node);
      return one.stage_of_segment[static_cast<std::size_t>(behind - one.cuts.begin())];
    };
    bool skips = false, alternates = false, unlearned = false, tied = false;
    for (const graph::Tensor& tensor : dag.tensors) {
      if (tensor.producer < 0) continue;
      std::vector<int> stages{stage_of(tensor.producer)};
      for (const int reader : tensor.consumers) stages.push_back(stage_of(reader));
      stages.erase(std::unique(stages.begin(), stages.end()), stages.end());
      skips = skips || stages.size() > 2;
      alternates = alternates || std::set<int>(stages.begin(), stages.end()).size() < stages.size();
      unlearned = unlearned || (!tensor.differentiable && stages.size() > 1);
    }
    for (const graph::Parameter& parameter : dag.parameters) {
      for (const int use : parameter.uses) {
        tied = tied || stage_of(dag.use_at(use).node) != stage_of(dag.use_at(parameter.uses[0]).node);
      }
    }
    ++drawn_[one.schedule];
    ++drawn_[one.optimizer];
    bool halves = false, whole = false;
    for (const auto& tasks : one.order.tasks) {
      for (const auto& task : tasks) {
        halves = halves || task.kind == PipelineTaskKind::input_backward;
        whole = whole || task.kind == PipelineTaskKind::backward;
      }
    }
    for (const auto& [what, is] :
         {std::pair{"readers on three stages", skips}, {"readers go back and forth", alternates},
          {"no gradient comes back", unlearned}, {"ties between stages", tied},
          {"recomputed", one.recomputes}, {"halves of backwards", halves}, {"halves beside whole ones", halves && whole},
          {"several replicas", one.replicas > 1},
          {"fewer micro-batches than stages", one.micro_batches < one.stages},
          {"units of several micro-batches", one.unit != 1}}) {
      drawn_[what] += is ? 1 : 0;
    }
  }
  void print() const {
    for (const auto& [what, times] : drawn_) std::printf("%4d  %s\n", times, what.c_str());
  }

private:
  std::map<std::string, int> drawn_;
};

/// By receiver and kind: how many messages, and their bytes.
using Sent = std::map<std::pair<int, schedule::Traffic>, std::pair<std::uint64_t, Bytes>>;

void add(Sent& sent, int to, schedule::Traffic traffic, Bytes bytes, int times) {
  const comm::Cost cost = comm::message_cost(bytes);
  auto& [messages, all] = sent[{to, traffic}];
  messages += cost.messages * static_cast<std::uint64_t>(times);
  all += cost.bytes * static_cast<Bytes>(times);
}

/// What a program sends between stages.
Sent sent_by(const schedule::Program& program) {
  Sent sent;
  for (const schedule::Instruction& i : program.round) {
    if (i.lane != schedule::Lane::send) continue;
    for (const schedule::Message& message : i.sends) {
      auto& [messages, all] = sent[{message.peer, i.traffic}];
      messages += message.pieces;
      all += message.bytes;
    }
  }
  return sent;
}

/// What a step sends that has one phase, by the planner that has neither program nor Trainer.
Sent foreseen(const run::StepPlan& plan, int rank, int micro_batches) {
  using schedule::Traffic;
  const int replica = plan.topology.replica_of(rank);
  std::vector<int> places;
  for (std::size_t s = 0; s < plan.segments.size(); ++s) {
    const int place = plan.topology.rank(replica, plan.stage_of_segment[s]);
    places.resize(static_cast<std::size_t>(plan.segments[s].last), place);
  }
  const graph::RemoteMessages messages = graph::remote_messages(*plan.dag, places);
  Sent sent;
  const auto add_all = [&](const std::vector<graph::RemoteMessage>& all, Traffic traffic, int times) {
    for (const graph::RemoteMessage& message : all) {
      if (message.from == rank) add(sent, message.to, traffic, message.bytes, times);
    }
  };
  add_all(messages.forward, Traffic::activation, micro_batches);
  std::vector<graph::RemoteMessage> alone = messages.backward;  // of tensors that one place reads
  for (const graph::ChainedSum& sum : messages.chained) {
    add_all(sum.messages, Traffic::activation_gradient, micro_batches);
    std::erase_if(alone, [&](const graph::RemoteMessage& message) { return message.of == sum.tensor; });
  }
  add_all(alone, Traffic::activation_gradient, micro_batches);
  for (const graph::TiedParameter& tied : messages.tied) {
    add_all(tied.gradients, Traffic::gradient, 1);
    add_all(tied.weights, Traffic::parameter, 1);
  }
  return sent;
}

struct Trained {
  std::vector<double> numbers{};
  std::map<std::string, std::vector<float>> weights{};  ///< of this rank
};

template <class Tested, class... Ranks>
Trained train(std::uint64_t seed, const Instance& one, typename Tested::Options options,
              const Ranks&... ranks) {
  options.micro_batches = {one.micro_batches};
  options.cuts = one.cuts;
  options.learning_rate = {.peak = 0.02, .warmup = 0};
  options.clip_norm = 0.5;
  options.device.threads = 1;
  if (one.recomputes) options.activations = {Activations::recompute};
  Tested trainer(random_model(seed), fill, options, run::Source(fill), ranks...);
  Trained result;
  for (int step = 0; step < 3; ++step) {
    const StepResult done = trainer.step();
    result.numbers.push_back(done.loss);
    result.numbers.push_back(done.gradient_norm);
  }
  result.numbers.push_back(trainer.evaluate(2));
  const run::StepPlan& plan = trainer.plan();
  if (plan.phases_per_step == 1 && plan.topology.stages > 1) {
    EXPECT_EQ(sent_by(trainer.program()), foreseen(plan, trainer.rank(), one.micro_batches));
  }
  const int stage = plan.topology.stage_of(trainer.rank());
  for (std::size_t p = 0; p < plan.dag->parameters.size(); ++p) {
    bool has = plan.owner_of(static_cast<int>(p)) == stage;
    for (const run::TiedCopy& tied : plan.tied_copies) {
      has = has || (tied.parameter == static_cast<int>(p) && tied.stage == stage);
    }
    const std::string& name = plan.dag->parameters[p].name;
    if (has) result.weights[name] = trainer.parameter(name);
  }
  return result;
}

int count_of_instances() {
  const char* const given = std::getenv("REEF_PIPELINES");
  return given != nullptr ? std::atoi(given) : 24;
}
std::uint64_t first_seed() {
  const char* const given = std::getenv("REEF_SEED");
  return given != nullptr ? std::strtoull(given, nullptr, 10) : 1;
}

template <class Optim>
Trained train_spread(std::uint64_t seed, const Instance& one, const comm::Communicator& world) {
  typename Piped<Optim>::Options options;
  options.topology = run::Topology(one.replicas, one.stages);
  if (!one.a_segment_is_a_chunk) options.topology->stage_of_segment = one.stage_of_segment;
  options.pipeline.order = one.order;
  options.pipeline.unit = one.unit;
  return train<Piped<Optim>>(seed, one, options, world);
}

/// Ddp has the bits of Zero1.
template <class Optim>
Trained train_alone(std::uint64_t seed, const Instance& one, const comm::Communicator& self) {
  typename Trainer<Optim>::Options options;
  options.virtual_ranks = one.replicas;
  return train<Trainer<Optim>>(seed, one, options, self);
}

TEST(Cuts, any_model_on_any_stages_in_any_order_trains_to_the_bits_of_one_process) {
  const comm::Communicator world;
  const comm::Communicator self = world.split(world.rank(), 0, "self");
  Histogram histogram;
  for (int i = 0; i < count_of_instances(); ++i) {
    const std::uint64_t seed = first_seed() + static_cast<std::uint64_t>(i);
    const Model model = random_model(seed);
    const Instance one = random_instance(seed, model.dag(), world.size());
    SCOPED_TRACE(one.text);
    histogram.add(model.dag(), one);
    const bool overlaps = one.optimizer == "acco";
    const Trained spread = overlaps                  ? train_spread<Acco>(seed, one, world)
                           : one.optimizer == "ddp" ? train_spread<optim::Ddp<optim::AdamW>>(seed, one, world)
                                                    : train_spread<Zero1>(seed, one, world);
    const Trained alone = overlaps ? train_alone<Acco>(seed, one, self) : train_alone<Zero1>(seed, one, self);
    EXPECT_EQ(spread.numbers, alone.numbers);
    for (const auto& [name, values] : spread.weights) {
      EXPECT_EQ(values, alone.weights.at(name)) << name;
    }
    int failed = testing::Test::HasFailure() ? 1 : 0;
    MPI_Allreduce(MPI_IN_PLACE, &failed, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    if (failed != 0) break;
  }
  if (world.rank() == 0) histogram.print();
}

TEST(Cuts, replicas_may_have_other_numbers_of_micro_batches) {
  const comm::Communicator world;
  if (world.size() % 2 != 0) GTEST_SKIP() << "two stages";
  const comm::Communicator self = world.split(world.rank(), 0, "self");
  const int replicas = world.size() / 2;
  const auto counts = [](int replica) { return replica == 0 ? 3 : 1; };
  const auto losses = [](auto& trainer) {
    std::vector<double> numbers;
    for (int step = 0; step < 3; ++step) {
      const StepResult done = trainer.step();
      numbers.push_back(done.loss);
      numbers.push_back(done.gradient_norm);
    }
    return numbers;
  };
  for (const char* const schedule : {"1f1b", "zb-h1"}) {
    Piped<Zero1>::Options options;
    options.topology = run::Topology(replicas, 2);
    options.pipeline.schedule = schedule;
    options.micro_batches = {counts(world.rank() / 2)};
    options.device.threads = 1;
    Piped<Zero1> spread(random_model(7), fill, options, {}, world);
    Trainer<Zero1>::Options whole;
    whole.virtual_ranks = replicas;
    whole.micro_batches.clear();
    for (int replica = 0; replica < replicas; ++replica) whole.micro_batches.push_back(counts(replica));
    whole.device.threads = 1;
    Trainer<Zero1> alone(random_model(7), fill, whole, {}, self);
    EXPECT_EQ(losses(spread), losses(alone)) << schedule;
  }
}

TEST(Cuts, what_stages_cannot_do_is_refused_by_name) {
  const auto refusal = [](auto options, const auto& change) -> std::string {
    using Options = decltype(options);
    using Tested = std::conditional_t<std::is_same_v<Options, Piped<Acco>::Options>, Piped<Acco>, Piped<Zero1>>;
    options.topology = run::Topology(1, 2);
    options.pipeline.schedule = "1f1b";
    change(options);
    try {
      (void)Tested::programs(random_model(7), options, 2);
    } catch (const Error& error) {
      return error.what();
    }
    return "nothing";
  };
  EXPECT_EQ(refusal(Piped<Zero1>::Options{}, [](auto&) {}), "nothing");
  EXPECT_NE(refusal(Piped<Zero1>::Options{}, [](auto& o) { o.serial = true; }).find("one instruction is to run at a time"),
            std::string::npos);
  EXPECT_EQ(refusal(Piped<Acco>::Options{}, [](auto& o) { o.accumulation = {}; }), "nothing");
  EXPECT_NE(refusal(Piped<Acco>::Options{}, [](auto& o) { o.accumulation = Accumulation::adaptive(); })
                .find("but accumulation adapts"),
            std::string::npos);
}

TEST(Cuts, a_gradient_that_is_pending_is_resumed_on_other_stages) {
  const comm::Communicator world;
  const comm::Communicator self = world.split(world.rank(), 0, "self");
  const SharedFolder folder("pending");
  const auto train_on = [&](int stages, int steps, const char* schedule, const auto& before) -> std::vector<double> {
    const comm::Communicator ranks = world.split(world.rank() < stages ? 0 : 1, world.rank(), "stages");
    if (world.rank() >= stages) return {};
    Piped<Acco>::Options options;
    options.topology = run::Topology(1, stages);
    options.pipeline.schedule = schedule;
    options.micro_batches = {3};
    options.learning_rate = {.peak = 0.01, .warmup = 0};
    options.device.threads = 1;
    Piped<Acco> trainer(nn::gpt<device::Host, float>(small_config(), 1), small_source(), options, {}, ranks);
    before(trainer);
    std::vector<double> losses;
    for (int step = 0; step < steps; ++step) losses.push_back(trainer.step().loss);
    checkpoint::save(trainer, folder.path());
    return losses;
  };
  const auto resume = [&](auto& trainer) {
    ASSERT_TRUE(checkpoint::resume(trainer, folder.path()).has_value());
  };
  std::vector<double> undisturbed;
  {
    Trainer<Acco>::Options options;
    options.micro_batches = {3};
    options.learning_rate = {.peak = 0.01, .warmup = 0};
    options.device.threads = 1;
    Trainer<Acco> trainer(nn::gpt<device::Host, float>(small_config(), 1), small_source(), options, {}, self);
    for (int step = 0; step < 6; ++step) undisturbed.push_back(trainer.step().loss);
  }
  const auto part = [&](std::size_t first) {
    return std::vector<double>(undisturbed.begin() + static_cast<std::ptrdiff_t>(first),
                               undisturbed.begin() + static_cast<std::ptrdiff_t>(first) + 2);
  };
  EXPECT_EQ(train_on(world.size(), 2, "1f1b", [](auto&) {}), part(0));
  const std::vector<double> on_two = train_on(2, 2, "zb-v", resume);
  if (world.rank() < 2) {
    EXPECT_EQ(on_two, part(2));
  }
  MPI_Barrier(MPI_COMM_WORLD);
  const std::vector<double> on_one = train_on(1, 2, "gpipe", resume);
  if (world.rank() < 1) {
    EXPECT_EQ(on_one, part(4));
  }
}

}  // namespace
}  // namespace reef::test
